"""The throttle of a process: reading pauses once more is read than the rate allows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from secor.consume.partition_status import Pause
from tests.fakes.ledger import LedgerServer
from tests.fakes.source import FakeBroker
from tests.unit.consume.world import KEY, Process


@pytest.fixture
def throttled(tmp_path: Path, broker: FakeBroker, server: LedgerServer) -> Iterator[Process]:
    """10 messages a second; the source gives 4 at a time, a batch is due at 10."""
    process = Process(tmp_path, broker, server, messages_per_second=10)
    process.source.assign([KEY])
    yield process
    process.workspace.close()


def read(process: Process) -> int:
    (status,) = process.consumer.status()
    return status.next_offset or 0


def test_reading_keeps_the_rate_on_average(
    throttled: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    broker.logs[KEY].produce(1000)
    throttled.run(4)
    began = read(throttled)
    throttled.run(rounds=200, seconds=0.1)
    assert read(throttled) - began == pytest.approx(200, abs=20)


def test_a_paused_partition_says_that_the_throttle_pauses_it(
    throttled: Process, broker: FakeBroker
) -> None:
    broker.logs[KEY].produce(1000)
    throttled.run(20)
    (status,) = throttled.consumer.status()
    assert status.pause is Pause.THROTTLE
    before = status.next_offset
    throttled.run(20)
    assert throttled.consumer.status()[0].next_offset == before


def test_what_is_read_is_stored_while_reading_pauses(
    throttled: Process, broker: FakeBroker, server: LedgerServer
) -> None:
    broker.logs[KEY].produce(1000)
    throttled.run(20)
    assert throttled.offsets() == list(range(12))
    assert server.entry(KEY).committed == 12


def test_without_a_rate_nothing_pauses(process: Process, broker: FakeBroker) -> None:
    broker.logs[KEY].produce(1000)
    process.run(400)
    assert read(process) == 1000
