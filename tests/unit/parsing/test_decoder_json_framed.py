import json
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from secor.core.errors import ConfigurationError
from secor.parsing.decoders import make_decoder
from secor.parsing.rows import Decoder, DividingDecoder
from secor.schema.schema import RowSchema
from tests.fakes.confluent import IN_HEADERS, Confluent
from tests.fakes.registry import Registry, running_registry
from tests.unit.parsing.decoder_cases import batch, decode, reason, rows, survives

SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": "number"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
        "paid": {"type": ["boolean", "null"]},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/Line"}},
    },
    "definitions": {
        "Line": {
            "type": "object",
            "properties": {"sku": {"type": "string"}, "each": {"type": "number"}},
        }
    },
}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


def framed(schema_id: int, value: Any) -> bytes:
    return struct.pack(">bI", 0, schema_id) + json.dumps(value).encode()


def by_registry(registry: Registry) -> Decoder:
    return make_decoder("json", registry=registry.url)


def groups(
    decoder: Decoder, messages: pa.RecordBatch
) -> list[tuple[list[int], pa.StructArray, Any]]:
    assert isinstance(decoder, DividingDecoder)
    apart = decoder.decode_apart(messages, None)
    return [(numbers.tolist(), decoded.rows, dict(decoded.bad)) for numbers, decoded in apart]


def with_headers(
    values: list[bytes | None], headers: list[list[tuple[str, bytes]]]
) -> pa.RecordBatch:
    messages = batch(values)
    entries = [[{"key": key, "value": value} for key, value in row] for row in headers]
    place = messages.schema.get_field_index("headers")
    kind = messages.schema.field(place)
    return messages.set_column(place, kind, pa.array(entries, kind.type))


def test_frames_are_taken_off_without_a_registry() -> None:
    decoder = make_decoder("json", framing="confluent")
    values = [b"\0\0\0\0\x11" + b'{"id": 1}', framed(18, {"id": 2})]
    assert rows(decoder, values) == [{"id": 1}, {"id": 2}]
    assert rows(decoder, values, "id") == [{"id": 1}, {"id": 2}]
    assert reason(decoder, b'{"id": 1}') == "magic byte 123, not 0 or 1"
    assert reason(decoder, b"\0\0\0\0\x11[]") == "not a JSON object (schema id 17)"
    assert reason(decoder, b"") == "empty payload"
    assert reason(decoder, None) == "null payload"


def test_messages_of_confluents_serialiser_have_the_types_of_their_schema(
    registry: Registry,
) -> None:
    confluent = Confluent()
    serializer = confluent.json(json.dumps(SCHEMA))
    orders = [
        {"id": 1, "price": 10, "at": "2026-11-21T04:05:06.5Z", "lines": [{"sku": "a", "each": 1}]},
        {"id": 2, "price": 10.5, "day": "2026-11-21", "note": {"any": [1]}, "lines": []},
        {"id": 3, "at": "2026-11-21T05:05:06+01:00", "paid": True, "day": None},
    ]
    values = [confluent.write(serializer, order) for order in orders]
    confluent.copy_to(registry)
    [(numbers, got, bad)] = groups(by_registry(registry), batch(values))
    assert (numbers, bad) == ([0, 1, 2], {})
    got.validate(full=True)
    assert {it.name: it.type for it in got.type} == {
        "id": pa.int64(),
        "price": pa.float64(),
        "at": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "paid": pa.bool_(),
        "lines": pa.list_(pa.struct([("sku", pa.string()), ("each", pa.float64())])),
        "note": pa.struct([("any", pa.list_(pa.int64()))]),
    }
    assert got.field("price").to_pylist() == [10.0, 10.5, None]
    moment = datetime(2026, 11, 21, 4, 5, 6, tzinfo=UTC)
    assert got.field("at").to_pylist() == [moment.replace(microsecond=500000), None, moment]
    assert got.field("day").to_pylist() == [None, date(2026, 11, 21), None]
    assert got.field("lines").to_pylist() == [[{"sku": "a", "each": 1.0}], [], None]


def test_ids_in_headers_are_read(registry: Registry) -> None:
    confluent = Confluent()
    serializer = confluent.json(json.dumps(SCHEMA), **IN_HEADERS)
    value = confluent.write(serializer, {"id": 1, "price": 2})
    headers = list(confluent.headers)
    assert value[:1] == b"{"
    assert [key for key, _ in headers] == ["__value_schema_id"]
    confluent.copy_to(registry)
    framed_value = confluent.write(confluent.json(json.dumps(SCHEMA)), {"id": 2})
    messages = with_headers(
        [value, framed_value, value, value, None],
        [
            [("a", b"b"), *headers],
            [],
            [("__key_schema_id", headers[0][1])],
            [("__value_schema_id", b"\1x")],
            headers,
        ],
    )
    [(_, got, bad)] = groups(by_registry(registry), messages)
    assert got.field("id").to_pylist()[:2] == [1, 2]
    assert bad == {
        2: "magic byte 123, not 0 or 1",
        3: "header __value_schema_id: 2 bytes: shorter than magic and GUID",
        4: "null payload",
    }
    assert [path for path in registry.requests if "guids" in path] == [
        f"/schemas/guids/{confluent.client.get_version('orders-value', 1).guid}"
    ]


def test_references_are_followed_by_their_names(registry: Registry) -> None:
    money = {
        "$id": "http://shop/money.json",
        "type": "object",
        "properties": {"units": {"type": "number"}},
    }
    order = {
        "type": "object",
        "properties": {
            "a": {"$ref": "money.json"},
            "b": {"$ref": "http://shop/money.json#/properties/units"},
        },
    }
    registry.register(1, money, kind="JSON", subject="money")
    reference = {"name": "money.json", "subject": "money", "version": 1}
    registry.register(2, order, kind="JSON", references=[reference])
    decoder = by_registry(registry)
    assert rows(decoder, [framed(2, {"a": {"units": 1}, "b": 2})]) == [
        {"a": {"units": 1.0}, "b": 2.0}
    ]
    [(_, got, _)] = groups(decoder, batch([framed(2, {"b": 2})]))
    assert got.type == pa.struct([("b", pa.float64()), ("a", pa.struct([("units", pa.float64())]))])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"id": "x"}, "id: 'x' is not of type int64, as the schema says (schema id 1)"),
        ({"id": 1.5}, "id: '1.5' is not of type int64, as the schema says (schema id 1)"),
        (
            {"id": 1 << 70},
            f"id: '{1 << 70}' is not of type int64, as the schema says (schema id 1)",
        ),
        ({"id": True}, "id: 'true' is not of type int64, as the schema says (schema id 1)"),
        (
            {"at": "soon"},
            "at: 'soon' is not of type timestamp[us, tz=UTC], as the schema says (schema id 1)",
        ),
        (
            {"at": 5},
            "at: '5' is not of type timestamp[us, tz=UTC], as the schema says (schema id 1)",
        ),
        (
            {"day": "20261121"},
            "day: '20261121' is not of type date32[day], as the schema says (schema id 1)",
        ),
        ({"lines": {"a": 1}}, "lines: '{\"a\":1}' is not a list, as the schema says (schema id 1)"),
        ({"lines": [1]}, "lines: item: '1' is not an object, as the schema says (schema id 1)"),
        (
            {"lines": [{"sku": "a"}, {"sku": 1}]},
            "lines: item: sku: '1' is not of type string, as the schema says (schema id 1)",
        ),
    ],
)
def test_what_the_schema_refuses_is_bad_beside_any_neighbours(
    registry: Registry, value: Any, expected: str
) -> None:
    registry.register(1, SCHEMA, kind="JSON")
    decoder = by_registry(registry)
    assert reason(decoder, framed(1, value)) == expected
    good = {"id": 7, "at": "2026-11-21T04:05:06Z", "day": "2026-11-21", "lines": [{"sku": "b"}]}
    neighbours = [framed(1, it) for it in (good, value, {"id": 8.0}, value)]
    found = decode(decoder, neighbours)
    assert list(found.bad.values()) == [expected] * 2
    assert found.rows.field("id").to_pylist() == [7, None, 8, None]
    assert found.rows.to_pylist()[0]["lines"] == [{"sku": "b", "each": None}]


def test_an_id_that_is_of_no_json_schema_is_bad(registry: Registry) -> None:
    registry.register(1, {"type": "record", "name": "R", "fields": []})
    registry.register(2, "{", kind="JSON")
    decoder = by_registry(registry)
    assert reason(decoder, framed(1, {})) == "schema id 1 is of type AVRO, not JSON"
    assert reason(decoder, framed(2, {})).startswith("schema id 2: JSON Schema: Expecting property")
    assert reason(decoder, framed(3, {})) == "schema id 3 is not in the registry"
    # A path needs no types, so it needs no registry.
    assert rows(decoder, [framed(3, {"a": 1})], "a") == [{"a": 1}]


def test_schemas_with_other_types_go_apart_and_equal_ones_together(registry: Registry) -> None:
    def one(kind: str) -> Any:
        return {"type": "object", "properties": {"a": {"type": kind}}}

    for schema_id, kind in enumerate(["integer", "string", "integer"]):
        registry.register(schema_id, one(kind), kind="JSON")
    values = [framed(0, {"a": 1}), framed(1, {"a": "x"}), framed(2, {"a": 2}), framed(9, {"a": 3})]
    [first, second] = groups(by_registry(registry), batch(values))
    assert first[0] == [0, 2, 3]
    assert first[1].field("a").to_pylist() == [1, 2, None]
    assert first[2] == {2: "schema id 9 is not in the registry"}
    assert second[0] == [1]


def test_a_schema_within_itself_and_open_places_stay_as_json_has_them(registry: Registry) -> None:
    tree = {
        "type": "object",
        "properties": {
            "below": {"$ref": "#"},
            "any": {},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        "allOf": [{"properties": {"n": {"type": "number"}}}],
    }
    registry.register(1, tree, kind="JSON")
    value = {"below": {"n": 1, "below": {}}, "any": 1, "either": "x", "map": {"k": 1}, "n": 1}
    [(_, got, bad)] = groups(by_registry(registry), batch([framed(1, value)]))
    assert bad == {}
    assert got.type.field("n").type == pa.float64()
    assert got.to_pylist() == [value]


def test_logical_types_of_connect_are_its_titles(registry: Registry) -> None:
    def logical(name: str, kind: str) -> Any:
        title = f"org.apache.kafka.connect.data.{name}"
        return {"type": kind, "title": title, "connect.version": 1}

    properties = {
        "day": logical("Date", "integer"),
        "time": logical("Time", "integer"),
        "at": {"oneOf": [{"type": "null"}, logical("Timestamp", "integer")]},
        "price": logical("Decimal", "number"),
    }
    registry.register(1, {"type": "object", "properties": properties}, kind="JSON")
    decoder = by_registry(registry)
    [got] = rows(decoder, [framed(1, {"day": 1, "time": 1, "at": 1, "price": "AQ=="})])
    assert got["day"] == date(1970, 1, 2)
    assert got["at"] == datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)
    assert got["price"] == "AQ=="
    assert "not of type date32" in reason(decoder, framed(1, {"day": 1 << 40}))


def test_times_of_debezium_are_titles_too(registry: Registry) -> None:
    kinds = {
        "Date": (pa.date32(), 17_700),
        "Time": (pa.time32("ms"), 54_796_945),
        "MicroTime": (pa.time64("us"), 54_796_945_104),
        "NanoTime": (pa.time64("ns"), 54_796_945_104_000),
        "Timestamp": (pa.timestamp("ms"), 1_529_507_596_945),
        "MicroTimestamp": (pa.timestamp("us"), 1_529_507_596_945_104),
        "NanoTimestamp": (pa.timestamp("ns"), 1_529_507_596_945_104_000),
    }
    properties: dict[str, Any] = {
        name: {"type": "integer", "title": f"io.debezium.time.{name}"} for name in kinds
    }
    properties["zoned"] = {"type": "string", "title": "io.debezium.time.ZonedTimestamp"}
    registry.register(1, {"type": "object", "properties": properties}, kind="JSON")
    message: dict[str, Any] = {name: count for name, (_, count) in kinds.items()}
    message |= {"zoned": "2018-06-20T15:13:16.945104Z"}
    [(_, got, bad)] = groups(by_registry(registry), batch([framed(1, message)]))
    assert bad == {}
    assert {name: got.type.field(name).type for name in kinds} == {
        name: kind for name, (kind, _) in kinds.items()
    }
    at = datetime(2018, 6, 20, 15, 13, 16, 945104, tzinfo=UTC)
    [row] = got.to_pylist()
    assert row["Date"] == date(2018, 6, 18)
    assert row["MicroTime"] == at.time()
    assert row["MicroTimestamp"] == at.replace(tzinfo=None)
    assert row["zoned"] == at


def test_damaged_messages_are_bad_and_never_a_crash(registry: Registry) -> None:
    registry.register(1, SCHEMA, kind="JSON")
    order = {"id": 1, "price": 1, "at": "2026-11-21T04:05:06Z", "lines": [{"sku": "a", "each": 1}]}
    survives(by_registry(registry), framed(1, order), "id")


def test_other_framings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be one of confluent, apicurio, glue, none"):
        make_decoder("json", framing="glue?")
    with pytest.raises(ConfigurationError, match="have no framing"):
        make_decoder("json", registry="http://localhost:1", framing="none")


def test_a_schema_that_unfolds_into_too_many_fields_is_a_reason(registry: Registry) -> None:
    kinds: dict[str, Any] = {"k0": {"type": "integer"}}
    for level in range(1, 20):
        below = {"$ref": f"#/$defs/k{level - 1}"}
        kinds[f"k{level}"] = {"type": "object", "properties": {"a": below, "b": below}}
    registry.register(1, {"$ref": "#/$defs/k19", "$defs": kinds}, kind="JSON")
    expected = "schema id 1: JSON Schema: more than 10000 fields"
    assert reason(by_registry(registry), framed(1, {})) == expected


def test_types_deeper_than_messages_may_be_stay_open(registry: Registry) -> None:
    kind: dict[str, Any] = {"type": "integer"}
    for _ in range(90):
        kind = {"type": "object", "properties": {"a": kind}}
    registry.register(1, kind, kind="JSON")
    [got] = rows(by_registry(registry), [framed(1, {"b": 1})])
    assert got["b"] == 1


def test_null_members_are_kept_where_the_schema_leaves_an_object_open(registry: Registry) -> None:
    confluent = Confluent()
    properties = {"id": {"type": "integer"}, "flags": {"type": "object"}}
    serializer = confluent.json(
        json.dumps({"title": "Marked", "type": "object", "properties": properties})
    )
    messages = [{"id": 1, "flags": {"a": None, "b": "x"}}, {"id": 2, "flags": {"c": "y"}}]
    values = [confluent.write(serializer, message) for message in messages]
    confluent.copy_to(registry)
    fields = [pa.field("id", pa.int64()), pa.field("flags", pa.map_(pa.string(), pa.string()))]
    schema = RowSchema(pa.struct(fields))
    decoder = make_decoder("json", registry=registry.url, keep_nulls_in=schema.null_keeping_names)
    fitted = [
        schema.fit(decoded)[0].to_pylist() for _, decoded, _ in groups(decoder, batch(values))
    ]
    rows = sorted((row for part in fitted for row in part), key=lambda row: int(row["id"]))
    assert [dict(row["flags"]) for row in rows] == [{"a": None, "b": "x"}, {"c": "y"}]
