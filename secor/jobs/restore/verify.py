"""Comparing a job's target with the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.core.model import TopicPartition
from secor.jobs.restore.offsets import read_all_offsets, read_pairs
from secor.jobs.restore.plan import nothing_archived
from secor.restore.model import Piece, Silence, SourcePartition
from secor.restore.pairs import first_offsets
from secor.restore.routing import Routing
from secor.verify.finding import Finding, FindingKind
from secor.verify.restore import (
    PartitionResult,
    actual_records,
    compare_as_sets,
    compare_in_order,
    expected_records,
)
from secor.wiring.restore import Job

_WAIT = 60.0


Advance = Callable[[int, int], None]
"""Called with how many offsets of the archive were compared, and how many messages they had."""


def offsets_to_compare(job: Job) -> int:
    """Return the sum of the offsets that ``verify`` reports in the end."""
    extents = [job.source.extent(source).range for source in job.sources()]
    offsets = sum(extent.end - extent.start for extent in extents)
    if job.config.target.partitioning == "same":
        return offsets
    # Each target partition looks at every message for those that belong to it.
    return offsets * max(job.routing().partitions.values(), default=1)


def verify(job: Job, advance: Advance = lambda *_: None) -> Iterator[PartitionResult]:
    """Give how each partition of each target compares, and what waits there uncommitted.

    Raises ``ConfigurationError`` where there is nothing to compare.
    """
    sources = job.sources()
    if not sources:
        raise ConfigurationError(nothing_archived(job))
    offsets = read_all_offsets(job, job.offsets_partitions()).offsets
    vanished = [_vanished(job, *gone) for gone in job.vanished(sources, offsets).items()]
    job.log.know_leaders(_targets(job.routing()))
    yield from vanished
    compared = {result.topic_partition for result in vanished}
    for result in _compare(job, sources, compared, advance):
        # In this order: a transaction that ends meanwhile must not look like an open one.
        last = job.log.end(result.topic_partition, committed=False)
        waiting = last - job.log.end(result.topic_partition, committed=True)
        yield replace(result, withheld=max(0, waiting))


def _compare(
    job: Job, sources: list[SourcePartition], compared: set[TopicPartition], advance: Advance
) -> Iterator[PartitionResult]:
    """Give the results of the target partitions that are not ``compared`` yet."""
    route, written = job.routing(), _written(job)
    if job.config.target.partitioning != "same":
        yield from _in_any_order(job, sources, route, written, advance)
        return
    for source in sources:
        target = TopicPartition(route.target(source.topic), source.partition)
        compared.add(target)
        expected = (records for _, records in _expected(job, source, route, advance))
        if job.transactional:
            yield compare_in_order(target, expected, written(target))
        else:
            yield compare_as_sets(target, expected, written(target), repeats=True)
    if not job.config.target.append:
        for target in _targets(route):
            if target not in compared:
                yield compare_in_order(target, (), written(target))


def _targets(route: Routing) -> Iterator[TopicPartition]:
    for topic, count in sorted(route.partitions.items()):
        yield from (TopicPartition(topic, number) for number in range(count))


def _vanished(job: Job, source: SourcePartition, next_offset: int) -> PartitionResult:
    """Return the difference of a source partition that no object is left of."""
    target = TopicPartition(job.target_name(source.topic), source.partition)
    what = (
        f"cannot be compared: the archive has no object of {source} any more, which the job has"
        f" written up to offset {next_offset}; bring the missing objects back"
    )
    return PartitionResult(target, 0, Finding(FindingKind.NOT_COMPARED, str(target), what))


def _in_any_order(
    job: Job,
    sources: list[SourcePartition],
    route: Routing,
    written: Callable[[TopicPartition], Iterator[pa.RecordBatch]],
    advance: Advance,
) -> Iterator[PartitionResult]:
    for target in _targets(route):
        yield compare_as_sets(
            target,
            _of_target(job, sources, route, target, advance),
            written(target),
            repeats=not job.transactional,
        )


def _written(job: Job) -> Callable[[TopicPartition], Iterator[pa.RecordBatch]]:
    """Return what gives the target's messages: where it was not empty, from our first one on."""
    if not job.config.target.append:
        return partial(actual_records, job.log)
    first = first_offsets(read_pairs(job, job.offsets_partitions()))

    def give(target: TopicPartition) -> Iterator[pa.RecordBatch]:
        start = first.get(target)
        return iter(()) if start is None else actual_records(job.log, target, start)

    return give


def _of_target(
    job: Job,
    sources: list[SourcePartition],
    route: Routing,
    target: TopicPartition,
    advance: Advance,
) -> Iterator[pa.RecordBatch]:
    for source in sources:
        if route.target(source.topic) == target.topic:
            for where, records in _expected(job, source, route, advance):
                if where == target:
                    yield records


def _expected(
    job: Job, source: SourcePartition, route: Routing, advance: Advance
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    return expected_records(_counted(read_pieces(job, source), advance), source, route)


def _counted(pieces: Iterator[Piece], advance: Advance) -> Iterator[Piece]:
    reached: int | None = None
    for piece in pieces:
        rows = piece.records.num_rows
        if reached is None:
            reached = int(piece.records.column("offset")[0].as_py()) if rows else piece.next_offset
        yield piece
        advance(piece.next_offset - reached, rows)
        reached = piece.next_offset


def read_pieces(job: Job, source: SourcePartition, start: int = 0) -> Iterator[Piece]:
    """Give what the archive has of a source partition from an offset on."""
    with closing(job.source.open(source, start)) as reader:
        while True:
            piece = reader.next(_WAIT)
            if isinstance(piece, Piece):
                yield piece
            elif piece is Silence.EXHAUSTED:
                return
