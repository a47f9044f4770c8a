from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from secor.core.errors import AccessDenied, Unavailable
from secor.core.model import TopicPartition
from secor.core.ports import Assigned, Event, Revoked
from secor.tables.election import (
    ASK_AGAIN,
    LOOK_AGAIN,
    LOOK_EVERY,
    SETTLES,
    Election,
    StandbyElection,
)
from tests.fakes.clock import FakeClock
from tests.unit.tables.world import CLICKS, OTHER, Topics

CONTROL = "secor-control-tables"
PARTITION = frozenset({TopicPartition(CONTROL, 0)})


def test_the_owner_of_the_first_partition_leads() -> None:
    election = Election(Topics({OTHER, CLICKS}), FakeClock())
    assert not election.leads()
    election.assign([OTHER])
    assert not election.leads()
    election.assign([OTHER, CLICKS])
    assert election.leads()
    election.assign([])
    assert not election.leads()


def test_a_new_first_topic_is_noticed() -> None:
    topics, clock = Topics({CLICKS}), FakeClock()
    election = Election(topics, clock)
    election.assign([CLICKS])
    assert election.leads()
    topics.known.add(TopicPartition("animals", 0))
    assert election.leads()
    clock.advance(LOOK_EVERY)
    assert not election.leads()


def test_brokers_that_are_out_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    topics, clock = Topics({CLICKS}), FakeClock()
    election = Election(topics, clock)
    election.assign([CLICKS])
    assert election.leads()

    def partitions() -> frozenset[TopicPartition]:
        raise Unavailable("out")

    monkeypatch.setattr(topics, "partitions", partitions)
    clock.advance(LOOK_EVERY)
    assert election.leads()


def test_a_group_without_topics_has_no_leader() -> None:
    election = Election(Topics(set()), FakeClock())
    election.assign([CLICKS])
    assert not election.leads()


@dataclass
class Member:
    """A ``GroupMember`` that is told what happens."""

    events: list[Event] = field(default_factory=list)
    known: frozenset[str] = frozenset({CONTROL, "clicks"})
    error: Exception | None = None
    rebalances: int = 0

    def poll(self, timeout: float) -> Sequence[Event]:
        if self.error is not None:
            raise self.error
        events, self.events = self.events[:1], self.events[1:]
        return events

    def topics(self) -> frozenset[str]:
        return self.known

    def settle(self, *events: Event) -> None:
        self.rebalances += 1
        self.events += events


class Standby:
    """An election, and what it reports."""

    def __init__(self) -> None:
        self.member, self.clock = Member(), FakeClock()
        self.stood_by = 0
        self.denials: list[AccessDenied] = []
        self.election = StandbyElection(
            self.member, CONTROL, self.clock, on_standby=self.stand_by, denied=self.denials.append
        )

    def stand_by(self) -> None:
        self.stood_by += 1


def test_who_is_assigned_the_control_topic_leads() -> None:
    standby = Standby()
    assert not standby.election.leads()
    standby.member.settle(Assigned(PARTITION))
    assert standby.election.leads()
    standby.member.settle(Revoked(PARTITION), Assigned(PARTITION))
    assert standby.election.leads(), "events of one look are taken in order, to the last"
    standby.member.settle(Revoked(PARTITION))
    assert not standby.election.leads()
    assert standby.stood_by == 0


def test_another_partition_of_the_control_topic_elects_nobody() -> None:
    standby = Standby()
    standby.member.settle(Assigned(frozenset({TopicPartition(CONTROL, 1)})))
    assert not standby.election.leads()


def test_one_that_stands_by_reports_it_once_each_time() -> None:
    standby = Standby()
    for _ in range(3):
        standby.clock.advance(SETTLES)
        assert not standby.election.leads()
    assert standby.stood_by == 0, "it has not joined yet"
    for times in (1, 2):
        standby.member.settle()
        for _ in range(4):
            assert not standby.election.leads()
            standby.clock.advance(SETTLES)
        assert standby.stood_by == times
        standby.member.settle(Assigned(PARTITION))
        assert standby.election.leads()
        standby.member.settle(Revoked(PARTITION))


def test_an_assignment_that_follows_the_rebalance_is_no_standby() -> None:
    standby = Standby()
    standby.member.settle()
    assert not standby.election.leads()
    standby.clock.advance(SETTLES / 2)
    standby.member.events.append(Assigned(PARTITION))
    assert standby.election.leads()
    assert standby.stood_by == 0


def test_everyone_leads_while_the_control_topic_is_missing() -> None:
    standby = Standby()
    standby.member.known = frozenset({"clicks"})
    assert not standby.election.leads(), "it may just be in the making"
    standby.clock.advance(LOOK_EVERY)
    assert standby.election.leads()
    standby.member.known = frozenset({CONTROL})
    standby.clock.advance(LOOK_EVERY)
    assert not standby.election.leads()


def test_the_leader_of_a_control_topic_that_was_deleted_goes_on_until_it_is_made_again() -> None:
    standby = Standby()
    standby.member.settle(Assigned(PARTITION))
    assert standby.election.leads()
    standby.member.known = frozenset({"clicks"})
    standby.member.settle(Revoked(PARTITION))
    assert standby.election.leads(), "nobody else can be elected"
    standby.member.known = frozenset({CONTROL})
    standby.clock.advance(LOOK_AGAIN)
    assert not standby.election.leads(), "another may have been elected"


def test_a_topic_is_not_found_missing_by_brokers_that_are_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    standby = Standby()

    def topics() -> frozenset[str]:
        raise Unavailable("out")

    monkeypatch.setattr(standby.member, "topics", topics)
    standby.clock.advance(LOOK_EVERY)
    assert not standby.election.leads()


def test_one_that_may_not_join_leads_and_says_so_once() -> None:
    standby = Standby()
    standby.member.error = AccessDenied("the group")
    assert [standby.election.leads() for _ in range(3)] == [True] * 3
    assert len(standby.denials) == 1
    standby.clock.advance(ASK_AGAIN - 1)
    assert standby.election.leads()
    standby.clock.advance(1)
    with pytest.raises(Unavailable, match="asking again"):
        standby.election.leads()


def test_a_client_that_has_ended_is_opened_again_by_whoever_runs_it() -> None:
    standby = Standby()
    standby.member.error = Unavailable("the client was closed")
    with pytest.raises(Unavailable):
        standby.election.leads()
