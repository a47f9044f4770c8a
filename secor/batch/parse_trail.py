"""A note on local disk of what is parsed now, which outlives a process that dies over it."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from secor.core.foreign_json import load_json
from secor.core.model import TopicPartition

FILE = ".parsing"
"""Its name in a process's directory."""

_BLANK = b"\n"
_ROOM = 1024
"""Bytes: a topic's name has 249 characters at most."""


@dataclass(frozen=True, slots=True)
class Death:
    """A process ended while it parsed the messages of ``[start, end)``."""

    topic_partition: TopicPartition
    start: int
    end: int
    process: str


class ParseTrail:
    """Says before a range is parsed which, and afterwards that it was.

    It is written without waiting for the disk: it outlives the process, not the machine.
    """

    def __init__(self, directory: Path) -> None:
        """Begin a file in the process's directory."""
        self._descriptor = os.open(directory / FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._write(_BLANK * _ROOM)

    def enter(self, topic_partition: TopicPartition, start: int, end: int) -> None:
        """Note that ``[start, end)`` is parsed now."""
        note = [topic_partition.topic, topic_partition.partition, start, end]
        self._write(json.dumps(note).encode() + _BLANK)

    def leave(self) -> None:
        """Note that nothing is parsed now."""
        self._write(_BLANK)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _write(self, note: bytes) -> None:
        with contextlib.suppress(OSError):  # a note alone is no reason to stop
            os.pwrite(self._descriptor, note, 0)


def death_of(directory: Path) -> Death | None:
    """Return over what the process of a directory died, if it parsed anything then."""
    try:
        topic, partition, start, end = load_json((directory / FILE).read_bytes().split(_BLANK)[0])
        return Death(TopicPartition(topic, int(partition)), int(start), int(end), directory.name)
    except (OSError, ValueError, TypeError):
        return None
