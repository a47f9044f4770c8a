"""The words of a restore: jobs, source partitions, pieces, offsets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

import pyarrow as pa

from secor.core.model import OffsetRange, TopicPartition


def canonical(value: object) -> str:
    """Return JSON with sorted keys and without spaces: equal values give equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


@dataclass(frozen=True, slots=True, order=True)
class SourcePartition:
    """One partition of one topic of an archive: it has one transactional id."""

    archive: str
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Self:
        """Read what ``described`` gives, of a record that anybody may have written.

        Raises ``ValueError``, ``KeyError``, ``TypeError``.
        """
        archive, topic = described["archive"], described["topic"]
        partition = described["partition"]
        if not (isinstance(archive, str) and isinstance(topic, str) and type(partition) is int):
            raise ValueError(f"no source partition: {described}")
        return cls(archive, topic, partition)

    def described(self) -> dict[str, object]:
        """Return it as the keys of offset records have it."""
        return {"archive": self.archive, "partition": self.partition, "topic": self.topic}


def transactional_id(job: str, source: SourcePartition) -> str:
    """Return the id of a source partition.

    Neither jobs nor topics can have a colon in their names, so no two ids are alike.
    """
    return f"secor:{job}:{source.topic}:{source.partition}"


def id_prefix(transactional_id: str) -> str:
    """Return what all transactional ids of a job begin with, from one of them."""
    return ":".join(transactional_id.split(":")[:2]) + ":"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Everything that decides what a job writes; ``settings`` hold values of JSON.

    ``archive`` is the store that it reads, such as ``s3://logs``; None where it reads none.  The
    hash has no part in it: an archive may move, and older jobs have to go on.
    """

    job: str
    settings: Mapping[str, Any]
    archive: str | None = None

    @property
    def hash(self) -> str:
        """Return the hash that is in every offset record: 16 hexadecimal digits."""
        text = canonical({"job": self.job, **self.settings})
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Boundary(Enum):
    """Ends of the transaction of a piece, as its source sets them."""

    COMMIT = "commit"
    ABORT = "abort"
    """Skip it: its records are never visible, its offsets are committed without records."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive messages of a source partition; ``records`` have ``SCHEMA``, perhaps no rows.

    ``next_offset`` is where reading goes on; ``boundary`` is given by sources that define
    transactions, on the last piece of one.
    """

    records: pa.RecordBatch
    next_offset: int
    boundary: Boundary | None = None

    @property
    def size(self) -> int:
        """Bytes of the records in memory."""
        return int(self.records.nbytes)


class Silence(Enum):
    """Reasons why a source gives no piece."""

    NOTHING_YET = "nothing yet"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True, slots=True)
class SourceExtent:
    """The extent of one source partition in its source.

    ``range`` are archived offsets; ``holes`` are offsets inside it that no object has, though
    their batches should; ``faults`` are sentences about objects that cannot be used.
    ``size`` is in bytes; ``oldest`` and ``newest`` are the least and the greatest timestamp, in
    milliseconds, where they are known.  ``left_out`` messages have no value and are not in the
    objects; ``uncounted`` are the keys of objects that may have left some out, without saying so.
    Below ``beginning`` the archive has expired.
    """

    source: SourcePartition
    range: OffsetRange
    holes: tuple[OffsetRange, ...] = ()
    faults: tuple[str, ...] = ()
    objects: int = 0
    size: int = 0
    oldest: int | None = None
    newest: int | None = None
    left_out: int = 0
    uncounted: tuple[str, ...] = ()
    beginning: int = 0


@dataclass(frozen=True, slots=True)
class TargetRecords:
    """Records for one partition of the target, in the order in which they are written."""

    topic_partition: TopicPartition
    records: pa.RecordBatch
