from __future__ import annotations

import datetime as dt
import itertools
import json
from typing import Any

import pyarrow as pa
import pytest

from secor.arrow.nested_arrays import JSON, children
from secor.arrow.to_python import json_texts
from secor.core.errors import ConfigurationError
from secor.schema import dominance, new_columns
from secor.schema.fitting import fit_array
from secor.schema.inference import MAX_FIELDS, final, observe, typed, widen
from secor.schema.schema import RowSchema

MARK = {b"secor.encoding": b"json"}


def merged(*columns: pa.Array) -> pa.Array:
    """One column of several, in the type that is inferred from all of them."""
    kind: pa.DataType = pa.null()
    for column in columns:
        kind = widen(kind, observe(column).type)
    target = pa.field("column", final(kind))
    return pa.concat_arrays([fit_array(column, target, "column") for column in columns])


def test_integers_and_doubles_are_doubles() -> None:
    column = merged(pa.array([1, None]), pa.array([0.5]))
    assert column.type == pa.float64()
    assert column.to_pylist() == [1.0, None, 0.5]


def test_doubles_without_any_fraction_are_integers() -> None:
    assert observe(pa.array([1.0, None, -3.0])).equals(pa.array([1, None, -3]))
    for double in (0.5, -0.0, float("nan"), float("inf"), 2.0**60):
        assert observe(pa.array([1.0, double])).type == pa.float64()


def test_every_width_of_numbers_counts_as_the_widest() -> None:
    assert observe(pa.array([1], pa.int8())).type == pa.int64()
    assert observe(pa.array([1], pa.uint32())).type == pa.int64()
    assert observe(pa.array([0.1], pa.float32())).type == pa.float64()


@pytest.mark.parametrize(
    ("one", "other", "texts"),
    [
        (pa.array([1]), pa.array(["1"]), ["1", '"1"']),
        (pa.array([1.0]), pa.array([True]), ["1", "true"]),
        (pa.array([{"b": 1, "a": 2.0}]), pa.array([["x", None]]), ['{"a":2,"b":1}', '["x",null]']),
        (pa.array([b"\xff"]), pa.array(["\n"]), ['"/w=="', '"\\n"']),
        (pa.array([dt.date(2026, 1, 2)]), pa.array([5]), ['"2026-01-02"', "5"]),
    ],
)
def test_conflicts_are_kept_as_json_text(one: pa.Array, other: pa.Array, texts: list[str]) -> None:
    column = merged(one, pa.nulls(1), other)
    assert column.type == JSON
    assert column.storage.to_pylist() == [texts[0], None, texts[1]]


def test_only_the_field_in_conflict_becomes_text() -> None:
    column = merged(
        pa.array([{"user": {"id": 1, "n": 1}}]), pa.array([{"user": {"id": "x", "n": 2}}])
    )
    assert column.to_pylist() == [{"user": {"id": "1", "n": 1}}, {"user": {"id": '"x"', "n": 2}}]


def test_structs_have_all_fields_in_their_order_and_none_that_is_never_set() -> None:
    column = merged(pa.array([{"z": 1, "nothing": None}]), pa.array([{"a": ["x"], "m": {"q": 1}}]))
    assert column.type.names == ["z", "a", "m"]
    assert column.to_pylist() == [
        {"a": None, "m": None, "z": 1},
        {"a": ["x"], "m": {"q": 1}, "z": None},
    ]


def test_always_empty_objects_and_lists_are_json_text() -> None:
    column = merged(pa.array([{"o": {}, "l": []}, {"o": None, "l": [None]}]))
    assert column.to_pylist() == [{"l": "[]", "o": "{}"}, {"l": "[null]", "o": None}]


def test_marked_text_is_typed_by_its_values() -> None:
    def found(*texts: str | None) -> pa.Array:
        field = pa.field("a", pa.string(), metadata=MARK)
        rows = pa.StructArray.from_arrays([pa.array(texts, pa.string())], fields=[field])
        return observe(rows).field("a")

    assert found("1", None, "2.0").equals(pa.array([1, None, 2]))
    assert found("1", "2.5").equals(pa.array([1.0, 2.5]))
    assert found('"x"', '"y"').equals(pa.array(["x", "y"]))
    assert found('{"b":[1,2.5]}', '{"a":null}').to_pylist() == [{"b": [1.0, 2.5]}, {"b": None}]
    texts = ["1", '"x"', '{"b":1.0,"a":null}', r'["\udcffYWJj"]']
    assert found(*texts).storage.to_pylist() == texts
    assert found(r'"\udcffYWJj"', r'"\udcff"').equals(pa.array([b"abc", b""]))
    assert found(str(1 << 70), "1").storage.to_pylist() == [str(1 << 70), "1"]


def test_marks_are_seen_in_lists_too() -> None:
    item = pa.field("item", pa.string(), metadata=MARK)
    lists = pa.array([["1", "2"], None, []], pa.list_(pa.string())).cast(pa.list_(item))
    assert observe(lists).to_pylist() == [[1, 2], None, []]


def test_seeing_twice_changes_nothing() -> None:
    values = [{"a": 1, "b": [1, "x"], "c": {"d": 1.5, "e": {}}}, {"a": "y", "b": [], "c": None}]
    once = typed(values)
    assert observe(once).equals(once)


def ordered(kind: pa.DataType) -> pa.DataType:
    """Return a type with the fields of structs by name."""
    if pa.types.is_struct(kind):
        return pa.struct({name: kind.field(name).type for name in sorted(kind.names)})
    return kind


def test_widening_is_the_same_in_any_order_but_for_that_of_fields() -> None:
    kinds = [
        pa.null(),
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.decimal128(10, 2),
        pa.decimal128(38, 0),
        pa.timestamp("ms", "UTC"),
        pa.timestamp("us", "Europe/Amsterdam"),
        pa.timestamp("s"),
        pa.list_(pa.null()),
        pa.list_(pa.float64()),
        pa.struct([]),
        pa.struct({"a": pa.int64(), "b": pa.string()}),
        pa.struct({"a": pa.float64(), "c": pa.list_(pa.int64())}),
        pa.map_(pa.string(), pa.int64()),
        JSON,
    ]
    for one, two in itertools.product(kinds, repeat=2):
        assert ordered(widen(one, two)) == ordered(widen(two, one))
        assert widen(one, one) == one
        for three in kinds:
            assert widen(widen(one, two), three) == widen(one, widen(two, three))


def test_decimals_get_room_for_both() -> None:
    assert widen(pa.decimal128(10, 2), pa.decimal128(8, 4)) == pa.decimal128(12, 4)
    assert widen(pa.decimal128(10, 2), pa.int64()) == pa.decimal128(21, 2)
    assert widen(pa.decimal128(38, 0), pa.decimal128(38, 20)) == JSON


def test_instants_get_the_finer_unit() -> None:
    column = merged(
        pa.array([1], pa.timestamp("s", "UTC")), pa.array([1_500], pa.timestamp("ms", "UTC"))
    )
    assert column.cast(pa.int64()).to_pylist() == [1_000, 1_500]
    assert widen(pa.timestamp("s"), pa.timestamp("s", "UTC")) == JSON


def test_an_object_of_too_many_names_is_json_text() -> None:
    values: list[Any] = [{f"k{at}": at} for at in range(MAX_FIELDS + 1)]
    assert typed(values).type == JSON
    assert typed(values[1:]).type.num_fields == MAX_FIELDS


def test_a_proposed_schema_fits_its_samples_and_is_read_again() -> None:
    samples = [
        pa.array([{"a": 1, "b": {"c": [1]}, "never": None}]),
        pa.array([{"a": 1.5, "b": {"d": "x"}, "e": True}]),
    ]
    schema, _ = RowSchema.infer(samples)
    again = RowSchema.parse(schema.describe(), "schema.json", schema.extra_fields)
    assert again == schema
    assert json.loads(schema.describe())["fields"][0] == {"name": "a", "type": "double"}
    for sample in samples:
        rows, bad = again.fit(sample)
        assert not bad
        assert rows.type == again.type
    assert rows.to_pylist() == [{"a": 1.5, "b": {"c": None, "d": "x"}, "e": True, "_extra": None}]


def test_no_schema_is_proposed_for_messages_without_fields() -> None:
    with pytest.raises(ConfigurationError, match="no fields"):
        RowSchema.infer([pa.array([{}, None], pa.struct([]))])


def test_the_fields_of_a_wide_message_are_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each field, 5,000 of them took a minute."""
    calls: list[pa.Array] = []

    def counted(array: pa.StructArray) -> list[tuple[pa.Field, pa.Array]]:
        calls.append(array)
        return children(array)

    monkeypatch.setattr(dominance, "children", counted)
    monkeypatch.setattr(new_columns, "children", counted)
    width = 100
    rows = pa.StructArray.from_arrays(
        [pa.array(["2026"])] * width, [f"f{number}" for number in range(width)]
    )
    kind = new_columns.seen_together([rows]).type
    assert kind.num_fields == width
    assert len(calls) < width


@pytest.mark.parametrize(
    ("kind", "key", "text"),
    [
        (pa.int32(), 7, "7"),
        (pa.uint64(), (1 << 64) - 1, str((1 << 64) - 1)),
        (pa.bool_(), True, "true"),
    ],
)
def test_keys_of_maps_that_are_not_text_become_text_everywhere(
    kind: pa.DataType, key: Any, text: str
) -> None:
    column = pa.array([[(key, "x")]], pa.map_(kind, pa.string()))
    assert observe(column).to_pylist() == [[(text, "x")]]
    assert json_texts(column).to_pylist() == [f'{{"{text}":"x"}}']
