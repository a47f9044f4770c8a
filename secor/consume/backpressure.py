"""Limits on memory and local disk: pure decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from secor.core.model import TopicPartition

SEAL_SHARE = 0.8
"""Share of a limit at which the largest batches are sealed early; below it reading resumes."""

PAUSE_SHARE = 0.95
"""Share of a limit at which reading pauses.  The rest is left to exempt partitions."""


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """Bytes that all batches of the process may hold in memory and on disk."""

    memory: int
    local: int

    def share(self, memory: int, local: int) -> float:
        """Return the share of the nearer limit that so many bytes are."""
        return max(memory / self.memory, local / self.local)


class Load(NamedTuple):
    """The load of one open batch: bytes in memory, and in memory and on disk together."""

    topic_partition: TopicPartition
    memory: int
    size: int
    may_seal: bool


@dataclass(frozen=True, slots=True)
class Backpressure:
    """Batches to seal now, largest first, and whether reading must pause."""

    seal: tuple[TopicPartition, ...]
    pause: bool


def apply_limits(
    limits: BufferLimits, loads: Sequence[Load], *, sealed: int, paused: bool, at_rest: int = 0
) -> Backpressure:
    """Compare what open batches (``loads``) and ``sealed`` bytes hold with the limits.

    ``at_rest`` is the number of further open batches, which hold nothing.

    Batches are sealed early from ``SEAL_SHARE`` of a limit on.  Reading pauses at
    ``PAUSE_SHARE`` and, once ``paused``, resumes only below ``SEAL_SHARE``, so that it does not
    flutter.
    """
    memory = sum(load.memory for load in loads)
    local = sealed + sum(load.size for load in loads)
    share = limits.share(memory, local)
    pause = share >= PAUSE_SHARE or (paused and share >= SEAL_SHARE)
    if share < SEAL_SHARE:
        return Backpressure((), pause)
    # Only the limit that is nearer is relieved: sealing by memory frees none of the disk before the
    # upload, and sealing for both at once would make needlessly small files.
    by_memory = memory / limits.memory >= local / limits.local
    sharing = len(loads) + at_rest
    candidates = sorted(
        (load for load in loads if load.may_seal and not is_exempt(limits, load, sharing)),
        key=lambda load: load.memory if by_memory else load.size,
        reverse=True,
    )
    excess = memory - SEAL_SHARE * limits.memory if by_memory else local - SEAL_SHARE * limits.local
    seal: list[TopicPartition] = []
    for load in candidates:
        if excess < 0:
            break
        seal.append(load.topic_partition)
        excess -= load.memory if by_memory else load.size
    return Backpressure(tuple(seal), pause)


def is_exempt(limits: BufferLimits, load: Load, partitions: int) -> bool:
    """Return whether one of so many ``partitions`` is neither sealed early nor paused.

    Small partitions are exempt, so that one busy partition cannot stall the others.  All exempt
    batches together, with a sealed batch of each, hold no more than ``PAUSE_SHARE`` leaves.
    """
    share = (1 - PAUSE_SHARE) / (2 * partitions)
    return load.memory <= share * limits.memory and load.size <= share * limits.local
