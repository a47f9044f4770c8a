"""The guard of messages in work: a note on disk that outlives the process, errors by values."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from secor.core.errors import FormatFailed, MessagesUnwritable, SecorError, is_of_values
from secor.core.model import OffsetRange, TopicPartition
from secor.core.text import load_json

LONGEST_REASON = 500
"""Characters."""

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
            # One small write at the beginning, so that no reader sees half of it. What a longer
            # note before has left lies behind the first line end, which is as far as ``death_of``
            # reads.
            os.pwrite(self._descriptor, note, 0)


@contextlib.contextmanager
def guarded(
    topic_partition: TopicPartition, offsets: OffsetRange, trail: ParseTrail | None = None
) -> Iterator[None]:
    """Do something with messages of a range, noted in the trail while it lasts.

    Raises ``MessagesUnwritable`` where their values may be the cause of an error.  That is any
    error of a library, of a plug-in or of ours: a defect that shows for some messages must not
    keep the others, and where it shows for most of them the limits of quarantine stop the
    partition.  The system's errors (a full or broken disk, no right) are no message's fault and
    go on as they are; for want of memory the note stays, too, as it does when the system ends
    the process for that.
    """
    if trail is not None:
        trail.enter(topic_partition, offsets.start, offsets.end)
    try:
        yield
    except MemoryError:  # Arrow's is also an ArrowException
        raise
    except Exception as error:
        if trail is not None:
            # An error that Python sees is no death: the note would accuse these messages at the
            # next start.
            trail.leave()
        if not _may_be_of_values(error):
            raise
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST_REASON]
        raise MessagesUnwritable(why, offsets.start, offsets.end) from error
    if trail is not None:
        trail.leave()


def _may_be_of_values(error: Exception) -> bool:
    if isinstance(error, SecorError):
        return isinstance(error, FormatFailed)
    # Arrow reports some errors about values as OSError, too: those are the values' fault.
    return not isinstance(error, OSError) or is_of_values(error)


def death_of(directory: Path) -> Death | None:
    """Return over what the process of a directory died, if it parsed anything then."""
    try:
        topic, partition, start, end = load_json((directory / FILE).read_bytes().split(_BLANK)[0])
        return Death(TopicPartition(topic, int(partition)), int(start), int(end), directory.name)
    except (OSError, ValueError, TypeError):
        return None
