"""Rows that wait until they fill a batch, by partition of the target.

Sources give pieces of any size: sent as they come, each would end in a small batch, and a
request costs as much as the encoding of a thousand records.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from secor.core.model import TopicPartition
from secor.wire.encoding import split_rows

NEARLY_FULL = 0.75
"""From this part of a batch on rows are not joined with others, which would copy all of them."""
MOST_BYTES = 16 << 20
"""What may wait in one transaction: a target that is partitioned by key has many partitions."""


class UnsentRows:
    """The rows of one transaction that are in no batch yet; order within a partition is kept."""

    def __init__(self, batch_bytes: int, batch_records: int, most_bytes: int = MOST_BYTES) -> None:
        """``batch_bytes`` before compression."""
        self._batch_bytes = batch_bytes
        self._batch_records = batch_records
        self._most_bytes = most_bytes
        self._rows: dict[TopicPartition, pa.RecordBatch] = {}
        self._size = 0

    def add(
        self, topic_partition: TopicPartition, records: pa.RecordBatch
    ) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Take rows; give those that fill batches, and all when too much waits."""
        waiting = self._rows.pop(topic_partition, None)
        if waiting is not None:
            self._size -= waiting.nbytes
            if self._is_nearly_full(waiting) and records.num_rows:
                yield topic_partition, waiting
            else:
                records = _joined(waiting, records)
        parts = list(split_rows(records, self._batch_bytes, self._batch_records))
        if parts:
            self._rows[topic_partition] = parts.pop()
            self._size += self._rows[topic_partition].nbytes
        for part in parts:
            yield topic_partition, part
        if self._size > self._most_bytes:
            yield from self.drain()

    def _is_nearly_full(self, rows: pa.RecordBatch) -> bool:
        share = max(rows.nbytes / self._batch_bytes, rows.num_rows / self._batch_records)
        return share >= NEARLY_FULL

    def drain(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Give everything that waits."""
        rows = self._rows
        self.clear()
        yield from rows.items()

    def clear(self) -> None:
        """Forget what waits."""
        self._rows, self._size = {}, 0


def _joined(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of both in one batch."""
    columns = [
        pa.concat_arrays([left, other])
        for left, other in zip(first.columns, second.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=first.schema)
