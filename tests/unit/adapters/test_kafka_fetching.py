"""From the client's fetch responses to events: the client's own fetcher, no broker."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition as KafkaTopicPartition
from kafka import errors as kafka_errors
from kafka.consumer.fetcher import (
    CompletedFetch,
    Fetcher,
    FetchMetadata,
    FetchSessionHandler,
)
from kafka.consumer.subscription_state import SubscriptionState

from secor.adapters.kafka.batches import BatchRecords
from secor.adapters.kafka.events import EventQueue
from secor.adapters.kafka.fetching import FetchHandler
from secor.adapters.kafka.insides import send_fetches, use_records
from secor.adapters.kafka.log_ends import LogEnds
from secor.adapters.kafka.metadata_queries import MetadataClient
from secor.adapters.kafka.replicas import LEADERS_FOR
from secor.adapters.kafka.stalls import StallDetector
from secor.core.errors import CorruptBatch, RestartPartition, TopicRecreated
from secor.core.model import TopicPartition
from secor.core.ports import Event, Fetched, ReadFailure
from tests.unit.adapters.test_kafka_batches import batch

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


class World:
    """A fetcher that was assigned two partitions, both started at 0."""

    def __init__(self) -> None:
        self.refreshes = 0
        self.leader = 1
        cluster = SimpleNamespace(
            request_update=self._refresh,
            leader_for_partition=lambda _: self.leader,
            is_replica_node=lambda *_: True,
            leader_epoch_for_partition=lambda _: None,
        )
        manager = SimpleNamespace(_net=None, cluster=cluster)
        self.subscription = SubscriptionState("none")
        self.subscription.subscribe(topics=["clicks"])
        keys = [KafkaTopicPartition(tp.topic, tp.partition) for tp in (A, B)]
        self.subscription.assign_from_subscribed(keys)
        self.fetcher = Fetcher(
            SimpleNamespace(_manager=manager),
            self.subscription,
            isolation_level="read_committed",
        )
        use_records(self.fetcher, BatchRecords)
        self.queue = EventQueue(1 << 20, lambda: None)
        client: Any = SimpleNamespace(
            fetcher=self.fetcher, subscription=self.subscription, cluster=cluster
        )
        self.ends = LogEnds(client, MetadataClient(client, 1.0), 15.0)
        self.ends.assigned({A, B})
        self.stalls: list[tuple[TopicPartition, int, int, float, str]] = []
        self.fetching = FetchHandler(
            client,
            self.queue,
            self.ends,
            StallDetector(15.0),
            lambda *stall: self.stalls.append(stall),
            rack="zone-b",
        )
        self.fetching.assigned(frozenset({A, B}))
        for tp in (A, B):
            self.start(tp, 0)

    def _refresh(self) -> None:
        self.refreshes += 1

    def start(self, tp: TopicPartition, offset: int) -> None:
        epoch = self.queue.begin(tp)
        assert epoch is not None
        self.fetching.start(tp, offset, epoch)

    def answer(self, tp: TopicPartition, data: bytes, *, at: int = 0, code: int = 0) -> None:
        partition_data = SimpleNamespace(
            error_code=code,
            high_watermark=100,
            last_stable_offset=90,
            records=data,
            aborted_transactions=None,
            diverging_epoch=None,
            preferred_read_replica=-1,
            current_leader=None,
        )
        key = KafkaTopicPartition(tp.topic, tp.partition)
        self.fetcher._completed_fetches.append(CompletedFetch(key, at, 12, partition_data, None))

    def events(self) -> list[Event]:
        self.fetching.take()
        found: list[Event] = []
        while some := self.queue.poll(0):
            found += some
        return found

    def fetchable(self, tp: TopicPartition) -> bool:
        return bool(self.subscription.is_fetchable(KafkaTopicPartition(tp.topic, tp.partition)))

    def position(self, tp: TopicPartition) -> int:
        key = KafkaTopicPartition(tp.topic, tp.partition)
        return int(self.subscription.assignment[key].position.offset)


@pytest.fixture
def world() -> World:
    return World()


def offsets(event: Event) -> list[int]:
    assert isinstance(event, Fetched)
    return [o for chunk in event.chunks() for o in chunk.records.column("offset").to_pylist()]


def test_a_corrupt_batch_fails_its_partition_behind_what_was_good_and_others_go_on(
    world: World,
) -> None:
    bad = batch(3, 2)
    bad[-1] ^= 1
    world.answer(A, bytes(batch(0, 3) + bad))
    world.answer(B, bytes(batch(0, 2)))
    good, failed, other = sorted(
        world.events(),
        key=lambda e: (e.topic_partition, isinstance(e, ReadFailure)),  # type: ignore[union-attr]
    )
    assert offsets(good) == [0, 1, 2]
    assert isinstance(failed, ReadFailure)
    assert (failed.topic_partition, type(failed.error)) == (A, CorruptBatch)
    assert offsets(other) == [0, 1]
    assert (world.fetchable(A), world.fetchable(B)) == (False, True)
    assert (world.position(A), world.position(B)) == (3, 2)
    world.start(A, 5)
    assert (world.fetchable(A), world.position(A)) == (True, 5)


def test_messages_of_an_earlier_start_give_nothing_when_they_are_decoded_late(
    world: World,
) -> None:
    world.answer(A, bytes(batch(0, 3)))
    (event,) = world.events()
    world.start(A, 1)
    assert offsets(event) == []


def test_an_answer_to_a_question_from_before_the_start_is_thrown_away(world: World) -> None:
    world.start(A, 7)
    world.answer(A, bytes(batch(0, 3)), at=0)
    assert world.events() == []
    assert world.position(A) == 7


def test_an_offset_out_of_range_is_told_once(world: World) -> None:
    for _ in range(2):
        world.answer(A, b"", code=1)
    (failed,) = world.events()
    assert isinstance(failed, ReadFailure)
    assert type(failed.error) is RestartPartition
    assert not world.fetchable(A)


def test_after_any_error_a_topics_id_is_looked_at_before_it_is_read_on(world: World) -> None:
    world.answer(A, b"", code=3)
    world.answer(B, bytes(batch(0, 2)))
    (event,) = world.events()
    assert offsets(event) == [0, 1]
    assert world.refreshes
    assert (world.fetchable(A), world.fetchable(B)) == (False, True)
    world.fetching.known_to_be({"clicks"}, asked_at=0.0)
    assert not world.fetchable(A)
    world.fetching.known_to_be({"clicks"}, asked_at=float("inf"))
    assert world.fetchable(A)


def test_a_topic_made_again_fails_all_its_partitions(world: World) -> None:
    world.fetching.recreated({"clicks"})
    failures = world.events()
    assert {type(event.error) for event in failures if isinstance(event, ReadFailure)} == {
        TopicRecreated
    }
    assert len(failures) == 2
    assert not world.fetchable(A)
    assert not world.fetchable(B)


def test_a_paused_partition_gives_nothing_and_keeps_its_position(world: World) -> None:
    world.fetching.pause(A, True)
    world.answer(A, bytes(batch(0, 3)))
    assert world.events() == []
    world.fetching.pause(A, False)
    world.answer(A, bytes(batch(0, 3)))
    (event,) = world.events()
    assert offsets(event) == [0, 1, 2]


def test_the_end_of_the_log_is_the_last_stable_offset(world: World) -> None:
    assert world.ends.get(A) is None
    world.answer(A, b"")
    assert world.events() == []
    assert (world.ends.get(A), world.ends.get(B)) == (90, None)
    withheld = world.ends.withheld(A)
    assert withheld is not None
    assert withheld.offsets == 10
    world.ends.revoked({A})
    assert world.ends.get(A) is None


def test_a_topic_that_may_not_be_read_ends_the_source(world: World) -> None:
    world.answer(A, b"", code=29)
    with pytest.raises(kafka_errors.TopicAuthorizationFailedError):
        world.events()


def test_an_answer_with_an_error_is_told_once_with_its_cause(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for tp in (A, B, A):
        world.answer(tp, b"", code=6)
    assert world.events() == []
    (told,) = caplog.messages
    assert "clicks/0, clicks/1: NotLeaderForPartitionError: This error is thrown" in told


def test_metadata_that_was_asked_for_before_an_error_does_not_end_its_hold(world: World) -> None:
    asked_at = time.monotonic()
    world.answer(A, b"", code=6)
    assert world.events() == []
    world.fetching.known_to_be({"clicks"}, asked_at)
    assert not world.fetchable(A)
    assert world.refreshes == 2  # the client's own, and ours
    # That answer has used both up: it is asked again, each second, until one tells.
    for second in range(3):
        world.fetching.watch(1000.0 + second)
    assert world.refreshes == 5
    world.fetching.known_to_be({"clicks"}, time.monotonic())
    assert world.fetchable(A)
    world.fetching.watch(1003.0)
    assert world.refreshes == 5


def watch(world: World, seconds: int, begin: float = 1000.0) -> None:
    for second in range(seconds):
        world.fetching.watch(begin + second)


def test_what_brings_nothing_while_its_log_goes_on_begins_anew(world: World) -> None:
    for tp in (A, B):
        world.answer(tp, bytes(batch(0, 3)))
    world.events()
    world.ends.heard(A, 50, 50)
    world.ends.heard(B, 3, 3)
    key = KafkaTopicPartition(A.topic, A.partition)
    state = world.subscription.assignment[key]
    state.request_position_validation()
    watch(world, 15)
    assert world.stalls == []
    assert not world.fetchable(A)
    watch(world, 1, 1015.0)
    ((where, offset, end, seconds, cause),) = world.stalls
    assert (where, offset, end, seconds) == (A, 3, 50, 15.0)
    assert "whether the offset is its own" in cause
    assert world.fetchable(A)
    assert world.position(A) == 3


def test_what_is_held_back_is_told_with_the_error_but_not_read(world: World) -> None:
    world.ends.heard(A, 50, 50)
    world.answer(A, b"", code=3)
    world.events()
    watch(world, 16)
    (stall,) = world.stalls
    assert "broker answered UnknownTopicOrPartitionError" in stall[4]
    assert not world.fetchable(A)


def test_what_the_core_has_paused_and_what_failed_does_not_stall(world: World) -> None:
    for tp in (A, B):
        world.ends.heard(tp, 50, 50)
    world.fetching.pause(A, True)
    world.answer(B, b"", code=1)
    world.events()
    watch(world, 40)
    assert world.stalls == []


def test_a_fetch_that_could_not_be_sent_names_all_partitions_the_next_time(world: World) -> None:
    handler = FetchSessionHandler(1)
    handler.next_metadata = FetchMetadata.new_incremental(7)
    world.fetcher._session_handlers[1] = handler

    async def fails() -> None:
        handler.build_next({KafkaTopicPartition("clicks", 0): "a request"})
        raise kafka_errors.UnknownBrokerIdError(2)

    world.fetcher._send_fetches_async = fails
    with pytest.raises(kafka_errors.UnknownBrokerIdError):
        send_fetches(world.fetcher).send(None)
    assert handler.next_metadata.is_full


async def _send(world: World) -> None:
    await world.fetching.send(lambda _: None)


def test_a_broker_that_is_being_asked_costs_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = 0

    def look() -> None:
        nonlocal looked
        looked += 1

    async def send() -> list[Any]:
        return []

    monkeypatch.setattr(world.fetcher, "maybe_validate_positions", look)
    monkeypatch.setattr(world.fetcher, "validate_offsets_if_needed", lambda: None)
    monkeypatch.setattr(world.fetcher, "_send_fetches_async", send)
    for asked, looks in (({1}, 0), (set[int](), 1), ({1}, 1)):
        world.fetcher._nodes_with_pending_fetch_requests = asked
        asyncio.run(_send(world))
        assert looked == looks
    world.leader = 2
    world.fetching.known_to_be({"clicks"}, time.monotonic())  # the metadata is new
    asyncio.run(_send(world))
    assert looked == 2


def test_messages_and_starts_end_the_quiet(world: World) -> None:
    config = world.fetcher.config
    config["fetch_max_wait_ms"] = 1000
    world.answer(A, bytes(batch(0, 3)))
    world.events()
    assert config["fetch_max_wait_ms"] == 500
    config["fetch_max_wait_ms"] = 1000
    world.start(B, 5)
    assert config["fetch_max_wait_ms"] == 500
    config["fetch_max_wait_ms"] = 1000
    world.answer(B, b"", at=5)
    world.events()
    assert config["fetch_max_wait_ms"] == 1000


def test_a_replica_that_does_not_answer_is_left_for_its_leader_and_not_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader goes on naming it until the controller has noticed."""
    monkeypatch.setattr(world.fetcher, "_create_fetch_requests", dict)
    keys = {tp: KafkaTopicPartition(tp.topic, tp.partition) for tp in (A, B)}
    states = {tp: world.subscription.assignment[key] for tp, key in keys.items()}
    for tp, replica in ((A, 2), (B, 3)):
        states[tp].update_preferred_read_replica(replica, time.monotonic() + 300)

    def rack_that_is_named() -> str:
        asyncio.run(world.fetching.send(lambda _: None))
        return str(world.fetcher.config["client_rack"])

    assert rack_that_is_named() == "zone-b"
    world.fetcher._handle_fetch_error(1, kafka_errors.KafkaConnectionError("not a replica"))
    assert rack_that_is_named() == "zone-b"

    refreshes = world.refreshes
    world.fetcher._handle_fetch_error(2, kafka_errors.KafkaConnectionError("refused"))
    assert {tp: state.preferred_read_replica() for tp, state in states.items()} == {A: None, B: 3}
    assert world.refreshes == refreshes + 1
    assert rack_that_is_named() == ""
    later = time.monotonic() + LEADERS_FOR
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert rack_that_is_named() == "zone-b"
