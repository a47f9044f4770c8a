"""Messages that change rows: staged as operations with the position that they come from."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from secor.batch.policy import Reason
from secor.core.errors import SchemaGrew, TableUnusable
from secor.core.model import TopicPartition
from secor.tables.catalog import FIELD_ID, STAGED_WRITES, NewTable
from secor.tables.staging.manifest import Manifest
from tests.unit.adapters.test_iceberg_catalog import EVERY_TYPE
from tests.unit.tables.test_worker import AS_READ, EVERYTHING
from tests.unit.tables.worker_world import PARTITION, TIMESTAMP, Keyed, WorkerWorld, chunk_of

FLIGHTS = {"table": "db.flights", "auto_create": True, "evolve": True, "key": ["id"]}
UPSERT = {**FLIGHTS, "mode": "upsert"}
DEBEZIUM = {**FLIGHTS, "mode": "cdc"}
ALONE = {"commit": {"coordinator": "alone"}}
YEAR_20000 = 568_971_820_800_000_000
"""In microseconds since 1970."""


def world_of(directory: Path, *tables: dict[str, Any], **settings: Any) -> WorkerWorld:
    return WorkerWorld(directory, list(tables), {**ALONE, **settings})


def staged(world: WorkerWorld, manifests: Sequence[Manifest]) -> list[dict[str, Any]]:
    """Return what the files of manifests hold."""
    rows: list[dict[str, Any]] = []
    for manifest in manifests:
        for table in manifest.tables:
            assert table.operation == "changes"
            for file in table.files:
                assert file.path.startswith("table/_changes/db.flights/")
                with world.own.open(file.path) as stored:
                    rows += pq.read_table(io.BytesIO(stored.read())).to_pylist()
    return rows


def operations(world: WorkerWorld, manifests: Sequence[Manifest]) -> list[tuple[int, int, Any]]:
    """Return offset, operation and id of all changes."""
    rows = [(it["offset"], it["operation"], it["row"]["id"]) for it in staged(world, manifests)]
    assert rows == sorted(rows)
    return rows


def test_each_message_is_the_newest_state_of_its_key(tmp_path: Path) -> None:
    world = world_of(tmp_path, UPSERT)
    manifests = world.stage({"id": 1, "v": "a"}, {"id": 2}, {"id": 1, "v": "b"})
    assert staged(world, manifests) == [
        {
            "operation": 0,
            "topic": "flights",
            "partition": 0,
            "offset": offset,
            "timestamp": TIMESTAMP,
            "row": {"id": row_id, "v": value},
        }
        for offset, row_id, value in ((0, 1, "a"), (1, 2, None), (2, 1, "b"))
    ]
    table = world.catalog.load_table("db.flights")
    assert table.key == ("id",)
    assert not table.schema.field("id").nullable
    assert table.properties[STAGED_WRITES] == "true"
    assert [it.key for manifest in manifests for it in manifest.tables] == [(1,)]


@pytest.mark.parametrize(
    "key",
    [b"7", b'"7"', b'{"id": 7}', b'{"schema": {"type": "struct"}, "payload": {"id": 7, "x": 1}}'],
)
def test_a_message_without_a_value_deletes_the_row_of_its_key(tmp_path: Path, key: bytes) -> None:
    world = world_of(tmp_path, UPSERT)
    manifests = world.stage({"id": 7}, Keyed(key, None))
    assert operations(world, manifests) == [(0, 0, 7), (1, 1, 7)]
    assert world.reasons() == []


def test_a_key_with_connects_schema_is_read_by_it(tmp_path: Path) -> None:
    world = world_of(tmp_path, UPSERT)
    price = {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "9"},
        "field": "id",
    }
    schema = {"type": "struct", "fields": [price]}
    key = json.dumps({"schema": schema, "payload": {"id": "AiY="}}).encode()
    bad = json.dumps({"schema": schema, "payload": {"id": 7.5, "x": 1}}).encode()
    made = {"schema": schema, "payload": {"id": "AiY="}}
    manifests = world.stage(made, Keyed(key, None), Keyed(bad, None))
    assert operations(world, manifests) == [(0, 0, Decimal("5.50")), (1, 1, Decimal("5.50"))]
    [reason] = world.reasons()
    assert "its key does not have id: field 'x' is not in the message's schema" in reason


def test_a_deletion_whose_key_tells_nothing_is_in_quarantine(tmp_path: Path) -> None:
    world = world_of(tmp_path, UPSERT)
    keys = (None, b'{"other": 1}', b"x", b"\xff")
    manifests = world.stage({"id": 7}, *(Keyed(key, None) for key in keys))
    assert operations(world, manifests) == [(0, 0, 7)]
    reasons = world.reasons()
    assert reasons[0] == "change: deletes, and its key does not have id"
    assert reasons[1] == "schema: db.flights: id is missing, which is in the table's key"
    assert reasons[2].startswith("schema: db.flights: id")
    assert reasons[3] == reasons[0]


def test_a_row_without_its_key_is_in_quarantine(tmp_path: Path) -> None:
    world = world_of(tmp_path, UPSERT)
    manifests = world.stage({"id": 7}, {"v": "x"}, {"id": None})
    assert operations(world, manifests) == [(0, 0, 7)]
    assert len(world.reasons()) == 2
    assert all("id" in reason for reason in world.reasons())


def test_first_messages_without_their_key_make_no_table(tmp_path: Path) -> None:
    world = world_of(tmp_path, {**UPSERT, "key": ["id", "of"]})
    world.stage({"id": 1, "v": "a"}, {"of": 1, "v": "b"}, Keyed(b'{"id": 1, "of": 1}', None))
    assert world.catalog.list_tables("db") == []
    assert all("the message has no id and of of it" in reason for reason in world.reasons())
    assert len(world.reasons()) == 3
    manifests = world.stage({"id": 1, "of": 1, "v": "c"})
    assert [(row["operation"], row["row"]["v"]) for row in staged(world, manifests)] == [(0, "c")]


def test_a_field_may_say_that_a_message_deletes(tmp_path: Path) -> None:
    route = {**UPSERT, "operation_field": "deleted", "deletes": ["true"]}
    world = world_of(tmp_path, route)
    manifests = world.stage({"id": 1, "v": 1}, {"id": 1, "deleted": True}, {"id": 2, "deleted": 0})
    assert operations(world, manifests) == [(0, 0, 1), (1, 1, 1), (2, 0, 2)]
    assert world.catalog.load_table("db.flights").schema.names == ["id", "v"]


def test_a_field_says_what_each_message_does(tmp_path: Path) -> None:
    values = {"operation_field": "op", "upserts": ["I", "U"], "deletes": ["D"]}
    world = world_of(tmp_path, {**DEBEZIUM, **values})
    messages = [{"op": op, "id": number} for number, op in enumerate(["I", "U", "D", "X", None])]
    assert operations(world, world.stage(*messages)) == [(0, 0, 0), (1, 0, 1), (2, 1, 2)]
    assert world.reasons() == [
        "change: op is 'X': no known operation",
        "change: op is missing: no known operation",
    ]


def envelope(op: str, before: object = None, after: object = None) -> dict[str, object]:
    return {"op": op, "before": before, "after": after, "source": {"lsn": 5}, "ts_ms": 1}


@pytest.mark.parametrize("wrapped", [False, True])
def test_envelopes_of_debezium(tmp_path: Path, wrapped: bool) -> None:
    world = world_of(tmp_path, DEBEZIUM)
    row, newer = {"id": 1, "v": "a"}, {"id": 1, "v": "b"}
    messages: list[Any] = [
        envelope("r", after={"id": 5, "v": None}),
        envelope("c", after=row),
        envelope("u", row, newer),
        envelope("d", newer),
        envelope("t"),
        envelope("u"),
        {"id": 9},
    ]
    if wrapped:
        messages = [{"schema": {"type": "struct"}, "payload": it} for it in messages]
    messages += [Keyed(b'{"id": 1}', None), Keyed(b'{"id": 3}', envelope("d"))]
    manifests = world.stage(*messages)
    assert operations(world, manifests) == [
        (0, 0, 5),
        (1, 0, 1),
        (2, 0, 1),
        (3, 1, 1),
        (7, 1, 1),
        (8, 1, 3),
    ]
    assert world.catalog.load_table("db.flights").schema.names == ["id", "v"]
    assert [reason.partition(";")[0] for reason in world.reasons()] == [
        "change: truncates the table: delete the rows yourself, and drop this message",
        "change: Debezium's 'u' without after",
        "change: no Debezium envelope: it has no op",
    ]


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_update_under_another_key_deletes_the_row_of_the_former(
    tmp_path: Path, wrapped: bool
) -> None:
    world = world_of(tmp_path, {**DEBEZIUM, "key": ["id", "of"]})
    row = {"id": 1, "of": "a", "v": 1}
    messages: list[Any] = [
        envelope("c", after=row),
        envelope("u", {**row, "v": None}, {**row, "v": 2}),
        envelope("u", {**row, "id": 1}, {**row, "id": 2}),
        envelope("u", {"id": 2, "of": None}, {**row, "id": 3}),  # its key is not known
        envelope("u", {"v": 1}, {**row, "id": 4}),
        envelope("u", {"id": "x", "of": "a"}, {**row, "id": 5}),
        envelope("u", {"id": 4, "of": "a", "v": "not the column's"}, {**row, "of": "b"}),
        envelope("u", {"id": 8, "of": "a"}, {**row, "id": None}),
    ]
    if wrapped:
        messages = [{"schema": None, "payload": it} for it in messages]
    changes = staged(world, world.stage(*messages))
    assert [
        (it["offset"], it["operation"], it["row"]["id"], it["row"]["of"]) for it in changes
    ] == [
        (0, 0, 1, "a"),
        (1, 0, 1, "a"),
        (2, 0, 2, "a"),
        (2, 1, 1, "a"),
        (3, 0, 3, "a"),
        (4, 0, 4, "a"),
        (6, 0, 1, "b"),
        (6, 1, 4, "a"),
    ], world.reasons()
    assert len(world.reasons()) == 2
    assert "'x'" in world.reasons()[0]


def test_a_deletion_whose_row_lacks_its_key_takes_that_of_kafka(tmp_path: Path) -> None:
    world = world_of(tmp_path, DEBEZIUM)
    messages = [
        envelope("c", after={"id": 1, "v": 1}),
        Keyed(b'{"id": 1}', envelope("d", {"v": 1})),
        Keyed(b'{"id": 2}', envelope("d", {"id": None, "v": 1})),
        Keyed(b'{"v": 3}', envelope("d", {"v": 1})),
        envelope("d", {"v": 1}),
        Keyed(b'{"id": 9}', envelope("d", {"id": 4, "v": 1})),
    ]
    manifests = world.stage(*messages)
    assert operations(world, manifests) == [(0, 0, 1), (1, 1, 1), (2, 1, 2), (5, 1, 4)]
    assert world.reasons() == [
        "schema: db.flights: id is missing, which is in the table's key",
        "change: deletes, and its key does not have id",
    ]


TRUNCATION = envelope("t")
OTHER_EVENTS: Sequence[tuple[str, dict[str, Any]]] = (
    ("message", {"op": "m", "ts_ms": 1, "message": {"prefix": "p", "content": "aGk="}}),
    ("heartbeat", {"ts_ms": 1}),
    ("transaction", {"status": "BEGIN", "id": "571", "event_count": None, "ts_ms": 1}),
    ("transaction", {"status": "END", "id": "571", "event_count": 2, "data_collections": []}),
    ("schema_change", {"source": {}, "databaseName": "d", "ddl": "DROP TABLE x", "ts_ms": 1}),
    ("schema_change", {"databaseName": "d", "ddl": None, "tableChanges": [{"type": "ALTER"}]}),
    ("signal", {"type": "execute-snapshot", "data": {"data-collections": ["public.x"]}}),
    ("signal", envelope("c", after={"id": "a", "type": "snapshot-window-open", "data": None})),
    ("notification", {"id": "1", "aggregate_type": "Initial Snapshot", "type": "STARTED"}),
)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("table", ["db.flights", "db.{fields.source.table}"])
def test_events_that_change_no_row_are_counted_and_left_out(
    tmp_path: Path, wrapped: bool, table: str
) -> None:
    world = world_of(tmp_path, {**DEBEZIUM, "table": table})
    events: list[Any] = [event for _, event in OTHER_EVENTS]
    first, second = ({"id": it, "type": "a", "data": "b"} for it in (1, 2))
    rows = [envelope("c", after=row) | {"source": {"table": "flights"}} for row in (first, second)]
    if wrapped:
        events, rows = ([{"schema": None, "payload": it} for it in of] for of in (events, rows))
    before = world.stage(*events)
    assert [manifest.tables for manifest in before] == [()]
    assert world.catalog.list_tables("db") == []
    assert operations(world, world.stage(rows[0], *events, rows[1])) == [
        (len(events), 0, 1),
        (2 * len(events) + 1, 0, 2),
    ]
    assert world.reasons() == []
    kinds = Counter(kind for kind, _ in OTHER_EVENTS)
    counted = {name: number for name, number in world.counts.items() if name != "filtered"}
    # What is parsed again because a table is made is counted each time.
    assert counted.keys() == {f"events_{kind}" for kind in kinds}
    assert counted["events_signal"] == 2 * counted["events_heartbeat"]
    assert world.counts["filtered"] == sum(counted.values())


def test_flat_messages_are_no_events(tmp_path: Path) -> None:
    world = world_of(tmp_path, {**UPSERT, "key": ["ts_ms"]})
    assert len(staged(world, world.stage({"ts_ms": 1}, {"ts_ms": 2, "op": "t"}))) == 2


def test_a_truncation_is_ignored_where_that_is_asked_for(tmp_path: Path) -> None:
    world = world_of(tmp_path, {**DEBEZIUM, "truncate": "ignore"})
    manifests = world.stage(envelope("c", after={"id": 1}), TRUNCATION)
    assert operations(world, manifests) == [(0, 0, 1)]
    assert world.counts["events_truncate"] == 1
    assert world.reasons() == []


def test_a_truncation_in_quarantine_names_the_setting(tmp_path: Path) -> None:
    world = world_of(tmp_path, DEBEZIUM)
    world.stage(envelope("c", after={"id": 1}), TRUNCATION)
    (reason,) = world.reasons()
    assert "truncate in [[tables]]" in reason


def test_a_truncation_stops_after_what_comes_before(tmp_path: Path) -> None:
    world = world_of(tmp_path, {**DEBEZIUM, "truncate": "stop"})
    world.stage(envelope("c", after={"id": 0}))
    messages = [envelope("c", after={"id": 1}), TRUNCATION, envelope("c", after={"id": 2})]
    chunk = chunk_of(messages, TopicPartition("flights", PARTITION), world.offset)
    batch = world.open(world.plans("flights", None), world.offset)
    with pytest.raises(SchemaGrew) as grew:
        batch.append(chunk)
    assert grew.value.offset == 2
    batch.append(chunk.until(2))
    assert operations(world, [world.put(batch.seal(Reason.SCHEMA))]) == [(1, 0, 1)]
    batch = world.open(world.plans("flights", None), 2)
    with pytest.raises(TableUnusable, match=r'at offset 2 .*truncate = "ignore"'):
        batch.append(chunk.since(2))


def test_a_tombstone_of_another_key_repeats_its_deletion(tmp_path: Path) -> None:
    world = world_of(tmp_path, DEBEZIUM)
    deletion = Keyed(b'{"number": 7}', envelope("d", {"id": 1, "number": 7}))
    manifests = world.stage(
        envelope("c", after={"id": 1, "number": 7}),
        deletion,
        Keyed(b'{"number": 7}', None),
        Keyed(b"\xff", None),
    )
    assert operations(world, manifests) == [(0, 0, 1), (1, 1, 1)]
    assert world.counts["events_tombstone"] == 1
    assert world.reasons() == ["change: deletes, and its key does not have id"]


def test_deletions_may_mark_their_rows(tmp_path: Path) -> None:
    """Everything but the key and the mark keeps its value."""
    world = world_of(tmp_path, {**DEBEZIUM, "keep_deletes": True})
    world.stage(envelope("c", after={"id": 1, "v": "a"}))
    changes = staged(
        world,
        world.stage(
            envelope("d", {"id": 1, "v": None}),
            Keyed(b'{"id": 2}', None),
            envelope("u", {"id": 3}, {"id": 4, "v": "b"}),
            Keyed(b'{"v": 2}', envelope("d", {"v": 1})),
        ),
    )
    columns = world.catalog.load_table("db.flights").schema
    number = int(columns.field("v").metadata[FIELD_ID])
    assert columns.field("__deleted").type == pa.bool_()
    deleted = {"v": None, "__deleted": True}
    assert [(it["operation"], it["row"], it["kept"] or []) for it in changes] == [
        (0, {"id": 1, **deleted}, [number]),
        (0, {"id": 2, **deleted}, [number]),
        (0, {"id": 4, "v": "b", "__deleted": False}, []),
        (0, {"id": 3, **deleted}, [number]),
    ]
    assert world.reasons() == ["schema: db.flights: id is missing, which is in the table's key"]


def test_a_table_that_does_not_grow_needs_the_mark_of_deleted_rows(tmp_path: Path) -> None:
    world = world_of(tmp_path, {**UPSERT, "evolve": False, "keep_deletes": True})
    world.catalog.create_table("db.flights", NewTable(pa.schema([pa.field("id", pa.int64())]), ()))
    with pytest.raises(TableUnusable, match="no column __deleted"):
        world.stage({"id": 1})


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_row_of_which_only_the_sources_key_is_there_tells_no_other_key(
    tmp_path: Path, wrapped: bool
) -> None:
    """Debezium fills other columns that may not be null: seen with its connector for PostgreSQL."""
    world = world_of(tmp_path, {**DEBEZIUM, "key": ["code"]})
    row = {"id": 1, "code": "a", "v": "x", "n": 5}
    filled = {"id": 1, "code": "", "v": None, "n": 0}
    messages = [
        (envelope("c", after=row), 1),
        (envelope("c", after={**row, "code": ""}), 2),
        (envelope("d", filled), 1),
        (envelope("u", {**filled, "id": 3}, {**row, "id": 3, "code": "b"}), 3),
        (envelope("d", {**row, "id": 4, "code": ""}), 4),
        (envelope("d", {**filled, "code": "c"}), 0),
    ]
    keyed = []
    for value, number in messages:
        key: Any = {"id": number}
        keyed.append(
            Keyed(json.dumps({"schema": None, "payload": key} if wrapped else key).encode(), value)
        )
    changes = staged(world, world.stage(*keyed))
    assert [(it["offset"], it["operation"], it["row"]["code"]) for it in changes] == [
        (0, 0, "a"),
        (1, 0, ""),
        (3, 0, "b"),
        (4, 1, ""),
        (5, 1, "c"),
    ]
    (reason,) = world.reasons()
    assert "REPLICA IDENTITY FULL" in reason


def test_a_time_that_python_does_not_have_is_a_value_of_the_row(tmp_path: Path) -> None:
    """PostgreSQL has years up to 294276; a row with all of its values tells its old key."""
    world = world_of(tmp_path, {**DEBEZIUM, "key": ["code"]})
    row = [
        {"field": "id", "type": "int64"},
        {"field": "code", "type": "string"},
        {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    ]
    fields = [
        {"field": "before", "type": "struct", "optional": True, "fields": row},
        {"field": "after", "type": "struct", "optional": True, "fields": row},
        {"field": "op", "type": "string"},
    ]
    values = {"id": 1, "code": "a", "at": 0}
    payloads = [
        {"op": "c", "before": None, "after": values},
        {"op": "d", "before": {**values, "code": "", "at": YEAR_20000}, "after": None},
    ]
    around = {"type": "struct", "fields": fields}
    messages = [Keyed(b'{"id": 1}', {"schema": around, "payload": payload}) for payload in payloads]
    changes = staged(world, world.stage(*messages))
    assert world.reasons() == []
    assert [(it["offset"], it["operation"], it["row"]["code"]) for it in changes] == [
        (0, 0, "a"),
        (1, 1, ""),
    ]


def test_columns_that_tell_where_a_row_came_from(tmp_path: Path) -> None:
    rows = {"metadata_columns": ["_topic", "_kafka_partition", "_offset"]}
    world = world_of(tmp_path, UPSERT, rows=rows)
    (first, second) = staged(world, world.stage({"id": 1}, Keyed(b"1", None)))
    where = {"_topic": "flights", "_kafka_partition": 0, "_offset": 0}
    assert first["row"] == {"id": 1, **where}
    assert second["row"] == {**dict.fromkeys(first["row"]), "id": 1}


def test_a_filter_keeps_messages_without_a_value(tmp_path: Path) -> None:
    """They have no field to look at; to delete what is not there does no harm."""
    steps = [{"kind": "filter", "field": "country", "equals": "NL"}]
    route = {**UPSERT, "field": "country"}
    world = world_of(tmp_path, route, parser={"transforms": steps})
    messages = ({"id": 1, "country": "NL"}, {"id": 2, "country": "DE"}, Keyed(b"2", None))
    assert operations(world, world.stage(*messages)) == [(0, 0, 1), (2, 1, 2)]
    assert world.counts["filtered"] == 1


def test_a_table_that_grows_begins_a_batch(tmp_path: Path) -> None:
    world = world_of(tmp_path, UPSERT)
    world.stage({"id": 1})
    manifests = world.stage({"id": 2}, {"id": 3, "new": 5}, Keyed(b"1", None))
    assert [(it.start, it.end) for it in manifests] == [(1, 2), (2, 4)]
    assert operations(world, manifests) == [(1, 0, 2), (2, 0, 3), (3, 1, 1)]
    assert [row["row"].get("new") for row in staged(world, manifests)] == [None, 5, None]


def test_appended_and_changed_rows_of_one_topic(tmp_path: Path) -> None:
    log = {"table": "db.log", "auto_create": True}
    world = world_of(tmp_path, UPSERT, log)
    (manifest,) = world.stage({"id": 1}, {"id": 2})
    assert {it.table: it.operation for it in manifest.tables} == {
        "db.flights": "changes",
        "db.log": "append",
    }
    (after,) = world.stage(Keyed(b"1", None))
    assert [it.table for it in after.tables] == ["db.flights"]


def test_every_type_is_staged(tmp_path: Path) -> None:
    columns = pa.schema([field for field in EVERY_TYPE if field.name != "clock"])
    world = world_of(tmp_path, {"table": "db.flights", "mode": "upsert", "key": ["id"]})
    world.catalog.create_table("db.flights", NewTable(columns, ()))
    row = {name: value for name, value in EVERYTHING.items() if name != "clock"}
    manifests = world.stage(row, Keyed(b"1", None))
    assert world.reasons() == []
    first, second = [it["row"] for it in staged(world, manifests)]
    expected = {name: value for name, value in AS_READ.items() if name != "clock"}
    assert {**first, "uuid": str(first["uuid"])} == {**expected, "uuid": EVERYTHING["uuid"]}
    assert {name for name, value in second.items() if value is not None} == {"id"}


@pytest.mark.parametrize(
    ("columns", "key", "why"),
    [
        ([pa.field("id", pa.int64())], [], "it has no identifier fields"),
        ([pa.field("id", pa.int64())], ["no"], "it has no column no"),
        ([pa.field("id", pa.float64())], ["id"], "is double, which is no key"),
        ([pa.field("id", pa.int64()), pa.field("t", pa.time64("us"))], ["id"], "is a time"),
        ([pa.field("id", pa.int64()), pa.field("_pos", pa.int64())], ["id"], "of its own"),
    ],
)
def test_a_table_that_no_engine_could_merge_into(
    tmp_path: Path, columns: list[pa.Field], key: list[str], why: str
) -> None:
    world = world_of(tmp_path, {"table": "db.flights", "mode": "upsert", "key": key})
    world.catalog.create_table("db.flights", NewTable(pa.schema(columns), ()))
    with pytest.raises(TableUnusable, match=why):
        world.stage({"id": 1})


def test_what_a_message_becomes_depends_on_no_neighbour(tmp_path: Path) -> None:
    """Each message alone, and all of them as one chunk."""
    messages: list[Any] = [
        {"id": 1, "v": "a"},
        Keyed(b"1", None),
        {"id": "1", "v": 5},
        {"id": 2, "v": {"x": 1}},
        Keyed(b'{"id": "2"}', None),
        Keyed(b"nothing", None),
        Keyed(b'{"id": [1]}', None),
    ]
    seen = []
    for number, groups in enumerate(([messages], [[it] for it in messages])):
        world = world_of(tmp_path / str(number), {**UPSERT, "evolve": False})
        columns = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string())])
        world.catalog.create_table("db.flights", NewTable(columns, ()))
        rows = [it for group in groups for it in operations(world, world.stage(*group))]
        seen.append((rows, sorted(world.reasons())))
    assert json.dumps(seen[0]) == json.dumps(seen[1])


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("hostile", ["text", 7, [1], [{"id": 5}]])
def test_a_cut_envelope_takes_no_other_envelope_along(
    tmp_path: Path, wrapped: bool, hostile: object
) -> None:
    """The column of a side is text for all messages as soon as one of them has no object."""
    world = world_of(tmp_path, DEBEZIUM)
    messages: list[Any] = [
        {"op": "c", "after": {"id": 1, "v": "a", "none": None, "in": {"n": 1}}},
        {"op": "c", "before": None, "after": hostile},
        {"op": "u", "before": {"id": 1}, "after": {"id": 2, "v": "b", "in": {"m": 2}}},
        {"op": "d", "before": hostile},
        {"op": "d", "before": {"id": 1}},
    ]
    if wrapped:
        messages = [{"schema": {}, "payload": it} for it in messages]
    manifests = world.stage(*messages)
    assert operations(world, manifests) == [(0, 0, 1), (2, 0, 2), (2, 1, 1), (4, 1, 1)]
    assert world.reasons() == ["change: no Debezium envelope: its row is no object"] * 2
    assert [it["row"]["in"] for it in staged(world, manifests)[:2]] == [
        {"n": 1, "m": None},
        {"n": None, "m": 2},
    ]


@pytest.mark.parametrize("after", ["text", {"id": "x"}, {"id": {"a": 1}}, {"id": 1, "v": 2**64}])
@pytest.mark.parametrize("op", ["c", 5, {"a": 1}])
def test_envelopes_with_and_without_a_schema_may_hold_different_types(
    tmp_path: Path, after: object, op: object
) -> None:
    world = world_of(tmp_path, DEBEZIUM)
    good = {"op": "c", "after": {"id": 1, "v": "a"}}
    world.stage(good)
    manifests = world.stage(good, {"payload": {"op": op, "after": after}}, good)
    rows = operations(world, manifests)
    assert [row for row in rows if row[0] != 2] == [(1, 0, 1), (3, 0, 1)]
    assert len(rows) + len(world.reasons()) == 3


@pytest.mark.parametrize("payload", ["text", 7, [1]])
def test_a_payload_that_is_no_object_takes_no_other_along(tmp_path: Path, payload: object) -> None:
    world = world_of(tmp_path, DEBEZIUM)
    envelope = {"op": "c", "after": {"id": 1, "v": "a"}}
    manifests = world.stage({"payload": envelope}, {"payload": payload}, envelope)
    assert operations(world, manifests) == [(0, 0, 1), (2, 0, 1)]
    (reason,) = world.reasons()
    assert reason.startswith("change: no Debezium envelope: it has no op")


@pytest.mark.parametrize("key", [b'{"id": NaN}', b'{"id": 1e400}', rb'{"id": "\ud800"}'])
def test_a_key_that_cannot_be_read_deletes_nothing(tmp_path: Path, key: bytes) -> None:
    world = world_of(tmp_path, UPSERT)
    manifests = world.stage({"id": 7}, Keyed(key, None), Keyed(b'{"id": 7}', None))
    assert operations(world, manifests) == [(0, 0, 7), (2, 1, 7)]
    (reason,) = world.reasons()
    assert reason.startswith("change: deletes, and its key does not have id: ")


def test_columns_have_the_types_that_the_schema_around_an_envelope_gives(tmp_path: Path) -> None:
    world = world_of(tmp_path, DEBEZIUM)
    row = [
        {"field": "id", "type": "int64"},
        {
            "field": "price",
            "type": "bytes",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2", "connect.decimal.precision": "12"},
        },
        {"field": "day", "type": "int32", "optional": True, "name": "io.debezium.time.Date"},
        {"field": "raw", "type": "bytes", "optional": True},
    ]
    fields = [
        {"field": "before", "type": "struct", "optional": True, "fields": row},
        {"field": "after", "type": "struct", "optional": True, "fields": row},
        {"field": "op", "type": "string"},
    ]
    around = {"type": "struct", "fields": fields}
    value = {"id": 1, "price": "AJw=", "day": 19_000, "raw": "3q0="}
    made = {"schema": around, "payload": {"op": "c", "before": None, "after": value}}
    gone = {"schema": around, "payload": {"op": "d", "before": value, "after": None}}
    manifests = world.stage(made, gone)
    assert world.reasons() == []
    assert operations(world, manifests) == [(0, 0, 1), (1, 1, 1)]
    assert staged(world, manifests)[0]["row"] == {
        "id": 1,
        "price": Decimal("1.56"),
        "day": date(2022, 1, 8),
        "raw": b"\xde\xad",
    }
    schema = world.catalog.load_table("db.flights").schema
    assert schema.field("price").type == pa.decimal128(12, 2)
    assert schema.field("day").type == pa.date32()
    assert pa.types.is_binary(schema.field("raw").type) or pa.types.is_large_binary(
        schema.field("raw").type
    )


def test_infinite_times_are_null_and_counted(tmp_path: Path) -> None:
    world = world_of(tmp_path, DEBEZIUM)
    times = {"day": ("int32", "Date"), "at": ("int64", "MicroTimestamp")}
    times |= {"zoned": ("string", "ZonedTimestamp")}
    row: list[dict[str, Any]] = [{"field": "id", "type": "int64"}]
    row += [
        {"field": name, "type": kind, "optional": True, "name": f"io.debezium.time.{debezium}"}
        for name, (kind, debezium) in times.items()
    ]
    fields = [
        {"field": "after", "type": "struct", "optional": True, "fields": row},
        {"field": "op", "type": "string"},
    ]
    around = {"type": "struct", "fields": fields}
    known: dict[str, Any] = {"id": 1, "day": 0, "at": 0, "zoned": "1970-01-01T00:00:00Z"}
    endless = {"id": 2, "day": 2**31 - 1, "at": 2**63 - 1, "zoned": "infinity"}
    partly = {**known, "id": 3, "at": -(2**63) + 1}
    first, *others = (
        {"schema": around, "payload": {"op": "c", "after": it}} for it in (known, endless, partly)
    )
    world.stage(first)
    assert "infinite" not in world.counts
    rows = staged(world, world.stage(*others))
    assert [it["row"]["day"] for it in rows] == [None, date(1970, 1, 1)]
    assert [it["row"]["zoned"] is None for it in rows] == [True, False]
    assert world.counts["infinite"] == 4


@pytest.mark.parametrize("frame", [b"\0\0\0\0\7\6", b"\1" + b"0" * 16 + b"\6", b"\3\0" + b"0" * 16])
def test_a_key_in_the_frame_of_a_registry_is_no_text(tmp_path: Path, frame: bytes) -> None:
    world = world_of(tmp_path, UPSERT)
    world.stage({"id": "ann"}, Keyed(frame + b"ann", None))
    (reason,) = world.reasons()
    assert reason == (
        "change: deletes, and its key does not have id: it has the frame of a schema registry:"
        " set parser.key.decoder"
    )


def test_a_table_has_as_many_columns_as_a_table_of_the_source(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(1599)]  # PostgreSQL ends at 1,600
    columns = [{"field": name, "type": "int32", "optional": True} for name in names]
    row = {"type": "struct", "fields": [{"field": "id", "type": "int64"}, *columns]}
    fields = [{**row, "field": "after"}, {"field": "op", "type": "string"}]
    after = {"id": 1, **{name: number for number, name in enumerate(names)}}
    message = {
        "schema": {"type": "struct", "fields": fields},
        "payload": {"op": "c", "after": after},
    }
    world = world_of(tmp_path, DEBEZIUM)
    [change] = staged(world, world.stage(message))
    assert change["row"] == after
    assert not world.counts
