import pytest

from secor.core.errors import Unavailable
from secor.core.model import TopicPartition
from secor.tables.election import LOOK_EVERY, Election
from tests.fakes.clock import FakeClock
from tests.unit.tables.world import CLICKS, OTHER, Topics


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
