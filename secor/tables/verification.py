"""Is every offset of a topic partition in its tables, once?  By the rows' own ``_offset``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.model import TopicPartition, next_offset
from secor.core.text import how_many

COLUMNS = ("_topic", "_kafka_partition", "_offset")
"""What rows must have to be compared one by one."""

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Finding:
    """``count`` offsets of ``[start, end)`` are ``missing``, ``twice`` or ``extra``.

    ``table`` is None for what no table has.
    """

    kind: str
    topic_partition: TopicPartition
    start: int
    end: int
    count: int
    table: str | None = None

    def __str__(self) -> str:
        where = f" in {self.table}" if self.table is not None else " in every table"
        messages = how_many(self.count, "message")
        return f"{self.topic_partition}: {self.kind}{where}: [{self.start}, {self.end}), {messages}"


def offsets_of(batches: Iterable[pa.RecordBatch]) -> dict[TopicPartition, Offsets]:
    """Return the offsets of rows by where they came from, sorted; rows of others have none."""
    parts: dict[TopicPartition, list[Offsets]] = {}
    for batch in batches:
        rows = pa.table([batch.column(name) for name in COLUMNS], names=list(COLUMNS))
        rows = rows.filter(pc.is_valid(rows.column("_offset")))
        pairs = rows.group_by(["_topic", "_kafka_partition"]).aggregate([("_offset", "list")])
        for row in pairs.to_pylist():
            key = TopicPartition(row["_topic"], row["_kafka_partition"])
            parts.setdefault(key, []).append(np.array(row["_offset_list"], np.int64))
    return {key: np.sort(np.concatenate(found)) for key, found in parts.items()}


def repeated(table: str, offsets: Mapping[TopicPartition, Offsets]) -> Iterator[Finding]:
    """Give what a table has more than once."""
    for key, rows in sorted(offsets.items(), key=lambda item: item[0]):
        twice = np.unique(rows[1:][rows[1:] == rows[:-1]])
        if len(twice):
            yield _finding("twice", key, twice, table)


def beyond(
    table: str, offsets: Mapping[TopicPartition, Offsets], reached: Mapping[TopicPartition, int]
) -> Iterator[Finding]:
    """Give what a table has at or above its vector: nobody committed that for this group."""
    for key, rows in sorted(offsets.items(), key=lambda item: item[0]):
        if key in reached:
            extra = rows[rows >= reached[key]]
            if len(extra):
                yield _finding("extra", key, extra, table)


def missing(
    topic_partition: TopicPartition,
    log: Offsets,
    bound: int,
    stored: Iterable[Offsets],
) -> Finding | None:
    """Return the messages of the log below ``bound`` that are stored nowhere."""
    wanted = log[log < bound]
    for offsets in stored:
        wanted = np.setdiff1d(wanted, offsets)
    return _finding("missing", topic_partition, wanted, None) if len(wanted) else None


def _finding(kind: str, key: TopicPartition, offsets: Offsets, table: str | None) -> Finding:
    first, last = int(offsets.min()), int(offsets.max())
    return Finding(kind, key, first, next_offset(last), len(offsets), table)
