"""One process of a group, and the committer of its tables: messages in, objects and tables out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from secor.adapters.iceberg.commits import IcebergCatalog
from secor.adapters.iceberg.library import IcebergLibrary
from secor.adapters.local import DirectoryStore
from secor.batch.parse_trail import ParseTrail
from secor.batch.plan import Plans, TopicPlan
from secor.batch.workspace import Workspace
from secor.commit.uploader import Uploader
from secor.config.model import Config
from secor.consume.backpressure import BufferLimits
from secor.consume.consumer import Consumer
from secor.consume.poison_messages import PoisonMessages
from secor.consume.positioning import PositionFinder
from secor.core.model import QUARANTINE, TopicPartition
from secor.core.ports import LogFormat, ObjectStore
from secor.parsing.parts import quarantine_part
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.commit_result import CommitRequest
from secor.tables.commit.plan_notes import PlanNotes
from secor.tables.commit.table_commit import TableCommitter
from secor.tables.staging.staged_manifests import Staging
from secor.wiring.plans import growing_plans
from secor.wiring.table_storage import store_of_tables
from secor.wiring.tables import TablePlans
from tests.fakes.clock import FakeClock
from tests.fakes.executor import InlineExecutor
from tests.fakes.failing_format import FailingFormat
from tests.fakes.ledger import LedgerServer
from tests.fakes.observer import SilentObserver
from tests.fakes.source import FakeBroker
from tests.fuzz.messages import TOPIC_PARTITION, Message, MessageLog
from tests.unit.adapters.iceberg_tables import sqlite_catalog

ROUNDS = 40
"""Rounds of a minute or more in which everything must have been stored."""

AMPLE = 1 << 28


class NotStoredError(Exception):
    """A partition or a table does not go on."""


@dataclass
class FuzzedProcess:
    """The real loop, batches and commits over a log in memory and a store in a directory."""

    config: Config
    directory: Path
    messages: Sequence[Message]
    most: int
    """Messages of one fetch."""
    plans: Plans = field(init=False)
    catalog: IcebergCatalog | None = None

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.own = DirectoryStore(self.directory / "store")
        self.store: ObjectStore = self.own
        self.server = LedgerServer()

    def __enter__(self) -> Self:
        self.own.check()
        self.workspace = Workspace(self.directory / "local", "fuzzed")
        self.trail = ParseTrail(self.workspace.directory)
        if self.config.group.kind == "table":
            self.catalog = sqlite_catalog(self.directory)
            self.store = store_of_tables(self.config, self.own)
            notes = PlanNotes(self.own, self.config.output.prefix)
            library, clock = IcebergLibrary(), self.clock
            self.plans = TablePlans(
                *(self.config, self.catalog, library, lambda: "cluster", _count, clock), notes=notes
            )
        else:
            self.plans = growing_plans(self.config, self.store, SilentObserver(), _count)
        if any(message.late for message in self.messages):
            self.plans = self._failing(self.plans)
        return self

    def _failing(self, plans: Plans) -> Plans:
        """Return plans whose formats fail for the messages that say so."""

        def look(stage: str, written: set[int]) -> None:
            failing = [it for it in written if self.messages[it].late == stage]
            if failing:
                raise pa.ArrowInvalid(f"offset {failing[0]}: injected at {stage}")

        def fail(log_format: LogFormat) -> FailingFormat:
            return FailingFormat(log_format, look)

        def of(topic: str, fingerprint: str | None) -> TopicPlan:
            plan = plans(topic, fingerprint)
            streams = {
                name: it if name == QUARANTINE else replace(it, log_format=fail(it.log_format))
                for name, it in plan.streams.items()
            }
            return replace(plan, log_format=fail(plan.log_format), streams=streams)

        return of

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.trail.close()
        self.workspace.close()
        if self.catalog is not None:
            self.catalog.library.close()

    def store_all(self) -> None:
        """Read and store the whole log.  Raises what ends a process, ``NotStoredError``."""
        log, ledger = MessageLog(self.messages), self.server.client("fuzzed")
        broker = FakeBroker({TOPIC_PARTITION: log}, {TOPIC_PARTITION.topic: "topic-id"})
        consumer = self._consumer(broker)
        for _ in range(3 + len(self.messages)):
            consumer.run_once(0.0)
        late = sum(bool(message.late) for message in self.messages)
        for _ in range(ROUNDS + 3 * late * (3 + len(self.messages))):  # each is read three times
            self.clock.advance(120.0)
            consumer.run_once(0.0)
            if ledger.read(TOPIC_PARTITION).committed == log.end:
                return
        (status,) = consumer.status()
        raise NotStoredError(f"{status.state}: {status.error}")

    def _consumer(self, broker: FakeBroker) -> Consumer:
        observer, rng = SilentObserver(), random.Random(1)
        ledger, source = self.server.client("fuzzed"), broker.source(most=self.most)
        source.assign([TOPIC_PARTITION])
        poison_messages = PoisonMessages(
            store=self.store,
            clock=self.clock,
            observer=observer,
            trail=self.trail,
            deaths=self.workspace.deaths,
            quarantine=quarantine_part,
            workspace=self.workspace,
        )
        return Consumer(
            source=source,
            positioning=PositionFinder(
                ledger=ledger,
                source=source,
                store=self.store,
                plans=self.plans,
                clock=self.clock,
                observer=observer,
                rng=rng,
                poison_messages=None if self.config.group.kind == "backup" else poison_messages,
            ),
            uploader=Uploader(
                ledger=ledger,
                store=self.store,
                clock=self.clock,
                owner="fuzzed",
                observer=observer,
                rng=rng,
                request_lifetime=5.0,
            ),
            executor=InlineExecutor(),
            workspace=self.workspace,
            limits=BufferLimits(AMPLE, AMPLE),
            clock=self.clock,
            observer=observer,
        )

    def commit_tables(self) -> None:
        """Commit what is staged.  Raises ``NotStoredError`` for a table that waits."""
        assert self.catalog is not None
        prefix, group = self.config.output.prefix, self.config.group.name
        history = CommitHistory(self.own, prefix)
        rng = random.Random(1)
        committer = TableCommitter(self.catalog, history, self.clock, rng, group=group)
        staged = Staging(self.own, prefix, group).read({TOPIC_PARTITION: len(self.messages)})
        tables = {it.table for item in staged if item.manifest for it in item.manifest.tables}
        for table in sorted(tables):
            result = committer.commit(table, staged, CommitRequest("c1", 1))
            if result.error is not None:
                raise NotStoredError(f"{table} waits: {result.error}")


def _count(topic_partition: TopicPartition, name: str, messages: int) -> None:
    """Nothing: what is in quarantine is read from the store."""
