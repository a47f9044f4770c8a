"""A broker, a ledger and a process of the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.ledger import LedgerServer
from tests.fakes.source import FakeBroker
from tests.unit.consume.world import KEY, Process


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create("clicks")
    return broker


@pytest.fixture
def server() -> LedgerServer:
    return LedgerServer("zookeeper")


@pytest.fixture
def process(tmp_path: Path, broker: FakeBroker, server: LedgerServer) -> Iterator[Process]:
    process = Process(tmp_path, broker, server)
    process.source.assign([KEY])
    yield process
    process.workspace.close()
