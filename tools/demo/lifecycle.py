"""The archive is kept for years: objects joined, an aircraft erased, evidence, and a drill."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from secor.archive.objects import Archive
from secor.cli.exit_codes import Exit
from secor.config.load import load
from secor.core.errors import SecorError
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes
from secor.wiring.clients import open_store
from tools.demo import flights
from tools.demo.backup import surroundings
from tools.demo.screen import Screen

KEYS, EVIDENCE, REPORT = "aircraft.txt", "evidence.json", "drill.json"
FILES = frozenset({KEYS, EVIDENCE, REPORT, f"{REPORT}.txt"})
ERASED = "N725MQ"
"""The aircraft that left most often."""


class LifecycleScene:
    """Tells what becomes of an archive after its topic."""

    def __init__(self, screen: Screen, folder: Path) -> None:
        self._screen = screen
        self._folder = folder
        self._environment = {**surroundings(), "SECOR_ERASE__SECRET": secrets.token_hex(16)}

    def run(self, backup: Path, job: Path) -> None:
        """Join, erase, prove; then recover everything into a broker of its own."""
        evidence, keys = str(self._folder / EVIDENCE), self._folder / KEYS
        self._screen.step("Keeping the archive for years: joining objects, forgetting an aircraft")
        self._secor("archive", "compact", str(backup), flights.TOPIC, "--older-than", "1s")
        keys.write_text(f"{ERASED}\n")
        topic = ("--topic", flights.TOPIC)
        self._secor("archive", "erase", str(backup), *topic, "--keys", str(keys), lines=6)
        self._screen.step("Proving without Kafka what the archive holds")
        self._secor("verify", str(backup), "--archive-only", "--evidence", evidence)
        self._secor("evidence", "check", evidence, "--config", str(backup))
        with self._tampered(backup) as key:
            self._screen.say(f"one byte of {key} is another now", style="yellow")
            again = ("evidence", "check", evidence, "--config", str(backup), "--restart")
            self._secor(*again, code=Exit.DIFFERENT)
        self._screen.step("A drill: everything comes back in a broker of its own")
        self._secor("drill", str(job), "--report", str(self._folder / REPORT))

    def _secor(self, *arguments: str, code: Exit = Exit.OK, lines: int | None = None) -> None:
        self._screen.command(*arguments, code=code, lines=lines, environment=self._environment)

    @contextmanager
    def _tampered(self, backup: Path) -> Iterator[str]:
        """Change a byte of the first object; put the object back at the end."""
        with open_store(load(backup, {})) as store:
            key = next(iter(Archive(store, "backup").objects(flights.TOPIC))).key
            content, metadata = read_bytes(store, key), store.head(key).metadata
            if not content:
                raise SecorError(f"{key} has no bytes")
            changed = bytearray(content)
            changed[len(content) // 2] ^= 1
            _replace(store, key, bytes(changed), metadata)
            try:
                yield key
            finally:
                _replace(store, key, content, metadata)


def _replace(
    store: ObjectStore, key: str, content: bytes, metadata: Mapping[str, str] | None
) -> None:
    store.delete(key)
    put_bytes(store, key, content, metadata)
