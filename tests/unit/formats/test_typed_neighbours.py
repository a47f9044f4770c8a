"""What a message becomes depends on itself and the schema, never on its neighbours in the chunk."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.archive.kept_schemas import KeptSchema
from secor.arrow.nested_arrays import entries
from secor.config.parser import Parser
from secor.core.errors import SchemaGrew
from secor.core.model import DATA
from secor.parsing.pipeline import Pipeline
from secor.schema.growth import GrowthFinder
from secor.schema.inference import MAX_FIELDS
from secor.schema.schema import RowSchema
from secor.wiring.parsers import pipeline_for
from tests.unit.formats.test_typed_misfits import shown
from tests.unit.parsing.neighbours import agree as agree_in
from tests.unit.parsing.neighbours import lines
from tests.unit.parsing.parsing_cases import chunk_of, reasons

STEADY = settings(deadline=None, max_examples=15, derandomize=True)

Encode = Callable[[Any], bytes]


class Number(float):
    """A number with its spelling: JSON tells 5 from 5.0 and 5e0."""

    def __new__(cls, text: str) -> Number:
        self = super().__new__(cls, text)
        self.text = text
        return self

    text: str

    def __repr__(self) -> str:
        return self.text


def as_json(value: Any) -> bytes:
    return written(value).encode()


def written(value: Any) -> str:
    if isinstance(value, Number):
        return value.text
    if isinstance(value, dict):
        members = ",".join(f"{json.dumps(it)}:{written(value[it])}" for it in value)
        return f"{{{members}}}"
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    return json.dumps(value)


def as_messagepack(value: Any) -> bytes:
    return bytes(msgpack.packb(native(value)))


def native(value: Any) -> Any:
    if isinstance(value, Number):
        whole = value.text.lstrip("-").isdigit() and -(1 << 63) <= int(value.text) < 1 << 64
        return int(value.text) if whole else float(value)
    if isinstance(value, dict):
        return {name: native(item) for name, item in value.items()}
    return [native(item) for item in value] if isinstance(value, list) else value


ENCODINGS = [("json", as_json), ("messagepack", as_messagepack)]


def outcomes(pipeline: Pipeline, values: Sequence[bytes]) -> list[str]:
    """Return for each message what is stored of it, or why it is not."""
    parts = pipeline.split(chunk_of(values))
    found = reasons(parts)
    for part in parts:
        if part.stream == DATA:
            rows = part.records.column("row")
            rows.validate(full=True)
            found |= dict(zip(part.records.column("offset").to_pylist(), shown(rows), strict=True))
    return [found[offset] for offset in range(len(values))]


def pipeline(decoder: str, schema: RowSchema, growth: GrowthFinder | None = None) -> Pipeline:
    settings = {"decoder": decoder, "max_bad_ratio": "none"}
    return pipeline_for(Parser.model_validate(settings), typed=True, schema=schema, growth=growth)


def agree(decoder: str, schema: RowSchema, values: Sequence[bytes]) -> list[str]:
    """Parse messages together and each by itself; return what becomes of them."""
    alone = [outcomes(pipeline(decoder, schema), [value])[0] for value in values]
    assert outcomes(pipeline(decoder, schema), values) == alone
    return alone


def grows(decoder: str, kept: KeptSchema, values: Sequence[bytes]) -> int | None:
    try:
        pipeline(decoder, kept.rows, GrowthFinder(kept.rows, lambda *_: None)).split(
            chunk_of(values)
        )
    except SchemaGrew as grown:
        return grown.offset
    return None


def schema_of(kind: Any, extra: Any = "drop") -> RowSchema:
    fields = {"fields": [{"name": "a", "type": kind}, {"name": "b", "type": "string"}]}
    return RowSchema.parse(json.dumps(fields), "schema.json", extra)


NUMBERS = [
    *("0", "1", "-1", "5", "5.0", "1.5", "-0", "-0.0", "0.1", "1e2", "1e16", "1e300", "86400"),
    *("9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993"),
    *("9007199254740993.0", "9223372036854775807", "9223372036854775808", "18446744073709551616"),
]
TEXTS = ["", "p", "5", "007", '"p"', "[1]", '{"x":1}', "null", "1.5", "ü", "2026-01-01", "10:00"]


def value_of(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(10 if depth < 2 else 7)
    if kind < 4:
        return Number(chance.choice(NUMBERS))
    if kind < 6:
        return chance.choice(TEXTS)
    if kind == 6:
        return chance.choice([None, True, False])
    if kind == 7:
        return [value_of(chance, depth + 1) for _ in range(chance.randrange(3))]
    return {name: value_of(chance, depth + 1) for name in chance.sample("xyz", chance.randrange(3))}


def messages_of(chance: random.Random, encode: Encode) -> list[bytes]:
    """Return objects with ``a`` mostly of few kinds: so columns of them are made of two."""
    shapes: list[Callable[[Any], Any]] = [
        lambda value: value,
        lambda value: [value],
        lambda value: {"x": value},
        lambda value: [{"x": value}],
        lambda value: {"x": [value]},
    ]
    wrap = chance.choice(shapes)
    pool = [wrap(value_of(chance, 2)) for _ in range(4)] + [value_of(chance) for _ in range(2)]
    rows = [{"a": chance.choice(pool)} for _ in range(chance.randrange(2, 7))]
    for row in rows:
        if chance.random() < 0.2:
            row["b"] = value_of(chance)
    return [encode(row) for row in rows]


X = [{"name": "x", "type": "double"}, {"name": "y", "type": "string"}]
KINDS: list[Any] = [
    *("string", "double", "float", "int64", "int32", "json", "bool", "decimal(20, 0)"),
    *("time(s)", "time(us)", "date", "timestamp(ms)", "decimal(10, 2)"),
    *({"list": it} for it in ("string", "double", "int64", "json", "decimal(20, 0)", "time(ms)")),
    *({"map": it} for it in ("string", "double", "json", {"list": "string"})),
    *(
        {"struct": X},
        {"list": {"struct": X}},
        {"struct": [{"name": "x", "type": {"list": "string"}}]},
    ),
]


@pytest.mark.parametrize(("decoder", "encode"), ENCODINGS)
@STEADY
@given(seed=st.integers(0, 1 << 30))
@pytest.mark.slow
def test_a_message_fits_a_schema_whatever_comes_with_it(
    decoder: str, encode: Encode, seed: int
) -> None:
    chance = random.Random(seed)
    values = messages_of(chance, encode)
    for kind in chance.sample(KINDS, 6):
        schema = schema_of(kind, chance.choice(["drop", "json", "quarantine"]))
        agree(decoder, schema, values)
        assert schema.fields is not None
        agree(decoder, RowSchema(schema.fields, "json", exact=True), values)


@pytest.mark.parametrize(("decoder", "encode"), ENCODINGS)
@STEADY
@given(seed=st.integers(0, 1 << 30))
def test_a_message_grows_the_kept_schema_whatever_comes_with_it(
    decoder: str, encode: Encode, seed: int
) -> None:
    chance = random.Random(seed)
    values = messages_of(chance, encode)
    kept = KeptSchema(1, schema_of(chance.choice(KINDS)).fields or pa.struct([]))
    alone = [grows(decoder, kept, [value]) is not None for value in values]
    assert grows(decoder, kept, values) == (alone.index(True) if any(alone) else None)


def test_text_in_a_list_beside_a_number_stays_as_it_is() -> None:
    found = agree("json", schema_of({"list": "string"}), [b'{"a":["p"]}', b'{"a":["q",5]}'])
    assert found == ["{'a': ['p'], 'b': None}", "schema: a[]: 5 is no string"]


@pytest.mark.parametrize("beside", [b"1.5", b'"x"', b"[]", b"1"])
def test_an_integer_beyond_doubles_is_not_rounded_beside_one(beside: bytes) -> None:
    values = [b'{"a":9007199254740993}', b'{"a":%s}' % beside]
    assert agree("json", schema_of("double"), values)[0].startswith("schema: a: 9007199254740993 ")
    inside = [b'{"a":[9007199254740993,1.5]}', b'{"a":[1.5]}']
    assert (
        "9007199254740993 is no double" in agree("json", schema_of({"list": "double"}), inside)[0]
    )


def test_minus_zero_without_a_fraction_is_zero_beside_doubles_too() -> None:
    values = [b'{"a":-0}', b'{"a":1.5}', b'{"a":-0.0}']
    assert [it[:10] for it in agree("json", schema_of("double"), values)] == [
        "{'a': 0.0,",
        "{'a': 1.5,",
        "{'a': -0.0",
    ]
    values = [b'{"a":{"x":[-0]}}', b'{"a":{"x":[1.5]}}', b'{"a":{"x":[-0.0]}}']
    agree("json", schema_of({"struct": [{"name": "x", "type": {"list": "double"}}]}), values)
    agree("json", schema_of("json"), values)


BESIDE: list[Any] = [5, 1.5, "x", True, [b"abc"], {"x": b"abc"}, 1 << 63, b"\xff"]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda it: it,
        lambda it: [it],
        lambda it: {"x": it},
        lambda it: [{"x": [it]}],
        lambda it: [[it], 5],
    ],
)
@pytest.mark.parametrize("beside", BESIDE, ids=repr)
@pytest.mark.slow
def test_bytes_stay_bytes_beside_another_kind(beside: Any, wrap: Callable[[Any], Any]) -> None:
    values = [
        bytes(msgpack.packb({"a": wrap(it)})) for it in (b"abc", beside, "abc", "YWJj", b"\xff")
    ]
    inner = [{"name": "x", "type": "string"}]
    kinds: list[Any] = ["string", "binary", "json", {"list": "string"}, {"map": "binary"}]
    for kind in kinds:
        for extra in ("drop", "json", "quarantine"):
            agree("messagepack", schema_of(kind, extra), values)
    structs: list[Any] = [{"struct": inner}, {"list": {"struct": [{"name": "x", "type": "json"}]}}]
    for kind in structs:
        agree("messagepack", schema_of(kind, "json"), values)
    kept = KeptSchema(1, schema_of("int64").fields or pa.struct([]))
    alone = [grows("messagepack", kept, [value]) is not None for value in values]
    assert grows("messagepack", kept, values) == (alone.index(True) if any(alone) else None)


def test_bytes_in_a_string_column_are_its_text_or_a_misfit() -> None:
    values = [bytes(msgpack.packb({"a": it})) for it in (b"abc", 5, b"\xff", "\u20ac")]
    found = agree("messagepack", schema_of("string"), values)
    assert found[0] == "{'a': 'abc', 'b': None}"
    assert found[1:3] == ["schema: a: 5 is no string", "schema: a: b'\\xff' is no string"]
    assert agree("messagepack", schema_of("binary"), values)[2] == "{'a': b'\\xff', 'b': None}"
    found = agree("messagepack", schema_of("json"), values)
    assert [it.split(", 'b")[0] for it in found] == [
        "{'a': '\"YWJj\"'",
        "{'a': '5'",
        "{'a': '\"/w==\"'",
        "{'a': '\"\u20ac\"'",
    ]


def test_a_time_is_one_of_a_day() -> None:
    values = [b'{"a":%d}' % at for at in (-1, 0, 86_399_999, 86_400_000, 1 << 40)]
    assert agree("json", schema_of("time(ms)"), [*values, b'{"a":1.5}', b'{"a":5.0}']) == [
        "schema: a: -1 is no time32[ms]",
        "{'a': 0, 'b': None}",
        "{'a': 86399999, 'b': None}",
        "schema: a: 86400000 is no time32[ms]",
        "schema: a: 1099511627776 is no time32[ms]",
        "schema: a: 1.5 is no time32[ms]",
        "{'a': 5, 'b': None}",
    ]
    for kind in ("time(s)", "time(us)", {"list": "time(ns)"}):
        agree("json", schema_of(kind), values)


def test_a_default_within_a_structure_is_taken_beside_one_who_has_the_field() -> None:
    inner = [{"name": "x", "type": "int64", "default": 7}]
    values = [b'{"a":{"x":null}}', b'{"a":{"x":1}}', b'{"a":{}}', b"{}"]
    found = agree("json", schema_of({"struct": inner}), values)
    assert [it.split(", 'b")[0] for it in found] == [
        "{'a': {'x': 7}",
        "{'a': {'x': 1}",
        "{'a': {'x': 7}",
        "{'a': None",
    ]


def test_the_entries_of_a_map_are_in_the_order_of_their_names() -> None:
    found = agree("json", schema_of({"map": "int64"}), [b'{"a":{"x":1}}', b'{"a":{"y":1,"x":2}}'])
    assert found[1].startswith("{'a': [('x', 2), ('y', 1)]")


def test_maps_of_anything_may_all_be_missing() -> None:
    agree("json", schema_of({"map": "json"}), [b'{"a":null}', b"{}"])
    agree("json", schema_of({"list": {"map": "json"}}), [b'{"a":[null]}', b'{"a":[]}'])


NESTED = [b'{"a":{"x":"NL","y":{"z":1.5}}}', b'{"a":{"x":7}}', b'{"a":null}', b"{}"]
STEPS: list[dict[str, Any]] = [
    {"transforms": [{"kind": "mask", "field": "a.x", "value": "***"}]},
    {"transforms": [{"kind": "mask", "field": "a.x", "salt": "salt of this topic"}]},
    {"transforms": [{"kind": "mask", "field": "a.y.z", "value": "***"}]},
    {"transforms": [{"kind": "drop", "field": "a.x"}]},
    {"transforms": [{"kind": "drop", "field": "a.y.z"}]},
    {"transforms": [{"kind": "rename", "field": "a.x", "to": "w"}]},
    {"transforms": [{"kind": "rename", "field": "a.x", "to": "y"}]},
    {"transforms": [{"kind": "filter", "field": "a.x", "equals": 7}]},
    {"transforms": [{"kind": "route", "field": "a.x", "topics": ["NL", "7"]}]},
    {"layout": "{a.x}/{a.y.z}"},
]


@pytest.mark.parametrize("beside", [b'{"a":5}', b'{"a.x":5}', b'{"a.x":"NL"}'])
@pytest.mark.parametrize("steps", STEPS, ids=str)
def test_a_path_into_an_object_is_followed_whatever_others_have_there(
    steps: dict[str, Any], beside: bytes
) -> None:
    def results(values: Sequence[bytes], first: int) -> dict[int, Any]:
        settings = {"decoder": "json", "max_bad_ratio": "none", **steps}
        parser = pipeline_for(
            Parser.model_validate(settings), typed=True, schema=schema_of("json", "json")
        )
        found: dict[int, Any] = {}
        for part in parser.split(chunk_of(values, first=first)):
            columns = part.records.to_pydict()
            rows = columns.get("row", columns["headers"])
            for offset, row in zip(columns["offset"], rows, strict=True):
                found[offset] = (part.stream, part.output_partition, row)
        return found

    rename_into_another_type = steps == STEPS[6] and b'"a":5' not in beside
    values = [*(NESTED[1:] if rename_into_another_type else NESTED), beside]
    alone = {at: it for row, value in enumerate(values) for at, it in results([value], row).items()}
    assert results(values, 0) == alone


def test_maps_of_structures_with_a_field_that_is_always_null_may_be_cut() -> None:
    kind = pa.map_(pa.string(), pa.struct([pa.field("x", pa.null()), pa.field("y", pa.string())]))
    maps = pa.array([[("k", {"y": "a"})], [("k", {"y": "b"})], [("k", {"y": "c"})]], kind)
    assert entries(maps[1:])[1].field(1).field("y").to_pylist() == ["b", "c"]


def test_objects_without_a_field_are_lines_of_their_own() -> None:
    found = agree_in(lines, pipeline("json", RowSchema()), [b"{}", b"{}"])
    assert found == dict.fromkeys(range(2), (DATA, "dt=2023-11-14", "{}"))


POINTS = {"struct": [{"name": "x", "type": "int64"}]}
ITEMS: list[Any] = [5, 5.5, "x", "5", {"x": 1}, {"x": "y"}, [1, 2], [1, "z"], True, None, 1 << 70]


@pytest.mark.parametrize(
    "item", ["int64", "string", "json", "decimal(9, 2)", {"list": "int64"}, POINTS], ids=str
)
@pytest.mark.parametrize(("decoder", "encode"), ENCODINGS)
@pytest.mark.slow
def test_maps_of_more_names_than_columns_can_have_fit_as_they_do_alone(
    decoder: str, encode: Encode, item: Any
) -> None:
    native = ITEMS if decoder == "json" else ITEMS[:-1]
    special: list[Any] = [{"z": one, "k": two} for one in native for two in (None, 5, native[4])]
    special += [{}, 5, "x", None, [1]]
    many = [encode({"a": {f"k{at}": at, f"l{at}": None}}) for at in range(MAX_FIELDS)]
    values = [*many[: len(many) // 2], *(encode({"a": it}) for it in special), *many]
    schema = schema_of({"map": item})
    together = outcomes(pipeline(decoder, schema), values)[len(many) // 2 : -len(many)]
    alone = [outcomes(pipeline(decoder, schema), [encode({"a": it})])[0] for it in special]
    assert together == alone
