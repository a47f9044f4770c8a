"""One process on ports in memory."""

from __future__ import annotations

import json
import random
from pathlib import Path

from secor.batch.plan import Plans, TopicPlan
from secor.batch.policy import Policy
from secor.batch.workspace import Workspace
from secor.commit.uploader import Uploader
from secor.consume.backpressure import BufferLimits
from secor.consume.consumer import Consumer
from secor.consume.partition_status import ReadingState
from secor.consume.positioning import PositionFinder
from secor.core.model import TopicPartition
from secor.core.pace import Pace
from secor.parsing.offset_layout import OffsetBuckets
from tests.fakes.clock import FakeClock
from tests.fakes.executor import InlineExecutor
from tests.fakes.format import PlainFormat
from tests.fakes.ledger import FakeLedger, LedgerServer
from tests.fakes.observer import SilentObserver
from tests.fakes.source import FakeBroker, FakeSource
from tests.fakes.store import FakeStore

KEY = TopicPartition("clicks", 0)
MIB = 1 << 20
AMPLE = BufferLimits(MIB, MIB)


class DelayObserver(SilentObserver):
    """Remembers how late what was committed became readable, and what is from the future."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.future: list[tuple[int, int]] = []

    def from_future(self, topic_partition: TopicPartition, messages: int, timestamp: int) -> None:
        """Remember."""
        self.future.append((messages, timestamp))

    def ready(self, topic_partition: TopicPartition, seconds: float) -> None:
        """Remember."""
        self.delays.append(seconds)


class Process:
    """One consumer with everything under it; batches are due at ten messages."""

    def __init__(
        self,
        directory: Path,
        broker: FakeBroker,
        server: LedgerServer,
        limits: BufferLimits = AMPLE,
        messages_per_second: float | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.source: FakeSource = broker.source(most=4)
        self.ledger: FakeLedger = server.client("process 1")
        self.store = FakeStore()
        self.executor = InlineExecutor()
        self.workspace = Workspace(directory, "process-1")
        self.plan = TopicPlan(
            "backup", "root/clicks", 1, OffsetBuckets(1000), PlainFormat(), Policy(max_messages=10)
        )
        self.plans: Plans = lambda *_: self.plan
        self.observer = DelayObserver()
        self._limits = limits
        self._pace = Pace(self.clock, messages_per_second=messages_per_second)
        self.consumer = self._consumer()

    def _consumer(self) -> Consumer:
        observer, rng = self.observer, random.Random(1)
        return Consumer(
            source=self.source,
            positioning=PositionFinder(
                ledger=self.ledger,
                source=self.source,
                store=self.store,
                plans=self._plan,
                clock=self.clock,
                observer=observer,
                rng=rng,
            ),
            uploader=Uploader(
                ledger=self.ledger,
                store=self.store,
                clock=self.clock,
                owner="process 1",
                observer=observer,
                rng=rng,
                request_lifetime=60.0,
            ),
            executor=self.executor,
            workspace=self.workspace,
            limits=self._limits,
            clock=self.clock,
            observer=observer,
            pace=self._pace,
        )

    def _plan(self, topic: str, fingerprint: str | None) -> TopicPlan:
        return self.plans(topic, fingerprint)

    def run(self, rounds: int = 40, seconds: float = 0.0) -> None:
        for _ in range(rounds):
            self.consumer.run_once(0.0)
            self.clock.advance(seconds)

    def offsets(self, below: str = "root/clicks/") -> list[int]:
        """All offsets in the store, in the order of the keys."""
        lines = (
            line
            for stored in self.store.list(below)
            for line in self.store.content(stored.key).splitlines()
        )
        return [json.loads(line)[0] for line in lines]

    def state(self) -> ReadingState:
        (status,) = self.consumer.status()
        return status.state
