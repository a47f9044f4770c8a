"""Messages of Connect's JSON converter: the payload, with the types that its schema gives.

The values are those of Debezium's documentation and of Kafka's own ``JsonConverterTest``: what is
expected is written out here, never computed by the code.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from secor.parsing.decoders.json import JsonDecoder

DECIMAL = "org.apache.kafka.connect.data.Decimal"


def decode(*raws: bytes | None, paths: tuple[str, ...] | None = None) -> list[tuple[Any, Any, Any]]:
    """Return type, rows and reasons of each group."""
    messages = pa.RecordBatch.from_arrays([pa.array(raws, pa.binary())], ["value"])
    groups = JsonDecoder().decode_apart(messages, paths)
    assert sorted(row for rows, _ in groups for row in rows.tolist()) == list(range(len(raws)))
    return [(d.rows.type, d.rows.to_pylist(), dict(d.bad)) for _, d in groups]


def wrapped(schema: dict[str, Any], value: Any) -> bytes:
    """Return a message with one field ``v``."""
    fields = [{"field": "v", "optional": True, **schema}]
    document = {"schema": {"type": "struct", "fields": fields}, "payload": {"v": value}}
    return json.dumps(document).encode()


VALUES: dict[str, tuple[dict[str, Any], Any, pa.DataType, Any]] = {
    "int8": ({"type": "int8"}, 12, pa.int32(), 12),
    "int64": ({"type": "int64"}, -(2**63), pa.int64(), -(2**63)),
    "float": ({"type": "float"}, 12.5, pa.float32(), 12.5),
    "double NaN": ({"type": "double"}, "-Infinity", pa.float64(), float("-inf")),
    "double": ({"type": "double"}, 1e300, pa.float64(), 1e300),
    "boolean": ({"type": "boolean"}, True, pa.bool_(), True),
    "string": ({"type": "string"}, "é", pa.string(), "é"),
    "bytes": ({"type": "bytes"}, "3q0=", pa.binary(), b"\xde\xad"),
    "array": (
        {"type": "array", "items": {"type": "int32", "optional": True}},
        [1, None],
        pa.list_(pa.int32()),
        [1, None],
    ),
    "map": (
        {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32", "optional": True}},
        {"a": 1, "b": None},
        pa.map_(pa.string(), pa.int32()),
        [("a", 1), ("b", None)],
    ),
    # 156 with scale 2, as Kafka's JsonConverterTest has it
    "decimal": (
        {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}},
        "AJw=",
        pa.decimal128(38, 2),
        Decimal("1.56"),
    ),
    "decimal as number": (
        {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}},
        -1.5,
        pa.decimal128(38, 2),
        Decimal("-1.50"),
    ),
    "decimal with precision": (
        {
            "type": "bytes",
            "name": DECIMAL,
            "parameters": {"scale": "3", "connect.decimal.precision": "12"},
        },
        "/w==",
        pa.decimal128(12, 3),
        Decimal("-0.001"),
    ),
    "variable scale": (
        {
            "type": "struct",
            "name": "io.debezium.data.VariableScaleDecimal",
            "fields": [
                {"field": "scale", "type": "int32", "optional": False},
                {"field": "value", "type": "bytes", "optional": False},
            ],
        },
        {"scale": 3, "value": "AeJA"},
        pa.string(),
        "123.456",
    ),
    "date": (
        {"type": "int32", "name": "io.debezium.time.Date"},
        -1,
        pa.date32(),
        date(1969, 12, 31),
    ),
    "connect date": (
        {"type": "int32", "name": "org.apache.kafka.connect.data.Date"},
        16_000,
        pa.date32(),
        date(2013, 10, 22),
    ),
    "micro time": (
        {"type": "int64", "name": "io.debezium.time.MicroTime"},
        43_200_000_001,
        pa.time64("us"),
        time(12, 0, 0, 1),
    ),
    "timestamp without zone": (
        {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        1_763_694_245_123_456,
        pa.timestamp("us"),
        datetime(2025, 11, 21, 3, 4, 5, 123456),  # noqa: DTZ001
    ),
    "connect timestamp": (
        {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
        1_763_694_245_123,
        pa.timestamp("ms", "UTC"),
        datetime(2025, 11, 21, 3, 4, 5, 123000, UTC),
    ),
    "zoned timestamp": (
        {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        "2025-11-21T08:34:05.123456+05:30",
        pa.timestamp("us", "UTC"),
        datetime(2025, 11, 21, 3, 4, 5, 123456, UTC),
    ),
    "enum": ({"type": "string", "name": "io.debezium.data.Enum"}, "red", pa.string(), "red"),
    "null": ({"type": "int64"}, None, pa.int64(), None),
}


@pytest.mark.parametrize(("schema", "value", "kind", "expected"), VALUES.values(), ids=VALUES)
def test_a_value_has_the_type_that_the_schema_gives(
    schema: dict[str, Any], value: Any, kind: pa.DataType, expected: Any
) -> None:
    ((found, rows, bad),) = decode(wrapped(schema, value))
    assert bad == {}
    assert found.field("v").type == kind
    assert rows == [{"v": expected}]


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ({"type": "int32"}, 2**31, "a value does not fit its type"),
        ({"type": "int32"}, "7", 'v: an integer is expected, and there is "7"'),
        ({"type": "int64"}, 1.5, "v: an integer is expected, and there is 1.5"),
        ({"type": "bytes"}, "=", 'v: "="'),
        ({"type": "string"}, 7, "v: text is expected, and there is 7"),
        ({"type": "array", "items": {"type": "int32"}}, 7, "v: an array is expected"),
        ({"type": "int32", "optional": False}, None, "field 'v' is required"),
        ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "today", "v: "),
    ],
)
def test_a_value_that_is_not_as_its_schema_says_is_bad_and_its_neighbours_are_not(
    schema: dict[str, Any], value: Any, why: str
) -> None:
    optional = {**schema, "optional": True}
    groups = decode(wrapped(optional, None), wrapped(schema, value))
    reasons = [reason for _, _, bad in groups for reason in bad.values()]
    assert len(reasons) == 1
    assert why in reasons[0]
    assert {"v": None} in [row for _, rows, _ in groups for row in rows]


@pytest.mark.parametrize(("escape", "text"), [(r"\u0001", "\x01"), (r"\ud800", None)])
def test_escaped_text_beside_a_fraction_ends_nothing(escape: str, text: str | None) -> None:
    """Half a surrogate pair is bad; any other escaped text is text."""
    fields = '{"field":"t","type":"string"},{"field":"n","type":"double"}'
    schema = f'{{"type":"struct","fields":[{fields}]}}'
    raw = f'{{"schema":{schema},"payload":{{"t":"{escape}","n":1.5}}}}'
    [(_, rows, reasons)] = decode(raw.encode())
    if text is None:
        assert "surrogate" in reasons[0]
    else:
        assert (rows, reasons) == ([{"t": text, "n": 1.5}], {})


def test_numbers_beyond_all_measure_are_bad() -> None:
    schema = {"type": "struct", "fields": [{"field": "v", "type": "double"}]}
    raws = [
        b'{"schema": %s, "payload": {"v": %s}}' % (json.dumps(schema).encode(), number)
        for number in (b"1e999", b"1e99999999999999999999", b"-" + b"9" * 5000)
    ]
    ((_, rows, bad),) = decode(*raws)
    assert rows == [None, None, None]
    assert sorted(bad) == [0, 1, 2]


def test_schemas_that_differ_in_optional_fields_go_together_and_others_apart() -> None:
    narrow = wrapped({"type": "int32"}, 1)
    wide = wrapped({"type": "int64", "optional": False}, 2)
    other = wrapped({"type": "string"}, "x")
    groups = decode(narrow, other, wide)
    assert [rows for _, rows, _ in groups] == [[{"v": 1}, {"v": 2}], [{"v": "x"}]]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"schema": 1, "payload": 2}',
        b'{"schema": {"type": "struct"}, "payload": {"id": 1}}',
        b'{"schema": {"type": "struct", "fields": [{"field": "a", "type": "x"}]}, "payload": {}}',
        b'{"schema": {"type": "struct", "fields": []}, "payload": {}, "more": 1}',
        b'{"status": "ok", "payload": {}}',
    ],
)
def test_what_only_looks_like_an_envelope_is_a_message_like_any_other(raw: bytes) -> None:
    ((_, rows, bad),) = decode(raw)
    assert bad == {}
    assert list(rows[0]) == list(json.loads(raw))


@pytest.mark.parametrize("space", ["", " ", "\n  ", "\t"])
def test_an_envelope_is_known_in_any_order_and_with_any_space(space: str) -> None:
    schema = json.dumps({"type": "struct", "fields": [{"field": "id", "type": "int64"}]})
    raw = f'{space}{{{space}"payload"{space}: {{"id": 1}}, "schema"{space}: {schema}{space}}}'
    ((kind, rows, _),) = decode(raw.encode())
    assert (kind, rows) == (pa.struct([("id", pa.int64())]), [{"id": 1}])


def test_envelopes_without_a_schema_and_plain_messages_are_beside_them() -> None:
    groups = decode(
        b'{"id": 1}', wrapped({"type": "int64"}, 2), b'{"schema": null, "payload": {"id": 3}}', None
    )
    found = [row for _, rows, _ in groups for row in rows]
    assert sorted(map(str, found)) == ["None", "{'id': 1}", "{'id': 3}", "{'v': 2}"]
    assert [reason for _, _, bad in groups for reason in bad.values()] == ["null payload"]


def test_paths_lead_through_the_payload() -> None:
    groups = decode(wrapped({"type": "int64"}, 7), paths=("v", "w"))
    ((_, rows, bad),) = groups
    assert (rows, bad) == ([{"v": 7, "w": None}], {})


def test_a_message_with_too_many_values_is_bad() -> None:
    schema = {"type": "array", "items": {"type": "int32"}}
    messages = pa.RecordBatch.from_arrays(
        [pa.array([wrapped(schema, [1] * 500), wrapped(schema, [2])], pa.binary())], ["value"]
    )
    ((_, decoded),) = JsonDecoder(max_elements=100).decode_apart(messages, None)
    assert list(decoded.bad) == [0]
    assert "max_elements" in decoded.bad[0]
    assert decoded.rows.to_pylist()[1] == {"v": [2]}
