"""Rows that are deleted on purpose, by Iceberg's library: recorded, and counted by ``verify``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secor.archive.erasures import Secret
from secor.cli.exit_codes import Exit
from secor.core.errors import ConfigurationError
from secor.core.model import TopicPartition
from secor.tables.catalog import Table
from secor.tables.erased_rows import ErasedRows, RowErasures, RowSet
from secor.tables.recorded_erasure import EXPIRED, NOT_NAMED, RecordedErasure
from secor.verify.tables import COLUMNS, offsets_of
from tests.fakes.store import FakeStore
from tests.unit.cli.verifying_world import FLIGHTS, VerifyingWorld

TABLE = "db.flights"
ROUTE = {"table": TABLE, "auto_create": True}
SECRET = Secret(b"a secret of the group")


@dataclass
class World:
    """What ``secor tables erase`` does, with the library's deletion for Spark's."""

    verifying: VerifyingWorld

    @property
    def library(self) -> Any:
        return self.verifying.worker.catalog.library.load_table(TABLE)

    @property
    def table(self) -> Table:
        return self.verifying.worker.catalog.load_table(TABLE)

    def rows_of(self, snapshot: int, condition: str = "", without: int | None = None) -> RowSet:
        def read(snapshot_id: int, **chosen: Any) -> Mapping[TopicPartition, Any]:
            scan = self.library.scan(snapshot_id=snapshot_id, selected_fields=COLUMNS, **chosen)
            return offsets_of(scan.to_arrow().to_batches())

        rows = read(snapshot, **({"row_filter": condition} if condition else {}))
        gone = {} if without is None else read(without)
        none = np.array([], np.int64)
        return RowSet({key: np.setdiff1d(of, gone.get(key, none)) for key, of in rows.items()})

    def recording(self, key: Sequence[str] = (), secret: Secret | None = None) -> RecordedErasure:
        worker = self.verifying.worker
        records = RowErasures(worker.store, worker.config.output.prefix, self.table.uuid)
        known = records.read(secret)
        history = self.verifying.committing.history
        return RecordedErasure(records, known, key, self.rows_of, "g", history, "main")

    def verify(self, *options: str) -> tuple[int, list[str]]:
        code, text = self.verifying.verify("--rows-only", *options)
        return code, text.splitlines()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    verifying = VerifyingWorld(tmp_path, [ROUTE], monkeypatch)
    verifying.write(*({"id": number, "person": f"p{number % 3}"} for number in range(9)))
    verifying.write(*({"id": number, "person": f"p{number % 3}"} for number in range(9, 18)))
    return World(verifying)


ERASED = "db.flights: 6 rows erased"
ALL = "18 messages of 1 topic partition compared: each is there once"
MISSING = "flights/0: missing in every table: [0, 16), 6 messages"
CONDITION = "person == 'p0'"


def test_rows_that_were_erased_are_counted_and_others_are_still_missing(world: World) -> None:
    recording = world.recording()
    planned = recording.begin(world.table, "person", CONDITION)
    assert planned is not None
    world.library.delete(CONDITION)
    # Rows go, and nothing says yet that they were to go.
    code, lines = world.verify()
    assert (code, lines[0]) == (Exit.DIFFERENT, MISSING)
    assert "an erasure by person of " in lines[1]
    assert recording.finish(world.table, planned, CONDITION) == []
    assert world.verify() == (Exit.OK, [ERASED, ALL])
    assert json.loads(world.verifying.verify("--json")[1])["erased"] == {TABLE: 6}
    # As many rows as were erased, of the same file and of others, that nobody has erased.
    world.library.delete("id in (1, 10)")
    code, lines = world.verify()
    assert (code, lines[:2]) == (
        Exit.DIFFERENT,
        ["flights/0: missing in every table: [1, 11), 2 messages", ERASED],
    )
    # New messages of the same person are not on the record.
    world.verifying.write({"id": 18, "person": "p0"})
    world.library.delete("id in (18)")
    assert world.verify()[1][0] == "flights/0: missing in every table: [1, 19), 3 messages"


def test_what_a_killed_run_has_deleted_is_recorded_by_the_next(world: World) -> None:
    world.recording().begin(world.table, "person", CONDITION)
    world.library.delete(CONDITION)
    # Rows that somebody else has deleted since are not of the erasure.
    world.verifying.write({"id": 18, "person": "p1"})
    world.library.delete("id == 4")
    assert world.recording().conclude(world.table) == []
    code, lines = world.verify()
    assert (code, lines[:2]) == (
        Exit.DIFFERENT,
        ["flights/0: missing in every table: [4, 5), 1 message", ERASED],
    )
    assert world.recording().known.planned == {}
    assert world.recording().conclude(world.table) == []


def test_a_deletion_that_was_refused_leaves_a_record_of_nothing(world: World) -> None:
    world.recording().begin(world.table, "person", CONDITION)
    assert world.verify()[0] == Exit.OK
    assert world.recording().conclude(world.table) == []
    world.library.delete(CONDITION)
    assert world.verify()[1][0] == MISSING


def test_rows_that_come_between_the_note_and_the_deletion_are_recorded(world: World) -> None:
    recording = world.recording()
    planned = recording.begin(world.table, "person", CONDITION)
    world.verifying.write({"id": 18, "person": "p0"})
    world.library.delete(CONDITION)
    recording.finish(world.table, planned, CONDITION)
    lines = ["db.flights: 7 rows erased", ALL.replace("18", "19")]
    assert world.verify() == (Exit.OK, lines)


def test_a_row_that_is_there_again_is_extra(world: World) -> None:
    before = world.table.head()
    assert before is not None
    recording = world.recording()
    planned = recording.begin(world.table, "person", CONDITION)
    world.library.delete(CONDITION)
    recording.finish(world.table, planned, CONDITION)
    world.library.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    code, lines = world.verify()
    again = "erased and there again: run 'secor tables erase' again"
    assert (code, lines[0]) == (
        Exit.DIFFERENT,
        f"flights/0: extra in db.flights: [0, 16), 6 messages, {again}",
    )


def test_snapshots_that_have_expired_prove_nothing(world: World) -> None:
    recording = world.recording()
    planned = recording.begin(world.table, "person", CONDITION)
    world.library.delete(CONDITION)
    assert planned is not None
    number, note = planned
    expired = replace(note, before=12345)
    assert recording.finish(world.table, (number, expired), CONDITION) == [EXPIRED]
    assert world.verify()[1][0] == MISSING


def test_keys_are_explained_below_the_vector_of_the_snapshot_that_lost_them(world: World) -> None:
    recording = world.recording(["id"], SECRET)
    hash_of = recording.known.hash_of
    keys = {'{"id":7}', '{"id":""}', "{}"}
    rows = RowSet(hashes=frozenset(map(hash_of, keys)))
    recording = RecordedErasure(
        recording.records,
        recording.known,
        ["id"],
        lambda snapshot, condition="", without=None: rows,
        "g",
        recording.history,
        "main",
    )
    planned = recording.begin(world.table, "person", CONDITION)
    world.library.delete(CONDITION)
    recording.finish(world.table, planned, CONDITION)
    known = recording.records.read(SECRET).require()
    for key in keys:
        assert known.explain(key, [(FLIGHTS, 17)])
    # Of a later message, of another partition, of another key, of a longer one: not explained.
    assert not known.explain('{"id":7}', [(FLIGHTS, 18)])
    assert not known.explain('{"id":7}', [(FLIGHTS, 17), (TopicPartition("flights", 1), 0)])
    assert not known.explain('{"id":8}', [(FLIGHTS, 3)])
    assert not known.explain('{"id":77}', [(FLIGHTS, 3)])
    for secret in (None, Secret(b"another secret, not that")):
        with pytest.raises(ConfigurationError, match=r"set erase\.secret"):
            recording.records.read(secret).require()
    body = (p for p in world.verifying.worker.directory.rglob("*") if "_erased" in str(p))
    assert not any(b'"id":7' in path.read_bytes() for path in body if path.is_file())


def test_without_a_secret_a_person_is_asked_for_one_of_tables_with_keys(world: World) -> None:
    recording = world.recording(["id"])
    planned = recording.begin(world.table, "person", CONDITION)
    assert planned is None
    assert recording.finish(world.table, planned, CONDITION) == [NOT_NAMED]


def test_an_unfinished_erasure_by_another_secret_is_named(world: World) -> None:
    recording = world.recording(["id"], SECRET)
    note = ErasedRows(TABLE, "id", "now", "a test", 1, secret="other", hashes=frozenset([b"h"]))
    recording.records.begin(note)
    with pytest.raises(ConfigurationError, match="with another secret"):
        world.recording(["id"], SECRET).conclude(world.table)


def test_two_runs_take_different_numbers() -> None:
    store = FakeStore()
    first, second = (RowErasures(store, "p", "uuid") for _ in range(2))
    note = ErasedRows("db.t", "id", "2026-11-28T10:00:00+00:00", "a test", 1)
    assert [first.begin(note), second.begin(note)] == [1, 2]
    first.finish(note, 1)
    second.add(note)
    known = first.read(None)
    assert (set(known.done), set(known.planned)) == ({1, 3}, {2})
