"""Election of the coordinator: among daemons, or among processes of ``secor tables run``.

Daemons are elected by their topic partitions, ``secor tables run`` by those of the control topic.
The election saves work and is not needed for safety: for a moment two may believe that they lead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from secor.core.errors import AccessDenied, SecorError, Unavailable
from secor.core.model import TopicPartition
from secor.core.ports import Assigned, Clock, Event, Revoked
from secor.tables.commit.cycle_commit import GroupTopics

LOOK_EVERY = 30.0
"""Seconds between two questions to the brokers for topics."""

LOOK_AGAIN = 5.0
"""The same while the control topic is missing: its leader makes it again soon."""

ASK_AGAIN = 600.0
"""Seconds after which one that may not join its group tries that again, by a new client."""

SETTLES = 1.0
"""Seconds after which a process that joined its group, and was assigned nothing, is a standby."""


class Election:
    """An election among daemons: the owner of the group's first topic partition leads.

    The loop's thread says what is assigned, the coordinator's thread asks for the leader.
    """

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
        """Return whether this process has the first one, as far as is known."""
        now = self._clock.monotonic()
        if now - self._asked >= LOOK_EVERY:
            # Before the question: brokers that do not answer are asked again after LOOK_EVERY, not
            # in each step.
            self._asked = now
            try:
                self._first = min(self._topics.partitions(), default=None)
            except SecorError:
                return self._first in self._assigned  # asked again later
        return self._first in self._assigned


class GroupMember(Protocol):
    """A member of a consumer group, as far as an election needs it."""

    @property
    def rebalances(self) -> int:
        """The number of times the group has settled with this member in it."""

    def poll(self, timeout: float) -> Sequence[Event]:
        """Return what has happened.  Raises ``AccessDenied``, ``Unavailable``."""

    def topics(self) -> frozenset[str]:
        """Return the names of all topics that this user sees.  Raises ``Unavailable``."""


class StandbyElection:
    """An election among coordinators: the owner of the control topic's partition leads.

    They are a consumer group of their own, so one that dies is followed when its session ends.
    Where nobody can be elected everyone leads, which is harmless: while the topic is missing,
    and without the right to join the group.  Used by one thread.
    """

    def __init__(
        self,
        member: GroupMember,
        topic: str,
        clock: Clock,
        *,
        on_standby: Callable[[], None],
        denied: Callable[[AccessDenied], None],
    ) -> None:
        """``on_standby`` is called whenever another is found to lead, ``denied`` at most once.

        A client ends when it may not join, so another election has to ask again.
        """
        self._member = member
        self._partition = TopicPartition(topic, 0)
        self._clock = clock
        self._on_standby = on_standby
        self._denied = denied
        self._ask_at: float | None = None
        """When one that may not join asks again."""
        self._assigned = False
        self._missing = False
        self._looked = clock.monotonic()
        self._joined: float | None = None
        """Since when the group has settled without the partition for this process."""
        self._reported = False

    def leads(self) -> bool:
        """Return whether this process leads, as far as is known.

        Raises ``Unavailable`` when the client has ended, and when it is time to ask again.
        """
        now = self._clock.monotonic()
        if self._ask_at is not None:
            if now < self._ask_at:
                return True
            raise Unavailable("the election: asking again whether this process may join its group")
        try:
            self._take_events()
        except AccessDenied as error:
            self._ask_at = now + ASK_AGAIN
            self._denied(error)
            return True
        if self._assigned:
            self._looked, self._joined = now, None
            self._missing = self._reported = False
            return True
        self._look_for_topic(now)
        if not self._missing:
            self._report_standby(now)
        # Nobody can be assigned a partition of a topic that is not there, so everyone leads: two
        # commits at once are only slower.
        return self._missing

    def _take_events(self) -> None:
        while events := self._member.poll(0.0):
            for event in events:
                if isinstance(event, Assigned | Revoked) and self._partition in event.partitions:
                    self._assigned = isinstance(event, Assigned)
                    if not self._assigned:
                        self._looked = float("-inf")  # the topic may have been deleted

    def _look_for_topic(self, now: float) -> None:
        if now - self._looked >= (LOOK_AGAIN if self._missing else LOOK_EVERY):
            self._looked = now
            try:
                self._missing = self._partition.topic not in self._member.topics()
            except SecorError:
                return  # asked again later

    def _report_standby(self, now: float) -> None:
        if self._reported or not self._member.rebalances:
            return
        if self._joined is None:
            self._joined = now
        if now - self._joined >= SETTLES:
            self._reported = True
            self._on_standby()
