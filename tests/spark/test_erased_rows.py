"""Rows that a real Spark erases, in both modes, and what ``secor verify`` says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from secor.archive.erasures import Secret
from secor.spark.erased_rows import SnapshotRows
from secor.spark.procedures import call
from secor.spark.table_state import compare_state
from secor.tables.catalog import CommitResult, Outcome, TableCommit
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.group_record import GroupRecord, LastCommit
from secor.tables.commit.vector import TopicOffsets, Vector
from secor.tables.erased_rows import RowErasures
from secor.tables.erasing import Deletion
from secor.tables.recorded_erasure import RecordedErasure
from secor.tables.rows.row_changes import DELETE, UPSERT
from secor.tables.staging.manifest import Manifest
from secor.verify.keys import TableState
from secor.verify.tables import COLUMNS, RoutedMessages, compare, offsets_of
from tests.spark.test_iceberg_tables import METADATA, connect
from tests.spark.test_merging import TABLE, World
from tests.spark.test_merging import UPSERT as ROUTE
from tests.unit.tables.committing_world import EVENTS, FLIGHTS, CommittingWorld
from tests.unit.tables.worker_world import Keyed, WorkerWorld

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # PySpark leaves sockets behind
]

SECRET = Secret(b"a secret of the group")
MODES = ("copy-on-write", "merge-on-read")


@pytest.mark.parametrize("mode", MODES)
def test_erased_messages_are_counted_and_lost_ones_are_missing(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    properties = {"write.delete.mode": mode}
    route = {"table": EVENTS, "auto_create": True, "properties": properties}
    world = WorkerWorld(tmp_path, [route], METADATA)
    group = CommittingWorld(world)
    for _ in range(3):
        group.write()
    session = connect(spark, world)
    table = world.catalog.load_table(EVENTS)
    records = RowErasures(world.own, "table", table.uuid)
    rows_of = SnapshotRows(session, f"secor.{EVENTS}")
    erasing = RecordedErasure(records, records.read(None), (), rows_of, "g", group.history, "main")
    deletion = Deletion("id", pa.int64(), [1, 3, 4, 77])
    planned = erasing.begin(table, "id", deletion.condition())
    group.write()
    call(session, deletion.delete("secor", EVENTS))
    assert erasing.finish(world.catalog.load_table(EVENTS), planned, deletion.condition()) == []
    call(session, Deletion("id", pa.int64(), [5]).delete("secor", EVENTS))
    known = records.read(None)
    assert (known.rows.of(FLIGHTS).tolist(), known.planned) == ([1, 3, 4], {})
    log = np.arange(world.offset)
    stored = offsets_of(world.catalog.scan(world.catalog.load_table(EVENTS), "main", COLUMNS))
    result = compare(
        FLIGHTS,
        RoutedMessages(log, {EVENTS: log}, log[:0]),
        {EVENTS: stored[FLIGHTS]},
        log[:0],
        erased={EVENTS: known.rows.of(FLIGHTS)},
    )
    assert result.erased == {EVENTS: 3}
    assert list(map(str, result.findings)) == [
        "flights/0: missing in every table: [5, 6), 1 message"
    ]


CHANGE = (
    "operation tinyint, topic string, partition int, offset bigint, timestamp bigint,"
    " row struct<id: int, person: string>"
)


class KeyedWorld(World):
    """A table that is changed by key; ``changes`` are what its messages did."""

    changes: list[tuple[Any, ...]]

    def write(self, *messages: object) -> None:  # type: ignore[override]
        for offset, message in enumerate(messages, self.offset):
            operation, row = UPSERT, cast("dict[str, Any]", message)
            if isinstance(message, Keyed):
                operation, row = DELETE, {"id": int(message.key or b"")}
            self.changes.append(
                (operation, "flights", 0, offset, 5, (row["id"], row.get("person")))
            )
        assert self.merge(*self.stage(*messages)).outcome is Outcome.DONE

    def merge(self, *manifests: Manifest) -> CommitResult:
        self.commits += 1
        table = self.merging.load_table(TABLE)
        head = table.head()
        offsets = TopicOffsets("topic-id", {0: self.offset})
        last = LastCommit(f"commit-{self.commits}", 0, 1, 1)
        record = GroupRecord(Vector().with_topic("cluster", "flights", offsets), last)
        files = tuple(of_table for manifest in manifests for of_table in manifest.tables)
        base = head.snapshot_id if head is not None else None
        commit = TableCommit(base, files, record.properties("g"), record.summary("g"))
        return self.merging.commit(table, commit)

    def state(self, records: RowErasures, session: SparkSession) -> TableState:  # type: ignore[override]
        return compare_state(
            TABLE,
            session.createDataFrame(self.changes, CHANGE),
            session.table(f"secor.{TABLE}"),
            ["id"],
            whole_log=True,
            erased=records.read(SECRET).require().explain,
        )


@pytest.mark.parametrize("mode", MODES)
def test_erased_keys_are_counted_until_a_later_message_brings_them_back(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    modes = {f"write.{step}.mode": mode for step in ("merge", "delete", "update")}
    route = {**ROUTE, "auto_create": True, "properties": modes}
    settings = {"commit": {"coordinator": "alone"}, "parser": {"decoder": "json"}}
    world = KeyedWorld(tmp_path, [route], settings)
    world.changes = []
    world.begin(spark)
    world.write(*({"id": number, "person": f"p{number % 3}"} for number in range(9)))
    world.write({"id": 0, "person": "p0"}, Keyed(b"8", None))
    session = connect(spark, world)
    table = world.catalog.load_table(TABLE)
    records = RowErasures(world.own, "table", table.uuid)
    known = records.read(SECRET)
    history = CommitHistory(world.own, "table")
    rows_of = SnapshotRows(session, f"secor.{TABLE}", ["id"], known.hash_of)
    erasing = RecordedErasure(records, known, ["id"], rows_of, "g", history, "main")
    deletion = Deletion("person", pa.string(), ["p0", "p"])  # not those of which one is a part
    planned = erasing.begin(table, "person", deletion.condition())
    call(session, deletion.delete("secor", TABLE))
    # Nothing says yet that they were to go.
    assert world.state(records, session).wrong == {"missing": 3}
    assert erasing.finish(world.catalog.load_table(TABLE), planned, deletion.condition()) == []
    state = world.state(records, session)
    assert (state.wrong, state.erased, state.keys) == ({}, 3, 9)
    assert "3 rows erased" in state.remark
    # One that somebody has lost, and one that came back and was lost then.
    world.write({"id": 3, "person": "p0"})
    state = world.state(records, session)
    assert (state.wrong, state.erased) == ({}, 2)
    call(session, Deletion("id", pa.int32(), [3, 4]).delete("secor", TABLE))
    state = world.state(records, session)
    assert (state.wrong, state.erased) == ({"missing": 2}, 2)
    assert [finding.text for finding in state.examples] == [
        'missing: {"id":4}, last changed by flights/0, offset 4',
        'missing: {"id":3}, last changed by flights/0, offset 11',
    ]
