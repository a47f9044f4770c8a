"""Values that Debezium writes without a schema, in columns that say what they are."""

from __future__ import annotations

import base64
import math
import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.core.variant_json import MIXED
from secor.tables.catalog import NewTable
from secor.tables.rows.encodings import Encodings
from secor.tables.rows.value_forms import ValueForms
from tests.unit.tables.test_worker_changes import ALONE, operations
from tests.unit.tables.worker_world import Keyed, WorkerWorld

ROUTE = {"table": "db.flights", "encodings": "debezium"}
LOCAL = datetime(2018, 6, 20, 15, 13, 16, 945104)  # noqa: DTZ001
MICROS = 1_529_507_596_945_104
UUID = uuid.UUID("6f1d6f7a-8f0a-4d4e-9a53-0d3b4a1d2c3e")
COLUMNS: Mapping[str, tuple[pa.DataType, Any, Any]] = {
    "price": (pa.decimal128(12, 3), "AeJA", Decimal("123.456")),
    "any_scale": (pa.decimal128(12, 3), {"scale": 2, "value": "AeJA"}, Decimal("1234.560")),
    "digits": (pa.string(), {"scale": 2, "value": "AeJA"}, "1234.56"),
    "no_number": (pa.decimal128(12, 3), "NaN", None),
    "double": (pa.float64(), "-Infinity", -math.inf),
    "day": (pa.date32(), 17_702, date(2018, 6, 20)),
    "never": (pa.date32(), -622_191_234, None),
    "at": (pa.timestamp("us"), MICROS, LOCAL),
    "short": (pa.timestamp("us"), 1_529_507_596_945, LOCAL.replace(microsecond=945000)),
    "zoned": (pa.timestamp("us", "UTC"), "2018-06-20T15:13:16.945104Z", LOCAL.replace(tzinfo=UTC)),
    "endless": (pa.timestamp("us", "UTC"), "infinity", None),
    "beyond": (pa.timestamp("us"), 9_223_372_036_825_200_000, None),
    "clock": (pa.time64("us"), 54_796_945_104, time(15, 13, 16, 945104)),
    "raw": (pa.binary(), "3q0=", b"\xde\xad"),
    "unique": (pa.uuid(), str(UUID), UUID),
    "prices": (pa.list_(pa.decimal128(12, 3)), ["AeJA", None], [Decimal("123.456"), None]),
    "days": (pa.list_(pa.date32()), [17_702], [date(2018, 6, 20)]),
    "text": (pa.string(), "3q0=", "3q0="),
    "count": (pa.int64(), 7, 7),
}


def _world(directory: Path, route: Mapping[str, Any]) -> WorkerWorld:
    world = WorkerWorld(directory, [route])
    schema = pa.schema([("id", pa.int64()), *((name, it[0]) for name, it in COLUMNS.items())])
    world.catalog.create_table("db.flights", NewTable(schema, (), {}, None, ()))
    return world


def test_each_column_takes_what_debezium_writes_without_a_schema(tmp_path: Path) -> None:
    world = _world(tmp_path, {**ROUTE, "time_units": {"short": "ms"}})
    world.write({"id": 1, **{name: it[1] for name, it in COLUMNS.items()}}, {"id": 2})
    assert world.reasons() == []
    expected = {name: it[2] for name, it in COLUMNS.items()}
    nothing = dict.fromkeys(COLUMNS)
    assert world.rows("db.flights") == [{"id": 1, **expected}, {"id": 2, **nothing}]
    assert world.counts["infinite"] == 4  # no_number, never, endless, beyond


def test_what_stands_for_no_value_of_its_column_puts_its_message_into_quarantine(
    tmp_path: Path,
) -> None:
    world = _world(tmp_path, ROUTE)
    wrong = {
        "raw": "no base64!",
        "price": "x",
        "double": "1,5",
        "day": 2_932_897,  # the year 10000
        "clock": 86_400_000_000,
        "at": 1 << 61,
        "any_scale": {"scale": 2, "value": "AeJA", "more": 1},
        "count": "AeJA",
    }
    world.write({"id": 0}, *({"id": 1, name: value} for name, value in wrong.items()))
    assert [row["id"] for row in world.rows("db.flights")] == [0]
    reasons = world.reasons()
    assert len(reasons) == len(wrong)
    for name, reason in zip(wrong, reasons, strict=True):
        assert f"db.flights: {name}" in reason


def test_texts_of_uuids_and_of_bytes_are_told_apart_one_by_one() -> None:
    forms = ValueForms(pa.struct([("v", pa.binary(16))]), Encodings())
    texts = [str(UUID), "3q0=", UUID.hex, base64.b64encode(UUID.bytes).decode(), "-" * 36]
    converted, bad = forms.convert(pa.array([{"v": text} for text in texts]))
    values = converted.field("v").to_pylist()
    assert values == [UUID.bytes, b"\xde\xad", UUID.bytes, UUID.bytes, None]
    assert list(bad) == [4]


def test_without_the_setting_nothing_is_guessed(tmp_path: Path) -> None:
    world = _world(tmp_path, {"table": "db.flights"})
    world.write({"id": 1, "price": "AeJA"}, {"id": 2, "double": "NaN"}, {"id": 3, "text": "3q0="})
    assert [row["id"] for row in world.rows("db.flights")] == [3]


def test_keys_of_deletions_have_the_same_encodings(tmp_path: Path) -> None:
    route = {**ROUTE, "mode": "upsert", "key": ["id"]}
    world = WorkerWorld(tmp_path, [route], ALONE)
    schema = pa.schema([pa.field("id", pa.decimal128(12, 3), nullable=False)])
    world.catalog.create_table("db.flights", NewTable(schema, (), {}, None, ("id",)))
    manifests = world.stage({"id": "AeJA"}, Keyed(b'{"id": "AeJA"}', None))
    price = Decimal("123.456")
    assert operations(world, manifests) == [(0, 0, price), (1, 1, price)]


MODES = {
    "string": (Encodings(decimals="string"), pa.decimal128(12, 3), "1234", Decimal("1234.000")),
    "double": (Encodings(decimals="double"), pa.decimal128(12, 3), 1.5, 1.5),
    "connect": (Encodings(times="connect"), pa.timestamp("us"), 1500, 1_500_000),
    "nanoseconds": (Encodings(times="nanoseconds"), pa.time64("us"), 2_000, 2),
    "of all": (Encodings(units={"*": "ms"}), pa.timestamp("us"), -1, -1000),
    "isostring": (Encodings(times="isostring"), pa.date32(), "2018-06-20Z", "2018-06-20"),
    "isostring, clock": (Encodings(times="isostring"), pa.time64("us"), "15:13:16Z", "15:13:16"),
    "isostring, local time": (
        Encodings(times="isostring"),
        pa.timestamp("us"),
        "2018-06-20T15:13:16.945104Z",
        "2018-06-20T15:13:16.945104",
    ),
    "another zone stays": (
        Encodings(times="isostring"),
        pa.timestamp("us"),
        "2018-06-20T15:13:16+02:00",
        "2018-06-20T15:13:16+02:00",
    ),
    "hex": (Encodings(binary="hex"), pa.binary(), "deAD", b"\xde\xad"),
    "url": (
        Encodings(binary="base64-url-safe"),
        pa.binary(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        b"\xff\xfe",
    ),
}


@pytest.mark.parametrize(("encodings", "kind", "value", "expected"), MODES.values(), ids=MODES)
def test_each_mode_of_the_connector_has_its_own_form(
    encodings: Encodings, kind: pa.DataType, value: Any, expected: Any
) -> None:
    rows = pa.array([{"v": value}, {"v": None}])
    forms = ValueForms(pa.struct([("v", kind)]), encodings)
    converted, bad = forms.convert(rows)
    assert not bad
    column = converted.field("v")
    if pa.types.is_temporal(column.type):
        column = column.cast(kind).cast(pa.int64())
    read = column.cast(kind) if pa.types.is_decimal(kind) and type(value) is str else column
    assert read.to_pylist() == [expected, None]


def test_numbers_and_texts_in_one_column_are_read_each_by_itself() -> None:
    forms = ValueForms(pa.struct([("v", pa.float64())]), Encodings())
    mixed = pa.field("v", pa.string(), metadata=MIXED)
    texts = pa.array(['"NaN"', "1.5", "7", None, '"x"'])
    converted, bad = forms.convert(pa.StructArray.from_arrays([texts], fields=[mixed]))
    read = converted.field("v").to_pylist()
    assert math.isnan(read[0])
    assert read[1:] == [1.5, 7.0, None, None]
    assert bad == {4: "v: 'x' is no number"}
