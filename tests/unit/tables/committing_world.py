"""A table group on a SQLite catalog in a directory, with the real worker and committer."""

from __future__ import annotations

import random

import pyarrow as pa

from secor.core.model import TopicPartition
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.commit_result import CommitRequest, Result, TableResult
from secor.tables.commit.table_commit import TableCommitter
from secor.tables.repair.settle import StateAcceptance
from secor.tables.staging.staged_manifests import Staged, Staging
from secor.verify.tables import COLUMNS, RoutedMessages, beyond, compare, offsets_of, repeated
from tests.unit.tables.worker_world import WorkerWorld

FLIGHTS = TopicPartition("flights", 0)
EVENTS = "db.events"


class CommittingWorld:
    """Worker and coordinator in turns: batches are staged, and committed by the real committer."""

    def __init__(self, world: WorkerWorld, branch: str = "main") -> None:
        self.world = world
        self.branch = branch
        self.history = CommitHistory(world.own, "table")
        self.committer = TableCommitter(
            world.catalog,
            self.history,
            world.clock,
            random.Random(1),
            group="g",
            branch=branch,
        )
        self.staging = Staging(world.own, "table", "g")
        self.commits = 0

    def stage(self, count: int = 3) -> list[str]:
        """Stage a batch; return its data files."""
        start = self.world.offset
        messages = [{"id": start + number, "at": "2026-11-22"} for number in range(count)]
        return [
            file.path
            for manifest in self.world.stage(*messages)
            for files in manifest.tables
            for file in files.files
        ]

    def staged(self) -> list[Staged]:
        """Read what is staged."""
        return self.staging.read({FLIGHTS: self.world.offset})

    def request(self) -> CommitRequest:
        """Begin a cycle."""
        self.commits += 1
        return CommitRequest(f"c{self.commits}", 1)

    def try_commit(self) -> TableResult:
        """Commit all that is staged, or say why not."""
        return self.committer.commit(EVENTS, self.staged(), self.request())

    def commit(self) -> Result:
        """Commit all that is staged."""
        result = self.try_commit()
        assert result.error is None, result.error
        return result.result

    @property
    def settling(self) -> StateAcceptance:
        """What a person's commands do."""
        return StateAcceptance(self.committer, self.history, self.branch)

    def write(self) -> None:
        """Stage a batch and commit it."""
        self.stage()
        assert self.commit() is Result.COMMITTED

    def assert_exact(self) -> None:
        """Compare every offset, as ``secor verify`` does."""
        table, record = self.committer.look(EVENTS)
        reached = record.vector.next_offset("cluster", FLIGHTS)
        assert reached is not None
        offsets = offsets_of(self.world.catalog.scan(table, self.branch, COLUMNS))
        log = pa.array(range(self.world.offset), pa.int64()).to_numpy()
        assert list(repeated(EVENTS, offsets)) == []
        assert list(beyond(EVENTS, offsets, {FLIGHTS: reached})) == []
        below = log[log < reached]
        none = log[:0]
        routed = RoutedMessages(below, {EVENTS: below}, none)
        assert compare(FLIGHTS, routed, {EVENTS: offsets[FLIGHTS]}, none).findings == ()
        assert len(offsets[FLIGHTS]) == reached
