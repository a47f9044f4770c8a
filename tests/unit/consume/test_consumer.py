"""The loop, on ports in memory: one process, step by step."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from secor.batch.batch import OPEN_FILE
from secor.batch.policy import Policy
from secor.consume import consumer, partition
from secor.consume.backpressure import BufferLimits
from secor.consume.partition_status import Pause, ReadingState, is_at_rest
from secor.core.errors import CorruptBatch, OutcomeUnknown
from secor.core.model import Entry, Intent, TopicPartition, Withheld
from secor.core.ports import Event, Fetched, Sink
from secor.parsing.offset_layout import OffsetBuckets
from tests.fakes.format import PlainFormat, PlainWriter
from tests.fakes.ledger import LedgerServer
from tests.fakes.source import FakeBroker
from tests.unit.consume.world import KEY, MIB, Process


def test_every_message_is_stored_once_and_the_rest_waits(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    broker.logs[KEY].produce(25)
    process.run()
    assert process.offsets() == list(range(24))
    assert server.entry(KEY) == Entry(24, None, broker.topic_ids["clicks"])
    assert not server.rights


def test_the_commit_passes_gaps_and_trailing_markers(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    log = broker.logs[KEY]
    log.produce(12)
    log.compact([0, 3, 4, 5, 6, 7, 8])
    log.produce(6)
    log.mark()
    process.run()
    process.consumer.drain()
    process.run()
    assert process.consumer.drained
    assert process.offsets() == log.offsets
    assert server.entry(KEY).committed == log.end == 19


def test_an_open_intent_is_finished_exactly_where_it_ends(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    broker.logs[KEY].produce(30)
    other = Intent(0, 7, process.plan.fingerprint, "process 0", 1.0, process.plan.root)
    server.put(KEY, b"0", other)
    process.run()
    assert server.history[1][1].committed == 7
    assert process.offsets() == list(range(server.entry(KEY).committed or 0))


def test_an_intent_beyond_the_log_waits(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    broker.logs[KEY].produce(30)
    other = Intent(0, 31, process.plan.fingerprint, "process 0", 1.0, process.plan.root)
    server.put(KEY, b"0", other)
    process.run()
    process.consumer.drain()
    process.run()
    assert process.offsets() == []
    assert server.entry(KEY) == Entry(0, other)


def test_a_revoked_partition_is_given_back_when_its_upload_has_ended(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    broker.logs[KEY].produce(12)
    process.run(3)
    process.executor.held = True
    process.run(5)
    assert len(process.executor.waiting) == 1
    process.source.revoke([KEY])
    process.run(5)
    assert process.source.given_back == []
    process.executor.step()
    process.run(5)
    assert process.source.given_back == [KEY]
    assert process.consumer.status() == []
    assert list(process.workspace.directory.rglob("*.plain")) == []


def test_a_partition_that_comes_back_begins_at_the_ledger(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    broker.logs[KEY].produce(15)
    process.run()
    process.source.revoke([KEY])
    process.run()
    broker.logs[KEY].produce(15)
    process.source.assign([KEY])
    process.run()
    committed = server.entry(KEY).committed
    assert committed is not None
    assert committed > 15
    assert process.offsets() == list(range(committed))


def test_a_batch_that_cannot_be_decoded_stops_the_partition_after_what_came_before(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    broker.logs[KEY].produce(20)
    broker.logs[KEY].poisoned.add(14)
    process.run()
    (status,) = process.consumer.status()
    assert status.state is ReadingState.STOPPED
    assert isinstance(status.error, CorruptBatch)
    assert process.offsets() == list(range(14))
    assert server.entry(KEY).committed == 14
    broker.logs[KEY].poisoned.clear()
    broker.logs[KEY].produce(20)
    process.run(seconds=5.0)
    assert process.offsets() == list(range(server.entry(KEY).committed or 0))
    assert process.state() is ReadingState.READING


def test_a_partition_rests_while_its_next_batch_is_full_too(
    process: Process, broker: FakeBroker
) -> None:
    process.run(3)
    process.executor.held = True
    broker.logs[KEY].produce(200)
    process.run()
    assert KEY in process.source.paused
    read = process.source.positions[KEY]
    assert read < 40
    (status,) = process.consumer.status()
    assert status.pause is Pause.UPLOAD
    assert status.sealed is not None
    assert status.sealed.start == 0
    assert (status.sealed_batches, status.in_work, status.batch_files) == (1, True, 1)
    assert status.batch_messages == read - status.sealed.end
    process.executor.held = False
    process.executor.step()
    process.run(60)
    assert process.offsets()[-1] > read


def test_a_commit_whose_answer_is_lost_is_not_done_again(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    lost: list[str] = []

    def lose(call: str, key: TopicPartition) -> None:
        if call == "commit" and server.entry(KEY).committed and not lost:
            lost.append(call)
            raise OutcomeUnknown("the answer was lost")

    process.ledger.after = lose
    broker.logs[KEY].produce(12)
    process.run(seconds=5.0)
    assert lost
    assert [entry.committed for _, entry in server.history] == [0, 0, 12]
    assert process.offsets() == list(range(12))
    assert len(process.store.audit) == 1


def test_a_session_that_ends_between_intent_and_commit_loses_and_repeats_nothing(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    ended: list[str] = []

    def end(call: str, key: str) -> None:
        if call == "put" and not ended:
            ended.append(key)
            server.expire(process.ledger, told=False)

    process.store.after = end
    broker.logs[KEY].produce(12)
    process.run(seconds=5.0)
    assert ended
    assert server.entry(KEY).committed == 12
    assert process.offsets() == list(range(12))
    assert len(process.store.audit) == 1


def test_the_delay_is_counted_from_the_timestamp_of_the_first_message_of_each_batch(
    process: Process, broker: FakeBroker
) -> None:
    process.clock.wall = 100.0
    broker.logs[KEY].produce(25)
    process.run()
    assert process.observer.delays == [100.0, 88.0]


def test_a_full_batch_waits_for_the_upload_before_it_and_keeps_no_other_topic_waiting(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    process.plan = replace(process.plan, parser=OffsetBuckets(1), policy=Policy(max_files=2))
    neighbour = broker.create("views", 2)[1]
    process.source.assign([neighbour])
    process.run()
    process.executor.held = True
    broker.logs[KEY].produce(11)
    process.run()
    assert process.consumer.status()[0].pause is Pause.UPLOAD
    assert len(process.executor.waiting) == 1
    process.source.resume(KEY)  # as if this had been on its way when reading paused
    process.run()
    broker.logs[neighbour].produce(3)
    process.run()
    assert len(process.executor.waiting) == 2, "the neighbour's upload, too"
    process.executor.held = False
    for _ in range(2):
        process.executor.step()
    process.run()
    process.consumer.drain()
    process.run()
    assert sorted(process.offsets()) == sorted([*range(11), *range(3)])
    commits = [entry.committed for key, entry in server.history if key == KEY]
    assert sorted({at for at in commits if at is not None}) == [0, 2, 4, 6, 8, 10, 11]


def test_what_waits_behind_a_full_batch_is_forgotten_when_reading_begins_again(
    process: Process, broker: FakeBroker
) -> None:
    process.plan = replace(process.plan, parser=OffsetBuckets(1), policy=Policy(max_files=2))
    process.run()
    process.executor.held = True
    broker.logs[KEY].produce(11)
    process.run()
    process.source.revoke([KEY])
    process.run()
    process.source.assign([KEY])
    process.executor.held = False
    process.executor.step()
    process.run(seconds=1.0)
    process.consumer.drain()
    process.run()
    assert sorted(process.offsets()) == list(range(11))


def test_what_waits_behind_a_full_batch_counts_in_the_memory_until_it_is_read(
    process: Process, broker: FakeBroker
) -> None:
    process.plan = replace(process.plan, parser=OffsetBuckets(1), policy=Policy(max_files=3))
    process.run()
    process.executor.held = True
    broker.logs[KEY].say(*[bytes(5000)] * 11)
    process.run()
    assert process.consumer.status()[0].pause is Pause.UPLOAD
    status = process.consumer.status()[0]
    waiting = status.buffered - status.batch_size - OPEN_FILE * status.batch_files
    assert waiting >= 4 * 5000, "messages that were fetched at once share their columns"
    process.executor.held = False
    while process.executor.waiting:
        process.executor.step()
    process.run()
    process.consumer.drain()
    process.run()
    assert sorted(process.offsets()) == list(range(11))
    assert not any(status.buffered for status in process.consumer.status())


def test_what_waits_behind_a_full_batch_pauses_a_neighbour_that_holds_much(
    tmp_path: Path, broker: FakeBroker, server: LedgerServer
) -> None:
    process = Process(tmp_path, broker, server, BufferLimits(64 * 1024, MIB))
    process.plan = replace(process.plan, parser=OffsetBuckets(1), policy=Policy(max_files=3))
    neighbour = broker.create("views", 2)[1]
    process.source.assign([KEY, neighbour])
    process.run()
    process.executor.held = True
    broker.logs[KEY].say(*[bytes(5000)] * 11)
    process.run()
    for _ in range(2):  # the first one is sealed early, to make room
        broker.logs[neighbour].say(bytes(3000))
        process.run()
    assert [status.pause for status in process.consumer.status()] == [Pause.UPLOAD, Pause.LIMITS]
    process.executor.held = False
    while process.executor.waiting:
        process.executor.step()
    process.run()
    assert [status.pause for status in process.consumer.status()] == [None, None]


def test_a_partition_at_rest_is_reported_anew_only_when_something_has_changed(
    process: Process, broker: FakeBroker
) -> None:
    broker.logs[KEY].produce(10)
    process.run()
    (status,) = process.consumer.status()
    assert (status.committed, status.next_offset, status.known_end) == (10, 10, 10)
    process.run()
    assert process.consumer.status()[0] is status
    process.source.open[KEY] = Withheld(500, 1.0)
    (status,) = process.consumer.status()
    assert (status.known_end, status.withheld) == (10, Withheld(500, 1.0))
    assert process.consumer.status()[0] is status
    broker.logs[KEY].produce(10)
    process.run()
    (status,) = process.consumer.status()
    assert (status.committed, status.next_offset, status.known_end) == (20, 20, 20)
    broker.logs[KEY].produce(3)
    process.run()
    (status,) = process.consumer.status()
    assert (status.committed, status.next_offset, status.batch_messages) == (20, 23, 3)


def test_nothing_of_a_fetch_is_in_memory_when_a_large_message_is_written(
    process: Process, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "LARGE", 1)
    poll = process.source.poll
    fetches: list[weakref.ref[object]] = []

    def remember(timeout: float) -> Sequence[Event]:
        events = poll(timeout)
        fetches.extend(weakref.ref(it.chunks) for it in events if isinstance(it, Fetched))
        return events

    fetches_alive: list[int] = []

    class Looking(PlainFormat):
        def create(self, sink: Sink, seed: bytes) -> PlainWriter:
            fetches_alive.append(sum(fetch() is not None for fetch in fetches))
            return super().create(sink, seed)

    monkeypatch.setattr(process.source, "poll", remember)
    process.plan = replace(process.plan, log_format=Looking())
    broker.logs[KEY].produce(12)
    process.run()
    assert process.offsets() == list(range(12))
    assert fetches
    assert set(fetches_alive) == {0}


def test_partitions_at_rest_are_looked_at_only_when_something_has_come(
    process: Process, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def look(of: partition.Partition) -> bool:
        nonlocal looks
        looks += 1
        return is_at_rest(of)

    monkeypatch.setattr(consumer, "is_at_rest", look)
    broker.logs[KEY].produce(10)
    process.run()
    looks = 0
    process.run()
    assert looks == 0
    # What is open waits for time, or for more.
    broker.logs[KEY].produce(5)
    process.run()
    assert looks > 40
    broker.logs[KEY].produce(5)
    process.run()
    assert process.offsets() == list(range(20))
    looks = 0
    process.run()
    assert looks == 0
    process.source.revoke([KEY])
    process.run(2)
    assert process.source.given_back == [KEY]
    process.consumer.drain()
    process.run()
    assert process.consumer.drained
