"""A group whose tables are Hudi's: definitions, timelines, committers that crash and meet."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa

from secor.adapters.hudi.catalog import HudiCatalog
from secor.adapters.hudi.definitions import Definitions
from secor.core.model import TopicPartition
from secor.core.small_objects import put_bytes
from secor.tables.catalog import NewTable
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.commit_result import CommitRequest, TableResult
from secor.tables.commit.selection import EVERY_OPERATION
from secor.tables.commit.table_commit import TableCommitter
from secor.tables.repair.settle import StateAcceptance
from secor.tables.staging.manifest import DataFile, Manifest, TableFiles
from secor.tables.staging.staged_manifests import Staged, Staging
from tests.fakes.clock import FakeClock
from tests.fakes.hudi import FakeHudi, nothing, reader_of
from tests.fakes.store import FakeStore

TABLE = "shop.orders"
LOCATION = "s3://lake/shop/orders"
PREFIX = "hudi"
ORDERS = TopicPartition("orders", 0)
COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])


def definitions(store: FakeStore) -> Definitions:
    """Return the definitions of a process that has just begun."""
    return Definitions(store, PREFIX, lambda table: f"s3://lake/{table.replace('.', '/')}")


@dataclass
class HudiWorld:
    """``stage`` does what a worker does, ``commit`` what a committer of its own process does."""

    own: FakeStore = field(default_factory=FakeStore)
    hudi: FakeHudi = field(default_factory=FakeHudi)
    clock: FakeClock = field(default_factory=FakeClock)
    numbers: count[int] = field(default_factory=count)
    offset: int = 0

    def __post_init__(self) -> None:
        made = self.catalog().create_table(TABLE, NewTable(COLUMNS, (), key=("id",)))
        self.uuid = made.uuid

    def catalog(
        self, at: Callable[[str], None] = nothing, group: str = "g", *, engine: bool = True
    ) -> HudiCatalog:
        """Return the tables as a process that has just begun sees them."""
        writes = self.hudi.engine(at) if engine else None
        known = definitions(self.own)
        return HudiCatalog(known, self.own, PREFIX, group, reader_of(self.hudi), writes)

    def stage(self, messages: int = 10) -> str:
        """Stage a batch; return the path of its file."""
        start, end = self.offset, self.offset + messages
        self.offset = end
        path = f"_changes/{TABLE}/{start:04}-{end:04}"
        file = DataFile(path, "parquet", messages, 100, start, end - 1)
        of_table = TableFiles(TABLE, self.uuid, 0, 0, "changes", (file,), key=(1,))
        manifest = Manifest(
            *("g", "cluster", ORDERS.topic, "topic-id", ORDERS.partition, start, end, "f" * 16),
            None,
            (of_table,),
        )
        put_bytes(self.own, manifest.key(PREFIX), manifest.dump())
        return path

    def staged(self) -> list[Staged]:
        """Read what counts."""
        return Staging(self.own, PREFIX, "g").read({ORDERS: self.offset})

    def committer(self, at: Callable[[str], None] = nothing) -> TableCommitter:
        """Return the committer of a process that has just begun."""
        history = CommitHistory(self.own, PREFIX)
        return TableCommitter(
            self.catalog(at),
            history,
            self.clock,
            random.Random(1),
            group="g",
            operations=EVERY_OPERATION,
        )

    def request(self) -> CommitRequest:
        """Begin a cycle."""
        return CommitRequest(f"cycle-{next(self.numbers)}", 1)

    def commit(self, at: Callable[[str], None] = nothing) -> TableResult:
        """Commit all that is staged, or say why not."""
        return self.committer(at).commit(TABLE, self.staged(), self.request())

    def settling(self) -> StateAcceptance:
        """Return what a person's commands do."""
        return StateAcceptance(self.committer(), CommitHistory(self.own, PREFIX), "main")

    def next_offset(self) -> int | None:
        """Return up to which offset the table has everything."""
        _, record = self.committer().look(TABLE)
        return record.vector.next_offset("cluster", ORDERS)
