"""How long a commit cycle takes: by snapshots, by tables, by topic partitions, by what is kept.

The coordinator and the Iceberg library are the real ones, over a catalog in SQLite and files in
a local directory: what is measured is their work, without the network.  Data files are only
named; a commit never opens them.
"""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from secor.adapters.iceberg.catalog import open_catalog
from secor.adapters.iceberg.commits import IcebergCatalog
from secor.adapters.local import DirectoryStore
from secor.core.clock import SystemClock
from secor.core.errors import SecorError
from secor.core.model import Entry, TopicPartition
from secor.core.small_objects import put_bytes
from secor.tables.catalog import NewTable, Table
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.commit_result import Result, TableResult
from secor.tables.commit.cycle_commit import CycleCommit
from secor.tables.commit.table_commit import TableCommitter
from secor.tables.control import NoChannel
from secor.tables.coordinator import Coordinator, Identity
from secor.tables.cycle import State, Timing
from secor.tables.observer import Backlog
from secor.tables.rows.new_tables import DEFAULT_PROPERTIES
from secor.tables.staging.manifest import DataFile, Manifest, TableFiles
from secor.tables.staging.staged_manifests import Staging

GROUP, PREFIX, TOPIC = "bench", "bench", "clicks"
REPEATS = 5
THREADS = 8

SNAPSHOTS = (1, 100, 1000)
TABLES = (1, 10, 50)
PARTITIONS = (1, 100, 1000)
KEPT = (0, 2_000)


@dataclass(frozen=True, slots=True)
class CommitTime:
    """``seconds`` and ``cpu_seconds`` of a cycle: the median of several."""

    varied: str
    size: int
    seconds: float
    cpu_seconds: float

    def line(self) -> str:
        """Return it in one line."""
        return (
            f"commit cycle with {self.size:6,} {self.varied:16}"
            f" {1000 * self.seconds:8.0f} ms, {1000 * self.cpu_seconds:8.0f} ms of CPU"
        )


@dataclass
class _Ledger:
    """What the workers have committed."""

    committed: dict[TopicPartition, int] = field(default_factory=dict)

    def read(self, topic_partition: TopicPartition) -> Entry:
        return Entry(self.committed.get(topic_partition))


@dataclass
class _Topics:
    """A ``GroupTopics`` without brokers."""

    ledger: _Ledger

    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self.ledger.committed)

    def ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {it: self.ledger.committed[it] for it in partitions}

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self.ends(partitions)

    def ids(self) -> Mapping[str, str | None]:
        return {TOPIC: "topic-id"}


class _Observer:
    """A ``TableObserver`` that lets nothing pass that is wrong."""

    def __init__(self) -> None:
        self.commits = 0

    def leading(self, leads: bool, epoch: int) -> None:
        pass

    def cycle_ended(self, seconds: float, missing: int) -> None:
        pass

    def cycle_discarded(self, missing: int) -> None:
        """Never: all answer."""

    def cycle_failed(self, error: SecorError) -> None:
        raise error

    def timestamp_from_future(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Never: messages are of now."""

    def table_committed(self, result: TableResult) -> None:
        if result.error is not None:
            raise result.error
        self.commits += result.result is Result.COMMITTED

    def staged(self, backlog: Backlog) -> None:
        pass


class _World:
    """A group with tables; ``stage`` does what its workers would."""

    def __init__(self, folder: Path, threads: ThreadPoolExecutor) -> None:
        folder.mkdir()
        warehouse = folder / "warehouse"
        warehouse.mkdir()
        self._database = folder / "catalog.db"
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{self._database}",
            "warehouse": f"file://{warehouse}",
        }
        self.catalog = IcebergCatalog(open_catalog("bench", properties))
        store = folder / "store"
        store.mkdir()
        self._store = DirectoryStore(store)
        self._ledger = _Ledger()
        self._observer = _Observer()
        self._tables: list[Table] = []
        clock, rng = SystemClock(), random.Random(1)
        history = CommitHistory(self._store, PREFIX)
        ids = count()
        topics = _Topics(self._ledger)
        self._coordinator = Coordinator(
            Identity(GROUP, "bench"),
            leads=lambda: True,
            topics=topics,
            commit=CycleCommit(
                topics=topics,
                ledger=self._ledger,  # type: ignore[arg-type]  # it is only read
                staging=Staging(self._store, PREFIX, GROUP, threads.map),
                committer=TableCommitter(self.catalog, history, clock, rng, group=GROUP),
                clock=clock,
                observer=self._observer,
                parallel=threads.map,
            ),
            channel=NoChannel(),
            clock=clock,
            observer=self._observer,
            timing=Timing(0.0, 0.0, asks=False),
            new_id=lambda: f"commit-{next(ids)}",
        )

    def make(self, tables: int) -> None:
        """Make tables of ten columns."""
        schema = pa.schema([pa.field(f"c{number}", pa.int64()) for number in range(10)])
        new = NewTable(schema, properties=DEFAULT_PROPERTIES)
        self._tables = [
            self.catalog.create_table(f"bench.t{number}", new) for number in range(tables)
        ]

    def stage(self, partitions: int, *, tables: Sequence[Table] | None = None) -> None:
        """Stage a batch of each partition, with one file for each table."""
        for number in range(partitions):
            key = TopicPartition(TOPIC, number)
            start = self._ledger.committed.get(key, 0)
            made = self._tables if tables is None else tables
            manifest = _manifest(key, start, made)
            put_bytes(self._store, manifest.key(PREFIX), manifest.dump())
            self._ledger.committed[key] = manifest.end

    def cycle(self) -> tuple[float, float]:
        """Run one cycle; return its seconds, and those of CPU."""
        expected = self._observer.commits + len(self._tables)
        began, cpu = time.perf_counter(), time.process_time()
        while True:
            self._coordinator.step()
            if self._coordinator.state is State.IDLE and self._observer.commits >= expected:
                return time.perf_counter() - began, time.process_time() - cpu

    def grow(self, snapshots: int) -> None:
        """Let each table have so many snapshots, as after as many commits without expiry."""
        for table in self._tables:
            with closing(sqlite3.connect(self._database)) as connection:
                name = table.identifier.partition(".")[2]
                query = "SELECT metadata_location FROM iceberg_tables WHERE table_name = ?"
                (location,) = connection.execute(query, (name,)).fetchone()
                path = Path(urlsplit(location).path)
                path.write_text(
                    json.dumps(_with_snapshots(json.loads(path.read_text()), snapshots))
                )


def _with_snapshots(metadata: dict[str, Any], number: int) -> dict[str, Any]:
    """Return metadata with copies of its snapshot as ancestors of its branch."""
    (last,) = metadata["snapshots"]
    ids = [last["snapshot-id"] - at for at in range(number - 1, -1, -1)]
    snapshots = [
        {
            **last,
            "snapshot-id": snapshot_id,
            "sequence-number": at + 1,
            **({"parent-snapshot-id": ids[at - 1]} if at else {}),
            "summary": last["summary"]
            if at == number - 1
            else {"operation": "append", "secor.commit": f"old-{at}"},
        }
        for at, snapshot_id in enumerate(ids)
    ]
    log = [
        {"snapshot-id": snapshot_id, "timestamp-ms": last["timestamp-ms"]} for snapshot_id in ids
    ]
    return {
        **metadata,
        "snapshots": snapshots,
        "snapshot-log": log,
        "last-sequence-number": number,
    }


def _manifest(key: TopicPartition, start: int, tables: Sequence[Table]) -> Manifest:
    end = start + 1000
    return Manifest(
        group=GROUP,
        cluster="cluster",
        topic=key.topic,
        topic_id="topic-id",
        partition=key.partition,
        start=start,
        end=end,
        fingerprint="bench",
        greatest_timestamp=end,
        tables=tuple(
            TableFiles(
                table=table.identifier,
                uuid=table.uuid,
                schema_id=table.schema_id,
                spec_id=table.spec_id,
                operation="append",
                files=(
                    DataFile(
                        path=f"{table.location}/data/{key.partition}-{start}.parquet",
                        format="parquet",
                        records=1000,
                        size=100_000,
                        first_offset=start,
                        last_offset=end - 1,
                    ),
                ),
            )
            for table in tables
        ),
    )


def measure(folder: Path) -> Iterator[CommitTime]:
    """Measure all, each in a world of its own below ``folder``."""
    for snapshots in SNAPSHOTS:
        with _world(folder / f"snapshots-{snapshots}", tables=1) as world:
            world.stage(1)
            world.cycle()
            world.grow(snapshots)
            yield _median("snapshots", snapshots, world, partitions=1)
    for tables in TABLES:
        with _world(folder / f"tables-{tables}", tables=tables) as world:
            yield _median("tables", tables, world, partitions=1)
    for partitions in PARTITIONS:
        with _world(folder / f"partitions-{partitions}", tables=1) as world:
            yield _median("topic partitions", partitions, world, partitions=partitions)
    for kept in KEPT:
        with _world(folder / f"kept-{kept}", tables=1) as world:
            for _ in range(kept // 1000):
                world.stage(1000)
            world.stage(1)
            world.cycle()
            yield _median("kept manifests", kept, world, partitions=1)


@contextmanager
def _world(folder: Path, *, tables: int) -> Iterator[_World]:
    with ThreadPoolExecutor(THREADS) as threads:
        world = _World(folder, threads)
        world.make(tables)
        yield world


def _median(varied: str, size: int, world: _World, *, partitions: int) -> CommitTime:
    cycles = []
    for _ in range(REPEATS):
        world.stage(partitions)
        cycles.append(world.cycle())
    seconds, cpu = (sorted(column)[REPEATS // 2] for column in zip(*cycles, strict=True))
    return CommitTime(varied, size, seconds, cpu)
