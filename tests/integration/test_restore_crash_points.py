"""Restore's protocol on a real broker: an owner that dies or sleeps at every crossing of a port.

A process that dies here leaves what a SIGKILL leaves: an open transaction, and nobody to end it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from typing import TypeVar

import psutil
import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from secor.adapters.kafka import KafkaReader
from secor.adapters.kafka.transactions import KafkaTransactions
from secor.core.clock import SystemClock
from secor.core.errors import SecorError
from secor.core.model import Chunk, TopicPartition
from secor.core.transactions import BrokerCode, IdentityAnswer, ProduceAnswer, ProducerIdentity
from secor.restore.boundaries import Boundaries
from secor.restore.model import SourcePartition
from secor.restore.offsets import offsets_topic
from secor.restore.routing import Routing
from secor.restore.writer.model import WriterLimits
from secor.restore.writer.writer import TransactionalWriter
from secor.sandbox import Sandbox
from secor.wiring.restore import LockedLog
from tests.simulation.restore_world import (
    SPEC,
    Crash,
    ListSource,
    Owner,
    Stepwise,
    act_at,
    crossings,
    raising,
)

TARGET, OFFSETS = "crash-points", offsets_topic(SPEC.job)
MESSAGES = 4
PARTITIONS = 110
"""More than there are crossings, twice: each case has a source partition of its own."""
MOST_CONNECTIONS = 8
"""Of three clients: one that administers, one that writes, one that reads."""
T = TypeVar("T")


class RealCluster:
    """A broker behind the simulation's hook."""

    def __init__(self, requests: KafkaTransactions, log: LockedLog, port: int) -> None:
        self.port = port
        self.hook: Callable[[str], None] = lambda _name: None
        self.clock = SystemClock()
        self.version = requests.version
        self._requests = requests
        self._log = log

    def _call(self, name: str, act: Callable[[], T]) -> T:
        self.hook(f"before {name}")
        answer = act()
        self.hook(f"after {name}")
        return answer

    def find_coordinator(self, transactional_id: str, *, wait: float) -> BrokerCode:
        return self._requests.find_coordinator(transactional_id, wait=wait)

    def init_producer_id(
        self, transactional_id: str, timeout: float, *, wait: float
    ) -> IdentityAnswer:
        return self._call(
            "init_producer_id",
            lambda: self._requests.init_producer_id(transactional_id, timeout, wait=wait),
        )

    def add_partitions(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        wait: float,
    ) -> BrokerCode:
        return self._call(
            "add_partitions",
            lambda: self._requests.add_partitions(
                transactional_id, identity, partitions, wait=wait
            ),
        )

    def produce(
        self, transactional_id: str, topic_partition: TopicPartition, batch: bytes, *, wait: float
    ) -> Callable[[], ProduceAnswer]:
        """Wait for the answer at once: what is crossed next has it."""

        def send_and_wait() -> ProduceAnswer:
            answer = self._requests.produce(transactional_id, topic_partition, batch, wait=wait)
            return answer()

        answer = self._call("produce", send_and_wait)
        return lambda: answer

    def end_transaction(
        self, transactional_id: str, identity: ProducerIdentity, *, commit: bool, wait: float
    ) -> IdentityAnswer:
        return self._call(
            "commit" if commit else "abort",
            lambda: self._requests.end_transaction(
                transactional_id, identity, commit=commit, wait=wait
            ),
        )

    def open_transactions(
        self, topic_partitions: Collection[TopicPartition], *, wait: float
    ) -> Mapping[TopicPartition, Mapping[int, int]]:
        return self._call(
            "open_transactions",
            lambda: self._requests.open_transactions(topic_partitions, wait=wait),
        )

    def refresh(self, topic: str) -> None:
        self._requests.refresh(topic)

    def partitions(self, topic: str) -> list[TopicPartition]:
        return self._log.partitions(topic)

    def end(self, topic_partition: TopicPartition, *, committed: bool) -> int:
        return self._call("log_end", lambda: self._log.end(topic_partition, committed=committed))

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        yield from self._call("read", lambda: list(self._log.read(topic_partition, start, end)))


@dataclass
class RealWorld:
    """One source partition, its target and its partition of the offsets topic."""

    cluster: RealCluster
    number: int
    source: ListSource = field(default_factory=lambda: ListSource(MESSAGES))
    boundaries: Boundaries = field(default_factory=lambda: Boundaries("poll"))
    running: bool = True

    @property
    def source_partition(self) -> SourcePartition:
        return SourcePartition("archive", "clicks", self.number)

    @property
    def offsets(self) -> TopicPartition:
        return TopicPartition(OFFSETS, self.number)

    def routing(self) -> Routing:
        return Routing(TARGET, {TARGET: PARTITIONS})

    def make_writer(self, transactional_id: str) -> TransactionalWriter:
        return TransactionalWriter(
            self.cluster,
            transactional_id,
            clock=self.cluster.clock,
            rng=random.Random(1),
            limits=WriterLimits(),
        )

    def check(self) -> None:
        """Every message is there once, in order, and no transaction is open."""
        self.cluster.hook = lambda _name: None
        target = TopicPartition(TARGET, self.number)
        # A commit answers before its markers are written: read-committed would stop short of it.
        end = self.cluster.end(target, committed=False)
        values = [
            value
            for chunk in self.cluster.read(target, 0, end)
            for value in chunk.records.column("value").to_pylist()
        ]
        assert values == [b"%d" % number for number in range(MESSAGES)], self.number


@pytest.fixture
def cluster(sandbox: Sandbox) -> Iterator[RealCluster]:
    options = {"bootstrap_servers": [sandbox.kafka]}
    with ExitStack() as opened:
        admin = opened.enter_context(closing(KafkaAdminClient(**options)))
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (TARGET, OFFSETS)])
        requests = opened.enter_context(closing(KafkaTransactions(options)))
        reader = opened.enter_context(closing(KafkaReader(options)))
        yield RealCluster(requests, LockedLog(reader), int(sandbox.kafka.rpartition(":")[2]))


def connections(port: int) -> list[int]:
    """Return the descriptors of this process's connections to a port."""
    known = psutil.Process().net_connections("tcp")
    return [it.fd for it in known if it.raddr and it.raddr.port == port]


def test_an_owner_that_dies_or_sleeps_at_any_point_leaves_every_message_once(
    cluster: RealCluster,
) -> None:
    world = RealWorld(cluster, 0)
    total = crossings(world)
    world.check()
    # Some are crossed again while the broker is busy.
    assert 12 <= total <= PARTITIONS // 2 - 1
    for number in range(1, total + 1):
        dies(RealWorld(cluster, number), number)
        sleeps(RealWorld(cluster, PARTITIONS // 2 + number), number)
    assert len(connections(cluster.port)) <= MOST_CONNECTIONS, "of all transactional ids together"


def dies(world: RealWorld, number: int) -> None:
    world.cluster.hook = act_at(number, raising(Crash()))
    with suppress(Crash):
        # Transactions that are being completed are asked for again: a run may be shorter.
        Owner(world, "killed").run()
    world.cluster.hook = lambda _name: None
    Owner(world, "successor").run()
    world.check()


def sleeps(world: RealWorld, number: int) -> None:
    errors: list[SecorError] = []
    sleeper = Owner(world, "sleeper")
    steps = Stepwise(world, [sleeper, Owner(world, "successor")], errors)
    for _ in range(number):
        steps.step("sleeper")
    while steps.step("successor"):
        pass
    sleeper.owned = False
    while steps.step("sleeper"):
        pass
    assert not errors
    world.check()
