"""The ledgers that the contract is tried on: each gives fresh entries and fresh processes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from kazoo.client import KazooClient

from secor.adapters.kafka import KafkaLedger, KafkaSource
from secor.adapters.zookeeper import ZooKeeperLedger
from secor.core.model import TopicPartition
from secor.core.ports import OffsetLedger
from tests.contracts.kafka_group import PATIENCE, Broker
from tests.fakes.ledger import FakeLedger, LedgerServer

if TYPE_CHECKING:
    from secor.sandbox import Sandbox


def eventually(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"never {what}"
        time.sleep(0.02)


class Ledgers(Protocol):
    """One group's ledger as a test sees it.

    ``exclusive``: a lease keeps another process's lease away (locks); otherwise the
    assignment does (pins).  ``key`` is a topic partition without an entry.
    """

    exclusive: bool
    key: TopicPartition

    def process(self) -> OffsetLedger:
        """Return another process's ledger."""

    def hand_over(self, process: OffsetLedger) -> None:
        """Assign ``key`` to the process: nothing where locks decide."""

    def expire(self, process: OffsetLedger) -> None:
        """End the process's session or membership; it may not know it yet."""

    def write_garbage(self, data: bytes) -> None:
        """Put bytes where the entry stands."""


class FakeLedgers:
    """The ledger in memory."""

    def __init__(self, server: LedgerServer) -> None:
        self.server = server
        self.exclusive = server.kind == "zookeeper"
        self.key = TopicPartition("clicks", 0)
        self._numbers = itertools.count()

    def process(self) -> FakeLedger:
        return self.server.client(f"process {next(self._numbers)}")

    def hand_over(self, process: OffsetLedger) -> None:
        assert isinstance(process, FakeLedger)
        if not self.exclusive:
            self.server.assign([self.key], process)

    def expire(self, process: OffsetLedger) -> None:
        assert isinstance(process, FakeLedger)
        self.server.expire(process, told=False)

    def write_garbage(self, data: bytes) -> None:
        self.server.put(self.key, data)


class ZooKeeperLedgers:
    """A real ensemble of one; ``raw`` is a client beside the ledger."""

    exclusive = True

    def __init__(self, address: str, opened: ExitStack) -> None:
        self.address = address
        self.root = f"/ledgers-{time.time_ns()}"
        self.group = "backup"
        self.key = TopicPartition("clicks", 0)
        self._opened = opened
        self.raw: Any = KazooClient(address)
        self.raw.start(timeout=PATIENCE)
        opened.callback(self.raw.close)
        opened.callback(self.raw.stop)

    def process(self, **options: Any) -> ZooKeeperLedger:
        defaults: dict[str, Any] = {"session_timeout": 8.0, "connect_timeout": PATIENCE}
        settings = {"root": self.root, "group": self.group, **defaults, **options}
        ledger = ZooKeeperLedger(self.address, **settings)
        self._opened.callback(ledger.close)
        return ledger

    def hand_over(self, process: OffsetLedger) -> None:
        """Nothing: whoever takes the lock has it."""

    def expire(self, process: OffsetLedger) -> None:
        assert isinstance(process, ZooKeeperLedger)
        end_session(self.address, process)

    def write_garbage(self, data: bytes) -> None:
        self.raw.create(self.offset_path, data, makepath=True)

    @property
    def offset_path(self) -> str:
        """Java Secor's node."""
        return f"{self.root}/consumers/{self.group}/offsets/clicks/0"

    @property
    def intent_path(self) -> str:
        return f"{self.root}/secor/{self.group}/intents/clicks/0"

    @property
    def lock_path(self) -> str:
        return f"{self.root}/secor/{self.group}/locks/clicks/0"


class KafkaLedgers:
    """A real group; a process is a member with the ledger in it."""

    exclusive = False

    def __init__(self, address: str, opened: ExitStack) -> None:
        self.broker = Broker(address)
        self.group = self.broker.name("group")
        self.key = TopicPartition(self.broker.topic(name=f"{self.group}-clicks"), 0)
        self._opened = opened
        self._members: dict[KafkaLedger, KafkaSource] = {}

    def process(self) -> KafkaLedger:
        source = self.broker.source(self.group, [self.key.topic])
        self._opened.callback(source.close)
        ledger = KafkaLedger(source, group=self.group)
        self._members[ledger] = source
        return ledger

    def hand_over(self, process: OffsetLedger) -> None:
        assert isinstance(process, KafkaLedger)
        for ledger in [other for other in self._members if other is not process]:
            self._members.pop(ledger).close()
        pins = self._members[process].membership.pins
        eventually(lambda: self.key in pins, "assigned")

    def expire(self, process: OffsetLedger) -> None:
        assert isinstance(process, KafkaLedger)
        # As if it were stopped: it does not come back and take the partition again.
        self._members.pop(process).client.coordinator.need_rejoin = bool
        self.broker.expel(self.group)

    def write_garbage(self, data: bytes) -> None:
        self.broker.commit(self.group, self.key, 7, data.decode())


def client_of(process: ZooKeeperLedger) -> Any:
    """Return the kazoo client inside."""
    return process._session._client


def end_session(address: str, process: ZooKeeperLedger) -> None:
    """End a session as its timeout would: other clients take it over and close it.

    The last of them is told that it is gone, and has got a new one.
    """
    session = client_of(process).client_id
    taken = session[0]
    while taken == session[0]:
        thief: Any = KazooClient(address, client_id=session)
        thief.start(timeout=PATIENCE)
        taken = thief.client_id[0]
        thief.stop()
        thief.close()


def cut(process: ZooKeeperLedger) -> None:
    """Drop the connection; the session lives on."""
    client_of(process)._connection._socket.shutdown(2)


@contextmanager
def fake_zookeeper(sandbox: Callable[[], Sandbox]) -> Iterator[Ledgers]:
    yield FakeLedgers(LedgerServer("zookeeper"))


@contextmanager
def fake_kafka(sandbox: Callable[[], Sandbox]) -> Iterator[Ledgers]:
    yield FakeLedgers(LedgerServer("kafka"))


@contextmanager
def real_zookeeper(sandbox: Callable[[], Sandbox]) -> Iterator[Ledgers]:
    with ExitStack() as opened:
        yield ZooKeeperLedgers(sandbox().zookeeper, opened)


@contextmanager
def real_kafka(sandbox: Callable[[], Sandbox]) -> Iterator[Ledgers]:
    with ExitStack() as opened:
        yield KafkaLedgers(sandbox().kafka, opened)


LEDGERS = {
    "fake zookeeper": fake_zookeeper,
    "fake kafka": fake_kafka,
    "zookeeper": real_zookeeper,
    "kafka": real_kafka,
}
"""By name: a context that gives ``Ledgers``; the sandbox starts when it is called for."""
