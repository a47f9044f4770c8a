import io
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from secor.core.errors import ConfigurationError, NotFound, Unavailable
from secor.core.variant_json import MIXED
from secor.parsing.decoders.avro import AvroDecoder
from secor.parsing.decoders.columns import MAX_DEPTH
from secor.parsing.fields import field_at, texts
from secor.parsing.registry import RegisteredSchema, SchemaId, SchemaRegistry
from secor.schema.inference import observe
from tests.unit.parsing.decoder_cases import batch, decode, reason, rows, survives

USER = {"type": "record", "name": "User", "fields": [{"name": "country", "type": "string"}]}
EVENT: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "namespace": "shop",
    "fields": [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "user", "type": ["null", USER], "default": None},
        {"name": "first", "type": {"type": "array", "items": "User"}},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2},
        },
        {"name": "either", "type": ["null", "long", "string"]},
        {"name": "whole", "type": ["int", "long"]},
        {"name": "counts", "type": {"type": "map", "values": ["null", "int"]}},
        {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 2}},
    ],
}
UNSCALED = 12345678901234567890123456789012345678
RECORD: dict[str, Any] = {
    "ts": 1735686001000,
    "user": {"country": "NL"},
    "first": [{"country": "x"}],
    "color": "BLUE",
    "day": 20000,
    "price": UNSCALED.to_bytes(17, "big", signed=True),
    "either": "7",
    "whole": 5,
    "counts": {"a": 1, "b": None},
    "id": b"\x00\xff",
}


def bare(schema: Any) -> Any:
    return json.loads(json.dumps(schema).replace("logicalType", "was"))


def packed(schema: Any, record: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(bare(schema)), record)
    return stream.getvalue()


def framed(schema_id: int, content: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + content


class NoSource:
    url = "http://registry"

    def fetch(self, schema_id: SchemaId) -> RegisteredSchema:
        raise NotFound(str(schema_id))


class Shelf(SchemaRegistry):
    """A registry's client that has its schemas at hand."""

    def __init__(self, **schemas: Any) -> None:
        super().__init__(NoSource())
        self.schemas = {int(key[1:]): value for key, value in schemas.items()}
        self.down = False

    def schema(self, schema_id: SchemaId) -> RegisteredSchema:
        if self.down:
            raise Unavailable("down")
        if schema_id not in self.schemas:
            raise NotFound("no")
        found = self.schemas[int(schema_id)]
        if isinstance(found, RegisteredSchema):
            return found
        return RegisteredSchema("AVRO", found if isinstance(found, str) else json.dumps(found))


def file_of(schema: Any, place: Path) -> Path:
    place.write_text(json.dumps(schema))
    return place


def record_of(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": key, "type": kind} for key, kind in fields.items()],
    }


@pytest.fixture
def decoder() -> AvroDecoder:
    return AvroDecoder(Shelf(_1=EVENT))


PAYLOAD = framed(1, packed(EVENT, RECORD))


def test_records_become_typed_rows(decoder: AvroDecoder) -> None:
    found = decode(decoder, [PAYLOAD])
    kind = found.rows.type
    assert kind.field("ts").type == pa.timestamp("ms", "UTC")
    assert kind.field("day").type == pa.date32()
    assert kind.field("price").type == pa.decimal256(40, 2)
    assert kind.field("whole").type == pa.int64()
    assert kind.field("counts").type == pa.map_(pa.string(), pa.int32())
    assert kind.field("id").type == pa.binary(2)
    assert kind.field("either").metadata == MIXED
    row = found.rows.to_pylist()[0]
    assert row["ts"].timestamp() == 1735686001
    assert row["day"].isoformat() == "2024-10-04"
    assert row["price"] == Decimal("123456789012345678901234567890123456.78")
    assert row["user"] == {"country": "NL"}
    assert row["first"] == [{"country": "x"}]
    assert (row["color"], row["either"], row["whole"], row["id"]) == ("BLUE", '"7"', 5, b"\x00\xff")
    assert row["counts"] == [("a", 1), ("b", None)]


def told(decoder: AvroDecoder, payload: bytes, *paths: str) -> list[str | None]:
    found = decode(decoder, [payload], *paths)
    assert found.bad == {}
    return [texts(field_at(found.rows, path)).at(0) for path in paths]


def test_fields_that_are_asked_for_are_those_of_the_whole_rows(decoder: AvroDecoder) -> None:
    paths = ("ts", "day", "price", "user.country", "either", "counts", "counts.a", "counts.z", "x")
    assert told(decoder, PAYLOAD, *paths) == [
        "2024-12-31 23:00:01.000Z",
        "2024-10-04",
        "123456789012345678901234567890123456.78",
        "NL",
        "7",
        '{"a":1}',
        "1",
        None,
        None,
    ]
    rows = decode(decoder, [PAYLOAD]).rows
    assert told(decoder, PAYLOAD, *paths) == [texts(field_at(rows, it)).at(0) for it in paths]
    far = framed(1, packed(EVENT, {**RECORD, "day": 2**31 - 1, "ts": 2**63 - 1}))
    rows = decode(decoder, [far]).rows
    beyond = [texts(field_at(rows, it)).at(0) for it in ("day", "ts")]
    assert told(decoder, far, "day", "ts") == beyond


def test_a_decimal_beyond_its_precision_is_bad_where_it_must_fit() -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
    schema = record_of("R", d=kind)
    decoder = AvroDecoder(Shelf(_1=schema))
    good, bad = (
        framed(1, packed(schema, {"d": value.to_bytes(3, "big", signed=True)}))
        for value in (-999, 1000)
    )
    found = decode(decoder, [good, bad, good])
    assert list(found.bad) == [1]
    assert "does not fit" in found.bad[1]
    assert found.rows.to_pylist()[::2] == [{"d": Decimal("-99.9")}] * 2
    assert list(decode(decoder, [good, bad], "d").bad) == [1]
    assert rows(decoder, [good, bad], "x") == [{"x": None}] * 2


def test_messages_of_several_schemas_share_one_type() -> None:
    old = record_of("R", a="int", c="string")
    new = record_of("R", a="long", b=["null", "string"], c="string")
    decoder = AvroDecoder(Shelf(_1=old, _2=new))
    payloads = [
        framed(1, packed(old, {"a": 1, "c": "x"})),
        framed(2, packed(new, {"a": 2**40, "b": "y", "c": "z"})),
    ]
    found = decode(decoder, payloads)
    assert found.rows.type.field("a").type == pa.int64()
    assert found.rows.to_pylist() == [
        {"a": 1, "c": "x", "b": None},
        {"a": 2**40, "c": "z", "b": "y"},
    ]
    assert rows(decoder, payloads, "b", "a") == [{"b": None, "a": 1}, {"b": "y", "a": 2**40}]


def test_messages_of_schemas_that_cannot_agree_are_parsed_apart() -> None:
    one, other = record_of("R", a="int"), record_of("R", a="string")
    third = record_of("R", a="long", b="int")
    decoder = AvroDecoder(Shelf(_1=one, _2=other, _3=third))
    payloads = [
        None,
        framed(1, packed(one, {"a": 1})),
        framed(2, packed(other, {"a": "1"})),
        framed(3, packed(third, {"a": 1, "b": 2})),
        framed(4, b""),
        b"",
    ]
    groups = [rows.tolist() for rows, _ in decoder.decode_apart(batch(payloads), None)]
    assert groups == [[0, 1, 3, 4, 5], [2]]
    assert list(decode(decoder, [payloads[row] for row in groups[0]]).bad) == [0, 3, 4]
    assert rows(decoder, payloads[2:3]) == [{"a": "1"}]
    assert rows(decoder, [payloads[1], payloads[3]], "a") == [{"a": 1}, {"a": 1}]


@pytest.mark.parametrize(
    "kinds",
    [
        (["int", "string"], "string"),
        ({"type": "array", "items": ["int", "string"]}, {"type": "array", "items": "string"}),
        ({"type": "map", "values": ["int", "string"]}, {"type": "map", "values": "string"}),
        (record_of("I", x=["int", "string"]), record_of("I", x="string")),
        ("int", "double"),
        ("float", "double"),
        ("bytes", "string"),
    ],
)
def test_types_that_only_look_alike_go_apart(kinds: tuple[Any, Any]) -> None:
    shelf = Shelf(_1=record_of("R", a=kinds[0]), _2=record_of("R", a=kinds[1]))
    groups = AvroDecoder(shelf).decode_apart(batch([framed(1, b""), framed(2, b"")]), None)
    assert len(groups) == 2


def test_a_reason_names_no_place_in_memory(decoder: AvroDecoder) -> None:
    kind = record_of("R", a="double")
    found = reason(AvroDecoder(Shelf(_1=kind)), framed(1, b"\0\0"))
    assert (
        found == "invalid Avro at or before byte 2 of the record: cannot read double (schema id 1)"
    )


def test_a_default_that_could_be_taken_for_bytes_is_refused() -> None:
    odd = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
    text = json.dumps(odd).replace('"string"}', r'"string", "default": "\udcff"}')
    found = reason(AvroDecoder(Shelf(_1=text)), framed(1, packed(USER, {"country": "x"})))
    assert "surrogates not allowed" in found


def test_a_schema_file_reads_bare_records(tmp_path: Path) -> None:
    decoder = AvroDecoder(schema_file=file_of(EVENT, tmp_path / "event.avsc"))
    assert rows(decoder, [packed(EVENT, RECORD)], "user.country") == [{"user.country": "NL"}]
    skipping = AvroDecoder(schema_file=tmp_path / "event.avsc", framing="confluent")
    assert rows(skipping, [framed(99, packed(EVENT, RECORD))], "user.country") == [
        {"user.country": "NL"}
    ]
    assert skipping.identity != decoder.identity


def test_with_registry_and_file_the_files_schema_has_the_last_word(tmp_path: Path) -> None:
    writer = record_of("R", a="int", gone="string")
    reader = record_of("R", b="long", c="string")
    reader["fields"][0]["aliases"] = ["a"]
    reader["fields"][1]["default"] = "none"
    decoder = AvroDecoder(Shelf(_1=writer), file_of(reader, tmp_path / "r.avsc"))
    payload = framed(1, packed(writer, {"a": 1, "gone": "x"}))
    assert rows(decoder, [payload]) == [{"b": 1, "c": "none"}]
    other = record_of("R", b="string")
    decoder = AvroDecoder(Shelf(_1=writer), file_of(other, tmp_path / "s.avsc"))
    assert "invalid Avro" in reason(decoder, payload)


def test_references_are_known_to_the_schema() -> None:
    main = json.dumps(record_of("R", user="shop.User"))
    user = json.dumps({**USER, "namespace": "shop"})
    decoder = AvroDecoder(Shelf(_1=RegisteredSchema("AVRO", main, {"user": user})))
    assert rows(decoder, [framed(1, b"\x04NL")]) == [{"user": {"country": "NL"}}]


def test_schemas_within_themselves_are_json_text_and_bounded() -> None:
    node = record_of("Node", v="int", next=["null", "Node"])
    decoder = AvroDecoder(Shelf(_1=node))
    payload = framed(1, b"\x02\x02\x04\x02\x06\x00")
    assert rows(decoder, [payload]) == [{"v": 1, "next": '{"v":2,"next":{"v":3,"next":null}}'}]
    assert rows(decoder, [payload], "next.next.v") == [{"next.next.v": "3"}]
    assert rows(decoder, [framed(1, b"\x02\x02" * (MAX_DEPTH - 1) + b"\x02\x00")], "v")
    for levels in (MAX_DEPTH, 400, 300_000):
        deep = framed(1, b"\x02\x02" * levels + b"\x02\x00")
        assert "nested deeper" in reason(decoder, deep)


BAD = {
    "null": (None, "null payload"),
    "empty": (b"", "empty payload"),
    "short": (b"\x00\x00", "shorter than magic"),
    "magic": (b'{"a":1}', "magic byte 123, not 0"),
    "unknown id": (framed(7, b""), "schema id 7 is not in the registry"),
    "no avro": (framed(2, b""), "of type PROTOBUF, not AVRO"),
    "no schema": (framed(3, b""), "schema id 3"),
    "no record": (framed(4, b"\x02"), "must be a record"),
    "endless": (framed(5, b"\xfe\xff\xff\xff\xff\xff\x0f\x00"), "take no bytes"),
    "unknown type": (framed(6, b""), "schema id 6"),
    "truncated": (PAYLOAD[:-1], "invalid Avro"),
    "trailing": (
        PAYLOAD + b"\x00",
        f"after the record's end, at its byte {len(PAYLOAD) - 5} (schema id 1)",
    ),
    "list of 2^60": (framed(8, b"\x80\x80\x80\x80\x80\x80\x80\x80\x20\x01"), "invalid Avro"),
    "bytes of 2^60": (framed(9, b"\x80\x80\x80\x80\x80\x80\x80\x80\x20\x01"), "invalid Avro"),
    "negative bytes": (framed(9, b"\x09abc"), "invalid Avro"),
    "varint without end": (framed(10, b"\xff" * 40), "invalid Avro"),
    "no utf-8": (framed(11, b"\x02\xff"), "invalid Avro"),
    "no such branch": (framed(12, b"\x10"), "invalid Avro"),
}


@pytest.mark.parametrize(("payload", "expected"), list(BAD.values()), ids=list(BAD))
def test_what_is_no_record_is_bad(payload: bytes | None, expected: str) -> None:
    empty = {"type": "record", "name": "E", "fields": []}
    shelf = Shelf(
        _1=EVENT,
        _2=RegisteredSchema("PROTOBUF", "syntax"),
        _3="{",
        _4='"int"',
        _5=record_of("R", a={"type": "array", "items": empty}),
        _6=record_of("R", a="Nothing"),
        _8=record_of("R", a={"type": "array", "items": "int"}),
        _9=record_of("R", a="bytes"),
        _10=record_of("R", a="long"),
        _11=record_of("R", a="string"),
        _12=record_of("R", a=["null", "int"]),
    )
    assert expected in reason(AvroDecoder(shelf), payload)
    assert expected in reason(AvroDecoder(shelf), payload, "ts")


def test_a_registry_that_does_not_answer_stops_the_reading_and_quarantines_nothing() -> None:
    shelf = Shelf(_1=EVENT)
    decoder = AvroDecoder(shelf)
    shelf.down = True
    with pytest.raises(Unavailable):
        decode(decoder, [PAYLOAD])
    shelf.down = False
    assert decode(decoder, [PAYLOAD]).bad == {}


def test_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="needed"):
        AvroDecoder()
    with pytest.raises(ConfigurationError, match="framing"):
        AvroDecoder(Shelf(), framing="what")
    with pytest.raises(ConfigurationError, match="framing"):
        AvroDecoder(Shelf(), framing="none")
    with pytest.raises(ConfigurationError, match="schema file"):
        AvroDecoder(schema_file=tmp_path / "none.avsc")
    for number, schema in enumerate(["int", {"type": "record"}, record_of("R", a="X"), 5, None]):
        with pytest.raises(ConfigurationError, match="Avro schema"):
            AvroDecoder(schema_file=file_of(schema, tmp_path / f"{number}.avsc"))


def test_the_identity_covers_the_schema(tmp_path: Path) -> None:
    one, other = (
        AvroDecoder(schema_file=file_of(record_of("R", a=kind), tmp_path / kind)).identity
        for kind in ("int", "long")
    )
    assert one != other


def test_damaged_messages_are_bad_and_never_a_crash(decoder: AvroDecoder) -> None:
    survives(decoder, PAYLOAD, "ts", "user.country", "price")


def test_damaged_messages_within_themselves_are_bad_too() -> None:
    node = record_of("Node", v="string", next=["null", "Node"])
    survives(AvroDecoder(Shelf(_1=node)), framed(1, b"\x04ab\x02\x04cd\x02\x02x\x00"), "v")


def test_a_schema_that_unfolds_into_too_many_fields_is_a_reason() -> None:
    kind: Any = "int"
    for level in range(20):
        kind = record_of(f"R{level}", a=kind, b=f"R{level - 1}" if level else "int")
    found = reason(AvroDecoder(Shelf(_1=kind)), framed(1, b"\0\0"))
    assert found == "schema id 1: Avro schema: more than 10000 fields"


def test_doubles_of_a_schema_make_no_columns_of_integers() -> None:
    kind = record_of(
        "R",
        a="double",
        b={"type": "array", "items": "float"},
        c={"type": "map", "values": "double"},
        d=["null", "double"],
    )
    value = packed(kind, {"a": 1.0, "b": [2.0], "c": {"x": 1.0}, "d": None})
    [(_, decoded)] = AvroDecoder(Shelf(_1=kind)).decode_apart(batch([framed(1, value)]), None)
    expected = {"a": pa.float64(), "b": pa.list_(pa.float64())}
    expected["c"] = pa.map_(pa.string(), pa.float64())
    assert observe(decoded.rows).type == pa.struct(list(expected.items()))
