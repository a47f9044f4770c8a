"""Whole record batches out of kafka-python 3.0.12, instead of one object a message.

The client builds the class that its fetcher's ``PartitionRecords`` names for every fetched
partition.  The subclass here keeps the client's treatment of transactions and control
batches but yields the batches' bytes; decoding them into columns is ``secor.wire``'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from kafka.errors import CorruptRecordError, KafkaError

from secor.adapters.kafka.insides import DefaultRecordBatch, PartitionRecords, batch_bytes
from secor.core.errors import CorruptBatch, SecorError
from secor.core.model import Chunk, TopicPartition, next_offset
from secor.core.text import error_text
from secor.wire import (
    MAX_UNCOMPRESSED,
    PASS_BYTES,
    BatchRun,
    decode_chunks,
    records_to_chunk,
    walk_batches,
)
from secor.wire.chunks import Row

Item = BatchRun | bytearray | list[Row]
"""Batches of format v2, one of them as its bytes, or the messages of an older one."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """The batches of one fetch of one topic partition, from ``start`` up to ``next_offset``.

    ``error`` is what stopped the reading behind ``items``; ``leader_epoch`` belongs to the
    last batch.
    """

    items: Sequence[Item]
    start: int
    next_offset: int
    leader_epoch: int
    error: SecorError | None = None

    @property
    def size(self) -> int:
        """Bytes held."""
        return sum(map(_size, self.items))


class BatchRecords(PartitionRecords):
    """One partition's part of a fetch response, given by whole batches."""

    next_fetch_offset: int

    def read(self) -> Fetch:
        """Take everything; CRCs are checked here, and aborted transactions left out."""
        start = int(self.fetch_offset)
        error = None
        items = self._read_at_once()
        if items is None:
            items = []
            try:
                # What came before a bad batch is good, and stays in the list.
                items.extend(self.record_iterator)
            except (KafkaError, ValueError, IndexError) as fault:
                error = self._corrupt(fault)
        fetch = Fetch(items, start, int(self.next_fetch_offset), int(self.leader_epoch), error)
        # The client takes turns among partitions that gave something.
        self.bytes_read = fetch.size
        self.drain()
        return fetch

    def _read_at_once(self) -> list[Item] | None:
        """Take all batches without an object for each.

        None where one is damaged or of an old format, or a transaction was aborted: then they
        are looked at one by one, which says what is wrong.
        """
        run = None if self.aborted_transactions else walk_batches(self.fetched_bytes())
        if run is None or run.right < len(run) or not self._markers_are_right(run):
            return None
        if not len(run):
            return []
        self.leader_epoch = run.heads["leader_epoch"][-1]
        # Also behind control batches and gaps: the last record's offset plus one would stay below
        # the log's end for ever.
        self.next_fetch_offset = max(self.next_fetch_offset, int(run.nexts[-1]))
        # The first batch after a seek may begin below the position.
        kept = run.where(~run.control & (run.nexts > self.fetch_offset))
        return [kept] if len(kept) else []

    def _markers_are_right(self, run: BatchRun) -> bool:
        """Return whether the client can read the markers; they mean nothing where none aborted."""
        for index in np.flatnonzero(run.control & (run.heads["producer_id"] >= 0)).tolist():
            try:
                self.ends_aborted_transaction(DefaultRecordBatch(run.batch(index)))
            except (KafkaError, ValueError, IndexError):
                return False
        return True

    def unpack(self, records: Any) -> Iterator[Item]:
        """Yield the batches; ``next_fetch_offset`` also passes those that are left out."""
        while (batch := records.next_batch()) is not None:
            if not batch.validate_crc():
                raise CorruptRecordError("its checksum is wrong")
            # Formats 0 and 1 are only in topics of brokers before 0.11: the client's own reader
            # will do.
            if batch.magic < 2:
                yield from self._old(batch)
                continue
            self.leader_epoch = batch.leader_epoch
            # Before the marker's record is read: that advances the batch.
            content = batch_bytes(batch)
            kept = not self._left_out(batch) and batch.last_offset >= self.fetch_offset
            self.next_fetch_offset = max(self.next_fetch_offset, batch.next_offset)
            if kept:
                yield content

    def _left_out(self, batch: Any) -> bool:
        """Return whether the batch is control or aborted; as the client does it."""
        if batch.has_producer_id():
            self.abort_transactions_up_to(batch.last_offset)
            if self.ends_aborted_transaction(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self.is_aborted(batch):
                return True
        return bool(batch.is_control_batch)

    def _old(self, batch: Any) -> Iterator[Item]:
        rows: list[Row] = []
        for record in batch:
            if not record.validate_crc():
                raise CorruptRecordError(f"the checksum of offset {record.offset} is wrong")
            following = next_offset(record.offset)
            if following > self.next_fetch_offset:
                self.next_fetch_offset = following
                rows.append(
                    (
                        record.offset,
                        record.timestamp,
                        record.timestamp_type,
                        record.key,
                        record.value,
                        [],
                    )
                )
        if rows:
            yield rows

    def _corrupt(self, fault: Exception) -> CorruptBatch:
        tp = self.topic_partition
        return CorruptBatch(
            f"{tp.topic}/{tp.partition}: the batch at or after offset {self.next_fetch_offset} "
            f"is corrupt ({error_text(fault)}); restore the log from a replica, or skip it with "
            "'secor offsets set'"
        )


def decode(
    topic_partition: TopicPartition,
    fetch: Fetch,
    max_uncompressed: int = MAX_UNCOMPRESSED,
    pass_bytes: int = PASS_BYTES,
) -> Iterator[Chunk]:
    """Decode a fetch; a chunk without rows has a position that only gaps moved.

    ``max_uncompressed`` is in bytes of one record batch.

    Raises ``CorruptBatch``: chunks given before it are good.
    """
    runs = list(_runs(fetch.items))
    reached = fetch.start
    for index, run in enumerate(runs):
        end = fetch.next_offset if index == len(runs) - 1 else None
        if isinstance(run, _OldRows):
            chunks = _decode_old(topic_partition, run.rows, end)
        else:
            # The checksums were looked at when the batches were taken.
            chunks = decode_chunks(
                topic_partition,
                run,
                reached,
                next_offset=end,
                max_uncompressed=max_uncompressed,
                pass_bytes=pass_bytes,
                check_crc=False,
                leader_epoch=None if end is None else fetch.leader_epoch,
            )
        for chunk in chunks:
            reached = chunk.next_offset
            yield chunk
    if not runs:
        yield from decode_chunks(
            topic_partition,
            [],
            reached,
            next_offset=fetch.next_offset,
            leader_epoch=fetch.leader_epoch,
        )


@dataclass(frozen=True, slots=True)
class _OldRows:
    """Messages of batches of an old format that follow each other."""

    rows: list[Row]


def _runs(items: Sequence[Item]) -> Iterator[BatchRun | list[bytearray] | _OldRows]:
    """Put together what is decoded together."""
    for kind, run in groupby(items, type):
        if kind is BatchRun:
            yield from (item for item in run if isinstance(item, BatchRun))
        elif kind is bytearray:
            yield [item for item in run if isinstance(item, bytearray)]
        else:
            yield _OldRows([row for item in run if isinstance(item, list) for row in item])


def _decode_old(
    topic_partition: TopicPartition, rows: list[Row], end: int | None
) -> Iterator[Chunk]:
    try:
        yield records_to_chunk(topic_partition, rows, end or next_offset(rows[-1][0]))
    except ValueError as error:
        raise CorruptBatch(f"{topic_partition}: {error}") from error


def _size(item: Item) -> int:
    match item:
        case BatchRun():
            return item.size
        case bytearray():
            return len(item)
        case rows:
            return _row_bytes(rows)


def _row_bytes(rows: list[Row]) -> int:
    return sum(len(key or b"") + len(value or b"") for _, _, _, key, value, _ in rows)
