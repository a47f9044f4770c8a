"""The worker of a table group on a SQLite catalog and a directory: messages in, tables out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from secor.adapters.iceberg.library import IcebergLibrary
from secor.batch.batch import Batch
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.batch.sealed import SealedBatch
from secor.batch.workspace import Workspace
from secor.config.load import validate
from secor.core.errors import SchemaGrew
from secor.core.model import QUARANTINE, SCHEMA, Chunk, TopicPartition
from secor.formats import make_format
from secor.parsing.parts import release_part
from secor.tables.catalog import TableCommit
from secor.tables.commit.plan_notes import PlanNotes
from secor.tables.staging.manifest import Manifest
from secor.wiring.table_storage import store_of_tables
from secor.wiring.tables import TablePlans
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore
from tests.unit.adapters.iceberg_tables import sqlite_catalog

TIMESTAMP = 1_767_225_600_000
"""Of all messages, in milliseconds."""

PARTITION = 0
"""Of all messages."""


@dataclass(frozen=True)
class Keyed:
    """A message with a key; without a value it is a tombstone."""

    key: bytes | None
    value: object
    timestamp: int | None = field(default_factory=lambda: TIMESTAMP)  # tests set another one


def chunk_of(messages: Sequence[object], topic_partition: TopicPartition, start: int = 0) -> Chunk:
    """Return messages as JSON; bytes stay as they are."""
    keyed = [it if isinstance(it, Keyed) else Keyed(None, it) for it in messages]
    values = [_value(it.value) if it.value is not None else None for it in keyed]
    rows = len(values)
    columns = {
        "offset": range(start, start + rows),
        "timestamp": [it.timestamp for it in keyed],
        "timestamp_type": [0] * rows,
        "key": [it.key for it in keyed],
        "value": values,
        "headers": [None] * rows,
    }
    arrays = [pa.array(columns[field.name], field.type) for field in SCHEMA]
    records = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return Chunk(topic_partition, records, start + rows)


def _value(message: object) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode()


@dataclass
class WorkerWorld:
    """Batches are sealed when a schema has to grow, and stored; ``commit`` appends their files."""

    directory: Path
    tables: Sequence[Mapping[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    topics: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        tree = {
            "group": {"name": "g", "kind": "table"},
            "kafka": {"bootstrap_servers": ["localhost:1"], "topics": ["flights"]},
            "store": {"kind": "local", "local": {"directory": str(self.directory)}},
            "catalog": {"properties": {"warehouse": f"file://{self.directory}/warehouse"}},
            "tables": [dict(table) for table in self.tables],
            **self.settings,
        }
        config, faults = validate(tree)
        assert config is not None, faults
        self.config = config
        self.catalog = sqlite_catalog(self.directory)
        self.own = FakeStore()
        self.store = store_of_tables(config, self.own)
        self.clock = FakeClock()
        self.workspace = Workspace(self.directory / "local", "worker")
        self.plans = self.new_plans()
        self.offset = 0

    def new_plans(self) -> TablePlans:
        """Return the plans of a process that has just begun."""
        library = IcebergLibrary()
        return TablePlans(
            self.config,
            self.catalog,
            library,
            lambda: "cluster",
            self._count,
            self.clock,
            lambda: self.topics,
            notes=PlanNotes(self.own, self.config.output.prefix),
        )

    def _count(self, topic_partition: TopicPartition, name: str, messages: int) -> None:
        self.counts[name] += messages

    def stage(self, *messages: object, topic: str = "flights") -> list[Manifest]:
        """Take messages as one chunk; return the manifests of the batches that they make."""
        sealed = self.seal(*messages, topic=topic)
        return [self.put(batch) for batch in sealed]

    def seal(self, *messages: object, topic: str = "flights") -> list[SealedBatch]:
        """Return the batches that messages make."""
        chunk: Chunk = chunk_of(messages, TopicPartition(topic, PARTITION), self.offset)
        self.offset = chunk.next_offset
        sealed = []
        start = int(chunk.records.column("offset")[0].as_py())
        for _ in range(20):
            batch = self.open(self.plans(topic, None), start, topic)
            try:
                batch.append(chunk)
            except SchemaGrew as grew:
                before = chunk.until(grew.offset)
                if before.records.num_rows:
                    batch.append(before)
                    sealed.append(batch.seal(Reason.SCHEMA))
                else:
                    batch.drop()
                start, chunk = grew.offset, chunk.since(grew.offset)
                continue
            return [*sealed, batch.seal(Reason.AGE)]
        raise AssertionError("the schema grows for ever")

    def open(self, plan: TopicPlan, start: int, topic: str = "flights") -> Batch:
        """Begin a batch."""
        return Batch(
            TopicPartition(topic, PARTITION),
            start,
            plan=plan,
            workspace=self.workspace,
            clock=self.clock,
            topic_id="topic-id",
        )

    def put(self, batch: SealedBatch) -> Manifest:
        """Put all objects of a batch, the manifest last."""
        assert batch.last is not None
        for file in (*batch.files, batch.last):
            self.store.put(file.key, file.local.path, file.local.crc32c, file.info.metadata())
        with self.store.open(batch.last.key) as stored:
            return Manifest.parse(stored.read(), batch.last.key)

    def commit(self, manifests: Sequence[Manifest]) -> None:
        """Append all files to their tables."""
        for name in {table.table for manifest in manifests for table in manifest.tables}:
            files = [it for manifest in manifests for it in manifest.tables if it.table == name]
            table = self.catalog.load_table(name)
            head = table.head()
            base = head.snapshot_id if head is not None else None
            result = self.catalog.commit(table, TableCommit(base, tuple(files)))
            assert result.table is not None, result.why

    def write(self, *messages: object, topic: str = "flights") -> list[Manifest]:
        """Stage messages and commit them."""
        manifests = self.stage(*messages, topic=topic)
        self.commit(manifests)
        return manifests

    def rows(self, name: str = "db.flights", **scan: Any) -> list[dict[str, Any]]:
        """Return a table's rows as the Iceberg library reads them."""
        found = self.catalog.library.load_table(name).scan(**scan).to_arrow()
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def reasons(self) -> list[str]:
        """Return why messages are in quarantine."""
        found = []
        for stored in self.own.list("table/_quarantine/"):
            log_format = make_format("sequencefile")
            with self.own.open(stored.key) as file:
                for records in log_format.read(file, stored.key):
                    found += release_part(records)[1]
        assert QUARANTINE
        return found
