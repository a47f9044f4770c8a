"""Staged batches, a ledger and tables in memory, for the coordinator's own tests."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from secor.core.errors import SecorError
from secor.core.model import Entry, TopicPartition
from secor.core.small_objects import put_bytes
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.commit_result import CommitRequest, TableResult
from secor.tables.commit.cycle_commit import CycleCommit
from secor.tables.commit.group_record import GroupRecord
from secor.tables.commit.table_commit import TableCommitter
from secor.tables.control import ControlEvent
from secor.tables.coordinator import Coordinator, Identity
from secor.tables.cycle import Timing
from secor.tables.observer import Backlog, TableObserver
from secor.tables.staging.manifest import DataFile, Manifest, TableFiles
from secor.tables.staging.staged_manifests import Staged, Staging
from tests.fakes.archive import OperatorLedger
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore
from tests.fakes.table_catalog import FakeCatalog, TableServer

GROUP = "tables"
PREFIX = "lake/tables"
CLUSTER = "cluster-1"
CLICKS = TopicPartition("clicks", 0)
OTHER = TopicPartition("clicks", 1)
EVENTS = "db.events"


@dataclass
class Recorder:
    """A ``TableObserver`` that keeps what it is told."""

    results: list[TableResult] = field(default_factory=list)
    failures: list[SecorError] = field(default_factory=list)
    backlogs: list[Backlog] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    led: list[bool] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)
    from_future: list[tuple[TopicPartition, int]] = field(default_factory=list)

    def leading(self, leads: bool, epoch: int) -> None:
        self.led.append(leads)

    def cycle_ended(self, seconds: float, missing: int) -> None:
        self.missing.append(missing)

    def cycle_discarded(self, missing: int) -> None:
        self.discarded.append(missing)

    def cycle_failed(self, error: SecorError) -> None:
        self.failures.append(error)

    def timestamp_from_future(self, topic_partition: TopicPartition, timestamp: int) -> None:
        self.from_future.append((topic_partition, timestamp))

    def table_committed(self, result: TableResult) -> None:
        self.results.append(result)

    def staged(self, backlog: Backlog) -> None:
        self.backlogs.append(backlog)


@dataclass
class Topics:
    """A ``GroupTopics`` in memory."""

    known: set[TopicPartition] = field(default_factory=lambda: {CLICKS})
    log_ends: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str | None] = field(default_factory=dict)
    first: dict[TopicPartition, int] = field(default_factory=dict)
    withheld: dict[TopicPartition, int] = field(default_factory=dict)

    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self.known)

    def ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {key: self.log_ends[key] for key in partitions if key in self.log_ends}

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {key: self.first.get(key, 0) for key in partitions}

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {key: end + self.withheld.get(key, 0) for key, end in self.ends(partitions).items()}

    def ids(self) -> Mapping[str, str | None]:
        return self.topic_ids


@dataclass
class Channel:
    """A ``ControlChannel`` that keeps what is sent; ``incoming`` is received once."""

    sent: list[ControlEvent] = field(default_factory=list)
    incoming: list[ControlEvent] = field(default_factory=list)

    def send(self, event: ControlEvent) -> None:
        self.sent.append(event)

    def receive(self) -> list[ControlEvent]:
        arrived, self.incoming = self.incoming, []
        return arrived

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class TableWorld:
    """One group: ``stage`` does what a worker does, ``commit`` what a coordinator does."""

    clock: FakeClock = field(default_factory=FakeClock)
    server: TableServer = field(default_factory=TableServer)
    ledger: OperatorLedger = field(default_factory=OperatorLedger)
    topics: Topics = field(default_factory=Topics)
    observer: Recorder = field(default_factory=Recorder)
    channel: Channel = field(default_factory=Channel)
    branch: str = "main"
    numbers: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.store = FakeStore(now=self.clock.now)
        self.catalog = FakeCatalog(self.server)
        self.history = CommitHistory(self.store, PREFIX)
        self.staging = Staging(self.store, PREFIX, GROUP)
        self.committer = TableCommitter(
            self.catalog,
            self.history,
            self.clock,
            random.Random(1),
            group=GROUP,
            branch=self.branch,
        )

    def table_files(self, table: str, start: int, end: int, name: str = "") -> TableFiles:
        """Describe one data file with all offsets of a range."""
        path = f"mem://{table}/{start}-{end}{name}"
        file = DataFile(path, "parquet", end - start, 100 * (end - start), start, end - 1)
        return TableFiles(table, self.server.tables[table].uuid, 0, 0, "append", (file,))

    def manifest(
        self,
        start: int,
        end: int,
        tables: Iterable[str] = (EVENTS,),
        *,
        topic_partition: TopicPartition = CLICKS,
        timestamp: int | None = None,
        cluster: str = CLUSTER,
        topic_id: str | None = "topic-id",
        group: str = GROUP,
    ) -> Manifest:
        """Make the manifest of a batch."""
        name = f"@{topic_partition.partition}"
        return Manifest(
            group,
            cluster,
            topic_partition.topic,
            topic_id,
            topic_partition.partition,
            start,
            end,
            "f" * 16,
            timestamp,
            tuple(self.table_files(table, start, end, name) for table in tables),
        )

    def put(self, manifest: Manifest) -> str:
        """Put a manifest, without a word in the ledger."""
        key = manifest.key(PREFIX)
        put_bytes(self.store, key, manifest.dump())
        return key

    def move(self, topic_partition: TopicPartition, offset: int) -> None:
        """Commit in the ledger."""
        self.ledger.entries[topic_partition] = Entry(offset)

    def stage(self, manifest: Manifest) -> str:
        """Put a manifest, then commit its range in the ledger: as a worker does."""
        key = self.put(manifest)
        self.move(manifest.topic_partition, manifest.end)
        return key

    def staged(self) -> list[Staged]:
        """Read what counts."""
        committed = {
            key: entry.committed
            for key, entry in self.ledger.entries.items()
            if entry.committed is not None
        }
        return self.staging.read(committed)

    def request(self) -> CommitRequest:
        """Begin a cycle."""
        return CommitRequest(f"cycle-{next(self.numbers)}", 1)

    def commit(self, table: str = EVENTS) -> TableResult:
        """Commit one table."""
        return self.committer.commit(table, self.staged(), self.request())

    def live(self, table: str = EVENTS) -> list[str]:
        """Return what a reader sees."""
        paths = self.server.tables[table].live(self.branch)
        return sorted(path.removeprefix(f"mem://{table}/") for path in paths)

    def record(self, table: str = EVENTS) -> GroupRecord:
        """Return what the table says of the group."""
        return GroupRecord.of(self.server.tables[table].describe(), GROUP)

    def coordinator(
        self,
        timing: Timing | None = None,
        *,
        keep: float = 3600.0,
        observer: TableObserver | None = None,
        **more: Any,
    ) -> Coordinator:
        """Make a coordinator that always leads; the world's own observer is the default."""
        observer = observer or self.observer
        return Coordinator(
            Identity(GROUP, "coordinator-1"),
            leads=lambda: True,
            topics=self.topics,
            commit=CycleCommit(
                topics=self.topics,
                ledger=self.ledger,
                staging=self.staging,
                committer=self.committer,
                clock=self.clock,
                observer=observer,
                keep=keep,
                **more,
            ),
            channel=self.channel,
            clock=self.clock,
            observer=observer,
            timing=timing or Timing(interval=10.0, asks=False),
            new_id=lambda: f"cycle-{next(self.numbers)}",
        )
