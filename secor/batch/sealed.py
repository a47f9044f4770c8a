"""A sealed batch: its range, files, names and metadata, ready for upload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from secor.batch.local_file import LocalFile
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.core.model import OffsetRange, TopicPartition
from secor.core.naming import ObjectName, UniqueName
from secor.core.object_info import ObjectInfo


@dataclass(frozen=True, slots=True, order=True)
class OutputPlace:
    """An output partition below a directory of the store."""

    root: str
    output_partition: str


@dataclass(frozen=True, slots=True)
class BatchFile:
    """One sealed local file and the object that it is to become."""

    name: ObjectName | UniqueName
    info: ObjectInfo
    local: LocalFile

    @property
    def key(self) -> str:
        """The object's key."""
        return self.name.key

    @property
    def place(self) -> OutputPlace:
        """Its destination: one batch has one object in each place."""
        return OutputPlace(self.name.root, self.name.output_partition)


@dataclass(frozen=True)
class SealedBatch:
    """A batch that never changes any more.  No files: everything was filtered.

    ``last`` is put after all of them; if it exists, they do.
    """

    topic_partition: TopicPartition
    range: OffsetRange
    plan: TopicPlan
    fingerprint: str
    topic_id: str | None
    files: tuple[BatchFile, ...]
    reason: Reason
    opened: float
    first_timestamp: int | None = None
    last: BatchFile | None = None
    losses: Mapping[str, int] = field(default_factory=dict)
    leader_epoch: int | None = None
    """That of the last record batch below the range's end; in no name, metadata or fingerprint."""

    @cached_property
    def size(self) -> int:
        """Local bytes."""
        return sum(file.local.size for file in self.files)

    def delete(self) -> None:
        """Delete the local files: the last step of all."""
        for file in (*self.files, *([self.last] if self.last is not None else [])):
            file.local.delete()
