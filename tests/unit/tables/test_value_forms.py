"""Columns of tables that changes with Connect's schemas make, and what existing columns take."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.config.table_routes import TableRoute
from secor.parsing.decoders.json import JsonDecoder
from secor.schema.inference import observe
from secor.tables.catalog import NewTable
from secor.tables.rows.schema_changes import storable
from secor.wiring.table_routes import route_of
from tests.unit.tables.test_worker_changes import ALONE, staged
from tests.unit.tables.worker_world import WorkerWorld

ROUTE = {"table": "db.flights", "auto_create": True, "evolve": True}
CDC = {**ROUTE, "mode": "cdc", "key": ["id"]}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
UUID = "6f1d6f7a-8f0a-4d4e-9a53-0d3b4a1d2c3e"
LOCAL = datetime(2018, 6, 20, 15, 13, 16, 945104)  # noqa: DTZ001
ZONED = LOCAL.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Shown:
    """A field of a message's row: its schema, its value, the column and what is read of it."""

    schema: Mapping[str, Any]
    value: Any
    type: pa.DataType
    expected: Any


def named(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "name": name, **more}


def _debezium(kind: str, name: str) -> dict[str, Any]:
    return named(kind, f"io.debezium.{name}")


PRICE = named("bytes", DECIMAL, parameters={"scale": "3", "connect.decimal.precision": "12"})
SHOWN = {
    "id": Shown({"type": "int64"}, 1, pa.int64(), 1),
    "price": Shown(PRICE, "AeJA", pa.decimal128(12, 3), Decimal("123.456")),
    "day": Shown(_debezium("int32", "time.Date"), 17_702, pa.date32(), date(2018, 6, 20)),
    "at": Shown(
        _debezium("int64", "time.MicroTimestamp"), 1_529_507_596_945_104, pa.timestamp("us"), LOCAL
    ),
    "nanos": Shown(
        _debezium("int64", "time.NanoTimestamp"),
        1_529_507_596_945_104_000,
        pa.timestamp("us"),
        LOCAL,
    ),
    "zoned": Shown(
        _debezium("string", "time.ZonedTimestamp"),
        "2018-06-20T15:13:16.945104Z",
        pa.timestamp("us", "UTC"),
        ZONED,
    ),
    "unique": Shown(_debezium("string", "data.Uuid"), UUID, pa.uuid(), uuid.UUID(UUID)),
    "raw": Shown({"type": "bytes"}, "3q0=", pa.binary(), b"\xde\xad"),
    "wide": Shown(
        named("bytes", DECIMAL, parameters={"scale": "3", "connect.decimal.precision": "50"}),
        "AeJA",
        pa.string(),
        "123.456",
    ),
    "uniques": Shown(
        {"type": "array", "items": {**_debezium("string", "data.Uuid"), "optional": True}},
        [UUID, None],
        pa.list_(pa.uuid()),
        [uuid.UUID(UUID), None],
    ),
    "prices": Shown(
        {"type": "array", "items": PRICE}, ["AeJA"], pa.list_(PRICE_TYPE := pa.decimal128(12, 3)),
        [Decimal("123.456")],
    ),
    "json": Shown(_debezium("string", "data.Json"), "[1]", pa.string(), "[1]"),
    "short": Shown({"type": "int16"}, 7, pa.int32(), 7),
    "whole": Shown({"type": "int32"}, -7, pa.int32(), -7),
    "wholes": Shown(
        {"type": "array", "items": {"type": "int32"}}, [1, 2], pa.list_(pa.int32()), [1, 2]
    ),
    "real": Shown({"type": "float"}, 0.5, pa.float32(), 0.5),
    "even": Shown({"type": "float"}, 2, pa.float32(), 2.0),
}  # fmt: skip
CLOCKS = {
    "clock": Shown(
        _debezium("int64", "time.MicroTime"), 54_796_945_104, pa.time64("us"),
        time(15, 13, 16, 945104),
    ),
    "clock_ns": Shown(
        _debezium("int64", "time.NanoTime"), 54_796_945_104_000, pa.time64("us"),
        time(15, 13, 16, 945104),
    ),
    "clock_ms": Shown(
        _debezium("int32", "time.Time"), 54_796_945, pa.time64("us"), time(15, 13, 16, 945000)
    ),
}  # fmt: skip
AS_TEXT = {
    "clock": Shown(CLOCKS["clock"].schema, 86_400_000_000, pa.string(), "24:00:00.000000"),
    "clock_ns": Shown(
        CLOCKS["clock_ns"].schema, 54_796_945_104_777, pa.string(), "15:13:16.945104777"
    ),
    "clock_ms": Shown(CLOCKS["clock_ms"].schema, -1000, pa.string(), "-00:00:01.000000"),
}


def row_message(shown: Mapping[str, Shown]) -> dict[str, Any]:
    """Return a message with a schema, as Connect's JSON converter writes it."""
    return {
        "schema": {"type": "struct", "fields": fields_of(shown)},
        "payload": {name: field.value for name, field in shown.items()},
    }


def fields_of(shown: Mapping[str, Shown]) -> list[dict[str, Any]]:
    return [{**it.schema, "field": name, "optional": True} for name, it in shown.items()]


def envelope(shown: Mapping[str, Shown]) -> dict[str, Any]:
    """Return a creation of a row, as Debezium's PostgreSQL connector writes it."""
    row = {"type": "struct", "fields": fields_of(shown), "optional": True}
    operation = {"type": "string", "field": "op", "optional": False}
    fields = [{**row, "field": "before"}, {**row, "field": "after"}, operation]
    values = {name: field.value for name, field in shown.items()}
    return {
        "schema": {"type": "struct", "name": "s.db.t.Envelope", "fields": fields},
        "payload": {"before": None, "after": values, "op": "c"},
    }


def without_ids(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(without_ids(kind.value_type))
    return kind


def columns_of(world: WorkerWorld) -> dict[str, pa.DataType]:
    schema = world.catalog.load_table("db.flights").schema
    return {field.name: without_ids(field.type) for field in schema}


def types_of(shown: Mapping[str, Shown]) -> dict[str, pa.DataType]:
    return {name: field.type for name, field in shown.items()}


def values_of(shown: Mapping[str, Shown]) -> dict[str, Any]:
    return {name: field.expected for name, field in shown.items()}


def test_rows_that_are_appended_make_columns_of_the_types_that_their_schemas_name(
    tmp_path: Path,
) -> None:
    world = WorkerWorld(tmp_path, [ROUTE])
    shown = SHOWN | CLOCKS
    world.write(row_message(shown))
    assert world.reasons() == []
    assert columns_of(world) == types_of(shown)
    assert world.rows("db.flights") == [values_of(shown)]


def test_changes_make_them_too_and_text_of_what_the_engine_cannot_read(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [CDC], ALONE)
    shown = SHOWN | AS_TEXT
    manifests = world.stage(envelope(SHOWN), envelope(shown))  # the second adds columns
    assert world.reasons() == []
    assert columns_of(world) == types_of(shown)
    first, second = (row["row"] for row in staged(world, manifests))
    assert first["unique"] == uuid.UUID(UUID)
    assert second == values_of(shown)


def test_columns_of_small_numbers_grow_with_what_later_schemas_say(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [ROUTE])
    world.write(
        row_message({"id": SHOWN["id"], "n": SHOWN["whole"], "x": SHOWN["real"]}),
        row_message(
            {
                "id": SHOWN["id"],
                "n": Shown({"type": "int64"}, 1 << 40, pa.int64(), 1 << 40),
                "x": Shown({"type": "int32"}, 16_777_217, pa.float64(), 16_777_217.0),
            }
        ),
    )
    assert world.reasons() == []
    assert columns_of(world) == {"id": pa.int64(), "n": pa.int64(), "x": pa.float64()}
    assert [(row["n"], row["x"]) for row in world.rows("db.flights")] == [
        (-7, 0.5),
        (1 << 40, 16_777_217.0),
    ]


def doubles(value: Any, number: int) -> dict[str, Any]:
    """Return a message with a double in a column, in a list and in a structure."""
    kind = {"type": "double", "optional": True}
    inner = {"type": "struct", "fields": [{**kind, "field": "y"}]}
    return row_message(
        {
            "id": Shown({"type": "int64"}, number, pa.int64(), number),
            "x": Shown(kind, value, pa.float64(), value),
            "many": Shown({"type": "array", "items": kind}, [None, value], pa.null(), None),
            "in": Shown(inner, {"y": value}, pa.null(), None),
        }
    )


def test_doubles_that_a_schema_declares_are_not_rounded_in_columns_of_floats(
    tmp_path: Path,
) -> None:
    world = WorkerWorld(tmp_path, [ROUTE])
    kept = pa.struct([pa.field("y", pa.float32())])
    columns = [("x", pa.float32()), ("many", pa.list_(pa.float32())), ("in", kept)]
    world.catalog.create_table("db.flights", NewTable(pa.schema([("id", pa.int64()), *columns])))
    world.write(doubles(0.5, 1), doubles(None, 2))
    assert columns_of(world)["x"] == pa.float32()  # nothing was rounded
    world.write(doubles(0.25, 3), doubles(0.1, 4), doubles(0.5, 5))
    assert world.reasons() == []
    rows = {row["id"]: row for row in world.rows("db.flights")}
    assert [rows[number]["x"] for number in range(1, 6)] == [0.5, None, 0.25, 0.1, 0.5]
    assert rows[4]["many"] == [None, 0.1]
    assert rows[4]["in"] == {"y": 0.1}
    assert columns_of(world)["x"] == pa.float64()


def test_numbers_of_json_are_rounded_in_columns_of_floats(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [ROUTE])
    columns = pa.schema([("id", pa.int64()), ("x", pa.float32())])
    world.catalog.create_table("db.flights", NewTable(columns))
    world.write({"id": 1, "x": 0.1})
    assert columns_of(world)["x"] == pa.float32()
    assert [row["x"] for row in world.rows("db.flights")] == [pytest.approx(0.1)]


def test_a_setting_for_new_columns_of_numbers_holds_for_small_ones_too(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [ROUTE], {"rows": {"numbers": "double"}})
    world.write(row_message({"id": SHOWN["id"], "n": SHOWN["whole"], "x": SHOWN["real"]}))
    assert columns_of(world) == dict.fromkeys(["id", "n", "x"], pa.float64())


def test_hudi_has_text_for_uuids_and_times() -> None:
    route = TableRoute(table="db.flights", format="hudi", mode="cdc", key=("id",))
    decoder = JsonDecoder()
    values = [json.dumps(row_message(SHOWN | CLOCKS)).encode()]
    messages = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])
    ((_, decoded),) = decoder.decode_apart(messages, None)
    seen = observe(decoded.rows).type
    kind = storable(seen, [decoded.rows.type], route_of(route).settings.text_types)
    assert kind.field("unique").type == kind.field("clock").type == pa.string()
    assert kind.field("uniques").type.value_type == pa.string()


def test_a_column_of_a_partition_term_stays_text(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{**ROUTE, "partition_by": ["unique"]}])
    world.write(row_message({"id": SHOWN["id"], "unique": SHOWN["unique"]}))
    assert world.reasons() == []
    assert columns_of(world)["unique"] == pa.string()


def _existing(world: WorkerWorld, **kinds: pa.DataType) -> None:
    schema = pa.schema([("id", pa.int64()), *kinds.items()])
    world.catalog.create_table("db.flights", NewTable(schema, (), {}, None, ()))


VARIABLE_FIELDS = [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}]
TAKES = {
    "uuid as text": (SHOWN["unique"], pa.string(), UUID),
    "decimal as text": (SHOWN["price"], pa.string(), "123.456"),
    "small decimal as text": (
        Shown({**PRICE, "parameters": {"scale": "12"}}, "AQ==", pa.null(), None),
        pa.string(),
        "0.000000000001",
    ),
    "decimal in a wider one": (SHOWN["price"], pa.decimal128(20, 6), Decimal("123.456000")),
    "decimal as double": (SHOWN["price"], pa.float64(), 123.456),
    "decimal of any scale": (
        Shown(
            _debezium("struct", "data.VariableScaleDecimal")
            | {"fields": VARIABLE_FIELDS},
            {"scale": 3, "value": "AeJA"},
            pa.null(),
            None,
        ),
        pa.decimal128(12, 3),
        Decimal("123.456"),
    ),
    "text of a number": (
        Shown({"type": "string"}, "123.456", pa.null(), None),
        pa.decimal128(12, 3),
        Decimal("123.456"),
    ),
    "double": (
        Shown({"type": "double"}, 123.456, pa.null(), None),
        pa.decimal128(12, 3),
        Decimal("123.456"),
    ),
    "date as text": (SHOWN["day"], pa.string(), "2018-06-20"),
    "date as its days": (SHOWN["day"], pa.int32(), 17_702),
    "iso date": (
        Shown(_debezium("string", "time.IsoDate"), "2018-06-20Z", pa.null(), None),
        pa.date32(),
        date(2018, 6, 20),
    ),
    "timestamp as its count": (SHOWN["at"], pa.int64(), 1_529_507_596_945_104),
    "timestamp as text": (SHOWN["at"], pa.string(), "2018-06-20T15:13:16.945104"),
    "zoned timestamp as text": (SHOWN["zoned"], pa.string(), "2018-06-20T15:13:16.945104Z"),
    "connect's timestamp without a zone": (
        Shown(named("int64", "org.apache.kafka.connect.data.Timestamp"), 1_529_507_596_945,
              pa.null(), None),
        pa.timestamp("us"),
        LOCAL.replace(microsecond=945000),
    ),
    "time as text": (CLOCKS["clock"], pa.string(), "15:13:16.945104"),
    "time as its count": (CLOCKS["clock"], pa.int64(), 54_796_945_104),
}  # fmt: skip


@pytest.mark.parametrize(("shown", "column", "expected"), TAKES.values(), ids=TAKES)
def test_an_existing_column_takes_any_form(
    tmp_path: Path, shown: Shown, column: pa.DataType, expected: Any
) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    _existing(world, v=column)
    world.write(row_message({"id": SHOWN["id"], "v": shown}))
    assert world.reasons() == []
    assert world.rows("db.flights") == [{"id": 1, "v": expected}]


def test_values_that_no_column_holds_put_their_message_alone_into_quarantine(
    tmp_path: Path,
) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    _existing(world, day=pa.date32(), clock=pa.time64("us"), text=pa.string())
    day, clock, one = SHOWN["day"].schema, CLOCKS["clock"].schema, SHOWN["id"]

    def message(**values: tuple[Any, Any]) -> dict[str, Any]:
        shown = {name: Shown(schema, value, pa.null(), None) for name, (schema, value) in
                 values.items()}  # fmt: skip
        return row_message({"id": one, **shown})

    world.write(
        message(day=(day, 0), clock=(clock, 0), text=(day, 0)),
        message(day=(day, 2_932_897)),  # the year 10000
        message(clock=(clock, 86_400_000_000)),  # 24:00
        message(text=(day, 2_932_897)),
        message(day=(day, 2_147_483_647)),  # infinity
        message(day=(day, -622_191_234)),  # infinity, as a snapshot has it
    )
    assert world.rows("db.flights") == [
        {"id": 1, "day": date(1970, 1, 1), "clock": time(0), "text": "1970-01-01"},
        {"id": 1, "day": None, "clock": None, "text": None},
        {"id": 1, "day": None, "clock": None, "text": None},
    ]
    assert len(world.reasons()) == 3
    assert all("db.flights" in reason for reason in world.reasons())
