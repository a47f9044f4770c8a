"""Compaction and erasure of the archive while daemons write it: begun, killed, stopped, resumed."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from secor.archive.rewrite.one_range import again_where_objects_go
from secor.cli.exit_codes import Exit
from secor.config.load import load
from secor.core.errors import SecorError
from secor.wiring.archives import archive_of
from secor.wiring.clients import open_reader, open_store
from tests.integration.daemons import secor
from tests.soak.erased import Comparison, Ends, Erasing
from tests.soak.load import COMPACTED_TOPIC, Load
from tests.soak.restored import committed_with_offsets
from tests.soak.story import Story
from tests.soak.table_mischief import Deed
from tests.soak.watch import Watch

SECRET = "the secret of this soak"
WHOLE = ("soak-plain", "soak-transactions", COMPACTED_TOPIC)
"""Topics that are stored with their keys."""

_MAY_END_WITH = (Exit.OK, Exit.UNAVAILABLE)
_NOTHING_YET = "nothing is stored for topic"
"""The one reason for which the configuration may be called wrong: it is too early."""
_ENDS_WITHIN = 300.0
_TWO_AT_ONCE = 2
_KEYS = 20


@dataclass(frozen=True, slots=True)
class Files:
    """The configuration, another one without faults, the broker's address, and a directory.

    There are files of keys, and what commands printed.
    """

    config: Path
    direct: Path
    folder: Path
    kafka: str


class Rewrites:
    """Makes deeds of ``secor archive compact`` and ``erase``, and knows what was erased."""

    def __init__(self, files: Files, watch: Watch, writers: Load, story: Story, seed: int) -> None:
        files.folder.mkdir(parents=True)
        self._files = files
        self._story = story
        self._rng = random.Random(f"rewrites {seed}")
        self._watch = watch
        self._writers = writers
        self.erasings: list[Erasing] = []
        self.done: Counter[str] = Counter()
        self._begun = 0

    def kinds(self) -> dict[str, tuple[int, Callable[[], Deed]]]:
        """Return what makes a deed, and its weight, by name."""
        return {"objects joined": (10, self._compact), "keys erased": (12, self._erase)}

    def _compact(self) -> Deed:
        size = self._rng.choice(["64KiB", "256KiB", "2MiB"])
        topic = self._rng.choice([[], ["soak-lines"], [self._rng.choice(WHOLE)]])
        command = ["compact", str(self._files.config), *topic, "--older-than", "1s"]
        return self._deed("compact", [*command, "--target-size", size], lambda code, before: None)

    def _erase(self) -> Deed:
        """Erase new keys, or go on with what was begun and killed."""
        open_ones = [erasing for erasing in self.erasings if erasing.settled is None]
        if open_ones and self._rng.random() < 0.6:
            erasing = self._rng.choice(open_ones)
        else:
            erasing = self._new_erasing()
            self.erasings.append(erasing)
        return self._deed("erase", self._command(erasing), partial(self._erased, erasing))

    def _new_erasing(self) -> Erasing:
        topic = self._rng.choice(WHOLE)
        keys: set[bytes | None] = set()
        if topic == COMPACTED_TOPIC:
            keys = {b"key-%d" % self._rng.randrange(50)}
        else:
            # Some are prefixes of others, some will be written later: those stay.
            most = 2 * self._writers.numbered(topic)
            keys = {b"key-%d" % self._rng.randrange(most) for _ in range(_KEYS)}
        if self._rng.random() < 0.1:
            keys.add(None)
        return Erasing(topic, frozenset(keys), tombstones=self._rng.random() < 0.3)

    def _command(self, erasing: Erasing) -> list[str]:
        number = self.erasings.index(erasing)
        file = self._files.folder / f"{number:03d}.keys"
        file.write_bytes(b"".join(key + b"\n" for key in erasing.keys if key is not None))
        return [
            *("erase", str(self._files.config), "--topic", erasing.topic, "--keys", str(file)),
            *(["--null-key"] if None in erasing.keys else []),
            *(["--tombstone"] if erasing.tombstones else []),
            "--json",
        ]

    def _deed(self, name: str, command: Sequence[str], ended: Callable[[int, Ends], None]) -> Deed:
        fate = self._rng.choices(["to its end", "killed", "stopped for a time"], [4, 5, 2])[0]
        seconds = self._rng.uniform(1.5, 9)
        target = f"{name} {self._rng.randrange(_TWO_AT_ONCE)}"
        running: list[tuple[Ends, subprocess.Popen[bytes], Path]] = []

        def end() -> None:
            before, process, log = running[0]
            if fate == "killed":
                process.kill()
            elif fate == "stopped for a time" and process.poll() is None:
                process.send_signal(signal.SIGSTOP)
                time.sleep(seconds)
                process.send_signal(signal.SIGCONT)
            code = self._wait(process, log)
            result = "killed" if code == -signal.SIGKILL else f"ended with {code}"
            self.done[f"{name} {result}"] += 1
            printed = log.read_text()
            allowed = {*_MAY_END_WITH, -signal.SIGKILL}
            if _NOTHING_YET in printed and self._is_new(command, before):
                allowed.add(Exit.CONFIGURATION)
            if code not in allowed or "Traceback" in printed:
                self._story.violated(f"secor archive {name} ended with {code}: {log}")
            if code > Exit.OK:
                self._story.say(f"{name} ended with {code}: {printed.strip()[-300:]}")
            ended(code, before)

        detail = f"secor archive {' '.join([name, *command[2:]])}: {fate}"
        return Deed(target, detail, seconds, lambda: running.append(self._start(command)), end)

    @staticmethod
    def _is_new(command: Sequence[str], before: Ends) -> bool:
        """Tell whether a topic was named of which not all partitions had objects and entries."""
        committed = [end for owner, end in before.items() if owner.topic in command]
        named = any(one.startswith("soak-") for one in command)
        return named and not (committed and all(committed))

    def _start(self, command: Sequence[str]) -> tuple[Ends, subprocess.Popen[bytes], Path]:
        before = self._watch.samples[-1].committed if self._watch.samples else {}
        self._begun += 1
        log = self._files.folder / f"{self._begun:03d}-{command[0]}.log"
        with log.open("ab") as file:
            line = secor("archive", *command)
            process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        return before, process, log

    def _wait(self, process: subprocess.Popen[bytes], log: Path) -> int:
        try:
            return process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._story.violated(f"a command does not end: {log}")
            process.kill()
            return process.wait()

    def _erased(self, erasing: Erasing, code: int, before: Ends) -> None:
        erasing.over = self._story.now()
        if code == Exit.OK:
            erasing.settled = before
            self._look_for(erasing)

    def _look_for(self, erasing: Erasing) -> None:
        """See that nothing is left of one erasure; others may be under way."""

        def look() -> None:
            looked = Comparison([erasing], self._story.violated)
            self._read(erasing.topic, looked, superseded=False)

        try:
            again_where_objects_go(look)
        except SecorError as error:  # at the end all of it is read again
            self._story.say(f"{erasing.topic} cannot be read now: {error}")

    # ------------------------------------------------------------- at the end

    def finish(self) -> str:
        """Resume what was killed, then compare every message; returns what was compared."""
        for erasing in self.erasings:
            if erasing.settled is None:
                self._to_the_end(self._command(erasing), partial(self._erased, erasing))
        compact = ["compact", str(self._files.config), "--older-than", "1s"]
        self._to_the_end(compact, lambda code, before: None)
        samples = self._watch.samples
        for erasing in self.erasings:
            # The one after that may have been under way when the command ended.
            later = [one for one in samples if one.at > erasing.over][1:2] or samples[-1:]
            erasing.most = later[0].committed
        compared = Comparison(self.erasings, self._story.violated)
        for topic in WHOLE:
            self._read(topic, compared, superseded=True)
        with open_reader(load(self._files.direct, {})) as reader:
            for topic in WHOLE:
                for owner in reader.partitions(topic):
                    rows = committed_with_offsets(self._files.kafka, topic, owner.partition)
                    compared.logged(owner, rows, whole=topic != COMPACTED_TOPIC)
        ends = ", ".join(f"{count} {name}" for name, count in sorted(self.done.items()))
        return f"{compared}; {ends}"

    def _to_the_end(self, command: Sequence[str], ended: Callable[[int, Ends], None]) -> None:
        before, process, log = self._start(command)
        code = self._wait(process, log)
        if code != Exit.OK:
            self._story.violated(f"secor archive {command[0]} ended with {code} at rest: {log}")
        ended(code, before)

    def _read(self, topic: str, into: Comparison, *, superseded: bool) -> None:
        """Read the objects of a topic; also those that no reader looks at if that is asked for."""
        settings = load(self._files.direct, {})
        with open_store(settings) as store:
            archive = archive_of(settings, topic, store)
            for archived in archive.everything(topic, superseded=superseded):
                into.stored(archived.topic_partition, archived.key, archive.read(archived))
