"""The loop, when something under it fails: what is kept, what is read again, what waits."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from secor.batch.policy import Policy
from secor.commit.uploader import ATTEMPTS
from secor.consume.backpressure import BufferLimits
from secor.consume.partition_status import ReadingState, Status
from secor.core.errors import (
    CorruptBatch,
    DescriptorsExhausted,
    DiskFull,
    PluginFailed,
    RecordRefused,
    RestartPartition,
    Unavailable,
)
from secor.core.model import Intent, TopicPartition
from secor.core.ports import Fetched, Sink
from secor.parsing.offset_layout import OffsetBuckets
from tests.fakes.format import PlainFormat, PlainWriter
from tests.fakes.ledger import LedgerServer
from tests.fakes.source import FakeBroker
from tests.unit.consume.world import KEY, MIB, Process

LAST = TopicPartition(KEY.topic, 5)


class Refusing(PlainFormat):
    """Raises for messages at and above an offset."""

    def __init__(self, error: Exception, refused: int) -> None:
        super().__init__()
        self.error: Exception | None = error
        self.refused = refused

    def create(self, sink: Sink, seed: bytes) -> PlainWriter:
        return _RefusingWriter(sink, self)


class _RefusingWriter(PlainWriter):
    def __init__(self, sink: Sink, log_format: Refusing) -> None:
        super().__init__(sink)
        self._format = log_format

    def append(self, records: pa.RecordBatch) -> None:
        offsets = records.column("offset").to_pylist()
        if self._format.error is not None and offsets[-1] >= self._format.refused:
            raise self._format.error
        super().append(records)


@pytest.mark.parametrize(
    "error",
    [
        DiskFull("no room"),
        DescriptorsExhausted("too many open files"),
        RecordRefused("not in this format"),
        Unavailable("the schema registry does not answer"),
    ],
)
def test_what_an_append_left_half_done_is_never_stored(
    process: Process, broker: FakeBroker, server: LedgerServer, error: Exception
) -> None:
    """The chunk of offsets 4 to 7 goes into two files; the second refuses its part."""
    log_format = Refusing(error, 6)
    process.plan = replace(process.plan, log_format=log_format, parser=OffsetBuckets(2))
    broker.logs[KEY].produce(20)
    process.run()
    assert process.offsets() == []
    assert server.entry(KEY).committed == 0
    assert list(process.workspace.directory.glob("0*")) == []
    log_format.error = None
    process.run(seconds=5.0)
    assert sorted(process.offsets()) == list(range(12))
    assert server.entry(KEY).committed == 12


class RefusingAtLast(PlainFormat):
    """Refuses a message when its file is closed: until then it waited with others."""

    def create(self, sink: Sink, seed: bytes) -> PlainWriter:
        class Writer(PlainWriter):
            def close(self) -> None:
                raise RecordRefused("not in this format")

        return Writer(sink)


def test_a_message_that_is_refused_when_its_batch_is_sealed_stops_the_partition(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    process.plan = replace(process.plan, log_format=RefusingAtLast(), policy=Policy(max_messages=5))
    broker.logs[KEY].produce(5)
    process.run()
    (status,) = process.consumer.status()
    assert status.state is ReadingState.STOPPED
    assert (process.offsets(), server.entry(KEY).committed) == ([], 0)
    assert list(process.workspace.directory.glob("0*")) == []


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (DiskFull("no room"), 10.0),
        (DescriptorsExhausted("too many open files"), 10.0),
        (Unavailable("the schema registry does not answer"), 5.0),
        (RestartPartition("not as it was"), 1.0),
        (CorruptBatch("a person has to look"), 60.0),
    ],
)
def test_each_failure_has_its_time_to_wait(
    process: Process, broker: FakeBroker, error: Exception, seconds: float
) -> None:
    process.plan = replace(process.plan, log_format=Refusing(error, 0))
    broker.logs[KEY].produce(5)
    process.run()
    (status,) = process.consumer.status()
    assert status.again_at == process.clock.monotonic() + seconds
    process.clock.advance(seconds - 0.1)
    process.run()
    assert process.consumer.status() == [status]
    process.clock.advance(0.1)
    process.run(2)
    assert process.consumer.status()[0].again_at != status.again_at


def test_a_batch_that_comes_later_is_not_read_again(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    failures = [Unavailable("the store is away")] * ATTEMPTS

    def fail(call: str, key: str) -> None:
        if call == "put" and failures:
            raise failures.pop()

    process.store.before = fail
    broker.logs[KEY].produce(12)
    starts: list[int] = []
    start = process.source.start

    def remember(topic_partition: object, offset: int) -> None:
        starts.append(offset)
        start(KEY, offset)

    process.source.start = remember  # type: ignore[method-assign]
    process.run(seconds=1.0)
    assert starts == [0]
    assert process.offsets() == list(range(12))


def test_a_batch_that_follows_an_intent_is_not_cut_at_the_end(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    server.put(KEY, b"0", Intent(0, 31, process.plan.fingerprint, "other", 1.0, "root"))
    broker.logs[KEY].produce(30)
    process.run()
    calls: list[str] = []
    process.ledger.before = lambda call, key: calls.append(call)
    process.consumer.drain()
    process.run()
    assert process.consumer.drained
    assert calls == []


def test_pressure_does_not_cut_a_batch_that_follows_an_intent(
    tmp_path: Path, broker: FakeBroker, server: LedgerServer
) -> None:
    server.put(KEY, b"0", Intent(0, 30, "old", "other", 1.0, "root/clicks"))
    process = Process(tmp_path, broker, server, BufferLimits(100, 100))
    process.source.assign([KEY])
    broker.logs[KEY].produce(30)
    process.run(60, 2.0)  # it supersedes, so the commit waits
    assert [entry.committed for _, entry in server.history] == [0, 0, 30]
    process.workspace.close()


def statuses(process: Process) -> dict[TopicPartition, Status]:
    return {status.topic_partition: status for status in process.consumer.status()}


def test_a_flood_that_fills_the_limits_does_not_keep_others_from_being_read(
    tmp_path: Path, broker: FakeBroker, server: LedgerServer
) -> None:
    _, trickle = broker.create("clicks", 2)
    process = Process(tmp_path, broker, server, BufferLimits(MIB, 600))
    process.source.assign([KEY, trickle])
    broker.logs[KEY].produce(200)
    process.run(3)
    process.executor.held = True  # nothing is uploaded any more
    process.run(20)
    assert statuses(process)[KEY].pause is not None
    broker.logs[trickle].produce(1)
    process.run(5)
    assert statuses(process)[trickle].next_offset == 1
    broker.logs[trickle].produce(50)
    process.run(20)
    assert statuses(process)[trickle].next_offset in range(1, 10)  # bounded, too
    process.executor.held = False
    while process.executor.waiting:
        process.executor.step()
    process.run(200)
    process.consumer.drain()
    process.run(20)
    assert sorted(process.offsets()) == sorted([*range(200), *range(51)])
    process.workspace.close()


@pytest.fixture
def slow(process: Process, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> Process:
    """Has six partitions, and needs a second for each piece of them."""
    first, *others = broker.create(KEY.topic, 6)
    assert first == KEY
    process.source.assign(others)
    process.plan = replace(process.plan, policy=Policy(max_age=3.0))
    process.run(5)
    monkeypatch.setattr(process.observer, "consumed", lambda *_: process.clock.advance(1.0))
    for key in (KEY, *others):
        broker.logs[key].produce(20)
    return process


def test_a_round_ends_in_time_though_more_has_arrived(slow: Process) -> None:
    """Else what others have finished, and what is due, waits for all that a flood brings."""
    read = []
    for _ in range(4):
        slow.consumer.run_once(0.0)
        read.append([status.next_offset for status in slow.consumer.status()])
    assert read == [[4] * (at + 1) + [0] * (5 - at) for at in range(4)]


def test_what_arrived_before_a_partition_began_again_is_not_read_after_it(
    slow: Process, server: LedgerServer
) -> None:
    """Its open batch is due, and dropped, while messages of it wait to be read."""
    server.put(LAST, b"6")  # by somebody else
    slow.run(60, seconds=0.1)
    stored = sorted(key for key in slow.store.objects if "/1_5_" in key)
    lines = [json.loads(line)[0] for key in stored for line in slow.store.content(key).splitlines()]
    assert lines == list(range(6, 20))


def test_a_partition_that_comes_back_waits_for_its_upload_in_work(
    process: Process, broker: FakeBroker
) -> None:
    broker.logs[KEY].produce(12)
    process.run(3)
    process.executor.held = True
    process.run(5)
    process.source.revoke([KEY])
    process.run(2)
    process.source.assign([KEY])
    process.run(5)
    assert len(process.executor.waiting) == 1
    assert process.state() is ReadingState.WAITING
    process.executor.held = False
    process.executor.step()
    process.run()
    assert process.offsets() == list(range(12))


def test_a_drain_uploads_what_is_open_only_where_that_is_set(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    process.plan = replace(process.plan, upload_on_shutdown=False)
    broker.logs[KEY].produce(5)
    process.run()
    process.consumer.drain()
    process.run()
    assert process.consumer.drained
    assert process.offsets() == []
    assert list(process.workspace.directory.glob("0*")) == []


@pytest.mark.parametrize("wanted", [True, False])
def test_a_revocation_uploads_what_is_open_only_where_that_is_set(
    process: Process, broker: FakeBroker, server: LedgerServer, wanted: bool
) -> None:
    process.plan = replace(process.plan, upload_on_revoke=wanted)
    broker.logs[KEY].produce(5)
    process.run()
    process.source.revoke([KEY])
    process.run()
    assert process.offsets() == (list(range(5)) if wanted else [])
    assert process.source.given_back == [KEY]


def test_a_position_out_of_range_stores_what_was_read_and_begins_anew(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    broker.logs[KEY].produce(5)
    process.run()
    broker.logs[KEY].produce(20)
    broker.logs[KEY].retain(12)
    process.run(seconds=1.0)
    assert process.offsets() == [*range(5), *range(12, 24)]
    assert server.entry(KEY).committed == 24


def test_lost_offsets_beyond_an_open_intent_are_committed_too(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    process.plan = replace(process.plan, policy=Policy(max_age=10.0))
    broker.logs[KEY].produce(8)
    broker.logs[KEY].retain(8)
    server.put(KEY, b"0", Intent(0, 3, process.plan.fingerprint, "other", 1.0, "root/clicks"))
    process.run(seconds=1.0)
    assert server.entry(KEY).committed == 8


def test_a_restart_drops_what_was_read(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    broker.logs[KEY].produce(5)
    process.run()
    server.put(KEY, b"2", topic_id=broker.topic_ids["clicks"])
    broker.logs[KEY].produce(10)
    process.run(seconds=1.0)
    assert process.offsets() == list(range(2, 14))
    assert server.entry(KEY).committed == 14


def test_one_fetch_of_costly_chunks_is_read_over_several_rounds(
    process: Process, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between them the loop tells that it is alive, and the other partitions have their turn."""
    _, other = broker.create(KEY.topic, 2)
    process.source.assign([other])
    process.run(5)
    for key in (KEY, other):
        broker.logs[key].produce(4)
    events = []
    for key in (KEY, other):
        chunks = [broker.logs[key].read(offset, 1) for offset in range(4)]
        events.append(Fetched(key, 1, partial(iter, chunks)))
        process.source.positions[key] = 4
    monkeypatch.setattr(process.source, "poll", lambda _: events)
    monkeypatch.setattr(process.observer, "consumed", lambda *_: process.clock.advance(1.0))
    read = []
    for _ in range(4):
        process.consumer.run_once(0.0)
        read.append([status.next_offset for status in process.consumer.status()])
    assert read == [[1, 0], [1, 1], [2, 1], [2, 2]]


class _FailingAtTheEnd(PlainFormat):
    def create(self, sink: Sink, seed: bytes) -> PlainWriter:
        return _FailingWriter(sink)


class _FailingWriter(PlainWriter):
    def close(self) -> None:
        raise PluginFailed("format csv: KeyError: 'x'")


def test_a_plug_in_that_fails_when_its_file_is_closed_stops_the_partition_alone(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    right = process.plan
    process.plan = replace(right, log_format=_FailingAtTheEnd())
    broker.logs[KEY].produce(20)
    process.run()
    (status,) = process.consumer.status()
    assert status.state is ReadingState.STOPPED
    assert process.offsets() == []
    assert server.entry(KEY).committed == 0
    assert list(process.workspace.directory.glob("0*")) == []
    process.plan = right
    process.run(seconds=120.0)
    assert sorted(process.offsets()) == list(range(12))
