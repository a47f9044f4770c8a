"""Limits on memory and local disk: pure decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from secor.core.model import TopicPartition

RELIEF = 0.8
"""Share of a limit at which the largest batches are sealed early, and reading resumes."""

HOLD = 0.95
"""Share of a limit at which reading pauses; the rest is for those that ``spares`` names."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes that all batches of the process may hold in memory and on disk."""

    memory: int
    local: int


@dataclass(frozen=True, slots=True)
class Load:
    """What one open batch holds: bytes in memory, and in memory and on disk together."""

    topic_partition: TopicPartition
    memory: int
    size: int
    may_seal: bool


@dataclass(frozen=True, slots=True)
class Relief:
    """Batches to seal now, largest first, and whether reading must pause."""

    seal: tuple[TopicPartition, ...]
    hold: bool


def relieve(limits: Limits, loads: Sequence[Load], *, sealed: int, held: bool) -> Relief:
    """Decide; ``sealed`` bytes wait for their upload, ``held`` tells whether reading is paused.

    Early sealing starts at ``RELIEF`` of a limit; reading pauses at ``HOLD`` of it and goes on
    below ``RELIEF``, so that it does not flutter; see ``spares`` for exceptions.
    """
    memory = sum(load.memory for load in loads)
    local = sealed + sum(load.size for load in loads)
    share = max(memory / limits.memory, local / limits.local)
    hold = share >= HOLD or (held and share >= RELIEF)
    if share < RELIEF:
        return Relief((), hold)
    by_memory = memory / limits.memory >= local / limits.local
    ready = sorted(
        (load for load in loads if load.may_seal and not spares(limits, load, len(loads))),
        key=lambda load: load.memory if by_memory else load.size,
        reverse=True,
    )
    excess = memory - RELIEF * limits.memory if by_memory else local - RELIEF * limits.local
    chosen: list[TopicPartition] = []
    for load in ready:
        if excess < 0:
            break
        chosen.append(load.topic_partition)
        excess -= load.memory if by_memory else load.size
    return Relief(tuple(chosen), hold)


def spares(limits: Limits, load: Load, partitions: int) -> bool:
    """Tell whether one of so many ``partitions`` is neither sealed early nor paused.

    Those are not that hold little: else who comes slowly would wait for who fills the memory
    again and again.  All together, with a sealed batch of each, they hold no more than what
    ``HOLD`` leaves of a limit.
    """
    share = (1 - HOLD) / (2 * partitions)
    return load.memory <= share * limits.memory and load.size <= share * limits.local
