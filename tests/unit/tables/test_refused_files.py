"""A file that cannot be committed waits alone, and a person sets it aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from secor.archive.objects import Archive
from secor.archive.quarantine.listing import messages, only_table, quarantined
from secor.archive.quarantine.replay import ReplayResult
from secor.core.errors import ConfigurationError, TableStopped
from secor.core.model import Chunk, Entry, LogRange, TopicPartition
from secor.core.small_objects import put_bytes
from secor.tables.commit.commit_result import Result, TableResult
from secor.tables.commit.refused_files import MOST_REFUSED, FileState, RefusedFile
from secor.tables.overview import look_at
from secor.tables.repair.quarantine_replay import TableReplay
from secor.tables.repair.set_aside import FileDecisions, SetAside, SetAsideResult, find_staged_file
from secor.tables.repair.settle import StateAcceptance
from secor.tables.staging.file_messages import FileMessages
from secor.tables.staging.manifest import Manifest
from secor.verify.tables import RoutedMessages, compare
from tests.fakes.archive import OperatorLedger
from tests.unit.tables.committing_world import EVENTS, FLIGHTS, CommittingWorld
from tests.unit.tables.worker_world import WorkerWorld, chunk_of
from tests.unit.tables.world import CLICKS, CLUSTER, OTHER, TableWorld
from tests.unit.tables.world import EVENTS as FAKE_EVENTS

ALL = "db.all"
ROUTES = [
    {"table": EVENTS, "auto_create": True, "partition_by": ["bucket(2, id)"]},
    {"table": ALL, "auto_create": True},
]
METADATA = {"rows": {"metadata_columns": ["_topic", "_kafka_partition", "_offset"]}}
BEYOND_INT = 1 << 40
"""A number of a bucket, which is an int, that no manifest of Iceberg holds."""


@dataclass
class Log:
    """A ``MessageLog`` in memory: the messages that the world has staged, from ``start`` on."""

    end: Callable[[], int]
    start: int = 0
    id: str = "topic-id"

    def cluster_id(self) -> str:
        return "cluster"

    def topic_id(self, topic: str) -> str | None:
        return self.id

    def log_range(self, topic_partition: TopicPartition) -> LogRange:
        return LogRange(self.start, self.end())

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        assert self.start <= start
        for first in range(start, end, 3):
            offsets = range(first, min(first + 3, end))
            given = [{"id": offset, "at": "2026-11-22"} for offset in offsets]
            yield chunk_of(given, topic_partition, first)


@dataclass
class RefusingWorld(CommittingWorld):
    """Tables that are fed by one topic; staged files are spoilt and made right again."""

    def __init__(self, directory: Path) -> None:
        super().__init__(WorkerWorld(directory, ROUTES, METADATA))
        self.log = Log(lambda: self.world.offset)
        self.filtered: Counter[str] = Counter()

    def write_all(self) -> list[TableResult]:
        """Commit what is staged to both tables, as a cycle does."""
        staged, request = self.staged(), self.request()
        return [self.committer.commit(name, staged, request) for name in (EVENTS, ALL)]

    def change(self, path: str, partition: tuple[object, ...]) -> tuple[object, ...]:
        """Give a staged file other partition values; return those that it had."""
        store, had = self.world.own, None
        for key in [key for key in store.objects if key.startswith("table/_staged/")]:
            manifest = Manifest.parse(store.objects[key].content, key)
            tables = []
            for of_table in manifest.tables:
                files = list(of_table.files)
                for at, file in enumerate(files):
                    if file.path == path:
                        had, files[at] = file.partition, replace(file, partition=partition)
                tables.append(replace(of_table, files=tuple(files)))
            store.delete(key)
            put_bytes(store, key, replace(manifest, tables=tuple(tables)).dump())
        assert had is not None
        self.staging.forget([*store.objects])
        return had

    def notes(self) -> tuple[RefusedFile, ...]:
        return self.committer.look(EVENTS)[1].refused

    def set_aside(
        self, name: str, *, dry_run: bool = False, without_missing: bool = False
    ) -> SetAsideResult:
        """Do what the command does, as a process that has just begun."""
        world = self.world
        command = SetAside(
            FileDecisions(self.committer, world.clock),
            FileMessages(world.store, self.log, world.new_plans(), world.workspace),
            world.store,
        )
        file = find_staged_file(EVENTS, name, self.staged())
        return command.set_aside(
            file, self.request(), dry_run=dry_run, without_missing=without_missing
        )

    def replay(self) -> list[ReplayResult]:
        """Replay the quarantine."""
        archive = Archive(self.world.own, "table")
        replay = TableReplay(
            archive,
            self.world.store,
            partial(self.world.new_plans(), "flights"),
            OperatorLedger({FLIGHTS: Entry(self.world.offset, topic_id="topic-id")}),
            self.world.workspace,
            self.world.clock,
            self.filtered,
        )
        return [replay.replay(archived) for archived in quarantined(archive, "flights")]

    def in_quarantine(self) -> list[tuple[int, str]]:
        """Return offsets and reasons of what is in quarantine."""
        archive = Archive(self.world.own, "table")
        return sorted(
            (offset, reason)
            for archived in quarantined(archive, "flights")
            for records, reasons in messages(archive, archived)
            for offset, reason in zip(records.column("offset").to_pylist(), reasons, strict=True)
        )

    def offsets(self, table: str = EVENTS) -> list[int]:
        return sorted(row["_offset"] for row in self.world.rows(table))


@dataclass
class Spoilt:
    """A world in which one of three batches has a file that cannot be committed."""

    world: RefusingWorld
    path: str
    partition: tuple[object, ...]
    own: list[int] = field(default_factory=list)
    """Offsets of the file's rows."""


@pytest.fixture
def spoilt(tmp_path: Path) -> Spoilt:
    world = RefusingWorld(tmp_path)
    world.stage(8)
    world.write_all()
    world.stage(8)
    path = next(it for it in world.stage(8) if "/events/" in it)
    partition = world.change(path, (BEYOND_INT,))
    world.stage(8)
    world.write_all()
    own = sorted(set(range(32)) - set(world.offsets()))
    return Spoilt(world, path, partition, own)


def test_other_files_do_not_wait_for_one_that_cannot_be_committed(spoilt: Spoilt) -> None:
    world = spoilt.world
    assert world.offsets(ALL) == [*range(32)]
    assert spoilt.own
    assert set(spoilt.own) < set(range(16, 24))
    table, record = world.committer.look(EVENTS)
    assert record.vector.next_offset("cluster", FLIGHTS) == 32
    [note] = record.refused
    assert (note.path, note.state) == (spoilt.path, FileState.REFUSED)
    assert "2147483647" in note.reason
    result = world.try_commit()
    assert result.result is Result.NOTHING
    assert result.refused == (note,)
    assert note.manifest not in result.done  # its manifest stays
    assert len(result.done) == 3
    overview = look_at(world.committer, EVENTS, world.staged())
    assert overview.state == "stopped"
    assert f"{spoilt.path} cannot be committed since" in overview.why
    assert f"'secor tables set-aside CONFIG {EVENTS}'" in overview.why
    assert [item.listed.key for item in world.staged() if overview.passed_over(item)] == [
        note.manifest
    ]
    assert table.properties["secor.g.refused"]


def test_what_is_right_again_is_taken_by_the_next_cycle(spoilt: Spoilt) -> None:
    world = spoilt.world
    world.change(spoilt.path, spoilt.partition)
    result = world.try_commit()
    assert (result.result, result.refused, result.files) == (Result.COMMITTED, (), 1)
    assert world.offsets() == [*range(32)]
    assert world.notes() == ()
    assert world.try_commit().result is Result.NOTHING
    assert len(world.try_commit().done) == 4


def test_its_messages_go_to_quarantine_and_come_back_into_its_table_alone(
    spoilt: Spoilt,
) -> None:
    world = spoilt.world
    before = len(world.world.own.objects)
    dry = world.set_aside(spoilt.path.rpartition("/")[2], dry_run=True)
    assert (dry.messages, dry.missing, dry.done) == (len(spoilt.own), 0, False)
    assert (len(world.world.own.objects), world.notes()[0].state) == (before, FileState.REFUSED)
    done = world.set_aside(spoilt.path)
    assert done.done
    found = world.in_quarantine()
    assert [offset for offset, _ in found] == spoilt.own
    assert found[0][1].startswith(f"commit: table {EVENTS}: ")
    [note] = world.notes()
    assert note.state is FileState.QUARANTINED
    result = world.try_commit()
    assert (result.result, result.refused, len(result.done)) == (Result.NOTHING, (), 4)
    assert world.set_aside(spoilt.path).key is None  # it was done before
    [replayed] = world.replay()
    assert (replayed.placed, replayed.bad, replayed.skipped) == (len(spoilt.own), 0, None)
    assert world.in_quarantine() == []
    for _ in range(2):
        world.write_all()
        assert world.offsets() == [*range(32)]
        assert world.offsets(ALL) == [*range(32)]


def test_a_note_is_kept_until_its_manifest_is_gone(spoilt: Spoilt) -> None:
    world = spoilt.world
    world.set_aside(spoilt.path)
    [note] = world.notes()
    world.stage(3)
    world.try_commit()
    assert world.notes() == (note,)
    world.world.own.delete(note.manifest)
    world.stage(3)
    world.try_commit()
    assert world.notes() == ()
    assert not set(spoilt.own) & set(world.offsets())


def test_it_is_not_set_aside_while_the_log_lacks_messages(spoilt: Spoilt) -> None:
    world = spoilt.world
    world.log.start = spoilt.own[-1]
    with pytest.raises(ConfigurationError, match="the log no longer has"):
        world.set_aside(spoilt.path)
    assert world.notes()[0].state is FileState.REFUSED
    done = world.set_aside(spoilt.path, without_missing=True)
    assert (done.messages, done.missing) == (1, len(spoilt.own) - 1)
    assert [offset for offset, _ in world.in_quarantine()] == spoilt.own[-1:]


def test_messages_of_another_topic_of_the_name_are_not_taken_for_its_own(spoilt: Spoilt) -> None:
    world = spoilt.world
    world.log.id = "another-id"
    with pytest.raises(ConfigurationError, match="the log no longer has"):
        world.set_aside(spoilt.path)


def test_rows_that_are_in_the_table_are_not_set_aside(spoilt: Spoilt) -> None:
    world = spoilt.world
    staged = world.stage(4)
    world.write_all()
    name = next(it for it in staged if "/events/" in it)
    with pytest.raises(ConfigurationError, match="its rows are in"):
        world.set_aside(name)
    with pytest.raises(ConfigurationError, match="no manifest names such a file"):
        world.set_aside("nothing.parquet")


class Interrupted(BaseException):
    """The process ends here."""


def test_a_command_that_was_interrupted_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    """Cycles go on between, and nothing is twice in the table."""
    for point in range(100):
        world = RefusingWorld(tmp_path / str(point))
        path = next(it for it in world.stage(8) if "/events/" in it)
        partition = world.change(path, (BEYOND_INT,))
        world.write_all()
        own = sorted(set(range(8)) - set(world.offsets()))
        calls = 0

        def die(call: str, key: str, point: int = point) -> None:
            nonlocal calls
            calls += call == "put"
            if calls > point:
                raise Interrupted

        world.world.own.after = die
        try:
            world.set_aside(path)
        except Interrupted:
            pass
        else:
            assert point > 2  # both commits and the object were interrupted
            return
        world.world.own.after = lambda call, key: None
        world.change(path, partition)  # what would be taken now, were it not leaving
        world.write_all()
        if world.notes():
            world.set_aside(path)
            assert [offset for offset, _ in world.in_quarantine()] == own
        world.replay()
        world.write_all()
        assert world.offsets() == [*range(8)]
    raise AssertionError("it never ends")


def test_a_file_is_set_aside_before_a_cycle_has_tried_it(tmp_path: Path) -> None:
    world = RefusingWorld(tmp_path)
    path = next(it for it in world.stage(8) if "/events/" in it)
    done = world.set_aside(path)
    world.write_all()
    own = [offset for offset, _ in world.in_quarantine()]
    assert len(own) == done.messages
    assert world.offsets() == sorted(set(range(8)) - set(own))
    world.replay()
    world.write_all()
    assert world.offsets() == world.offsets(ALL) == [*range(8)]


def test_a_note_outlives_the_ledger_entry_of_its_topic_partition() -> None:
    """Manifests without an entry are not listed: the table could take the file afterwards."""
    world = TableWorld()
    world.server.make(FAKE_EVENTS)
    world.stage(world.manifest(0, 5))
    [item] = world.staged()
    file = find_staged_file(FAKE_EVENTS, "0-5@0", [item])
    decisions = FileDecisions(world.committer, world.clock)
    for state in (FileState.LEAVING, FileState.QUARANTINED):
        decisions.become(file, state, "a person", world.request())
    entry = world.ledger.entries.pop(CLICKS)
    world.stage(world.manifest(0, 3, topic_partition=OTHER))
    assert world.commit().result is Result.COMMITTED
    world.ledger.entries[CLICKS] = entry
    world.commit()
    assert world.live() == ["0-3@1"]
    assert world.record().vector.next_offset(CLUSTER, CLICKS) == 5


def test_a_catalog_that_refuses_everything_sets_nothing_aside() -> None:
    world = TableWorld()
    world.server.make(FAKE_EVENTS)
    for start in range(MOST_REFUSED + 1):
        world.stage(world.manifest(start, start + 1))
        world.server.unfit.add(f"mem://{FAKE_EVENTS}/{start}-{start + 1}@0")
    result = world.commit()
    assert isinstance(result.error, TableStopped)
    assert result.error.reason == "files_refused"
    assert world.record().refused == ()
    world.server.unfit.pop()
    assert world.commit().result is Result.COMMITTED
    assert len(world.record().refused) == MOST_REFUSED


def test_accepting_a_table_does_not_wait_for_a_file_that_is_refused() -> None:
    world = TableWorld()
    world.server.make(FAKE_EVENTS)
    world.stage(world.manifest(0, 5))
    world.commit()
    world.stage(world.manifest(5, 9))
    world.stage(world.manifest(0, 4, topic_id="another", topic_partition=OTHER))
    world.server.unfit.add(f"mem://{FAKE_EVENTS}/5-9@0")
    settling = StateAcceptance(world.committer, world.history, "main")
    assert settling.accept(FAKE_EVENTS, world.staged(), world.request(), dry_run=False).commit
    world.commit()
    assert world.live() == ["0-4@1", "0-5@0"]
    [note] = world.record().refused
    assert note.path.endswith("5-9@0")
    world.server.unfit.clear()
    world.commit()
    assert world.live() == ["0-4@1", "0-5@0", "5-9@0"]


def test_verify_counts_what_was_set_aside_for_one_table_alone(spoilt: Spoilt) -> None:
    world = spoilt.world
    world.set_aside(spoilt.path)
    log = np.arange(32)
    stored = {name: np.array(world.offsets(name)) for name in (EVENTS, ALL)}
    routed = RoutedMessages(log, {EVENTS: log, ALL: log}, log[:0])
    own = np.array(spoilt.own)
    archive = Archive(world.world.own, "table")
    [archived] = quarantined(archive, "flights")
    assert only_table(archive, archived) == EVENTS
    right = compare(FLIGHTS, routed, stored, log[:0], set_aside={EVENTS: own})
    assert right.findings == ()
    for wrong in ({}, {ALL: own}, {EVENTS: np.append(own, 0)}):
        assert compare(FLIGHTS, routed, stored, log[:0], set_aside=wrong).findings
