"""Who coordinates: the member that owns the group's first topic partition.

That spares work and says nothing about safety: for a moment two may believe that they lead.
"""

from __future__ import annotations

from collections.abc import Iterable

from secor.core.errors import SecorError
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.tables.coordinator import GroupTopics

LOOK_EVERY = 30.0
"""Seconds between two questions to the brokers for the group's topics."""


class Election:
    """Told by the loop's thread what is assigned, asked by the coordinator's who leads."""

    def __init__(self, topics: GroupTopics, clock: Clock) -> None:
        self._topics = topics
        self._clock = clock
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._first: TopicPartition | None = None
        self._asked = float("-inf")

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Set which topic partitions this process has now."""
        self._assigned = frozenset(partitions)

    def leads(self) -> bool:
        """Tell whether this process has the first one, as far as is known."""
        now = self._clock.monotonic()
        if now - self._asked >= LOOK_EVERY:
            self._asked = now
            try:
                self._first = min(self._topics.partitions(), default=None)
            except SecorError:
                return self._first in self._assigned  # asked again later
        return self._first in self._assigned
