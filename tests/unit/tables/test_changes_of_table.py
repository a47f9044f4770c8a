"""What ``secor verify`` reads of a log is what was staged of it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark import cloudpickle

from secor.core.model import Chunk, OffsetRange, TopicPartition
from secor.tables.rows.unavailable_values import DEBEZIUM_DEFAULT
from secor.tables.staging.changes_of_table import UNFIT
from secor.tables.staging.manifest import Manifest
from secor.wiring.table_changes import (
    LogChanges,
    UncommittedMessages,
    appends_to,
    parts_of_log,
    sendable,
)
from tests.unit.tables.test_worker_changes import DEBEZIUM, UPSERT, staged, world_of
from tests.unit.tables.worker_world import Keyed, WorkerWorld, chunk_of

FLIGHTS = TopicPartition("flights", 0)
TOPIC_NAMED = {**UPSERT, "table": "db.{topic}"}
FIELD_NAMED = {**UPSERT, "table": "db.{fields.kind}"}


class Reader:
    """A log in memory."""

    def __init__(self, messages: Sequence[object]) -> None:
        self.messages = messages

    def read(self, key: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        yield chunk_of(self.messages[start:end], key, start)


def read(
    world: WorkerWorld, messages: Sequence[object], monkeypatch: pytest.MonkeyPatch, *bad: int
) -> list[dict[str, Any]]:
    """Read the changes as a task does: what it gets was sent to its process."""

    @contextmanager
    def open_log(config: object) -> Iterator[Reader]:
        yield Reader(messages)

    monkeypatch.setattr("secor.wiring.table_changes.open_reader", open_log)
    table = sendable(world.catalog.load_table("db.flights"))
    parts = parts_of_log({FLIGHTS: OffsetRange(0, len(messages))})
    changes = LogChanges(world.config, table, parts, {FLIGHTS: np.array(bad, np.int64)})
    rows = [
        row
        for batch in pickle.loads(cloudpickle.dumps(changes))([0])  # noqa: S301  # our own
        for row in batch.to_pylist()
    ]
    return sorted(rows, key=lambda row: int(row["offset"]))


@pytest.mark.parametrize(
    ("route", "messages"),
    [
        (UPSERT, [{"id": 1, "v": "a"}, {"id": 2, "w": 7}, Keyed(b"1", None), {"id": 2, "v": "b"}]),
        (TOPIC_NAMED, [{"id": 1}, Keyed(b'{"id": 9}', None), {"id": 1, "new": [1, 2]}]),
        (FIELD_NAMED, [{"id": 1, "kind": "flights"}, {"id": 2, "kind": "trains"}]),
        (
            DEBEZIUM,
            [
                {"op": "c", "after": {"id": 1, "v": "a"}},
                {"op": "u", "after": {"id": 1, "v": "b"}},
                {"op": "u", "after": {"id": 1, "v": DEBEZIUM_DEFAULT}},
                {"op": "d", "before": {"id": 1}},
            ],
        ),
    ],
)
def test_the_changes_of_a_log_are_those_that_were_staged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    route: dict[str, Any],
    messages: list[object],
) -> None:
    world = world_of(tmp_path, route)
    manifests = world.stage(*messages)
    columns = world.catalog.load_table("db.flights").schema.names
    wanted = [
        {**row, "row": {name: row["row"].get(name) for name in columns}}
        for row in staged(world, [_only_flights(it) for it in manifests])
    ]
    assert read(world, messages, monkeypatch) == wanted


def _only_flights(manifest: Manifest) -> Manifest:
    tables = tuple(it for it in manifest.tables if it.table == "db.flights")
    return replace(manifest, tables=tables)


def test_messages_in_quarantine_change_nothing_and_others_that_do_not_fit_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, {**UPSERT, "evolve": False})
    messages: list[object] = [{"id": 1}, {"id": "x"}, {"v": 1}, {"id": 2}, {"id": "y"}]
    world.stage(messages[0])  # ids are numbers
    changes = read(world, messages, monkeypatch, 1, 3)
    assert [(it["offset"], it["operation"]) for it in changes] == [(0, 0), (2, UNFIT), (4, UNFIT)]


def test_tables_to_which_rows_are_appended_as_well_are_told(tmp_path: Path) -> None:
    log = {"table": "db.flights", "topics": "more"}
    config = world_of(tmp_path, {**UPSERT, "topics": "flights"}, log).config
    assert not appends_to(config, ["flights"], "db.flights")
    assert appends_to(config, ["flights", "more"], "db.flights")
    assert not appends_to(config, ["flights", "more"], "db.other")


def test_long_logs_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secor.wiring.table_changes.MOST_OFFSETS", 10)
    empty = TopicPartition("flights", 1)
    parts = parts_of_log({FLIGHTS: OffsetRange(5, 26), empty: OffsetRange(3, 3)})
    assert [(it.start, it.end) for _, it in parts] == [(5, 15), (15, 25), (25, 26)]


class Log(Reader):
    """A log in memory that has an end."""

    def log_range(self, key: TopicPartition) -> OffsetRange:
        return OffsetRange(0, len(self.messages))


@pytest.mark.parametrize(
    ("sources", "position"),
    [
        ([{"lsn": 7}, {"lsn": 9}, {"lsn": 8}], 9),
        # Other changes of a transaction of MariaDB, which has one position, may still come.
        ([{"gtid": "0-1-344"}, {"gtid": "0-2-345"}], 344),
        ([{"gtid": "not one"}, {"gtid": None}], None),
        ([{}], None),
    ],
)
def test_a_log_shows_up_to_which_position_of_the_source_it_is_whole(
    tmp_path: Path, sources: list[dict[str, Any]], position: int | None
) -> None:
    world = world_of(tmp_path, DEBEZIUM)
    messages = [{"op": "c", "after": {"id": 1}, "source": source} for source in sources]
    world.stage(*messages)
    table = world.catalog.load_table("db.flights")
    log: Any = Log(messages)
    messages_left = UncommittedMessages(world.config, log, table, {FLIGHTS: 0})
    assert sum(batch.num_rows for batch in messages_left.read()) == len(messages)
    assert messages_left.position == position
