"""Misfits among many rows: found quickly, and the same ones as by looking at each row."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.arrow.nested_arrays import children, rebuild
from secor.arrow.scalar_casts import TypeRules
from secor.arrow.to_python import plain, write_out
from secor.core.variant_json import is_mixed
from secor.schema.columns import find_undeclared
from secor.schema.fitting import MisfitError, fit_field
from secor.schema.schema import RowSchema
from tests.unit.formats.typed_rows import decoded, wild_messages

STEADY = settings(deadline=None, max_examples=50, derandomize=True)
MARK = {b"secor.encoding": b"json"}

Found = tuple[list[Any], dict[int, str], dict[int, Any]]


def shown(array: pa.Array) -> list[str]:
    """Write down values, of times also those that Python has none for."""
    return [repr(value) for value in rebuild(array, counted).to_pylist()]


def counted(array: pa.Array) -> pa.Array:
    if not pa.types.is_temporal(array.type):
        return array
    return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())


def halved(
    field: pa.Field | None, column: pa.Array | None, target: pa.Field, valid: pa.Array, exact: bool
) -> Found:
    """Return the values, the misfits and what is undeclared: the plain way, slowly."""
    rows = len(valid)
    try:
        like = pc.if_else(valid, True, None)
        made = fit_field(field, column, target, like, rules=TypeRules(exact))
    except MisfitError as misfit:
        if rows == 1:
            return ["None"], {0: str(misfit)}, {}
    else:
        more = (
            None if field is None else find_undeclared(column, target.type, marked=is_mixed(field))
        )
        left = [] if more is None else plain(write_out(more))
        return shown(made), {}, {at: it for at, it in enumerate(left) if it is not None}
    values, bad, more_left = [], {}, {}
    for start, end in ((0, rows // 2), (rows // 2, rows)):
        piece = None if column is None else column[start:end]
        some, wrong, left_over = halved(field, piece, target, valid[start:end], exact)
        values += some
        bad.update({start + row: reason for row, reason in wrong.items()})
        more_left.update({start + row: it for row, it in left_over.items()})
    return values, bad, more_left


def agree(schema: RowSchema, rows: pa.StructArray) -> dict[int, str]:
    """Fit rows both ways; return the misfits."""
    assert schema.fields is not None
    fitted, bad = schema.fit(rows)
    fitted.validate()
    found = {field.name: (field, column) for field, column in children(rows)}
    expected: dict[int, str] = {}
    valid = rows.is_valid()
    columns, left = {}, {}
    for target in schema.fields.fields:
        given = found.get(target.name, (None, None))
        columns[target.name], wrong, left[target.name] = halved(*given, target, valid, schema.exact)
        expected = wrong | expected
    if schema.extra_fields == "quarantine":
        assert bad.keys() >= expected.keys()
        return dict(bad)
    assert dict(bad) == expected
    for row, there in enumerate(fitted.is_valid().to_pylist()):
        assert there == (valid[row].as_py() and row not in bad)
    for name, values in columns.items():
        made = shown(fitted.field(name))
        assert [made[row] for row in range(len(rows)) if row not in bad] == [
            value for row, value in enumerate(values) if row not in bad
        ]
    return dict(bad)


def schema_of(kind: Any, **settings: Any) -> RowSchema:
    fields = {"fields": [{"name": "a", "type": kind, **settings}]}
    return RowSchema.parse(json.dumps(fields), "schema.json")


def column(values: Any) -> pa.StructArray:
    return pa.StructArray.from_arrays([values], ["a"])


def marked(values: list[Any]) -> pa.StructArray:
    texts = pa.array([None if it is None else json.dumps(it) for it in values], pa.string())
    return pa.StructArray.from_arrays([texts], fields=[pa.field("a", pa.string(), metadata=MARK)])


TEXTS = [
    *("1", "-7", "+5", "007", "1.0", "1.25", "-0", "1e5", "1e400", "0x1", "", " 1", "x", "nan"),
    *("9" * 18, "9" * 19, "9" * 40, "127", "128", "255", "-1", "12345678.12", "1234567890.5"),
    *("2026-02-28", "2026-02-29", "2024-02-29", "2026-04-31", "2026-13-01", "10:00", "25:00"),
    *("10:00:00.5", "2026-01-01T00:00:00Z", "2026-01-01 00:00:00.123456", "2026-01-01T00:00"),
    *("2026-01-01T00:00:00+01:00", "2026-01-01T00:00:00.1234567Z", "true"),
]
NUMBERS = [0, 1, -1, 127, 128, 1 << 31, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, 1 << 62, 86_400_000]
SOURCES = [
    pa.array(TEXTS),
    pa.array(TEXTS).dictionary_encode(),
    pa.array(TEXTS, pa.large_string()),
    pa.array([*[text.encode() for text in TEXTS], b"\xff", b"a\xc3"]),
    pa.array(NUMBERS),
    pa.array([0, 5, (1 << 63) + 1, 1 << 53], pa.uint64()),
    pa.array([1, 2, -3], pa.int32()),
    pa.array([*map(float, NUMBERS), 1.5, -0.0, 1e300, float("nan"), float("inf"), 12.34, 1.005]),
    pa.array([1.5, 1e10, 0.1], pa.float32()),
    pa.array([Decimal("1.50"), Decimal("2.00"), Decimal("99999999.99"), Decimal("-3.25")]),
    pa.array([True, False]),
    pa.array([0, 1500, 86_400_000, 1], pa.timestamp("ms")),
    pa.array([0, 1500, 86_400_000, 1], pa.timestamp("us", "UTC")),
    pa.array([0, 10], pa.date32()),
    pa.array([dt.time(1), dt.time(1, 0, 0, 5)]),
    pa.array([[1], [2, 3], [], [None]]),
    pa.array([["1", "x"], ["y"], [], [None, "5"]]),
    pa.array([[1.5, 1.0], [2.0]]),
    pa.array([{"x": 1, "y": "5"}, {"x": None, "y": "q"}, {"x": 1 << 40, "y": None}]),
    pa.array([[("k", 1.5)], [("k", 2.0), ("l", 1.0)], []], pa.map_(pa.string(), pa.float64())),
]
KINDS: list[Any] = [
    *("int8", "int32", "int64", "float", "double", "decimal(10, 2)", "decimal(4, 4)", "string"),
    *("binary", "bool", "date", "time(s)", "time(ms)", "time(us)", "timestamp(s)", "json"),
    *("timestamp(ms)", "timestamp(us, UTC)", "timestamp(ns)", "timestamp(s, UTC)"),
    *({"list": "int64"}, {"list": "double"}, {"map": "int64"}, {"list": {"list": "int64"}}),
    {"struct": [{"name": "x", "type": "int32", "nullable": False}, {"name": "y", "type": "int64"}]},
    {"struct": [{"name": "y", "type": "string"}, {"name": "z", "type": "int64"}]},
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.slow
def test_every_type_of_column_has_the_same_misfits_as_row_by_row(kind: Any) -> None:
    chance = random.Random(str(kind))
    for source in SOURCES:
        chosen = [chance.choice([None, *range(len(source))]) for _ in range(24)]
        for places in (range(len(source)), chosen):
            rows = column(source.take(pa.array(places, pa.int64())))
            agree(schema_of(kind), rows)
            agree(schema_of(kind, nullable=False), rows)


MIXED: list[Any] = [
    *(1, 2.0, 2.5, -0.0, "5", "x", True, None, [], [1], ["x", 1], {}, {"x": 1}, {"x": "q", "w": 1}),
    *({"x": 1.5, "y": "7"}, {"x": 5, "w": [1, "a"]}, 1 << 63, 1 << 70, "2026-01-01", [[1], ["x"]]),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.slow
def test_columns_of_mixed_kinds_have_the_same_misfits_as_row_by_row(kind: Any) -> None:
    chance = random.Random(str(kind))
    for size in (1, 2, 24):
        rows = marked([chance.choice(MIXED) for _ in range(size)])
        agree(schema_of(kind), rows)
        agree(schema_of(kind, nullable=False), rows)
    for one in MIXED:
        agree(schema_of(kind), marked([one, one, None]))


@STEADY
@given(st.integers(0, 1 << 30), st.booleans())
def test_messages_of_any_fields_have_the_same_misfits_as_row_by_row(seed: int, exact: bool) -> None:
    chance = random.Random(seed)
    values = wild_messages(chance)
    rows = decoded(values).column("row")
    sample = decoded([value for value in values if chance.random() < 0.5] or values[:1])
    fields = RowSchema.infer([sample.column("row")])[0].fields if len(rows.type) else None
    if fields is None or not len(sample.column("row").type):
        return
    for extra in ("json", "drop", "quarantine"):
        agree(RowSchema(fields, extra, exact=exact), rows)


def test_integers_beyond_64_bits_are_shown_as_they_are() -> None:
    rows = marked([1, 1 << 70, {"x": [1 << 70]}])
    assert agree(schema_of("int64"), rows) == {
        1: f"a: {1 << 70} is no int64",
        2: f"a: {{'x': [{1 << 70}]}} is no int64",
    }
