"""The ledger in Kafka alone, against a real broker: what only it has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from secor.adapters.kafka import KafkaLedger, KafkaOperatorLedger
from secor.core.errors import LeaseLost, LedgerCorrupt, Refused, StopPartition, Unavailable
from secor.core.model import Intent, Superseded, TopicPartition
from secor.core.ports import Revoked
from tests.contracts.kafka_group import Broker, Receiver, together

if TYPE_CHECKING:
    from secor.sandbox import Sandbox


def intent(start: int, end: int, *, root: str = "backup/clicks") -> Intent:
    return Intent(start, end, "f1", "host-1", 1.5, root, (Superseded("f0", "old/clicks"),))


class Member:
    """A source of its own with the ledger in it."""

    def __init__(self, broker: Broker, topic: str, group: str) -> None:
        self.receiver = Receiver(broker.source(group, [topic]))
        self.ledger = KafkaLedger(self.receiver.source, group=group, timeout=10.0)


class World:
    """A topic, a group, and its members."""

    def __init__(self, broker: Broker, opened: ExitStack, partitions: int) -> None:
        self.broker = broker
        self.group = broker.name("group")
        self.topic = broker.topic(partitions=partitions)
        self.tp = TopicPartition(self.topic, 0)
        self._opened = opened

    def member(self) -> Member:
        member = Member(self.broker, self.topic, self.group)
        self._opened.callback(member.receiver.source.close)
        return member

    def settled_member(self) -> Member:
        member = self.member()
        member.receiver.until(lambda: bool(member.receiver.owned))
        return member

    def operator(self) -> KafkaOperatorLedger:
        ledger = KafkaOperatorLedger(self.broker.options, group=self.group)
        self._opened.callback(ledger.close)
        return ledger


@pytest.fixture(scope="module")
def broker(sandbox: Sandbox) -> Broker:
    return Broker(sandbox.kafka)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def world(broker: Broker, opened: ExitStack) -> World:
    return World(broker, opened, partitions=2)


def test_an_entry_goes_from_nothing_through_an_intent_to_a_commit(world: World) -> None:
    ledger = world.settled_member().ledger
    lease = ledger.lease(world.tp, 1)
    nothing = lease.read()
    assert nothing.committed is None
    recorded = lease.record(nothing, intent(5, 90))
    assert (recorded.committed, recorded.intent) == (5, intent(5, 90))
    assert ledger.read(world.tp) == recorded == lease.read()
    done = lease.commit(recorded, 90, "topic-id")
    assert (done.committed, done.intent, done.topic_id) == (90, None, "topic-id")
    assert ledger.read(world.tp) == done
    assert lease.held()
    assert lease.trust == 3.0
    lease.release()
    assert not lease.held()
    assert ledger.healthy()
    assert ledger.read(TopicPartition(world.topic, 1)).committed is None


def test_a_write_over_an_entry_that_is_no_longer_as_it_was_read_is_refused(world: World) -> None:
    lease = world.settled_member().ledger.lease(world.tp, 1)
    nothing = lease.read()
    recorded = lease.record(nothing, intent(0, 9))
    with pytest.raises(Refused):
        lease.record(nothing, intent(0, 7))
    with pytest.raises(Refused):
        lease.commit(nothing, 9, None)
    assert lease.read() == recorded


def test_there_is_no_lease_of_what_is_not_assigned(world: World) -> None:
    ledger = world.settled_member().ledger
    with pytest.raises(LeaseLost, match="not assigned"):
        ledger.lease(TopicPartition("another", 0), 1)


def test_one_process_has_one_lease_of_a_partition_at_a_time(world: World) -> None:
    ledger = world.settled_member().ledger
    first = ledger.lease(world.tp, 1)
    with pytest.raises(LeaseLost, match="another lease"):
        ledger.lease(world.tp, 0.05)
    first.release()
    first.release()
    ledger.lease(world.tp, 1).release()


def test_a_lease_outlives_a_rebalance_that_leaves_the_partition_here(world: World) -> None:
    first = world.settled_member()
    leases = {tp: first.ledger.lease(tp, 1) for tp in first.receiver.owned}
    before = {tp: lease.record(lease.read(), intent(0, 4)) for tp, lease in leases.items()}
    second = world.member()
    together(
        [first.receiver, second.receiver],
        lambda: len(first.receiver.owned) == len(second.receiver.owned) == 1,
    )
    (kept,), (moved,) = first.receiver.owned, second.receiver.owned
    assert leases[kept].held()
    assert leases[kept].commit(before[kept], 4, None).committed == 4
    assert not leases[moved].held()
    with pytest.raises(LeaseLost):
        leases[moved].commit(before[moved], 4, None)
    taken = second.ledger.lease(moved, 1)
    assert taken.read() == before[moved]
    assert taken.commit(taken.read(), 4, None).committed == 4


def test_a_member_that_was_expelled_and_does_not_know_cannot_write(world: World) -> None:
    member = world.settled_member()
    lease = member.ledger.lease(world.tp, 1)
    before = lease.record(lease.read(), intent(0, 4))
    world.broker.expel(world.group)
    with pytest.raises((LeaseLost, Unavailable)):
        lease.commit(before, 4, None)
    assert member.ledger.read(world.tp) == before
    events = member.receiver.events
    member.receiver.until(lambda: any(isinstance(event, Revoked) for event in events))
    member.receiver.until(lambda: world.tp in member.receiver.owned)
    assert not lease.held()
    with pytest.raises(LeaseLost):
        lease.commit(before, 4, None)
    lease.release()
    again = member.ledger.lease(world.tp, 1)
    assert again.commit(again.read(), 4, None).committed == 4


def test_an_intent_too_long_for_the_broker_stops_and_writes_nothing(world: World) -> None:
    lease = world.settled_member().ledger.lease(world.tp, 1)
    with pytest.raises(StopPartition, match="4096"):
        lease.record(lease.read(), intent(0, 4, root="r" * 4000))
    assert lease.read().committed is None
    fits = lease.record(lease.read(), intent(0, 4, root="r" * 3800))
    assert lease.read() == fits


def test_an_operator_reads_always_and_writes_only_while_nobody_runs(world: World) -> None:
    member = world.settled_member()
    lease = member.ledger.lease(world.tp, 1)
    recorded = lease.record(lease.read(), intent(0, 4))
    operator = world.operator()
    assert operator.entries() == {world.tp: recorded}
    theirs = operator.lease(world.tp, 1)
    with pytest.raises(LeaseLost, match="running members"):
        theirs.commit(theirs.read(), 2, None)
    assert lease.read() == recorded
    member.receiver.source.close()
    assert theirs.commit(theirs.read(), 2, "id").committed == 2
    assert operator.read(world.tp).committed == 2
    with pytest.raises(Refused):
        theirs.commit(recorded, 3, None)
    assert operator.healthy()


def test_an_operator_sees_who_is_in_the_group(world: World) -> None:
    operator = world.operator()
    assert operator.members() == []
    member = world.settled_member()
    (told,) = operator.members()
    assert told.endswith("/127.0.0.1")
    member.receiver.source.close()
    assert operator.members() == []


def test_another_programs_commit_is_an_entry_without_intent_or_refused(world: World) -> None:
    other = TopicPartition(world.topic, 1)
    world.broker.commit(world.group, world.tp, 7, "")
    world.broker.commit(world.group, other, 8, "mine")
    ledger = world.operator()
    assert ledger.read(world.tp).committed == 7
    with pytest.raises(LedgerCorrupt):
        ledger.read(other)


def test_a_silent_broker_is_unavailable_and_its_return_finds_the_entry_whole(
    sandbox: Sandbox, world: World
) -> None:
    member = world.settled_member()
    ledger = KafkaLedger(member.receiver.source, group=world.group, timeout=0.5)
    lease = ledger.lease(world.tp, 1)
    before = lease.record(lease.read(), intent(0, 4))
    sandbox.servers["kafka"].pause()
    try:
        with pytest.raises(Unavailable):
            lease.commit(before, 4, None)
        assert not ledger.healthy()
    finally:
        sandbox.servers["kafka"].resume()
    patient = KafkaLedger(member.receiver.source, group=world.group, timeout=20.0)
    assert patient.read(world.tp) == before
