"""Pairs of source offsets and their places on the target: kept for each transaction.

A record of the offsets topic, in the same transaction: key
``["<job>", {"archive": …, "from": <first source offset>, "partition": …, "topic": …}]``,
value ``{"placed": [[first, last, topic, partition, base offset, records], …]}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from secor.core.model import TopicPartition
from secor.core.text import load_json
from secor.restore.model import SourcePartition, canonical
from secor.restore.offsets import record
from secor.restore.writer.model import BatchPlacement


@dataclass(frozen=True, slots=True)
class Pair:
    """A run of ``records`` on the target, of source offsets from ``first`` to ``last``."""

    source: SourcePartition
    placement: BatchPlacement


def pairs_record(
    job: str, source: SourcePartition, placements: Sequence[BatchPlacement], timestamp: int
) -> pa.RecordBatch | None:
    """Return the record of a transaction; None where nothing was written."""
    if not placements:
        return None
    placed = [
        [
            placement.first,
            placement.last,
            placement.topic_partition.topic,
            placement.topic_partition.partition,
            placement.base_offset,
            placement.records,
        ]
        for placement in placements
    ]
    first = min(placement.first for placement in placements)
    key = canonical([job, {**source.described(), "from": first}])
    return record(key.encode(), canonical({"placed": placed}).encode(), timestamp)


def source_of_key(job: str, key: bytes | None) -> SourcePartition | None:
    """Return the source partition of a pair record of the job; None for other records' keys."""
    try:
        name, described = load_json(key or b"")
        if name != job or "from" not in described:
            return None
        return SourcePartition.of(described)
    except (ValueError, TypeError, KeyError):
        return None


def pairs_of(job: str, rows: Iterable[tuple[bytes | None, bytes | None]]) -> list[Pair]:
    """Return the pairs in records of the offsets topic."""
    pairs: list[Pair] = []
    for key, value in rows:
        source = source_of_key(job, key)
        if source is None or value is None:
            continue
        try:
            placed = load_json(value)["placed"]
            pairs += [
                Pair(
                    source,
                    BatchPlacement(TopicPartition(topic, partition), base, count, first, last),
                )
                for first, last, topic, partition, base, count in placed
            ]
        except (ValueError, TypeError, KeyError):
            continue
    return pairs


def first_offsets(pairs: Iterable[Pair]) -> dict[TopicPartition, int]:
    """Return the target's offset of the first message that was written to each partition."""
    first: dict[TopicPartition, int] = {}
    for pair in pairs:
        target, offset = pair.placement.topic_partition, pair.placement.base_offset
        first[target] = min(offset, first.get(target, offset))
    return first
