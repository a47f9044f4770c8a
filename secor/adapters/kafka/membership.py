"""Being a member of the group: assignments, and the pins that fence the ledger's writes.

All of it runs on the client's IO thread; ``Pin`` may be looked at from others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from secor.adapters.kafka import insides
from secor.adapters.kafka.agreement import (
    AgreementAnswer,
    Statement,
    Uses,
    refusal,
    split,
    statement_of,
    verdict_of,
    verdicts,
)
from secor.adapters.kafka.client import from_client
from secor.core.errors import ConfigurationError
from secor.core.model import TopicPartition

_log = logging.getLogger(__name__)

_ASSIGNORS = {
    "cooperative-sticky": insides.CooperativeStickyAssignor,
    "sticky": insides.StickyPartitionAssignor,
    "range": insides.RangePartitionAssignor,
    "roundrobin": insides.RoundRobinPartitionAssignor,
}
_RELEASE_STEP = 0.01


class Pin:
    """The right to write one partition's entry: the membership under which it was assigned.

    A pin lives from the assignment to the revocation.  A rebalance through which the
    partition stays ours renews its generation; a new member id never does.
    ``writing`` keeps the leases of one process apart.
    """

    def __init__(self, generation: int, member: str) -> None:
        self.generation = generation
        self.member = member
        self.alive = True
        self.settles_at = 0.0
        self.writing = threading.Lock()


class GroupMembership(insides.AsyncConsumerRebalanceListener):
    """Keeps our own assignment, from the callbacks: the client's is stale between them.

    ``assigned``, ``revoked`` and ``synchronised`` (every rebalance) notify the source.
    ``uses`` is what this member of ``group`` says about its ledger and store, None for nothing;
    ``refused`` is called when the others use another one: this member gets nothing to read.
    """

    def __init__(
        self,
        *,
        strategy: str,
        release_wait: float,
        assigned: Callable[[frozenset[TopicPartition]], None],
        revoked: Callable[[frozenset[TopicPartition]], None],
        group: str = "",
        uses: Uses | None = None,
        refused: Callable[[ConfigurationError], None] | None = None,
    ) -> None:
        self.pins: dict[TopicPartition, Pin] = {}
        self.rebalances = 0
        self._release_wait = release_wait
        self._releasing: set[TopicPartition] = set()
        self._assigned = assigned
        self._revoked = revoked
        self._member: tuple[int, str] = (-1, "")
        self._client: Any = None
        self._group = group
        self._statement = None if uses is None else Statement(uses)
        self._refused = refused
        self._objects: tuple[str, ...] = ()
        self._addresses: tuple[str, ...] = ()
        self._not_judged = False
        self.assignor = _watched(strategy, self)

    def attach(self, client: Any) -> None:
        """Take the client, which needs the assignor to be made."""
        self._client = client

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing of these is in work any more."""
        self._releasing.difference_update(partitions)

    def stop_waiting(self) -> None:
        """Wait for no release from now on: the process ends."""
        self._release_wait = 0.0
        self._releasing.clear()

    def current(self, pin: Pin) -> bool:
        """Return whether the pin's membership is the client's, as far as is known."""
        return pin.alive and insides.member_id(self._client.coordinator) == pin.member

    # ------------------------------------------------ what the assignor sees

    def joining(self) -> None:
        """A JoinGroup is about to claim what is owned: claim nothing that was lost.

        The client reports a loss only before its first try to join, not when a try itself
        is answered "unknown member"; and its sticky assignors go on claiming what they had
        before they were expelled.
        """
        coordinator = self._client.coordinator
        lost = insides.membership_lost(coordinator) or self._not_judged
        self._not_judged = False
        if lost or insides.member_id(coordinator) != self._member[1]:
            if self.pins:
                self._give_up(frozenset(self.pins))
            # Or the sticky assignors would claim partitions that another member reads by now.
            self._client.subscription.assign_from_subscribed([])
            if hasattr(self.assignor, "member_assignment"):
                self.assignor.member_assignment = None

    def synchronised(self, generation: int) -> None:
        """The group has settled on ``generation``: what we keep is pinned to it."""
        self.rebalances += 1
        self._member = (generation, insides.member_id(self._client.coordinator))
        # A rebalance through which a partition stays ours gives it the new generation, or the next
        # commit would be fenced.
        for pin in self.pins.values():
            pin.generation, pin.member = self._member

    def statement(self) -> bytes:
        """Return what this member says behind the user data of its assignor."""
        return b"" if self._statement is None else self._statement.encode()

    def judged(self, verdict: AgreementAnswer, generation: int) -> None:
        """Obey what the member that shared the partitions out has found."""
        if self._statement is None:
            return
        uses = self._statement.uses
        if not verdict.is_about(uses):
            # Read nothing before the group has seen this process: ask it again, in other words.
            self._not_judged = True  # and what it was given now is given again, as new
            self._statement = replace(self._statement, repeated=self._statement.repeated + 1)
            self._client.coordinator.request_rejoin()
            return
        if verdict.refused:
            if self._refused is not None:
                self._refused(refusal(self._group, uses, verdict))
            return
        if self._statement.accepted is None:
            self._statement = Statement(uses, generation)
        if len(verdict.objects) > 1 and verdict.objects != self._objects:
            _log.warning(
                "group %s: its processes make objects of %s: while an upgrade goes on that is as it"
                " should be; else give all the same [output] and [store], for they hold each other"
                " up at batches that one begins and another ends",
                self._group,
                " and ".join(verdict.objects),
            )
        self._objects = verdict.objects
        if len(verdict.addresses) > 1 and verdict.addresses != self._addresses:
            _log.warning(
                "group %s: its processes reach %s at %s: if these are not one store by other names,"
                " its objects are spread over several, and nobody finds what another one has begun",
                self._group,
                uses.store,
                " and at ".join(address or "its usual address" for address in verdict.addresses),
            )
        self._addresses = verdict.addresses

    # ------------------------------------------------------ the client's calls

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Pin them; nothing is read before it is started."""
        if self._not_judged:
            return
        partitions = frozenset(map(from_client, assigned))
        for topic_partition in partitions:
            self.pins[topic_partition] = Pin(*self._member)
        if partitions:
            self._assigned(partitions)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Notify the source, wait for work in progress if configured, and drop the pins."""
        partitions = frozenset(map(from_client, revoked)) & self.pins.keys()
        if not partitions:
            return
        if self._release_wait > 0:
            self._releasing |= partitions
            self._revoked(partitions)
            until = time.monotonic() + self._release_wait
            while self._releasing & partitions and time.monotonic() < until:
                # The coroutine gives way: heartbeats and the ledger's writes of this very release
                # go over the same thread.
                await self._client.net.sleep(_RELEASE_STEP)
            self._releasing -= partitions
            self._unpin(partitions)
        else:
            self._give_up(partitions)

    async def on_partitions_lost(self, lost: Any) -> None:
        """They may be another's already: no waiting."""
        partitions = frozenset(map(from_client, lost)) & self.pins.keys()
        if partitions:
            self._give_up(partitions)

    def _give_up(self, partitions: frozenset[TopicPartition]) -> None:
        self._unpin(partitions)
        self._revoked(partitions)

    def _unpin(self, partitions: frozenset[TopicPartition]) -> None:
        for topic_partition in partitions:
            pin = self.pins.pop(topic_partition, None)
            if pin is not None:
                # Marked as well as taken out: a lease in an upload thread holds the object, not the
                # name.
                pin.alive = False


def _watched(strategy: str, membership: GroupMembership) -> Any:
    """Return an assignor that reports every join and assignment to ``membership``."""
    if strategy not in _ASSIGNORS:
        known = ", ".join(sorted(_ASSIGNORS))
        raise ConfigurationError(f"kafka.assignment is {strategy!r}: use one of {known}")
    base: Any = _ASSIGNORS[strategy]

    class Watched(base):
        def metadata(self, topics: Any) -> Any:
            # Before the client writes what it claims into the JoinGroup.
            membership.joining()
            subscription = super().metadata(topics)
            subscription.user_data = _encoded(subscription.user_data) + membership.statement()
            return subscription

        def assign(self, cluster: Any, members: Any) -> Any:
            return _assign_agreeing(self, super().assign, cluster, members)

        def on_assignment(self, assignment: Any, generation: int) -> None:
            super().on_assignment(assignment, generation)
            membership.synchronised(generation)
            _, said = split(assignment.user_data or b"")
            verdict = None if said is None else verdict_of(said)
            if verdict is not None:
                membership.judged(verdict, generation)

    return Watched()


def _encoded(user_data: Any) -> bytes:
    """Return an assignor's user data: bytes, or an object of the client that is not encoded yet."""
    return bytes(user_data if isinstance(user_data, bytes) else user_data.encode())


def _assign_agreeing(
    assignor: Any, assign: Callable[[Any, Any], Any], cluster: Any, members: Any
) -> Any:
    """Share the partitions out among the members that agree, and send each the finding."""
    statements = {}
    for member in members:
        own, said = split(member.metadata.user_data or b"")
        member.metadata.user_data = own
        statement = None if said is None else statement_of(said)
        if statement is not None:
            statements[member.member_id] = statement
    judged = verdicts(statements)
    refused = {member_id for member_id, verdict in judged.items() if verdict.refused}
    agreeing = [member for member in members if member.member_id not in refused]
    shared = dict(assign(cluster, agreeing)) if agreeing else {}
    for member in members:
        if member.member_id in refused:
            shared[member.member_id] = insides.empty_assignment(assignor)
        if member.member_id in judged:
            shared[member.member_id].user_data = judged[member.member_id].encode()
    return shared
