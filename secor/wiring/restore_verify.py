"""Comparing a job's target with the archive."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from secor.core.model import TopicPartition
from secor.restore.model import Piece, Silence, SourcePartition
from secor.restore.routing import Routing
from secor.restore.verify import (
    PartitionResult,
    actual_records,
    compare_as_sets,
    compare_in_order,
    expected_records,
)
from secor.wiring.restore import Job

_WAIT = 60.0


def verify(job: Job) -> Iterator[PartitionResult]:
    """Give how each partition of each target compares."""
    route = job.routing()
    sources = job.sources()
    if job.config.target.partitioning == "same":
        for source in sources:
            target = TopicPartition(route.target(source.topic), source.partition)
            expected = (records for _, records in _expected(job, source, route))
            yield compare_in_order(target, expected, actual_records(job.log, target))
        return
    for topic, count in sorted(route.partitions.items()):
        for number in range(count):
            target = TopicPartition(topic, number)
            yield compare_as_sets(
                target,
                _of_target(job, sources, route, target),
                actual_records(job.log, target),
            )


def _of_target(
    job: Job, sources: list[SourcePartition], route: Routing, target: TopicPartition
) -> Iterator[pa.RecordBatch]:
    for source in sources:
        if route.target(source.topic) == target.topic:
            for where, records in _expected(job, source, route):
                if where == target:
                    yield records


def _expected(
    job: Job, source: SourcePartition, route: Routing
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    return expected_records(read_pieces(job, source), source, route)


def read_pieces(job: Job, source: SourcePartition, start: int = 0) -> Iterator[Piece]:
    """Give what the archive has of a source partition from an offset on."""
    reader = job.source.open(source, start)
    try:
        while True:
            piece = reader.next(_WAIT)
            if isinstance(piece, Piece):
                yield piece
            elif piece is Silence.EXHAUSTED:
                return
    finally:
        reader.close()
