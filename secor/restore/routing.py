"""Which records of a piece are written, and where: columns in, columns out, and pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
import pyarrow as pa

from secor.core.errors import TargetRefused
from secor.core.model import HEADERS_TYPE, SCHEMA, OffsetRange, TopicPartition
from secor.core.text import how_many
from secor.restore.model import Piece, SourcePartition, TargetRecords
from secor.restore.plugin_calls import RowFilter, RowTransform, kept_rows, transformed
from secor.wire.murmur2 import partitions_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

PROVENANCE = ("secor-source-topic", "secor-source-partition", "secor-source-offset")


def first_millisecond(time: datetime) -> int:
    """Return the first whole millisecond since the epoch that is not before ``time``."""
    return -((EPOCH - time) // timedelta(milliseconds=1))


@dataclass(frozen=True, slots=True)
class Routing:
    """A ``Router``.  Times in milliseconds since the epoch, ``until`` not included.

    ``template`` gives the target topic of an archived one; ``partitions`` how many partitions
    each target topic has; ``ranges`` the offsets wanted of a source partition, all where it is
    not named.  Messages without a time are kept by a time window.  ``mapping`` gives archived
    partitions another number, for ``"mapping"``.
    """

    template: str
    partitions: Mapping[str, int]
    partitioning: Literal["same", "key", "mapping"] = "same"
    ranges: Mapping[tuple[str, int], Sequence[OffsetRange]] = field(default_factory=dict)
    since: int | None = None
    until: int | None = None
    row_filter: RowFilter | None = None
    transform: RowTransform | None = None
    provenance: bool = False
    mapping: Mapping[int, int] = field(default_factory=dict)

    def target(self, topic: str) -> str:
        """Return the target topic of an archived one."""
        return self.template.replace("{topic}", topic)

    def has_room(self, source: SourcePartition) -> bool:
        """Tell whether the target had the partitions that this source partition needs."""
        count = self.partitions.get(self.target(source.topic), 0)
        return count > (0 if self.partitioning == "key" else self._number(source))

    def _number(self, source: SourcePartition) -> int:
        return self.mapping.get(source.partition, source.partition)

    def __call__(self, source: SourcePartition, piece: Piece) -> list[TargetRecords]:
        """Return what is written of a piece.  Raises ``PluginFailed``, ``TargetRefused``."""
        records = self._selected(source, piece.records)
        if records.num_rows and self.transform is not None:
            records = transformed(self.transform, source, records)
        if not records.num_rows:
            return []
        if self.provenance:
            records = with_provenance(source, records)
        return list(self._placed(source, records))

    def _selected(self, source: SourcePartition, records: pa.RecordBatch) -> pa.RecordBatch:
        kept = np.ones(records.num_rows, np.bool_)
        ranges = self.ranges.get((source.topic, source.partition))
        if ranges is not None:
            offsets = records.column("offset").to_numpy()
            inside = [(offsets >= it.start) & (offsets < it.end) for it in ranges]
            kept &= np.logical_or.reduce(inside)
        if self.since is not None or self.until is not None:
            times = records.column("timestamp")
            stamps = times.fill_null(0).to_numpy()
            unknown = times.is_null().to_numpy(zero_copy_only=False)
            if self.since is not None:
                kept &= unknown | (stamps >= self.since)
            if self.until is not None:
                kept &= unknown | (stamps < self.until)
        if not kept.all():
            records = records.filter(pa.array(kept))
        if self.row_filter is None or not records.num_rows:
            return records
        return records.filter(kept_rows(self.row_filter, source, records))

    def _placed(self, source: SourcePartition, records: pa.RecordBatch) -> Sequence[TargetRecords]:
        topic = self.target(source.topic)
        count = self.partitions.get(topic, 0)
        if not count:
            raise TargetRefused(
                f"{source}: the target {topic} does not exist: 'secor restore run' makes it"
            )
        if self.partitioning != "key":
            partition = self._number(source)
            if partition >= count:
                raise TargetRefused(
                    f"{source}: the target {topic} has {how_many(count, 'partition')}, and no"
                    f' {partition}; add some, or set target.partitioning = "key"'
                )
            return [TargetRecords(TopicPartition(topic, partition), records)]
        placed = self._by_key(source, records, count)
        return [
            TargetRecords(
                TopicPartition(topic, int(partition)), records.filter(pa.array(placed == partition))
            )
            for partition in np.unique(placed)
        ]

    def _by_key(self, source: SourcePartition, records: pa.RecordBatch, count: int) -> np.ndarray:
        """Return each row's partition: by its key as Java's producer, without one as it was."""
        keys = records.column("key")
        placed = partitions_of(keys.fill_null(b""), count)
        if keys.null_count:
            without = keys.is_null().to_numpy(zero_copy_only=False)
            placed = np.where(without, source.partition % count, placed)
        return placed


def with_provenance(source: SourcePartition, records: pa.RecordBatch) -> pa.RecordBatch:
    """Return the records with headers that say where each one comes from, behind its own."""
    offsets = records.column("offset").cast(pa.string()).cast(pa.binary()).to_pylist()
    own = [source.topic.encode(), str(source.partition).encode()]
    added = [
        [*headers, *zip(PROVENANCE, [*own, offset], strict=True)]
        for headers, offset in zip(_pairs(records.column("headers")), offsets, strict=True)
    ]
    rows = [[{"key": name, "value": value} for name, value in headers] for headers in added]
    return records.set_column(5, SCHEMA.field("headers"), pa.array(rows, HEADERS_TYPE))


def _pairs(headers: pa.Array) -> list[list[tuple[str, bytes | None]]]:
    return [
        [(header["key"], header["value"]) for header in row or []] for row in headers.to_pylist()
    ]
