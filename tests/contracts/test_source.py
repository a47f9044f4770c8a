"""The source against a real broker."""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from kafka import errors as kafka_errors

from secor.adapters.kafka import KafkaReader, KafkaSource
from secor.core.errors import ConfigurationError, RestartPartition, TopicRecreated, Unavailable
from secor.core.model import LogRange, TopicPartition
from secor.core.ports import Assigned, Fetched, Revoked
from tests.contracts.kafka_group import PATIENCE, Broker, Receiver, together

if TYPE_CHECKING:
    from secor.sandbox import Sandbox


@pytest.fixture(scope="module")
def broker(sandbox: Sandbox) -> Broker:
    return Broker(sandbox.kafka)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def receiver(
    opened: ExitStack, broker: Broker, topics: list[str], begin: int | None = 0, **settings: Any
) -> Receiver:
    group = settings.pop("group", None) or broker.name("group")
    source = broker.source(group, topics, **settings)
    opened.callback(source.close)
    return Receiver(source, begin)


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"message-%d" % number for number in range(first, first + count)]


def test_messages_of_every_codec_arrive_once_and_in_order(
    broker: Broker, opened: ExitStack
) -> None:
    topic = broker.topic()
    for at, codec in enumerate([None, "gzip", "snappy", "lz4", "zstd"]):
        broker.produce(topic, numbered(50, at * 50), compression_type=codec)
    got = receiver(opened, broker, [topic])
    tp = TopicPartition(topic, 0)
    got.until(lambda: got.reached.get(tp) == 250)
    assert got.values[tp] == numbered(250)
    assert got.offsets[tp] == list(range(250))
    assert got.source.known_end(tp) == 250
    assert got.source.rebalances >= 1


def test_the_position_passes_aborted_transactions_and_trailing_markers(
    broker: Broker, opened: ExitStack
) -> None:
    topic = broker.topic()
    broker.produce(topic, [b"before"])
    broker.transaction(topic, [b"aborted"] * 3, commit=False)
    broker.transaction(topic, [b"committed"], commit=True)
    tp = TopicPartition(topic, 0)
    got = receiver(opened, broker, [topic])
    end = got.source.log_range(tp).end
    assert end == 7  # five messages and two markers
    got.until(lambda: got.reached.get(tp) == end)
    assert got.values[tp] == [b"before", b"committed"]
    assert got.offsets[tp] == [0, 5]


def test_the_position_moves_where_nothing_but_markers_and_aborted_messages_are(
    broker: Broker, opened: ExitStack
) -> None:
    topic = broker.topic()
    broker.transaction(topic, [b"aborted"] * 3, commit=False)
    tp = TopicPartition(topic, 0)
    got = receiver(opened, broker, [topic])
    got.until(lambda: got.reached.get(tp) == 4)
    assert got.values[tp] == []


def test_an_open_transaction_holds_the_position_back_until_it_ends(
    broker: Broker, opened: ExitStack
) -> None:
    topic = broker.topic()
    tp = TopicPartition(topic, 0)
    got = receiver(opened, broker, [topic])
    with broker.producer(transactional_id=broker.name("open")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"in it", partition=0)
        producer.flush()
        broker.produce(topic, [b"behind it"])
        got.until(lambda: bool(got.owned))
        got.for_a_while(0.7)
        assert got.values[tp] == []
        assert got.source.log_range(tp) == LogRange(0, 0)
        producer.commit_transaction()
    got.until(lambda: got.reached.get(tp) == 3)
    assert got.values[tp] == [b"in it", b"behind it"]


def test_a_start_in_the_middle_of_a_batch_begins_there(broker: Broker, opened: ExitStack) -> None:
    topic = broker.topic()
    broker.produce(topic, numbered(10), compression_type="lz4", linger_ms=200)
    got = receiver(opened, broker, [topic], begin=7)
    tp = TopicPartition(topic, 0)
    got.until(lambda: got.reached.get(tp) == 10)
    assert got.offsets[tp] == [7, 8, 9]


def test_nothing_comes_before_the_start(broker: Broker, opened: ExitStack) -> None:
    topic = broker.topic()
    broker.produce(topic, numbered(3))
    got = receiver(opened, broker, [topic], begin=None)
    tp = TopicPartition(topic, 0)
    got.until(lambda: bool(got.owned))
    got.for_a_while(0.5)
    assert [type(event) for event in got.events] == [Assigned]
    got.start(tp, 1)
    got.until(lambda: got.reached.get(tp) == 3)
    assert got.offsets[tp] == [1, 2]


@pytest.mark.parametrize("offset", [3, 500])
def test_an_offset_outside_of_the_log_asks_to_begin_again(
    broker: Broker, opened: ExitStack, offset: int
) -> None:
    topic = broker.topic()
    broker.produce(topic, numbered(20))
    broker.forget(topic, 10)
    tp = TopicPartition(topic, 0)
    got = receiver(opened, broker, [topic], begin=offset)
    got.until(lambda: bool(got.failures))
    assert got.failures[0].topic_partition == tp
    assert isinstance(got.failures[0].error, RestartPartition)
    found = got.source.log_range(tp)
    assert found == LogRange(10, 20)
    got.for_a_while(0.4)
    assert len(got.failures) == 1
    got.start(tp, found.start)
    got.until(lambda: got.reached.get(tp) == 20)
    assert got.offsets[tp] == list(range(10, 20))


def test_a_paused_partition_rests_and_goes_on_where_it_stopped(
    broker: Broker, opened: ExitStack
) -> None:
    topic = broker.topic(partitions=2)
    tp, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    broker.produce(topic, numbered(5))
    got = receiver(opened, broker, [topic])
    got.until(lambda: got.reached.get(tp) == 5)
    got.source.pause(tp)
    broker.produce(topic, numbered(5, 5))
    broker.produce(topic, numbered(3), partition=1)
    got.until(lambda: got.reached.get(other) == 3)
    got.for_a_while(0.4)
    assert got.reached[tp] == 5
    got.source.resume(tp)
    got.until(lambda: got.reached.get(tp) == 10)
    assert got.offsets[tp] == list(range(10))


def test_the_end_of_a_partition_that_is_not_fetched_is_known(
    broker: Broker, opened: ExitStack
) -> None:
    topic = broker.topic(partitions=3)
    paused, failed, waiting = (TopicPartition(topic, number) for number in range(3))
    broker.produce(topic, numbered(5))
    got = receiver(opened, broker, [topic], begin=None, end_max_age=0.4)
    got.until(lambda: len(got.owned) == 3)
    got.start(paused, 0)
    got.start(failed, 500)
    got.until(lambda: got.reached.get(paused) == 5 and bool(got.failures))
    got.source.pause(paused)
    for partition in range(3):
        broker.produce(topic, numbered(4 + partition), partition=partition)
    wanted = {paused: 9, failed: 5, waiting: 6}
    got.until(lambda: {tp: got.source.known_end(tp) for tp in wanted} == wanted)
    got.for_a_while(0.4)
    assert got.reached == {paused: 5}


def test_the_end_of_a_paused_partition_is_that_of_what_is_committed(
    broker: Broker, opened: ExitStack
) -> None:
    topic = broker.topic()
    tp = TopicPartition(topic, 0)
    got = receiver(opened, broker, [topic], begin=None, end_max_age=0.4)
    with broker.producer(transactional_id=broker.name("open")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"in it", partition=0)
        producer.flush()
        got.until(lambda: got.source.known_end(tp) == 0)
        got.for_a_while(1.0)
        assert got.source.known_end(tp) == 0
        producer.commit_transaction()
    got.until(lambda: got.source.known_end(tp) == 2)


def test_the_end_of_a_partition_that_left_is_forgotten(broker: Broker, opened: ExitStack) -> None:
    topic = broker.topic(partitions=2)
    keys = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    group = broker.name("group")
    first = receiver(opened, broker, [topic], group=group, end_max_age=0.4)
    first.until(lambda: all(first.source.known_end(tp) == 0 for tp in keys))
    second = receiver(opened, broker, [topic], group=group)
    together([first, second], lambda: len(first.owned) == 1 == len(second.owned))
    first.for_a_while(1.0)
    assert {tp for tp in keys if first.source.known_end(tp) is not None} == first.owned


def test_starting_again_and_again_never_brings_anything_of_an_earlier_start(
    broker: Broker, opened: ExitStack
) -> None:
    topic = broker.topic()
    tp = TopicPartition(topic, 0)
    broker.produce(topic, [b"x" * 2000] * 3000, batch_size=4000)
    got = receiver(opened, broker, [topic], max_partition_fetch_bytes=20_000)
    got.until(lambda: len(got.offsets[tp]) > 100)
    for begin in range(1000, 1030):
        got.start(tp, begin)
        got.until(lambda: bool(got.offsets[tp]))
        assert got.offsets[tp] == list(range(begin, begin + len(got.offsets[tp])))


def test_a_full_queue_stops_the_fetching_and_loses_nothing(
    broker: Broker, opened: ExitStack
) -> None:
    topic = broker.topic(partitions=2)
    for partition in (0, 1):
        broker.produce(topic, [b"x" * 1000] * 2000, partition=partition, batch_size=10_000)
    got = receiver(opened, broker, [topic], queue_bytes=100_000, max_partition_fetch_bytes=30_000)
    got.until(lambda: bool(got.owned))
    deadline = time.monotonic() + PATIENCE
    while not got.source._queue.full and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    held = got.source._queue._bytes
    assert 100_000 <= held < 200_000
    got.until(lambda: sum(got.reached.values()) == 4000)
    for partition in (0, 1):
        assert got.offsets[TopicPartition(topic, partition)] == list(range(2000))


@pytest.mark.parametrize("assignment", ["cooperative-sticky", "range"])
def test_a_group_of_three_settles_and_reads_everything(
    broker: Broker, opened: ExitStack, assignment: str
) -> None:
    topic = broker.topic(partitions=6)
    wanted = {TopicPartition(topic, number) for number in range(6)}
    for tp in wanted:
        broker.produce(topic, numbered(4), partition=tp.partition)
    group = broker.name("group")
    members = [
        receiver(opened, broker, [topic], group=group, assignment=assignment) for _ in range(3)
    ]

    def settled() -> bool:
        return all(len(member.owned) == 2 for member in members)

    took = together(members, settled)
    assert took < 15
    assert set().union(*(member.owned for member in members)) == wanted
    together(
        members,
        lambda: all(m.reached.get(tp) == 4 for m in members for tp in m.owned),
    )
    members[0].source.close()
    rest = members[1:]
    together(rest, lambda: sum(len(member.owned) for member in rest) == 6)


def test_a_revocation_waits_for_the_work_in_progress(broker: Broker, opened: ExitStack) -> None:
    topic = broker.topic(partitions=2)
    group = broker.name("group")
    first = receiver(opened, broker, [topic], group=group, release_wait=20.0)
    first.until(lambda: len(first.owned) == 2)
    second = receiver(opened, broker, [topic], group=group)
    together([first, second], lambda: len(first.owned) == 1)
    second.for_a_while(0.7)
    assert not second.owned
    (gone,) = {TopicPartition(topic, 0), TopicPartition(topic, 1)} - first.owned
    first.source.release([gone])
    took = together([first, second], lambda: second.owned == {gone})
    assert took < 15


def test_a_member_that_was_expelled_loses_all_and_comes_back(
    broker: Broker, opened: ExitStack
) -> None:
    topic = broker.topic(partitions=2)
    group = broker.name("group")
    got = receiver(opened, broker, [topic], group=group)
    got.until(lambda: len(got.owned) == 2)
    broker.expel(group)
    got.until(lambda: any(isinstance(event, Revoked) for event in got.events))
    got.until(lambda: len(got.owned) == 2)
    broker.produce(topic, numbered(2))
    tp = TopicPartition(topic, 0)
    got.until(lambda: got.reached.get(tp) == 2)
    assert got.offsets[tp] == [0, 1]


def test_topics_and_partitions_that_appear_are_found(broker: Broker, opened: ExitStack) -> None:
    prefix = broker.name("found")
    first = broker.topic(name=f"{prefix}-a")
    got = receiver(opened, broker, [], pattern=f"{prefix}-.*", exclude=".*-not")
    got.until(lambda: got.owned == {TopicPartition(first, 0)})
    broker.topic(name=f"{prefix}-not")
    second = broker.topic(name=f"{prefix}-b")
    with broker.admin() as admin:
        admin.create_partitions({first: 2})
    wanted = {TopicPartition(first, 0), TopicPartition(first, 1), TopicPartition(second, 0)}
    got.until(lambda: got.owned == wanted)


def test_a_join_for_new_partitions_that_fails_in_its_middle_is_made_again(
    broker: Broker, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client takes new metadata as the reason to join; it is gone when the join fails."""
    topic = broker.topic()
    got = receiver(opened, broker, [topic])
    got.until(lambda: got.owned == {TopicPartition(topic, 0)})
    manager = got.source.client.manager
    send = manager.send
    failed: list[object] = []

    def fails_once(request: Any, *node: Any, **to: Any) -> Any:
        if type(request).__name__ == "SyncGroupRequest" and not failed:
            failed.append(request)
            raise kafka_errors.KafkaConnectionError("the connection broke")
        return send(request, *node, **to)

    monkeypatch.setattr(manager, "send", fails_once)
    with broker.admin() as admin:
        admin.create_partitions({topic: 2})
    got.until(lambda: got.owned == {TopicPartition(topic, 0), TopicPartition(topic, 1)})
    assert failed


def test_an_unknown_topic_is_told_and_waited_for(
    broker: Broker, opened: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    topic = broker.name("unknown")
    with caplog.at_level(logging.WARNING, logger="secor"):
        got = receiver(opened, broker, [topic])
        got.until(lambda: "does not exist" in caplog.text)
    assert topic in caplog.text
    assert got.source.topic_id(topic) is None
    broker.topic(name=topic)
    got.until(lambda: got.owned == {TopicPartition(topic, 0)})
    assert got.source.topic_id(topic)


def test_a_topic_made_again_is_never_read_under_the_old_start(
    broker: Broker, opened: ExitStack
) -> None:
    topic = broker.topic()
    tp = TopicPartition(topic, 0)
    broker.produce(topic, [b"old"] * 3)
    got = receiver(opened, broker, [topic], begin=None)
    got.until(lambda: bool(got.owned))
    old = got.source.topic_id(topic)
    got.start(tp, 0)
    got.until(lambda: got.reached.get(tp) == 3)
    broker.delete(topic)
    deadline = time.monotonic() + PATIENCE
    while got.source.topic_id(topic) == old and time.monotonic() < deadline:
        got.step()
    broker.topic(name=topic)
    broker.produce(topic, [b"new"] * 9)
    got.until(lambda: bool(got.failures) or any(isinstance(e, Revoked) for e in got.events))
    got.for_a_while(0.5)
    assert got.values[tp] == [b"old"] * 3
    assert all(isinstance(f.error, (TopicRecreated, RestartPartition)) for f in got.failures)
    assert got.source.topic_id(topic) not in (None, old)


def test_a_broker_that_comes_back_is_read_on(
    sandbox: Sandbox, broker: Broker, opened: ExitStack
) -> None:
    topic = broker.topic()
    tp = TopicPartition(topic, 0)
    broker.produce(topic, numbered(3))
    got = receiver(opened, broker, [topic])
    got.until(lambda: got.reached.get(tp) == 3)
    sandbox.servers["kafka"].stop()
    got.for_a_while(0.5)
    sandbox.servers["kafka"].start()
    broker.produce(topic, numbered(3, 3))
    got.until(lambda: got.reached.get(tp) == 6)
    assert got.offsets[tp] == list(range(6))


def test_a_fetch_that_cannot_be_sent_loses_no_partition(
    broker: Broker, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for partition in (0, 1):
        broker.produce(topic, numbered(3), partition=partition)
    got = receiver(opened, broker, [topic], begin=None, stall_patience=3600.0)
    got.until(lambda: got.owned == {first, second})
    got.start(first, 0)
    got.until(lambda: got.reached.get(first) == 3)
    manager = got.source.client.manager
    send = manager.send
    failed: list[object] = []

    def fails_once(request: Any, *node: Any, **to: Any) -> Any:
        if type(request).__name__ == "FetchRequest" and request.topics and not failed:
            failed.append(request)
            raise kafka_errors.UnknownBrokerIdError(7)
        return send(request, *node, **to)

    monkeypatch.setattr(manager, "send", fails_once)
    got.start(second, 0)
    got.until(lambda: got.reached.get(second) == 3)
    assert failed


def test_a_partition_of_which_nothing_comes_begins_anew(broker: Broker, opened: ExitStack) -> None:
    topic = broker.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for partition in (0, 1):
        broker.produce(topic, numbered(3), partition=partition)
    stalls: list[tuple[Any, ...]] = []
    got = receiver(
        opened,
        broker,
        [topic],
        begin=None,
        stall_patience=2.0,
        end_max_age=1.0,
        stalled=lambda *stall: stalls.append(stall),
    )
    got.until(lambda: got.owned == {first, second})
    got.start(first, 0)
    got.until(lambda: got.reached.get(first) == 3)
    client = got.source.client

    def forget_the_second(handler: Any) -> None:
        """Note the partition for the session as if the broker had been told of it."""
        (known,) = [key for key in handler.session_partitions if key.partition == 0]
        request = copy.copy(handler.session_partitions[known])
        request.partition, request.fetch_offset, request.last_fetched_epoch = 1, 0, -1
        handler.session_partitions[type(known)(topic, 1)] = request
        # A partition that is not asked for leaves the session again.
        state = client.subscription.assignment[type(known)(topic, 1)]
        state.seek(0)
        state.resume()

    (handler,) = client.fetcher._session_handlers.values()
    client.spawn(partial(forget_the_second, handler), lambda _: None)
    got.start(second, 0)
    got.until(lambda: got.reached.get(second) == 3)
    ((where, offset, end, seconds, cause),) = stalls
    assert (where, offset, end) == (second, 0, 3)
    assert seconds >= 2.0
    assert "answered no error" in cause
    broker.produce(topic, numbered(3, 3), partition=0)
    got.until(lambda: got.reached.get(first) == 6)


def test_no_broker_is_told_in_time_and_leaves_no_thread() -> None:
    before = threading.active_count()
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1\b.*bootstrap_servers"):
        KafkaSource({"bootstrap_servers": ["127.0.0.1:1"]}, group="g", topics=["t"], timeout=1.0)
    assert time.monotonic() - began < 15
    assert threading.active_count() == before


def test_settings_that_the_client_does_not_know_are_refused(broker: Broker) -> None:
    with pytest.raises(ConfigurationError, match="no_such_setting"):
        KafkaSource({**broker.options, "no_such_setting": 1}, group="g", topics=["t"])


def test_an_unknown_assignment_is_refused(broker: Broker) -> None:
    with pytest.raises(ConfigurationError, match="cooperative-sticky"):
        broker.source("g", ["t"], assignment="sticky-ish")


def test_closing_leaves_the_group_at_once(broker: Broker, opened: ExitStack) -> None:
    topic = broker.topic()
    group = broker.name("group")
    first = receiver(opened, broker, [topic], group=group, session_timeout=60.0)
    first.until(lambda: bool(first.owned))
    before = threading.active_count()
    first.source.close()
    assert threading.active_count() == before - 1
    second = receiver(opened, broker, [topic], group=group)
    second.until(lambda: bool(second.owned))


def test_the_reader_gives_exactly_the_range(broker: Broker, opened: ExitStack) -> None:
    topic = broker.topic(partitions=2)
    broker.produce(topic, numbered(40), batch_size=200)
    broker.transaction(topic, [b"aborted"] * 3, commit=False)
    broker.produce(topic, numbered(10, 40))
    tp = TopicPartition(topic, 0)
    reader = KafkaReader(broker.options)
    opened.callback(reader.close)
    assert reader.partitions(topic) == [tp, TopicPartition(topic, 1)]
    assert reader.log_range(tp) == LogRange(0, 54)
    chunks = list(reader.read(tp, 13, 50))
    values = [value for chunk in chunks for value in chunk.records.column("value").to_pylist()]
    assert values == numbered(33, 13)
    assert chunks[-1].next_offset == 50
    assert list(reader.read(TopicPartition(topic, 1), 0, 0)) == []
    assert topic in reader.topics(pattern=f"{topic}.*")
    assert reader.topics(pattern=f"{topic}.*", exclude=".*") == []
    assert reader.partitions("no-such-topic") == []
    with pytest.raises(RestartPartition):
        list(reader.read(tp, 900, 901))


def test_a_new_reader_knows_the_ends_of_logs_at_once(broker: Broker, opened: ExitStack) -> None:
    topic = broker.topic(partitions=2)
    broker.produce(topic, numbered(10))
    reader = KafkaReader(broker.options)
    opened.callback(reader.close)
    partitions = [TopicPartition(topic, number) for number in range(2)]
    absent = TopicPartition("no-such-topic", 0)
    assert reader.ends([*partitions, absent]) == dict(zip(partitions, (10, 0), strict=True))


def test_the_reader_finds_the_offset_of_a_time(broker: Broker, opened: ExitStack) -> None:
    topic = broker.topic()
    tp = TopicPartition(topic, 0)
    with broker.producer() as producer:
        for number in range(3):
            producer.send(topic, b"x", partition=0, timestamp_ms=1_700_000_000_000 + number * 10)
        producer.flush()
    reader = KafkaReader(broker.options)
    opened.callback(reader.close)
    times = [1, 1_700_000_000_000, 1_700_000_000_001, 1_700_000_000_020, 1_700_000_000_021]
    assert [reader.offset_at(tp, time) for time in times] == [0, 0, 1, 2, None]


def test_events_tell_the_bytes_they_hold(broker: Broker, opened: ExitStack) -> None:
    topic = broker.topic()
    broker.produce(topic, [b"x" * 100] * 100)
    got = receiver(opened, broker, [topic])
    tp = TopicPartition(topic, 0)
    got.until(lambda: got.reached.get(tp) == 100)
    held = sum(event.size for event in got.events if isinstance(event, Fetched))
    assert 10_000 < held < 13_000
