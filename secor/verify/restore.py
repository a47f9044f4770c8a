"""The archive against the target: every message, every field, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from secor.core.model import TopicPartition
from secor.restore.model import Piece, SourcePartition
from secor.restore.ports import Router, TargetLog
from secor.verify.finding import Finding, FindingKind

_COMPARED = ("timestamp", "key", "value", "headers")
"""Offsets are the target's own; a broker alone decides the type of a timestamp."""


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The result of comparing one target partition; ``repeated`` messages are there again.

    ``withheld`` offsets of the target wait behind an open transaction, and are not compared.
    """

    topic_partition: TopicPartition
    messages: int
    difference: Finding | None
    repeated: int = 0
    withheld: int = 0


def compare_in_order(
    topic_partition: TopicPartition,
    expected: Iterable[pa.RecordBatch],
    actual: Iterable[pa.RecordBatch],
) -> PartitionResult:
    """Compare two streams of records, message by message, in order."""
    wanted, stored = _Stream(expected), _Stream(actual)
    count = 0
    while True:
        left, right = wanted.peek(), stored.peek()
        if left is None or right is None:
            break
        rows = min(left.num_rows, right.num_rows)
        archived, other = wanted.take(rows), stored.take(rows)
        row = _first_difference(archived, other)
        if row is not None:
            return PartitionResult(
                topic_partition, count + row, _differs(topic_partition, archived, other, row)
            )
        count += rows
    left, right = wanted.peek(), stored.peek()
    difference = None
    if left is not None:
        offset = left.column("offset")[0].as_py()
        difference = Finding(
            FindingKind.MISSING,
            str(topic_partition),
            f"ends before the message of source offset {offset}",
        )
    elif right is not None:
        offset = right.column("offset")[0].as_py()
        difference = Finding(
            FindingKind.EXTRA,
            f"{topic_partition}, offset {offset}",
            "a message that the archive has not",
        )
    return PartitionResult(topic_partition, count, difference)


def compare_as_sets(
    topic_partition: TopicPartition,
    expected: Iterable[pa.RecordBatch],
    actual: Iterable[pa.RecordBatch],
    *,
    repeats: bool = False,
) -> PartitionResult:
    """Compare what two streams hold, in any order: for targets that are partitioned by key.

    ``repeats`` lets archived messages be there more often, as without transactions.
    Holds a hash of each message in memory.
    """
    counts: Counter[int] = Counter()
    total = 0
    # The target first: with it in memory the archive, which may be larger, streams past.
    for records in actual:
        counts.update(_hashes(records))
        total += records.num_rows
    archived: set[int] = set()
    for records in expected:
        hashes = _hashes(records)
        counts.subtract(hashes)
        if repeats:
            archived.update(hashes)
    missing = -sum(n for n in counts.values() if n < 0)
    repeated = sum(n for record, n in counts.items() if n > 0 and record in archived)
    extra = sum(n for n in counts.values() if n > 0) - repeated
    difference = None
    if missing or extra:
        difference = Finding(
            FindingKind.MISSING if missing else FindingKind.EXTRA,
            str(topic_partition),
            f"{missing} messages are missing and {extra} are too many",
        )
    return PartitionResult(topic_partition, total, difference, repeated)


def expected_records(
    pieces: Iterable[Piece], source: SourcePartition, route: Router
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """Give what a job writes of a source partition, and where."""
    for piece in pieces:
        for target in route(source, piece):
            yield target.topic_partition, target.records


def actual_records(
    log: TargetLog, topic_partition: TopicPartition, start: int = 0
) -> Iterator[pa.RecordBatch]:
    """Give the committed messages of a target partition."""
    end = log.end(topic_partition, committed=True)
    for chunk in log.read(topic_partition, start, end):
        if chunk.records.num_rows:
            yield chunk.records


class _Stream:
    """Batches of records, taken a number of rows at a time."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._rest: pa.RecordBatch | None = None

    def peek(self) -> pa.RecordBatch | None:
        """Return the rows that are at hand; None at the end."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return None
        return self._rest

    def take(self, rows: int) -> pa.RecordBatch:
        """Return so many of them."""
        assert self._rest is not None
        taken, self._rest = self._rest.slice(0, rows), self._rest.slice(rows)
        return taken


def _first_difference(left: pa.RecordBatch, right: pa.RecordBatch) -> int | None:
    if left.select(_COMPARED).equals(right.select(_COMPARED)):
        return None
    low, high = 0, left.num_rows
    # Whole batches are equal almost always; only of a differing one the row is searched, by halves.
    while high - low > 1:
        middle = (low + high) // 2
        same = (
            left.slice(low, middle - low)
            .select(_COMPARED)
            .equals(right.slice(low, middle - low).select(_COMPARED))
        )
        low, high = (middle, high) if same else (low, middle)
    return low


def _differs(
    topic_partition: TopicPartition, left: pa.RecordBatch, right: pa.RecordBatch, row: int
) -> Finding:
    wanted, actual = left.slice(row, 1).to_pylist()[0], right.slice(row, 1).to_pylist()[0]
    fields = [name for name in _COMPARED if wanted[name] != actual[name]]
    return Finding(
        FindingKind.DIFFERENT,
        f"{topic_partition}, offset {actual['offset']}",
        f"{', '.join(fields)} are not those of source offset {wanted['offset']}",
    )


def _hashes(records: pa.RecordBatch) -> list[int]:
    return [hash(repr(row)) for row in records.select(_COMPARED).to_pylist()]
