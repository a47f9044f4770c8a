"""One case: messages through a path.  What fails is made smaller, and kept in the corpus."""

from __future__ import annotations

import json
import random
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.fuzz.hostile import messages as hostile_messages
from tests.fuzz.judge import judge
from tests.fuzz.messages import PLAIN_TIME, Message
from tests.fuzz.paths import FuzzedPath, every_path
from tests.fuzz.process import FuzzedProcess

CORPUS = Path(__file__).parent / "corpus"

LATE = 0.25
"""Share of the cases in which a library fails behind the parser."""

SHRINKING = 60.0
"""Seconds at most."""


@dataclass(frozen=True)
class Case:
    """Messages and the path that they take; ``most`` are fetched at once."""

    path: FuzzedPath
    messages: tuple[Message, ...]
    most: int = 1000

    def dump(self, why: str) -> dict[str, Any]:
        """Return what a file of the corpus has."""
        messages = [message.dump() for message in self.messages]
        return {"why": why, "paths": [self.path.name], "most": self.most, "messages": messages}


@dataclass(frozen=True)
class Failure:
    """What went wrong with a case: the error's text, and where it was raised."""

    case: Case
    kind: str
    text: str
    trace: str


def case_of(seed: int) -> Case:
    """Return the case of a seed; each kind of group has its share."""
    rng = random.Random(seed)
    paths = every_path()
    kind = rng.choices(("backup", "partition", "table"), (1, 4, 4))[0]
    path = rng.choice([path for path in paths if path.kind == kind])
    case = Case(path, tuple(hostile_messages(rng)), rng.choice((1, 3, 1000)))
    return case if kind == "backup" else _with_late_failures(case, seed)


def _with_late_failures(case: Case, seed: int) -> Case:
    """Let a library fail for a few messages of some cases, whatever they are."""
    rng = random.Random(f"late {seed}")  # seeds give the messages that they always gave
    if rng.random() >= LATE:
        return case
    failing = set(rng.sample(range(len(case.messages)), rng.randint(1, 3)))
    messages = [
        replace(message, late=rng.choice(("append", "close"))) if number in failing else message
        for number, message in enumerate(case.messages)
    ]
    return replace(case, messages=tuple(messages))


def run(case: Case) -> Failure | None:
    """Send the messages through the path, and judge what is stored."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory) as directory,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # as in a daemon: libraries warn of what they read
        try:
            _run(case, Path(directory))
        except Exception as error:  # noqa: BLE001 - whatever ends a process is a failure
            trace = "".join(traceback.format_exception(error)[-12:])
            return Failure(case, type(error).__name__, f"{error!s:.600}", trace)
    return None


def _run(case: Case, directory: Path) -> None:
    config = case.path.config(directory)
    with FuzzedProcess(config, directory, case.messages, case.most) as process:
        process.store_all()
        if case.path.kind == "table":
            process.commit_tables()
        judge(case.path, process)


def smallest(failure: Failure) -> Failure:
    """Return a failure of the same kind with as little as possible in its messages."""
    end = time.monotonic() + SHRINKING
    for shrink in (_fewer_messages, _simpler_messages, _fewer_fields, _shorter_texts):
        failure = _shrunk(failure, shrink, end)
    return failure


Shrink = Callable[[Sequence[Message]], Iterator[tuple[Message, ...]]]


def _shrunk(failure: Failure, shrink: Shrink, end: float) -> Failure:
    smaller = True
    while smaller:
        smaller = False
        for messages in shrink(failure.case.messages):
            if time.monotonic() > end:
                return failure
            other = run(replace(failure.case, messages=messages))
            if other is not None and other.kind == failure.kind:
                failure, smaller = other, True
                break
    return failure


def _fewer_messages(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    half = len(messages) // 2
    if half:
        yield tuple(messages[:half])
        yield tuple(messages[half:])
    for number in range(len(messages) if len(messages) > 1 else 0):
        yield (*messages[:number], *messages[number + 1 :])


def _simpler_messages(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    for number, message in enumerate(messages):
        for simple in (
            replace(message, headers=()),
            replace(message, key=None),
            replace(message, timestamp=PLAIN_TIME),
        ):
            if simple != message:
                yield (*messages[:number], simple, *messages[number + 1 :])


def _fewer_fields(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    for number, fields in _objects(messages):
        for name in fields:
            rest = {key: value for key, value in fields.items() if key != name}
            yield _with_fields(messages, number, rest)


def _shorter_texts(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    for number, fields in _objects(messages):
        for name, value in fields.items():
            if isinstance(value, str) and len(value) > 1:
                for shorter in (value[: len(value) // 2], value[:-1], value[1:]):
                    yield _with_fields(messages, number, {**fields, name: shorter})


def _objects(messages: Sequence[Message]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, message in enumerate(messages):
        fields = message.fields
        if fields is not None:
            yield number, fields


def _with_fields(
    messages: Sequence[Message], number: int, fields: dict[str, Any]
) -> tuple[Message, ...]:
    value = json.dumps(fields).encode()
    message = replace(messages[number], value=value, plain=False)
    return (*messages[:number], message, *messages[number + 1 :])


def corpus() -> Iterator[tuple[str, Case]]:
    """Yield the name of each input that is kept, and its case for each of its paths."""
    names = {path.name: path for path in every_path()}
    for file in sorted(CORPUS.glob("*.json")):
        kept = json.loads(file.read_text())
        messages = tuple(map(Message.parse, kept["messages"]))
        for pattern in kept["paths"]:
            matching = [name for name in names if fnmatchcase(name, pattern)]
            if not matching:
                raise ValueError(f"{file.name}: no path is called {pattern}")
            for name in matching:
                yield file.stem, Case(names[name], messages, kept.get("most", 1000))
