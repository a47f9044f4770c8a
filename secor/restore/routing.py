"""Which records of a piece are written, and where: columns in, columns out, and pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from secor.core.errors import PluginFailed, SecorError, TargetRefused
from secor.core.model import HEADERS_TYPE, SCHEMA, OffsetRange, TopicPartition
from secor.core.text import error_text, how_many
from secor.restore.model import Piece, SourcePartition, TargetRecords
from secor.restore.schema_ids import SchemaIds
from secor.wire.murmur2 import partitions_of

RowFilter = Callable[[str, pa.RecordBatch], Any]
"""Of a source topic's records: a column of truths, true to keep the row."""
RowTransform = Callable[[str, pa.RecordBatch], Any]
"""Of a source topic's records: as many rows, with the same offsets."""


def kept_rows(row_filter: RowFilter, source: SourcePartition, records: pa.RecordBatch) -> pa.Array:
    """Return which rows a filter keeps, a truth for each.  Raises ``PluginFailed``."""
    mask = _called("source.filter", row_filter, source, records)
    if isinstance(mask, np.ndarray) and mask.ndim == 1 and mask.dtype == np.bool_:
        mask = pa.array(mask)
    if isinstance(mask, pa.ChunkedArray):
        mask = mask.combine_chunks()
    if not isinstance(mask, pa.Array):
        gave = f"gave {_kind(mask)}"
    elif len(mask) != records.num_rows or mask.type != pa.bool_():
        gave = f"gave {len(mask)} of {mask.type} for {how_many(records.num_rows, 'row')}"
    elif mask.null_count:
        gave = f"gave {how_many(mask.null_count, 'null')}"
    else:
        return mask
    raise PluginFailed(
        f"{source}: source.filter {gave}: it has to give a column of bool, a truth for each row;"
        f" {_REMEDY}"
    )


def transformed(
    transform: RowTransform, source: SourcePartition, records: pa.RecordBatch
) -> pa.RecordBatch:
    """Return the changed rows, of ``SCHEMA`` with the same offsets.  Raises ``PluginFailed``."""
    result = _called("source.transform", transform, source, records)
    if isinstance(result, pa.Table):
        # A table without chunks has no batch; one with several has to become one.
        batches = result.combine_chunks().to_batches()
        result = batches[0] if len(batches) == 1 else result
    if not isinstance(result, pa.RecordBatch):
        gave = f"gave {_kind(result)}"
    elif result.schema != SCHEMA:
        columns = ", ".join(f"{column.name} ({column.type})" for column in result.schema)
        gave = f"gave the columns {columns}"
    elif not result.column("offset").equals(records.column("offset")):
        gave = f"gave other offsets for {how_many(records.num_rows, 'row')}"
    else:
        return result
    raise PluginFailed(
        f"{source}: source.transform {gave}: it has to give a RecordBatch with the same columns,"
        f" rows and offsets; {_REMEDY}"
    )


_REMEDY = (
    "fix the class, and then give the job another name, or stop it and run 'secor restore offsets"
    " reset'"
)
"""The class belongs to the job's spec: a changed one is another job."""


def _called(
    key: str,
    method: Callable[[str, pa.RecordBatch], Any],
    source: SourcePartition,
    records: pa.RecordBatch,
) -> object:
    try:
        return method(source.topic, records)
    except SecorError:
        raise
    except Exception as error:
        first, last = records.column("offset")[0], records.column("offset")[-1]
        raise PluginFailed(
            f"{source}: {key} failed with {error_text(error)} on the messages of offsets {first}"
            f" to {last}; {_REMEDY}"
        ) from error


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

PROVENANCE = ("secor-source-topic", "secor-source-partition", "secor-source-offset")


def first_millisecond(time: datetime) -> int:
    """Return the first whole millisecond since the epoch that is not before ``time``."""
    # Floor division of the negative rounds up. Floats would be off by a millisecond for times like
    # these.
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
    schema_ids: SchemaIds | None = None

    def target(self, topic: str) -> str:
        """Return the target topic of an archived one."""
        return self.template.replace("{topic}", topic)

    def places(self, source: SourcePartition) -> list[TopicPartition]:
        """Return where messages of a source partition may be: those of its target that exist."""
        target = self.target(source.topic)
        count = self.partitions.get(target, 0)
        numbers = range(count) if self.partitioning == "key" else [self._number(source)]
        return [TopicPartition(target, number) for number in numbers if number < count]

    def has_room(self, source: SourcePartition) -> bool:
        """Return whether the target had the partitions that this source partition needs."""
        count = self.partitions.get(self.target(source.topic), 0)
        return count > (0 if self.partitioning == "key" else self._number(source))

    def _number(self, source: SourcePartition) -> int:
        return self.mapping.get(source.partition, source.partition)

    def __call__(self, source: SourcePartition, piece: Piece) -> list[TargetRecords]:
        """Return what is written of a piece.  Raises ``PluginFailed``, ``TargetRefused``."""
        records = piece.records
        if records.num_rows and self.schema_ids is not None:
            # First: whatever decodes a message asks the target's registry.
            records = self.schema_ids(source.topic, records)
        records = self._selected(source, records)
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
            inside = [(offsets >= span.start) & (offsets < span.end) for span in ranges]
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
