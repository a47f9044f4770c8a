"""Timestamps of Kafka that no calendar has: their message is stored right or in quarantine."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.tables.catalog import NewTable
from tests.unit.tables.worker_world import Keyed, WorkerWorld

FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999
"""Of the years 1 to 9999, in milliseconds."""

STORED = [None, 0, -1_234, FIRST, LAST]
REFUSED = [
    1_763_694_245_123_456,  # microseconds
    1_763_694_245_123_456_789,  # nanoseconds
    FIRST - 1,
    LAST + 1,
    -(1 << 63),
    (1 << 63) - 1,
]
TABLE = {"table": "db.flights", "auto_create": True, "evolve": True}
COLUMNS = {"rows": {"metadata_columns": ["_offset", "_timestamp"]}}
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def message(number: int, timestamp: int | None) -> Keyed:
    return Keyed(None, {"id": number}, timestamp)


def instant(milliseconds: int | None) -> dt.datetime | None:
    return None if milliseconds is None else EPOCH + dt.timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize("partition_by", [[], ["hour(_timestamp)"]])
def test_tables_have_the_times_of_a_calendar_and_quarantine_the_others(
    tmp_path: Path, partition_by: list[str]
) -> None:
    table = {**TABLE, "partition_by": partition_by}
    world = WorkerWorld(tmp_path, [table], COLUMNS)
    timestamps = [*STORED, *REFUSED]
    world.write(*(message(number, timestamp) for number, timestamp in enumerate(timestamps)))
    rows = {row["id"]: row["_timestamp"] for row in world.rows()}
    assert rows == {number: instant(timestamp) for number, timestamp in enumerate(STORED)}
    reasons = world.reasons()
    assert len(reasons) == len(REFUSED)
    for timestamp in REFUSED:
        why = f"time: db.flights: Kafka's timestamp {timestamp} is no time in milliseconds"
        assert any(reason.startswith(why) for reason in reasons)


def test_orc_tables_have_the_times_that_their_readers_read(tmp_path: Path) -> None:
    properties = {"write.format.default": "orc"}
    world = WorkerWorld(tmp_path, [{**TABLE, "properties": properties}], COLUMNS)
    stored = [None, -9_000_000_000_000, 0, 9_000_000_000_000]
    world.write(*(message(at, it) for at, it in enumerate([*stored, FIRST, LAST, *REFUSED])))
    rows = {row["id"]: row["_timestamp"] for row in world.rows()}
    assert rows == {number: instant(timestamp) for number, timestamp in enumerate(stored)}
    assert len(world.reasons()) == 2 + len(REFUSED)


def test_a_required_column_of_timestamps_refuses_messages_without_one(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}], COLUMNS)
    columns: list[Any] = [
        pa.field("id", pa.int64()),
        pa.field("_offset", pa.int64()),
        pa.field("_timestamp", pa.timestamp("us", "UTC"), nullable=False),
    ]
    world.catalog.create_table("db.flights", NewTable(pa.schema(columns)))
    world.write(message(1, None), message(2, 0))
    assert [row["id"] for row in world.rows()] == [2]
    assert world.reasons() == [
        "time: db.flights: Kafka's timestamp is missing, and _timestamp required"
    ]


def test_a_table_without_the_column_takes_any_timestamp(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [TABLE], {"rows": {"metadata_columns": ["_offset"]}})
    world.write(*(message(number, timestamp) for number, timestamp in enumerate(REFUSED)))
    assert len(world.rows()) == len(REFUSED)
    assert world.reasons() == []


def test_deletions_are_staged_whatever_their_timestamp(tmp_path: Path) -> None:
    table = {**TABLE, "mode": "upsert", "key": ["id"], "evolve": False, "auto_create": False}
    world = WorkerWorld(tmp_path, [table], {**COLUMNS, "commit": {"coordinator": "alone"}})
    columns: list[Any] = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("_offset", pa.int64()),
        pa.field("_timestamp", pa.timestamp("us", "UTC")),
    ]
    world.catalog.create_table("db.flights", NewTable(pa.schema(columns)))
    nanoseconds = REFUSED[1]
    (manifest,) = world.stage(
        Keyed(b'{"id": 1}', {"id": 1}, nanoseconds), Keyed(b'{"id": 2}', None, nanoseconds)
    )
    assert sum(file.records for file in manifest.tables[0].files) == 1
    assert len(world.reasons()) == 1
