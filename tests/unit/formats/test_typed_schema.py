from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from secor.core.errors import ConfigurationError
from secor.schema.schema import RowSchema

MARK = {b"secor.encoding": b"json"}


def declared(fields: Any, **settings: Any) -> RowSchema:
    return RowSchema.parse(json.dumps({"fields": fields}), "schema.json", **settings)


def fit(kind: Any, values: pa.Array) -> tuple[list[Any], dict[int, str]]:
    """Fit a column to a type of our own description; misfits are None."""
    schema = declared([{"name": "a", "type": kind}])
    rows, bad = schema.fit(pa.StructArray.from_arrays([values], ["a"]))
    assert rows.type == schema.type
    assert [row for row, there in enumerate(rows.is_valid().to_pylist()) if not there] == [*bad]
    return rows.field("a").to_pylist(), dict(bad)


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("kind", "values", "fitting"),
    [
        ("int32", pa.array([1, 2**31]), [1, None]),
        ("int32", pa.array([1.0, 2.5, 1e10]), [1, None, None]),
        ("int64", pa.array(["-7", "x", "", "0x10", " 1", "1.0"]), [-7, *[None] * 5]),
        ("int64", pa.array([True]), [None]),
        ("double", pa.array([1, 2**53 + 1]), [1.0, None]),
        ("double", pa.array(["1e5", "nan", "-0.5", "1e400"]), [1e5, None, -0.5, None]),
        ("float", pa.array(["1e5", "8279851614605e26", "16777217"]), [1e5, None, None]),
        ("decimal(10, 2)", pa.array([12.34, 1.234, 1e9]), [Decimal("12.34"), None, None]),
        (
            "decimal(10, 2)",
            pa.array([12.34, 1.7e308, -1.7e308, float("inf"), float("nan")]),
            [Decimal("12.34"), *[None] * 4],
        ),
        ("decimal(10, 2)", pa.array(["1.5", "1.234"]), [Decimal("1.50"), None]),
        ("decimal(10, 2)", pa.array([1, 10**9]), [Decimal("1.00"), None]),
        ("string", pa.array([1]), [None]),
        ("string", pa.array([b"a", b"\xff"]), ["a", None]),
        ("string", pa.array(["a"]).dictionary_encode(), ["a"]),
        ("binary", pa.array(["é"]), [b"\xc3\xa9"]),
        ("bool", pa.array([1]), [None]),
        ("date", pa.array(["2026-02-28", "2026-02-30"]), [dt.date(2026, 2, 28), None]),
        ("date", pa.array([1]), [dt.date(1970, 1, 2)]),
        ("time(ms)", pa.array(["10:00:00.5", "25:00"]), [dt.time(10, 0, 0, 500000), None]),
        ("timestamp(ms)", pa.array([1500]), [moment("1970-01-01T00:00:01.500")]),
        (
            "timestamp(ms, UTC)",
            pa.array(["2026-01-01T01:00:00.5+01:00", "2026-01-01T00:00:00"]),
            [moment("2026-01-01T00:00:00.5+00:00"), None],
        ),
        ("timestamp(s)", pa.array([1, 1500], pa.timestamp("ms")), [None, None]),
        ({"list": "int64"}, pa.array([[1.0], [2.5], []]), [[1], None, []]),
        ({"list": "int64"}, pa.array([1]), [None]),
        ({"map": "int64"}, pa.array([{"a": 1, "b": None}, {}]), [[("a", 1)], []]),
        ({"struct": [{"name": "b", "type": "int64"}]}, pa.array([1]), [None]),
        ("json", pa.array([{"b": 1.0, "a": [None]}]), ['{"a":[null],"b":1}']),
    ],
    ids=str,
)
def test_what_a_declared_type_takes(kind: Any, values: pa.Array, fitting: list[Any]) -> None:
    found, bad = fit(kind, values)
    assert found == fitting
    assert sorted(bad) == [row for row, value in enumerate(fitting) if value is None]


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        ("date", -719_162, 2_932_896),
        ("timestamp(s)", -62_135_596_800, 253_402_300_799),
        ("timestamp(ms, UTC)", -62_135_596_800_000, 253_402_300_799_999),
        ("timestamp(us)", -62_135_596_800_000_000, 253_402_300_799_999_999),
        ("timestamp(ns)", -(2**63), 2**63 - 1),
        ("time(s)", 0, 86_399),
        ("time(ns)", 0, 86_399_999_999_999),
    ],
)
def test_dates_and_times_are_those_that_somebody_can_read(kind: str, first: int, last: int) -> None:
    schema = declared([{"name": "a", "type": kind}])
    target = schema.type.field("a").type
    greatest = 2 ** (target.bit_width - 1) - 1
    width = pa.int32() if target.bit_width == 32 else pa.int64()
    counts = [first - 1, first, last, last + 1, greatest]
    counts = [count for count in counts if -greatest - 1 <= count <= greatest]
    bad = [row for row, count in enumerate(counts) if not first <= count <= last]
    for column in (pa.array(counts, pa.int64()), pa.array(counts, width).view(target)):
        rows, misfits = schema.fit(pa.StructArray.from_arrays([column], ["a"]))
        assert [*misfits] == bad
        assert rows.is_null().to_pylist() == [row in bad for row in range(len(counts))]


def test_times_that_nobody_can_read_fit_no_rows_at_all() -> None:
    kind = pa.struct({"id": pa.int64(), "at": pa.list_(pa.timestamp("us"))})
    ids, lists = pa.array([1, 2, 3]), pa.array([[0], [0, 2**62], None], pa.list_(pa.int64()))
    rows = pa.StructArray.from_arrays([ids, lists.cast(kind.field("at").type)], fields=list(kind))
    found, bad = RowSchema().fit(rows)
    assert dict(bad) == {1: "at: holds a date or time that is not of the years 1 to 9999"}
    assert found.type == kind
    assert [row and row["id"] for row in found.to_pylist()] == [1, None, 3]


def test_dates_that_count_milliseconds_are_of_the_years_1_to_9999_too() -> None:
    days = [-719_163, -719_162, 20_778, None, 2_932_896, 2_932_897]
    counts = pa.array([day and day * 86_400_000 for day in days], pa.int64())
    rows = pa.StructArray.from_arrays([counts.view(pa.date64())], ["a"])
    found, bad = RowSchema().fit(rows)
    assert [*bad] == [0, 5]
    assert found.is_null().to_pylist() == [True, False, False, False, False, True]


def test_intervals_are_no_times_that_nobody_can_read() -> None:
    kind = pa.month_day_nano_interval()
    rows = pa.StructArray.from_arrays([pa.array([(1, 2, 3), None], kind)], ["a"])
    assert RowSchema().fit(rows) == (rows, {})


def test_null_fits_every_type_and_is_no_misfit() -> None:
    for kind in ("int64", "string", "json", "timestamp(ms)", {"list": "int64"}, {"map": "string"}):
        for values in (pa.nulls(2), pa.array([None, None], pa.string())):
            if kind in ("int64", "string", "json", "timestamp(ms)") or values.type == pa.null():
                assert fit(kind, values) == ([None, None], {})


def test_the_reason_names_the_field_and_the_value() -> None:
    fields = [{"name": "user", "type": {"struct": [{"name": "age", "type": "int64"}]}}]
    rows = pa.array([{"user": {"age": "4"}}, {"user": {"age": "four"}}, {"user": None}])
    _, bad = declared(fields).fit(rows)
    assert bad == {1: "user.age: 'four' is no int64"}


def test_misfits_are_found_among_many_rows() -> None:
    values = pa.array([str(at) if at % 1000 else "x" for at in range(5000)])
    _, bad = fit("int64", values)
    assert list(bad) == [0, 1000, 2000, 3000, 4000]


@pytest.mark.parametrize(
    ("kind", "fitting"),
    [
        ("int64", [1, None, None, None, None]),
        ("double", [1.0, 1.5, None, None, None]),
        ("string", [None, None, "x", None, None]),
        ("json", ["1", "1.5", '"x"', None, '{"b":1}']),
        ({"map": "int64"}, [None, None, None, None, [("b", 1)]]),
    ],
    ids=str,
)
def test_text_of_mixed_kinds_is_taken_by_the_kind_of_each(kind: Any, fitting: list[Any]) -> None:
    field = pa.field("a", pa.string(), metadata=MARK)
    texts = pa.array(["1", "1.5", '"x"', None, '{"b": 1.0}'])
    rows, bad = declared([{"name": "a", "type": kind}]).fit(
        pa.StructArray.from_arrays([texts], fields=[field])
    )
    assert rows.field("a").to_pylist() == fitting
    assert [*bad] == [row for row, value in enumerate(fitting) if value is None and row != 3]


def test_rows_that_were_null_stay_null_and_are_no_misfits() -> None:
    rows, bad = declared([{"name": "a", "type": "int64", "nullable": False}]).fit(
        pa.array([{"a": 1}, None])
    )
    assert rows.to_pylist() == [{"a": 1}, None]
    assert not bad


def test_a_row_without_the_field_fits_also_among_rows_of_another_kind() -> None:
    schema = declared([{"name": "a", "type": "string"}])
    rows, bad = schema.fit(pa.array([{"a": 1}, {"a": None}, {"a": 2}]))
    assert list(bad) == [0, 2]
    assert rows.to_pylist() == [None, {"a": None}, None]


def test_fields_are_missing_or_have_a_default() -> None:
    fields = [
        {"name": "id", "type": "int64", "nullable": False},
        {"name": "n", "type": "int32", "nullable": False, "default": 7},
        {"name": "tags", "type": {"map": "int64"}, "nullable": False, "default": {"x": 1}},
        {"name": "absent", "type": "string"},
    ]
    rows, bad = declared(fields).fit(
        pa.array([{"id": 1, "n": None, "tags": None}, {"id": None, "n": 2, "tags": {"y": 2}}])
    )
    assert rows.to_pylist() == [{"id": 1, "n": 7, "tags": [("x", 1)], "absent": None}, None]
    assert bad == {1: "id: is missing"}


# -------------------------------------------------------------- undeclared fields

FIELDS = [
    {"name": "a", "type": "int64"},
    {"name": "u", "type": {"struct": [{"name": "x", "type": "int64"}]}},
    {"name": "l", "type": {"list": {"struct": [{"name": "y", "type": "int64"}]}}},
]
ROWS = pa.array(
    [
        {"a": 1, "u": {"x": 1, "z": None}, "l": [{"y": 1, "w": None}], "new": None},
        {"a": 2, "u": {"x": 2, "z": "é"}, "l": None, "new": None},
        {"a": 3, "u": None, "l": [{"y": 1, "w": 2.0}], "new": [1]},
    ]
)
FITTED: list[dict[str, Any]] = [
    {"a": 1, "u": {"x": 1}, "l": [{"y": 1}]},
    {"a": 2, "u": {"x": 2}, "l": None},
    {"a": 3, "u": None, "l": [{"y": 1}]},
]


def test_undeclared_fields_are_dropped() -> None:
    rows, bad = declared(FIELDS, extra_fields="drop").fit(ROWS)
    assert rows.to_pylist() == FITTED
    assert not bad


def test_undeclared_fields_make_misfits() -> None:
    rows, bad = declared(FIELDS, extra_fields="quarantine").fit(ROWS)
    assert rows.to_pylist() == [FITTED[0], None, None]
    assert bad == {1: "u.z: is not declared", 2: "l: is not declared"}


def test_undeclared_fields_are_kept_as_json() -> None:
    schema = declared(FIELDS, extra_fields="json")
    rows, bad = schema.fit(ROWS)
    extra = [None, '{"u":{"z":"é"}}', '{"l":[{"w":2,"y":1}],"new":[1]}']
    expected = [{**row, "_extra": text} for row, text in zip(FITTED, extra, strict=True)]
    assert rows.to_pylist() == expected
    assert not bad
    assert rows.type == schema.type


def test_json_text_in_a_list_is_no_text_where_it_is_kept() -> None:
    schema = declared(
        [{"name": "l", "type": {"list": {"struct": [{"name": "a", "type": "int64"}]}}}],
        extra_fields="json",
    )
    texts = pa.list_(pa.field("item", pa.string(), metadata=MARK))
    plain = pa.array([{"l": [{"a": 1, "b": [2]}]}])
    column = pa.array([['{"a":1,"b":[2]}']], texts)
    marked = pa.StructArray.from_arrays([column], ["l"])
    for rows in (plain, marked):
        [row] = schema.fit(rows)[0].to_pylist()
        assert row == {"l": [{"a": 1}], "_extra": '{"l":[{"a":1,"b":[2]}]}'}


def test_fitted_rows_fit_unchanged() -> None:
    schema = declared(FIELDS, extra_fields="json")
    rows, _ = schema.fit(ROWS)
    assert schema.fit(rows)[0] is rows


# ------------------------------------------------------------------- declarations

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "com.example.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "n", "type": ["int", "null"], "default": 3},
        {"name": "m", "type": "int", "default": 3},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["R", "G"]}},
        {"name": "other", "type": ["null", "Color"]},
        {"name": "mixed", "type": ["null", "int", "string"]},
        {"name": "hash", "type": {"type": "fixed", "name": "Md5", "size": 16}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {
            "name": "tree",
            "type": {
                "type": "record",
                "name": "Node",
                "fields": [
                    {"name": "leaf", "type": "float"},
                    {"name": "nodes", "type": {"type": "array", "items": "Node"}},
                ],
            },
        },
    ],
}


def test_an_avro_schema_declares_rows() -> None:
    schema = RowSchema.parse(json.dumps(AVRO), "order.avsc")
    assert schema.fields is not None
    kinds = {field.name: str(field.type) for field in schema.fields.fields}
    assert kinds == {
        "id": "int64",
        "n": "int32",
        "m": "int32",
        "amount": "decimal128(9, 2)",
        "color": "string",
        "other": "string",
        "mixed": "extension<arrow.json>",
        "hash": "binary",
        "at": "timestamp[us, tz=UTC]",
        "local": "timestamp[ms]",
        "day": "date32[day]",
        "key": "string",
        "counts": "map<string, int64>",
        "tree": "struct<leaf: float not null, nodes: list<item: extension<arrow.json>> not null>",
    }
    optional = [field.name for field in schema.fields.fields if field.nullable]
    assert optional == ["n", "other", "mixed"]
    rows, bad = schema.fit(pa.array([{"id": 1}]))
    assert bad == {0: "amount: is missing"}
    assert rows.to_pylist() == [None]


def test_a_declaration_is_written_down_and_read_again() -> None:
    schema = RowSchema.parse(json.dumps(AVRO), "order.avsc", "json")
    assert schema.fields is not None
    again = RowSchema.parse(schema.describe(), "order.json", "json")
    assert again.fields is not None
    assert again.fields.equals(schema.fields, check_metadata=True)
    assert again.identity == schema.identity


def test_avro_s_bytes_in_defaults_are_numbers_where_decimals_are_declared() -> None:
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    schema = avro({"name": "a", "type": amount, "default": "\u0001\u0000"})
    assert schema.fit(pa.array([{"b": 1}]))[0].to_pylist() == [{"a": Decimal("2.56")}]
    schema = avro({"name": "a", "type": amount, "default": "\u00ff"})
    assert schema.fit(pa.array([{"b": 1}]))[0].to_pylist() == [{"a": Decimal("-0.01")}]


def test_what_is_always_null_in_avro_can_be_written_down() -> None:
    schema = avro({"name": "a", "type": "null"}, {"name": "l", "type": ["null", "null"]})
    assert '"a"' in schema.describe()
    assert schema.fit(pa.array([{"b": 1}]))[1] == {}


def avro(*fields: Any) -> RowSchema:
    record = {"type": "record", "name": "R", "fields": [*fields, {"name": "b", "type": "int"}]}
    whole = RowSchema.parse(json.dumps(record), "order.avsc")
    assert whole.fields is not None
    return RowSchema(pa.struct(whole.fields.fields[:-1]))


def lists(levels: int) -> str:
    return '{"list": ' * levels + '"string"' + "}" * levels


def field(kind: str, name: str = '"a"', more: str = "") -> str:
    return f'{{"fields": [{{"name": {name}, "type": {kind}{more}}}]}}'


def in_struct(kind: str) -> str:
    return field(f'{{"struct": [{{"name": "b", "type": {{"list": {kind}}}}}]}}')


def in_avro(text: str) -> str:
    return f'{{"type": "record", "name": "R", "fields": {text}}}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "order.json: is no JSON"),
        ("nonsense", "order.json: is no JSON"),
        ('{"fields": [{"name": "a", "ty', "order.json: is no JSON"),
        ("[]", "order.json: is neither"),
        ("null", "order.json: is neither"),
        ('{"type": "enum", "name": "E", "symbols": ["a"]}', "order.json: is neither"),
        ('{"fields": []}', "order.json: it has no fields"),
        ('{"fields": null}', "order.json: its fields are no list but None"),
        ('{"fields": ["a"]}', "order.json: a field is no object with name and type but 'a'"),
        ('{"fields": [{"type": "string"}]}', "order.json: a field has no name"),
        ('{"fields": [{"name": "a"}]}', "order.json: a: has no type"),
        (field('"string"', name="5"), "order.json: 5 is no name"),
        (field('"string"', name='"\\ud800"'), "half a character"),
        (field('"colour"'), "order.json: a: no type 'colour'"),
        (in_struct('"colour"'), "order.json: a.b: no type 'colour'"),
        (field('["null", "string"]'), "order.json: a: no type .'null', 'string'."),
        (field("{}"), "order.json: a: no type {}"),
        (field('{"set": "int64"}'), "no type {'set': 'int64'}"),
        (field('"decimal(99, 2)"'), r"order.json: a: decimal.99, 2.: of 1 to 38 digits"),
        (field('"decimal(5, 9)"'), "no more than all in the fraction"),
        (field('"decimal(5, -2)"'), "a: no type 'decimal.5, -2.'"),
        (field('"timestamp(us, Foo/Bar)"'), "a: no time zone 'Foo/Bar'"),
        (field('"timestamp(us, UTC, UTC)"'), "a: no type"),
        (field('"time(us, UTC)"'), "a: no type"),
        (field('"int64"', more=', "size": 3'), "order.json: a: has no setting 'size'"),
        (field('"int64"', more=', "nullable": "no"'), "a: nullable is true or false, not 'no'"),
        (field('"int8"', more=', "default": "x"'), "order.json: the schema's default does not fit"),
        (field(lists(40)), "order.json: it is nested deeper than 32 levels"),
        (field(lists(20_000)), "order.json: is nested deeper than 32 levels"),
        ('{"fields": [{"name": "a", "type": "int8"}, {"name": "a", "type": "int8"}]}', "twice"),
        (in_avro('[{"name": "a", "type": "Zed"}]'), "a: no type 'Zed' is declared before it is"),
        (in_avro('[{"name": "a", "type": {"type": "array"}}]'), "order.json: a: has no type"),
        (in_avro('[{"name": "a", "type": 5}]'), "order.json: a: no type 5"),
        (in_avro('["a"]'), "order.json: a field is no object"),
        (in_avro("{}"), "order.json: record R has no list of fields"),
        ('{"type": "record", "fields": []}', "order.json: a type record has no name"),
        (
            in_avro('[{"name": "a", "type": "bytes", "default": "\\u00ff"}]'),
            "a: a default of bytes",
        ),
    ],
)
def test_a_wrong_declaration_is_told_with_its_field(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        RowSchema.parse(text, "order.json")


def test_the_name_of_the_extra_column_is_taken() -> None:
    fields = [{"name": "_extra", "type": "string"}]
    assert declared(fields).type.names == ["_extra"]
    with pytest.raises(ConfigurationError, match="_extra"):
        declared(fields, extra_fields="json")
    with pytest.raises(ConfigurationError, match="drop, quarantine or json"):
        declared(fields, extra_fields="keep")


def test_inferred_rows_all_fit() -> None:
    rows = pa.array([{"a": 1}, None])
    assert RowSchema().fit(rows) == (rows, {})
