"""Tables of decoded fields, as Spark reads them: each format, and schemas that grew."""

from __future__ import annotations

import datetime as dt
import json
import re
import textwrap
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from secor.archive.kept_schemas import KeptSchema
from secor.config.parser import Parser
from secor.formats import make_format
from secor.schema.growth import grow_schema
from secor.schema.inference import observe
from secor.schema.new_columns import NOTHING
from secor.schema.schema import RowSchema
from secor.wiring.parsers import pipeline_for
from tests.unit.formats.typed_rows import FIRST_TIMESTAMP, batch, decoded, with_rows, written
from tests.unit.parsing.parsing_cases import chunk_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning"
    ),  # PySpark leaves sockets to the collector
]

ROOT = Path(__file__).parents[2]
EXTENSIONS = {"typed-parquet": ".parquet", "orc": ".orc"}
READERS = {"typed-parquet": "parquet", "orc": "orc"}
BOTH = pytest.mark.parametrize("name", list(READERS))

KIND = pa.struct(
    {
        "id": pa.int64(),
        "price": pa.decimal128(20, 3),
        "day": pa.date32(),
        "at": pa.timestamp("ms", "UTC"),
        "raw": pa.binary(),
        "half": pa.float64(),
        "yes": pa.bool_(),
        "deep": pa.struct({"a.b": pa.int64(), "list": pa.list_(pa.struct({"x y": pa.string()}))}),
        "größe": pa.string(),
        "select": pa.list_(pa.list_(pa.int64())),
        "map": pa.map_(pa.string(), pa.int64()),
    }
)
ROW: dict[str, Any] = {
    "id": 2**62,
    "price": Decimal("-12.340"),
    "day": dt.date(1969, 7, 20),
    "at": dt.datetime(2026, 7, 1, 4, 5, 6, 789000),  # noqa: DTZ001
    "raw": b"\x00\xff",
    "half": 0.5,
    "yes": True,
    "deep": {"a.b": 1, "list": [{"x y": "ü\n"}, {"x y": None}]},
    "größe": "\U0001f600",
    "select": [[1], [], [2, 3]],
    "map": {"k": 1},
}


def put(name: str, directory: Path, schema: KeptSchema, records: pa.RecordBatch) -> Path:
    """Write the object that begins with these messages, as the daemon would."""
    log_format = make_format(
        name, schema=schema.rows, metadata_columns=("_offset", "_timestamp", "_headers")
    )
    rows, bad = schema.rows.fit(records.column("row"))
    assert not bad
    first = records.column("offset")[0].as_py()
    path = directory / f"t/dt=2026-01-01/1_0_{first:020d}{EXTENSIONS[name]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        writer = log_format.create(file, b"seed")
        writer.append(with_rows(records.select(range(records.num_columns - 1)), rows))
        writer.close()
    return path


def grow(name: str, directory: Path, *versions: list[dict[str, Any]]) -> Path:
    """Write a file of each version of a schema that is kept; return the newest."""
    fields, at, newest = NOTHING, 0, directory
    for number, messages in enumerate(versions, 1):
        records = decoded([json.dumps(message).encode() for message in messages], at)
        fields = grow_schema(fields, observe(records.column("row")).type)
        newest = put(name, directory, KeptSchema(number, fields), records)
        at += len(messages)
    return newest


@BOTH
def test_spark_reads_every_kind_of_field_and_the_columns_beside(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    rows = pa.array([{**ROW, "at": ROW["at"].replace(tzinfo=dt.UTC)}, None, {}], KIND)
    put(name, tmp_path, KeptSchema(1, KIND), batch(rows))
    table = spark.read.format(READERS[name]).load(str(tmp_path / "t")).orderBy("_offset")
    first, *others = [row.asDict(recursive=True) for row in table.collect()]
    assert first.pop("_timestamp") == dt.datetime.fromtimestamp(
        FIRST_TIMESTAMP / 1000, dt.UTC
    ).replace(tzinfo=None)
    assert [header["key"] for header in first.pop("_headers")] == ["h", "h"]
    assert (first.pop("_offset"), first.pop("_extra"), str(first.pop("dt"))) == (
        0,
        None,
        "2026-01-01",
    )
    assert first == ROW | {"raw": bytearray(ROW["raw"])}
    assert [[row[field] for field in ROW] for row in others] == [[None] * len(ROW)] * 2


@BOTH
def test_spark_finds_the_entries_of_maps_that_are_null(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    kind = pa.struct([pa.field("flags", pa.map_(pa.string(), pa.string()))])
    schema = RowSchema(kind)
    pipeline = pipeline_for(Parser(decoder="json"), typed=True, schema=schema)
    parts = pipeline.split(chunk_of([b'{"flags": {"a": null, "b": "x"}}', b'{"flags": {}}']))
    (records,) = [part.records for part in parts]
    log_format = replace(cast("Any", make_format(name)), schema=schema)
    file = tmp_path / f"file{EXTENSIONS[name]}"
    file.write_bytes(written(log_format, records))
    rows = spark.read.format(READERS[name]).load(str(file)).collect()
    assert [row["flags"] for row in rows] == [{"a": None, "b": "x"}, {}]


GROWING: tuple[list[dict[str, Any]], ...] = (
    [{"a": 1, "in": {"b": 1}}],
    [{"a": 2, "in": {"b": 2, "c": "x"}, "l": [{"d": 1}]}],
    [{"a": 3, "l": [{"e": "y"}], "A": "kept", "": "too"}],
)


@BOTH
def test_fields_that_came_later_are_null_before_however_they_are_called(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    newest = grow(name, tmp_path, *GROWING)
    reader = spark.read.format(READERS[name])
    found = [
        [row.asDict(recursive=True) for row in table.orderBy("_offset").collect()]
        for table in (
            reader.option("mergeSchema", "true").load(str(tmp_path / "t")),
            spark.read.schema(reader.load(str(newest)).schema)
            .format(READERS[name])
            .load(str(tmp_path / "t")),
        )
    ]
    assert found[0] == found[1]
    assert [(row["a"], row["in"], row["l"], row["_extra"]) for row in found[0]] == [
        (1, {"b": 1, "c": None}, None, None),
        (2, {"b": 2, "c": "x"}, [{"d": 1, "e": None}], None),
        (3, None, [{"d": None, "e": "y"}], '{"":"too","A":"kept"}'),
    ]


def test_spark_reads_integers_that_became_decimals_by_the_newest_file_s_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    integers, decimals = pa.struct({"a": pa.int64()}), pa.struct({"a": pa.decimal128(5, 2)})
    put("typed-parquet", tmp_path, KeptSchema(1, integers), batch([{"a": 2**63 - 1}]))
    wide = KeptSchema(2, grow_schema(integers, decimals))
    rows = pa.array([{"a": Decimal("1.25")}], decimals)
    newest = put("typed-parquet", tmp_path, wide, batch(rows, 1))
    schema = spark.read.parquet(str(newest)).schema
    table = spark.read.schema(schema).parquet(str(tmp_path / "t")).orderBy("_offset")
    assert [row.a for row in table.collect()] == [Decimal(2**63 - 1), Decimal("1.25")]


WIDENED: tuple[list[dict[str, Any]], ...] = (
    [{"price": 5, "n": {"l": [1]}, "s": "x"}, {"price": None}],
    [{"price": 5.5, "n": {"l": [1, 1.5]}, "s": "y"}, {"price": 2**53, "new": {}}],
)


def wanted(rows: list[Any]) -> list[Any]:
    return [(row["price"], row["n"] and row["n"]["l"], row["s"]) for row in rows]


EXPECTED = [(5.0, [1.0], "x"), (None, None, None), (5.5, [1.0, 1.5], "y"), (2.0**53, None, None)]


def test_spark_reads_integers_that_became_doubles_in_orc(
    spark: SparkSession, tmp_path: Path
) -> None:
    newest = grow("orc", tmp_path, *WIDENED)
    table = spark.read.schema(spark.read.orc(str(newest)).schema).orc(str(tmp_path / "t"))
    rows = [row.asDict(recursive=True) for row in table.orderBy("_offset").collect()]
    assert wanted(rows) == EXPECTED


def test_integers_that_became_doubles_in_parquet_are_read_as_the_documentation_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    newest = grow("typed-parquet", tmp_path, *WIDENED)
    plain = spark.read.schema(spark.read.parquet(str(newest)).schema)
    # If this is read one day, the documentation is old.
    with pytest.raises(Exception, match="DATA_TYPE_MISMATCH"):
        plain.parquet(str(tmp_path / "t")).collect()
    text = (ROOT / "docs/formats.md").read_text()
    [recipe] = re.findall(r"<!-- recipe -->\n```python\n(.*?)```", text, re.DOTALL)
    recipe = recipe.replace('"clicks"', '"t"')
    names: dict[str, Any] = {"spark": spark, "prefix": str(tmp_path), "newest": str(newest)}
    exec(textwrap.dedent(recipe), names)  # noqa: S102  # it is what users are told to run
    rows = [row.asDict(recursive=True) for row in names["table"].orderBy("offset").collect()]
    assert [row["offset"] for row in rows] == [0, 1, 2, 3]
    assert {row["output_partition"] for row in rows} == {"dt=2026-01-01"}
    assert wanted(rows) == EXPECTED
