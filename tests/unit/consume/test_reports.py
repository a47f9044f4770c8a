"""What is reported of a partition that begins again, or comes back, before it is positioned."""

from __future__ import annotations

from dataclasses import replace

from secor.consume.partition_status import ReadingState, Status
from secor.core.errors import RecordRefused, TopicRecreated
from secor.core.ports import CLOCKS_DIFFER
from tests.fakes.ledger import LedgerServer
from tests.fakes.source import FakeBroker
from tests.unit.consume.test_consumer_failures import Refusing
from tests.unit.consume.world import KEY, Process


def reported(process: Process) -> Status:
    (status,) = process.consumer.status()
    return status


def upload_in_work(process: Process, broker: FakeBroker) -> None:
    """Have a thread upload the first batch, which is not committed yet."""
    broker.logs[KEY].produce(12)
    process.run(3)
    process.executor.held = True
    process.run(5)
    assert reported(process).committed == 0
    assert reported(process).in_work


def test_one_that_comes_back_during_its_upload_is_reported_with_what_that_commits(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    upload_in_work(process, broker)
    process.source.revoke([KEY])
    process.source.assign([KEY])
    process.run(5)
    assert (reported(process).state, reported(process).committed) == (ReadingState.WAITING, None)
    process.executor.step()
    process.run(2)
    assert reported(process).state is ReadingState.POSITIONING
    assert reported(process).committed == server.entry(KEY).committed == 12
    assert reported(process).committed_at == process.clock.monotonic()


def test_one_that_begins_again_during_its_upload_is_reported_with_what_that_commits(
    process: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    upload_in_work(process, broker)
    broker.logs[KEY].produce(12)
    broker.logs[KEY].retain(20)
    process.run(5)
    assert (reported(process).state, reported(process).committed) == (ReadingState.WAITING, 0)
    process.executor.step()
    process.run(1)
    assert reported(process).committed == server.entry(KEY).committed == 12


def test_messages_whose_time_is_yet_to_come_are_reported(
    process: Process, broker: FakeBroker
) -> None:
    broker.logs[KEY].produce(12)
    timestamp_of_third = 3_000
    process.clock.wall = timestamp_of_third / 1000 - CLOCKS_DIFFER
    process.run(8)
    # A minute ahead is a clock that is fast: the messages before the fifth may be of one.
    assert sum(messages for messages, _ in process.observer.future) == 8
    assert max(timestamp for _, timestamp in process.observer.future) == 11_000


def test_one_that_is_stopped_is_reported_as_since_when_it_first_was(
    process: Process, broker: FakeBroker
) -> None:
    refusing = Refusing(RecordRefused("not in this format"), 14)
    process.plan = replace(process.plan, log_format=refusing)
    broker.logs[KEY].produce(20)
    process.run()
    first = reported(process)
    assert (first.state, first.committed) == (ReadingState.STOPPED, 12)
    assert first.stopped_at == process.clock.monotonic()
    broker.topic_ids[KEY.topic] = "another"
    process.run(1, seconds=61.0)
    process.run(5)
    again = reported(process)
    assert isinstance(again.error, TopicRecreated)
    assert (again.committed, again.stopped_at) == (12, first.stopped_at)
    assert (again.committed_at, again.last_timestamp) == (first.committed_at, first.last_timestamp)


def test_one_that_is_read_again_is_stopped_no_longer(process: Process, broker: FakeBroker) -> None:
    refusing = Refusing(RecordRefused("not in this format"), 14)
    process.plan = replace(process.plan, log_format=refusing)
    broker.logs[KEY].produce(20)
    process.run()
    refusing.error = None
    process.run(1, seconds=61.0)
    process.run(5)
    assert (reported(process).state, reported(process).stopped_at) == (ReadingState.READING, None)
