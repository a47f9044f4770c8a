"""Evidence of what a verification compared: its objects hashed, its holes and their causes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from secor.archive.evidence.digests import Progress, digests_of, object_record
from secor.archive.evidence.record import (
    HoleRecord,
    PartitionRecord,
    tree_of_objects,
)
from secor.core.errors import NotFound, RestartPartition
from secor.core.model import Chunk, OffsetRange, TopicPartition, next_offset
from secor.core.ports import ObjectStore
from secor.core.text import iso_time
from secor.verify.archive.compare import offsets_of
from secor.verify.archive.inventory import Cause, Holes, Inventory
from secor.verify.archive.report import PartitionReport

_NEAR = 1000
"""Offsets between two holes that one read of the log passes over."""

Read = Callable[[TopicPartition, int, int], Iterator[Chunk]]
"""Gives all messages of a range, those of aborted transactions, too."""


def partition_record(
    report: PartitionReport, store: ObjectStore, read: Read | None, progress: Progress
) -> PartitionRecord:
    """Return the evidence of a partition whose inventory was taken; ``read`` reads its log.

    Raises ``NotFound`` where an object went away meanwhile, ``Unavailable``, ``AccessDenied``.
    """
    inventory, topic_partition = report.inventory, report.topic_partition
    assert inventory is not None
    if read is not None:
        _split_aborted(topic_partition, inventory, read)
    by_key = {archived.key: archived for archived in inventory.objects}
    objects = []
    for key, digest in digests_of(store, sorted(by_key), progress):
        if digest is None:
            raise NotFound(f"{key}: was deleted while it was verified: verify again")
        objects.append(object_record(key, digest, by_key[key].info))
    infos = [archived.info for archived in inventory.objects if archived.info]
    verified = report.as_json()
    return PartitionRecord(
        topic_partition.topic,
        topic_partition.partition,
        inventory.start,
        inventory.end,
        inventory.messages,
        sum(stored.size for stored in objects),
        _time(min, [info.least_timestamp for info in infos]),
        _time(max, [info.greatest_timestamp for info in infos]),
        {
            cause.value: HoleRecord(
                holes.offsets, tuple((span.start, span.end) for span in holes.ranges)
            )
            for cause, holes in sorted(inventory.holes.items())
            if holes.offsets
        },
        {name: verified[name] for name in verified if name not in ("topic", "partition")},
        tree_of_objects(objects),
        tuple(objects),
    )


def _time(choose: Callable[[list[int]], int], milliseconds: list[int | None]) -> str | None:
    known = [millisecond for millisecond in milliseconds if millisecond is not None]
    return iso_time(choose(known) / 1000) if known else None


def _split_aborted(topic_partition: TopicPartition, inventory: Inventory, read: Read) -> None:
    """Find the holes in which the log has messages of aborted transactions."""
    holes = inventory.holes.get(Cause.COMPACTED)
    if holes is None:
        return
    aborted = _offsets_in(topic_partition, holes.ranges, read)
    of_aborted = Holes()
    compacted = Holes()
    for hole in holes.ranges:
        low, high = aborted.searchsorted([hole.start, hole.end])
        position = hole.start
        for offset in aborted[low:high].tolist():
            compacted.add(position, offset)
            of_aborted.add(offset, next_offset(offset))
            position = next_offset(offset)
        compacted.add(position, hole.end)
    compacted.offsets += holes.offsets - sum(span.end - span.start for span in holes.ranges)
    inventory.holes[Cause.COMPACTED] = compacted
    if of_aborted.offsets:
        inventory.holes[Cause.ABORTED] = of_aborted


def _offsets_in(
    topic_partition: TopicPartition, ranges: list[OffsetRange], read: Read
) -> np.ndarray:
    """Return the offsets of messages in these ranges; none where the log has no such range."""
    starts = np.array([offset_range.start for offset_range in ranges], np.int64)
    ends = np.array([offset_range.end for offset_range in ranges], np.int64)
    chosen = [np.empty(0, np.int64)]
    for span in _near_together(ranges):
        try:
            for chunk in read(topic_partition, span.start, span.end):
                offsets = offsets_of(chunk.since(span.start).records)
                index = starts.searchsorted(offsets, "right") - 1
                chosen.append(offsets[(index >= 0) & (offsets < ends[index])])
        except RestartPartition:
            continue  # retention was quicker
    return np.concatenate(chosen)


def _near_together(ranges: list[OffsetRange]) -> list[OffsetRange]:
    spans: list[OffsetRange] = []
    for hole in ranges:
        if spans and hole.start - spans[-1].end <= _NEAR:
            spans[-1] = replace(spans[-1], end=hole.end)
        else:
            spans.append(hole)
    return spans
