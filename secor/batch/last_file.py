"""A batch's last object, put after the data files and listing them, such as a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from secor.core.model import OffsetRange, TopicPartition
from secor.core.ports import FileWriter


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A closed file of a batch: ``size`` in bytes; the writer may tell more of it."""

    stream: str
    output_partition: str
    key: str
    size: int
    writer: FileWriter


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """What a batch's last file is made from; ``greatest_timestamp`` of all its messages."""

    topic_partition: TopicPartition
    range: OffsetRange
    fingerprint: str
    topic_id: str | None
    greatest_timestamp: int | None
    files: Sequence[WrittenFile]


class LastFile(Protocol):
    """An object that is put after all others of its batch: it says which they are.

    Its key is that of the range, under every configuration.  Whichever comes first is right,
    with the files that it names.
    """

    def key(self, topic_partition: TopicPartition, offsets: OffsetRange) -> str:
        """Return its key."""

    def body(self, batch: WrittenBatch) -> bytes:
        """Return its bytes."""
