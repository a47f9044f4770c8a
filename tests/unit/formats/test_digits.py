"""Numbers of JSON messages: every digit that is written, in columns that have room for it."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from secor.formats import make_format
from secor.parsing.decoders.json import JsonDecoder
from secor.schema.schema import RowSchema
from secor.tables.staging.files.avro import AvroDataFormat
from tests.unit.formats.typed_rows import messages, with_rows

D10 = pa.decimal128(38, 10)
D0 = pa.decimal128(38, 0)

FULL = [
    "1234567890123456789012345678.0123456789",
    "-9999999999999999999999999999.9999999999",
    "99999999999999999999.5",
    "0.0000000001",
    "0.12345678910000000001e10",
    "9007199254740993.5",
    "123456789012345.67",
    "12345678901234567000.0",
    "2.50",
    "7",
    "12345678901234567890123456",
    "1e3",
    "1234567890123456e-5",
]


def fit(kind: pa.DataType, *texts: str, exact: bool = False) -> tuple[list[Any], dict[int, str]]:
    """Return what a column gets from messages with these numbers, and why some do not fit."""
    found = fitted(kind, [f'{{"d": {text}}}' for text in texts], exact)
    rows = found[0].to_pylist()
    return [None if row is None else row["d"] for row in rows], dict(found[1])


def fitted(kind: pa.DataType, texts: list[str], exact: bool) -> tuple[pa.StructArray, Any]:
    decoded = JsonDecoder().decode(messages([text.encode() for text in texts]), None)
    assert not decoded.bad
    schema = RowSchema(pa.struct([("d", kind)]), "drop")
    return schema.fit(decoded.rows)


@pytest.mark.parametrize("text", FULL)
def test_a_number_keeps_its_digits_alone_and_among_others(text: str) -> None:
    want = Decimal(text)
    assert fit(D10, text) == ([want], {})
    values, bad = fit(D10, *FULL, "0.5", "3", text)
    assert (values[-1], bad) == (want, {})


@pytest.mark.parametrize(
    "text",
    ["99999999999999999999.55555555555", "0.00000000001", "1e-400", "1e28", "1e-99999999999"],
)
def test_a_number_with_more_digits_is_refused_and_never_rounded(text: str) -> None:
    for texts in ((text,), ("0.5", text), ("12345678901234567890.5", text, "1")):
        values, bad = fit(D10, *texts)
        row = texts.index(text)
        assert (values[row], list(bad)) == (None, [row])
        assert "is no decimal128(38, 10)" in bad[row]


@pytest.mark.parametrize("text", ["9" * 38, "-" + "9" * 38, str(1 << 64), str(-(1 << 63) - 1)])
def test_integers_beyond_64_bits_fit_decimals(text: str) -> None:
    assert fit(D0, text) == ([Decimal(text)], {})
    assert fit(D0, "1", text, "1e3")[0] == [1, Decimal(text), 1000]
    assert list(fit(pa.int64(), "1", text)[1]) == [1]
    assert list(fit(pa.decimal128(18, 0), "1", text)[1]) == [1]


def test_a_fraction_that_its_double_would_hide_is_no_integer() -> None:
    values, bad = fit(pa.int64(), "9007199254740993.5", "9007199254740993.0", "1e3", "2826.0")
    assert (values, list(bad)) == ([None, 9007199254740993, 1000, 2826], [0])


def test_a_column_of_doubles_takes_numbers_of_any_length() -> None:
    texts = ["0.1234567890123456789", "99999999999999999999.5", "0.5", "1e-400", "3"]
    assert fit(pa.float64(), *texts) == ([float(text) for text in texts], {})


def test_digits_are_kept_within_lists_maps_and_objects() -> None:
    kind = pa.struct([("l", pa.list_(D10)), ("m", pa.map_(pa.string(), D10))])
    long = "99999999999999999999.5"
    texts = [
        f'{{"d": {{"l": [1, {long}, 0.5], "m": {{"a": {long}, "b": 2}}}}}}',
        '{"d": {"l": [2.5], "m": {}}}',
    ]
    rows, bad = fitted(kind, texts, False)[:2]
    assert not bad
    first = rows.to_pylist()[0]["d"]
    assert first["l"] == [1, Decimal(long), Decimal("0.5")]
    assert dict(first["m"]) == {"a": Decimal(long), "b": 2}


def test_json_text_keeps_the_digits() -> None:
    kind = pa.json_(pa.string())
    text = '{"d": {"a": 99999999999999999999.5, "b": [0.1234567890123456789]}}'
    rows, bad = fitted(kind, [text], False)[:2]
    assert not bad
    storage = rows.field(0).storage.to_pylist()
    assert storage == ['{"a":99999999999999999999.5,"b":[0.1234567890123456789]}']


@pytest.mark.parametrize("name", ["typed-parquet", "orc", "avro", "jsonlines"])
def test_every_format_holds_38_digits(name: str) -> None:
    texts = [f'{{"d": {text}}}' for text in FULL]
    decoded = JsonDecoder().decode(messages([text.encode() for text in texts]), None)
    schema = RowSchema(pa.struct([("d", D10)]), "drop")
    sink = io.BytesIO()
    writer = make_format(name, schema=schema).create(sink, b"seed")
    writer.append(with_rows(messages([b"{}"] * len(FULL)), decoded.rows))
    writer.close()
    sink.seek(0)
    assert [Decimal(str(value)) for value in read_back(name, sink)] == list(map(Decimal, FULL))


def avro_values(file: io.BytesIO) -> list[Any]:
    rows: Any = fastavro.reader(file)
    return [row["d"] for row in rows]


def read_back(name: str, file: io.BytesIO) -> list[Any]:
    match name:
        case "typed-parquet":
            return list(pq.read_table(file).column("d").to_pylist())
        case "orc":
            return list(orc.read_table(file).column("d").to_pylist())
        case "avro":
            return avro_values(file)
    return [json.loads(line)["d"] for line in file.read().splitlines()]


@pytest.mark.parametrize("precision", [1, 9, 18, 28, 29, 37, 38])
def test_avro_files_of_tables_hold_all_digits(precision: int) -> None:
    nines = Decimal("9" * precision)
    want = [nines, -nines, Decimal(0), Decimal(1), Decimal(-1), None]
    field_id = {b"PARQUET:field_id": b"1"}
    for scale in (0, precision // 2, precision):
        numbers = [it and Decimal((int(it < 0), it.as_tuple().digits, -scale)) for it in want]
        kind = pa.decimal128(precision, scale)
        schema = pa.schema([pa.field("d", kind, metadata=field_id)])
        sink = io.BytesIO()
        writer = AvroDataFormat(schema).create(sink, b"seed")
        rows = pa.StructArray.from_arrays([pa.array(numbers, kind)], fields=list(schema))
        writer.append(with_rows(messages([b"{}"] * len(numbers)), rows))
        writer.close()
        sink.seek(0)
        assert avro_values(sink) == numbers
