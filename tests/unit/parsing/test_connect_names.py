"""Names of Connect's schemas: the same columns in JSON with a schema as in Avro.

The judges are fastavro, which writes the Avro messages, and values written out by hand from the
documentation of Debezium's data types; schemas are as Confluent's ``AvroConverter`` writes them.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from secor.core.variant_json import is_mixed, is_uuid_text
from secor.parsing.decoders.avro import AvroDecoder
from secor.parsing.decoders.json import JsonDecoder
from tests.unit.parsing.test_decoder_avro import Shelf

DECIMAL = "org.apache.kafka.connect.data.Decimal"
AVRO_TYPES = {"int32": "int", "int64": "long", "bytes": "bytes", "string": "string"}
AVRO_LOGICAL: dict[str, dict[str, Any]] = {
    DECIMAL: {"logicalType": "decimal", "precision": 64},
    "org.apache.kafka.connect.data.Date": {"logicalType": "date"},
    "org.apache.kafka.connect.data.Time": {"logicalType": "time-millis"},
    "org.apache.kafka.connect.data.Timestamp": {"logicalType": "timestamp-millis"},
}
"""What the converter adds to the names of Connect's own types."""

POSITIVE, NEGATIVE = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
"""Infinite timestamps as PostgreSQL's driver counts them, in micro- or milliseconds."""

UUID = "6f1d6f7a-8f0a-4d4e-9a53-0d3b4a1d2c3e"


@dataclass(frozen=True)
class Case:
    """A value of a name: as JSON has it, as Avro has it (or the same), and what is read."""

    name: str
    plain: str
    json: Any
    type: pa.DataType
    expected: Any
    avro: Any = None
    parameters: Mapping[str, str] | None = None


def _time(name: str) -> str:
    return f"io.debezium.time.{name}"


def _data(name: str) -> str:
    return f"io.debezium.data.{name}"


CONNECT = "org.apache.kafka.connect.data."
LOCAL = datetime(2018, 6, 20, 15, 13, 16, 945104)  # noqa: DTZ001
ZONED = LOCAL.replace(tzinfo=UTC)
US, UTC_US = pa.timestamp("us"), pa.timestamp("us", "UTC")

CASES = [
    Case(DECIMAL, "bytes", "AeJA", pa.decimal128(12, 3), Decimal("123.456"), b"\x01\xe2\x40",
         {"scale": "3", "connect.decimal.precision": "12"}),
    Case(DECIMAL, "bytes", "AeJA", pa.decimal128(38, 3), Decimal("123.456"), b"\x01\xe2\x40",
         {"scale": "3"}),
    Case(DECIMAL, "bytes", "AeJA", pa.string(), "123.456", b"\x01\xe2\x40",
         {"scale": "3", "connect.decimal.precision": "50"}),
    Case(CONNECT + "Date", "int32", 17_700, pa.date32(), date(2018, 6, 18)),
    Case(CONNECT + "Time", "int32", 54_796_945, pa.time32("ms"), time(15, 13, 16, 945000)),
    Case(CONNECT + "Timestamp", "int64", 1_529_507_596_945, pa.timestamp("ms", "UTC"),
         ZONED.replace(microsecond=945000)),
    Case(_time("Date"), "int32", -719_162, pa.date32(), date(1, 1, 1)),
    Case(_time("Time"), "int32", 54_796_945, pa.time32("ms"), time(15, 13, 16, 945000)),
    Case(_time("MicroTime"), "int64", 54_796_945_104, pa.time64("us"),
         time(15, 13, 16, 945104)),
    Case(_time("NanoTime"), "int64", 54_796_945_104_000, pa.time64("ns"),
         time(15, 13, 16, 945104)),
    Case(_time("Timestamp"), "int64", 1_529_507_596_945, pa.timestamp("ms"),
         LOCAL.replace(microsecond=945000)),
    Case(_time("MicroTimestamp"), "int64", 1_529_507_596_945_104, US, LOCAL),
    Case(_time("NanoTimestamp"), "int64", 1_529_507_596_945_104_000, pa.timestamp("ns"), LOCAL),
    Case(_time("ZonedTimestamp"), "string", "2018-06-20T15:13:16.945104Z", UTC_US, ZONED),
    Case(_time("ZonedTimestamp"), "string", "2018-06-20T20:43:16.945104+05:30", UTC_US, ZONED),
    Case(_time("IsoDate"), "string", "2018-06-20Z", pa.date32(), date(2018, 6, 20)),
    Case(_time("IsoDate"), "string", "2018-06-20", pa.date32(), date(2018, 6, 20)),
    Case(_time("IsoTime"), "string", "15:13:16.945104Z", pa.time64("us"),
         time(15, 13, 16, 945104)),
    Case(_time("IsoTimestamp"), "string", "2018-06-20T15:13:16.945104Z", US, LOCAL),
    Case(_time("ZonedTime"), "string", "10:15:30.5Z", pa.string(), "10:15:30.5Z"),
    Case(_time("Year"), "int32", 2018, pa.int32(), 2018),
    Case(_time("Interval"), "string", "P1Y2M3DT4H5M6.78S", pa.string(), "P1Y2M3DT4H5M6.78S"),
    Case(_time("MicroDuration"), "int64", 37_091_106_780_000, pa.int64(), 37_091_106_780_000),
    Case(_time("NanoDuration"), "int64", 37, pa.int64(), 37),
    Case(_data("Uuid"), "string", UUID, pa.string(), UUID),
    Case(_data("Json"), "string", '{"a": 1}', pa.string(), '{"a": 1}'),
    Case(_data("Xml"), "string", "<a/>", pa.string(), "<a/>"),
    Case(_data("Enum"), "string", "red", pa.string(), "red", None, {"allowed": "red,blue"}),
    Case(_data("EnumSet"), "string", "a,b", pa.string(), "a,b", None, {"allowed": "a,b,c"}),
    Case(_data("Ltree"), "string", "a.b", pa.string(), "a.b"),
    Case(_data("Tsvector"), "string", "'a':1", pa.string(), "'a':1"),
    Case(_data("Bits"), "bytes", "BQA=", pa.binary(), b"\x05\0", b"\x05\0", {"length": "13"}),
    # What no column holds
    Case(_time("Date"), "int32", 2_147_483_647, pa.date32(), None),
    Case(_time("Date"), "int32", 2_146_764_530, pa.date32(), None),
    Case(_time("Date"), "int32", -2_147_483_648, pa.date32(), None),
    Case(_time("Timestamp"), "int64", POSITIVE, pa.timestamp("ms"), None),
    Case(_time("Timestamp"), "int64", POSITIVE // 1000, pa.timestamp("ms"), None),
    Case(_time("MicroTimestamp"), "int64", POSITIVE, US, None),
    Case(_time("MicroTimestamp"), "int64", NEGATIVE, US, None),
    Case(_time("NanoTimestamp"), "int64", 2**63 - 1, pa.timestamp("ns"), None),
    Case(_time("NanoTimestamp"), "int64", -(2**63), pa.timestamp("ns"), None),
    Case(_time("ZonedTimestamp"), "string", "+292278994-08-17T07:00:00Z", UTC_US, None),
    Case(_time("ZonedTimestamp"), "string", "+294247-01-10T04:00:25.2Z", UTC_US, None),
    Case(_time("ZonedTimestamp"), "string", "-290308-12-21T19:59:27.6Z", UTC_US, None),
    Case(_time("ZonedTimestamp"), "string", "infinity", UTC_US, None),
    Case(_time("IsoDate"), "string", "+5877611-06-21Z", pa.date32(), None),
    Case(_time("IsoTimestamp"), "string", "-infinity", US, None),
]  # fmt: skip


def _title(case: Case) -> str:
    return f"{case.name.rpartition('.')[2]} {case.json}"


def json_message(schema: dict[str, Any], value: Any) -> bytes:
    fields = [{"field": "v", "optional": True, **schema}]
    return json.dumps(
        {"schema": {"type": "struct", "fields": fields}, "payload": {"v": value}}
    ).encode()


def read_json(schema: dict[str, Any], value: Any) -> tuple[pa.Field, Any, list[str]]:
    """Return the field, its value and the reasons of one message."""
    messages = pa.RecordBatch.from_arrays(
        [pa.array([json_message(schema, value)], pa.binary())], ["value"]
    )
    ((_, decoded),) = JsonDecoder().decode_apart(messages, None)
    [row] = decoded.rows.to_pylist()
    return decoded.rows.type.field("v"), row and row["v"], list(decoded.bad.values())


def avro_message(schema: Any, value: Any) -> tuple[bytes, dict[str, Any]]:
    """Return a framed message of one field, and its schema."""
    fields = [{"name": "v", "type": ["null", schema], "default": None}]
    record = {"type": "record", "name": "Value", "namespace": "db.t", "fields": fields}
    parsed = fastavro.parse_schema(json.loads(json.dumps(record).replace("logicalType", "was")))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, parsed, {"v": value})
    return struct.pack(">bI", 0, 1) + stream.getvalue(), record


def read_avro(schema: Any, value: Any) -> tuple[pa.Field, Any, list[str]]:
    """Return the field, its value and the reasons of one message."""
    message, record = avro_message(schema, value)
    messages = pa.RecordBatch.from_arrays([pa.array([message], pa.binary())], ["value"])
    decoded = AvroDecoder(Shelf(_1=record)).decode(messages, None)
    [row] = decoded.rows.to_pylist()
    return decoded.rows.type.field("v"), row and row["v"], list(decoded.bad.values())


def json_schema_of(case: Case) -> dict[str, Any]:
    schema = {"type": case.plain, "name": case.name, "version": 1}
    return schema if case.parameters is None else {**schema, "parameters": dict(case.parameters)}


def avro_schema_of(case: Case) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": AVRO_TYPES[case.plain],
        "connect.version": 1,
        "connect.name": case.name,
        **AVRO_LOGICAL.get(case.name, {}),
    }
    if case.parameters is not None:
        schema["connect.parameters"] = dict(case.parameters)
        schema |= {"scale": int(case.parameters["scale"])} if case.name == DECIMAL else {}
    return schema


@pytest.mark.parametrize("case", CASES, ids=_title)
def test_a_name_gives_the_same_column_in_json_and_in_avro(case: Case) -> None:
    in_json = read_json(json_schema_of(case), case.json)
    in_avro = read_avro(avro_schema_of(case), case.json if case.avro is None else case.avro)
    for field, value, reasons in (in_json, in_avro):
        assert reasons == []
        assert field.type == case.type
        assert value == case.expected
        assert is_uuid_text(field) == (case.name == _data("Uuid"))


VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.version": 1,
    "connect.name": "io.debezium.data.VariableScaleDecimal",
}
POINT = {
    "type": "record",
    "name": "Point",
    "namespace": "io.debezium.data.geometry",
    "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": "double"}],
    "connect.name": "io.debezium.data.geometry.Point",
}
DATES = {"type": "int", "connect.name": "io.debezium.time.Date", "connect.version": 1}


def test_records_arrays_and_maps_of_named_types_are_read_by_the_names() -> None:
    half = {"scale": 1, "value": b"\x05"}
    nested = {"type": "array", "items": ["null", "io.debezium.data.VariableScaleDecimal"]}
    whole = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "one", "type": VARIABLE},
            {"name": "more", "type": nested},
            {"name": "days", "type": {"type": "array", "items": ["null", DATES]}},
            {"name": "by", "type": {"type": "map", "values": DATES}},
            {"name": "place", "type": POINT},
        ],
    }
    value = {
        "one": half,
        "more": [None, half],
        "days": [0, None, 2_147_483_647],
        "by": {"a": 1},
        "place": {"x": 1.0, "y": 2.0},
    }
    field, read, reasons = read_avro(whole, value)
    assert reasons == []
    assert read == {
        "one": "0.5",
        "more": [None, "0.5"],
        "days": [date(1970, 1, 1), None, None],
        "by": [("a", date(1970, 1, 2))],
        "place": {"x": 1.0, "y": 2.0},
    }
    assert field.type.field("days").type == pa.list_(pa.date32())


def test_a_map_whose_keys_are_no_text_is_the_same_text_in_both() -> None:
    entry = {
        "type": "record",
        "name": "MapEntry",
        "namespace": "io.confluent.connect.avro",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "double"}],
        "connect.internal.type": "MapEntry",
    }
    in_avro = read_avro({"type": "array", "items": entry}, [{"key": 7, "value": 0.5}])
    schema = {"type": "map", "keys": {"type": "int32"}, "values": {"type": "double"}}
    in_json = read_json(schema, [[7, 0.5]])
    for field, value, reasons in (in_avro, in_json):
        assert is_mixed(field)
        assert reasons == []
        assert value == "[[7,0.5]]"


@pytest.mark.parametrize(
    ("name", "plain", "value"),
    [
        ("ZonedTimestamp", "string", "2018-06-20T15:13:16"),
        ("ZonedTimestamp", "string", "+12018-06-20T15:13:16Z"),
        ("IsoDate", "string", "2018-06-31Z"),
        ("IsoDate", "string", "2018-06-20 or so"),
        ("IsoTime", "string", "25:00Z"),
    ],
)
def test_a_value_that_is_none_of_its_name_is_bad(name: str, plain: str, value: str) -> None:
    case = Case(_time(name), plain, value, pa.null(), None)
    for read, schema in ((read_json, json_schema_of(case)), (read_avro, avro_schema_of(case))):
        _, found, [reason] = read(schema, value)
        assert found is None
        assert value[:6] in reason or name in reason


def test_a_name_of_another_kind_of_values_changes_nothing() -> None:
    for name in ("io.debezium.time.Date", DECIMAL, "io.debezium.data.Uuid", "com.example.Date"):
        field, value, reasons = read_avro({"type": "long", "connect.name": name}, 7)
        assert (field.type, value, reasons) == (pa.int64(), 7, [])
        field, value, reasons = read_json({"type": "int64", "name": name}, 7)
        assert (field.type, value, reasons) == (pa.int64(), 7, [])
