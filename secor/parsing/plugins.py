"""Plug-ins of users, and the proof that they are deterministic as far as a proof can go.

Two levels, both named by ``package.module:Class`` and made with the keyword arguments of
their settings, once for each topic:

- over columns: a ``rows.Transform`` among the transforms, or a ``rows.Decoder``;
- over single messages: ``place(message) -> str | None`` returns the output partition, None
  to leave the message out on purpose, and raises for one that belongs into quarantine.

The same message must always have the same result, whatever was parsed before and beside
it: after a crash another process parses again, and the objects must come out the same.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from secor.errors import ConfigurationError, NotDeterministic, PluginFailed
from secor.model import QUARANTINE, Chunk, Part
from secor.parsing.fields import Texts, field_at, shown, texts
from secor.parsing.parts import REASON_HEADER, ROW
from secor.parsing.rows import Decoded, Transform

LONGEST_PIECE = 255
LONGEST_PATH = 600
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")

FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a plug-in raises over a message.  Others, such as of memory, files or servers, are
no message's fault and end the process rather than fill the quarantine."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message as a plug-in sees it; ``timestamp`` in milliseconds, None where absent."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class MessagePlugin(Protocol):
    """A class over single messages."""

    def place(self, message: Message) -> str | None:
        """Return the output partition (pieces escaped by ``naming.escape_value``), or None."""


def load_plugin(path: str, method: str, settings: Mapping[str, object]) -> Any:
    """Import ``package.module:Class`` and make one.  Raises ``ConfigurationError``."""
    module_name, colon, class_name = path.partition(":")
    if not colon or not module_name or not class_name:
        raise ConfigurationError(f'plug-in {path!r}: write "package.module:Class"')
    try:
        module = importlib.import_module(module_name)
        made = getattr(module, class_name)(**settings)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(f"plug-in {path}: {type(error).__name__}: {error}") from error
    if not callable(getattr(made, method, None)):
        raise ConfigurationError(f"plug-in {path}: it has no method {method}()")
    return made


def identity_of(path: str, settings: Mapping[str, object]) -> str:
    """Return what stands for a plug-in in the fingerprint: its module's bytes, too."""
    module = importlib.import_module(path.partition(":")[0])
    file = getattr(module, "__file__", None)
    source = Path(file).read_bytes() if file else b""
    given = ",".join(f"{name}={settings[name]!r}" for name in sorted(settings))
    return f"{path}({given})@{hashlib.sha256(source).hexdigest()[:16]}"


def messages_of(chunk: Chunk, rows: Sequence[int]) -> list[Message]:
    """Return rows of a chunk as messages."""
    records = chunk.records.take(pa.array(rows, pa.int64()))
    partition = chunk.topic_partition
    return [
        Message(
            topic=partition.topic,
            partition=partition.partition,
            offset=row["offset"],
            timestamp=row["timestamp"],
            timestamp_type=row["timestamp_type"],
            key=row["key"],
            value=row["value"],
            headers=tuple((it["key"], it["value"]) for it in row["headers"] or ()),
        )
        for row in records.to_pylist()
    ]


class ColumnPlugin:
    """A plug-in over columns, as a step."""

    def __init__(self, plugin: Transform, path: str, identity: str) -> None:
        """``identity`` as ``identity_of`` gives it; the plug-in's own is added."""
        self._plugin = plugin
        self._path = path
        self.identity = f"{identity} {plugin.identity}"
        self.paths = tuple(plugin.paths)

    def apply(self, decoded: Decoded) -> Decoded:
        """Return what the plug-in makes of the rows.  Raises ``PluginFailed``."""
        try:
            made = self._plugin.apply(decoded)
            rows = len(made.rows)
        except FAULTS as error:
            raise PluginFailed(
                f"plug-in {self._path}: {type(error).__name__}: {error}; what it cannot take it "
                "must name in Decoded.bad"
            ) from error
        if rows != len(decoded.rows):
            raise PluginFailed(
                f"plug-in {self._path}: {rows} rows for {len(decoded.rows)}; it must return as "
                "many as it gets"
            )
        return made


class MessagePlaces:
    """A message plug-in as the last stage of parsing."""

    def __init__(self, plugin: MessagePlugin, identity: str) -> None:
        """``identity`` as ``identity_of`` gives it."""
        self._plugin = plugin
        self.identity = identity

    def place(self, message: Message) -> tuple[str | None, str | None]:
        """Return the output partition, or None and why; None and None to leave it out."""
        try:
            path = self._plugin.place(message)
        except FAULTS as error:
            return None, f"{type(error).__name__}: {error}"
        if path is None:
            return None, None
        fault = _path_fault(path)
        return (None, fault) if fault else (path, None)


def _path_fault(path: object) -> str | None:
    """Tell what is wrong with a plug-in's output partition; nothing is mended in silence."""
    if not isinstance(path, str):
        return f"the plug-in returned {type(path).__name__} {shown(path)}, not text or None"
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return f"the plug-in's path {shown(path)} is not Unicode; use escape_value"
    pieces = path.split("/") if path else []
    unsafe = (
        size > LONGEST_PATH
        or _UNSAFE.search(path)
        or any(it in ("", ".", "..") or len(it.encode()) > LONGEST_PIECE for it in pieces)
    )
    return f"the plug-in's path {shown(path)} is not safe; use escape_value" if unsafe else None


# ----------------------------------------------------------------- determinism

Outcome = tuple[object, ...]
Split = Callable[[Chunk], Sequence[Part]]


class DeterminismCheck:
    """Parses some messages twice and compares.

    Of the first chunks, and of every 64th by its first offset, some rows are parsed again
    in two halves, the second half first, which shows randomness, counters, and results that
    depend on neighbours.  A sample of the first chunk is kept and parsed again with each
    look, which shows clocks.
    """

    ROWS = 100
    FIRST_CHUNKS = 3
    EVERY = 64

    def __init__(self, name: str) -> None:
        """``name`` is that of the plug-ins, for the error."""
        self._name = name
        self._looked = 0
        self._kept: tuple[Chunk, dict[int, Outcome]] | None = None

    def look(self, chunk: Chunk, parts: Sequence[Part], split: Split) -> None:
        """Check a chunk if it is time.  Raises ``NotDeterministic``."""
        if not self._due(chunk):
            return
        sample = Chunk(chunk.topic_partition, chunk.records.slice(0, self.ROWS), chunk.next_offset)
        offsets = set(sample.records.column("offset").to_pylist())
        before = outcomes(parts, offsets)
        self._compare(sample, before, split)
        if self._kept is None:
            self._kept = sample, before
        else:
            self._compare(*self._kept, split)

    def _due(self, chunk: Chunk) -> bool:
        if not chunk.records.num_rows:
            return False
        if self._looked < self.FIRST_CHUNKS:
            self._looked += 1
            return True
        first = int(chunk.records.column("offset")[0].as_py())
        return zlib.crc32(first.to_bytes(8, "big")) % self.EVERY == 0

    def _compare(self, sample: Chunk, before: Mapping[int, Outcome], split: Split) -> None:
        middle = int(sample.records.num_rows + 1) // 2
        halves = (sample.records.slice(middle), sample.records.slice(0, middle))
        again: dict[int, Outcome] = {}
        for half in halves:
            if half.num_rows:
                again |= outcomes(split(Chunk(sample.topic_partition, half, sample.next_offset)))
        for offset in sorted({*before, *again}):
            first, second = before.get(offset), again.get(offset)
            if first != second:
                raise NotDeterministic(
                    f"{self._name} is not deterministic: the message at offset {offset} of "
                    f"{sample.topic_partition} was {_told(first)}, then {_told(second)}; "
                    "it must use neither clock, chance, memory nor other messages"
                )


def outcomes(parts: Sequence[Part], offsets: set[int] | None = None) -> dict[int, Outcome]:
    """Return where each message went, with its decoded fields or its reason."""
    found: dict[int, Outcome] = {}
    for part in parts:
        records = part.records
        numbers = records.column("offset").to_pylist()
        rows = [at for at, offset in enumerate(numbers) if offsets is None or offset in offsets]
        extra = _extra(part, rows)
        for at, row in enumerate(rows):
            found[numbers[row]] = (part.lane, part.output_partition, extra[at])
    return found


def _extra(part: Part, rows: list[int]) -> list[object]:
    chosen = part.records.take(pa.array(rows, pa.int64()))
    if part.lane == QUARANTINE:
        headers = chosen.column("headers").to_pylist()
        return [it[-1]["value"] if it[-1]["key"] == REASON_HEADER else None for it in headers]
    if ROW in chosen.schema.names:
        decoded = chosen.column(ROW)
        columns = [(it.name, texts(field_at(decoded, it.name))) for it in decoded.type]
        return [_row(columns, row) for row in range(len(rows))]
    return [None] * len(rows)


def _row(columns: Sequence[tuple[str, Texts]], row: int) -> dict[str, str]:
    """Return a row's values as text.  Structures only as such: their types vary by chunk."""
    values = {name: text for name, column in columns if (text := column.at(row)) is not None}
    return {name: "{…}" if text[:1] in ("{", "[") else text for name, text in values.items()}


def _told(outcome: Outcome | None) -> str:
    if outcome is None:
        return "left out"
    lane, path, extra = outcome
    where = f"put into {lane} {path!r}" if path else f"put into {lane}"
    return where if extra is None else f"{where} with {shown(extra)}"
