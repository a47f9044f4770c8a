"""The archive as a DataFrame: batch and stream, from a directory and from S3."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from secor.adapters.s3 import S3Store
from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange, TopicPartition
from secor.formats import make_format
from secor.sandbox import Sandbox
from secor.spark import read_archive, register
from secor.spark.columns import DEFAULT
from tests.fakes.archive import Shelf, messages
from tests.unit.formats.sequencefile_messages import batch, row, varied

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning"
    ),  # PySpark leaves sockets to the collector
]

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests/vectors/java-secor"
FORMATS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sequencefile", {"codec": "lz4"}),
    ("sequencefile", {"codec": "none"}),
    ("parquet", {}),
)


def load(spark: SparkSession, path: Path | str, **options: str) -> DataFrame:
    return spark.read.format("secor").options(**options).load(str(path))


def shelf_of(directory: Path, name: str = "sequencefile", **settings: Any) -> Shelf:
    return Shelf(directory / "store", make_format(name, **settings), prefix="")


def found(frame: DataFrame) -> list[dict[str, Any]]:
    """Return messages as the readers of formats give them."""
    rows = []
    for one in frame.selectExpr("*", "unix_millis(timestamp) as milliseconds").collect():
        plain = one.asDict(recursive=True)
        headers = [
            {"key": header["key"], "value": plain_bytes(header["value"])}
            for header in plain["headers"]
        ]
        rows.append(
            {
                "offset": plain["offset"],
                "timestamp": plain["milliseconds"],
                "timestamp_type": plain["timestamp_type"],
                "key": plain_bytes(plain["key"]),
                "value": plain_bytes(plain["value"]),
                "headers": headers,
            }
        )
    return sorted(rows, key=lambda one: one["offset"])


def plain_bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def test_every_message_comes_back_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    rows = varied(600)
    for partition, (name, settings) in enumerate(FORMATS):
        shelf, place = shelf_of(tmp_path, name, **settings), TopicPartition("clicks", partition)
        middle = rows[500]["offset"]
        shelf.put(batch(rows[:500]), OffsetRange(0, middle), topic_partition=place)
        shelf.put(batch(rows[500:]), OffsetRange(middle, 10_000), topic_partition=place)
    frame = load(spark, tmp_path / "store").cache()
    assert tuple(frame.columns) == DEFAULT
    for partition in range(len(FORMATS)):
        assert found(frame.where(f"partition = {partition}")) == rows
    first = frame.orderBy("partition", "offset").first()
    assert first is not None
    assert (first.topic, first.partition, first.generation) == ("clicks", 0, 1)
    assert first.object == f"clicks/offset=0/1_0_{200:020d}.seq"
    frame.unpersist()


def test_a_large_object_is_read_by_several_tasks_once(spark: SparkSession, tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    shelf.put(messages(range(6000), lambda at: b"%d" % at + b"." * 400), OffsetRange(0, 6000))
    frame = load(spark, shelf.directory, splitSize="1MiB", columns="offset")
    rows = frame.selectExpr("offset", "spark_partition_id() as task").collect()
    assert sorted(one.offset for one in rows) == list(range(6000))
    assert len({one.task for one in rows}) >= 2


def test_options_choose_topics_offsets_times_and_places(
    spark: SparkSession, tmp_path: Path
) -> None:
    shelf = shelf_of(tmp_path)
    for topic, partition in (("clicks", 0), ("clicks", 1), ("orders", 0)):
        for first in (0, 100):
            shelf.put(
                messages(range(first, first + 100)),
                OffsetRange(first, first + 100),
                topic_partition=TopicPartition(topic, partition),
                output_partition=f"dt=2026-11-2{first // 100}",
                least_timestamp=1_700_000_000_000 + first,
                greatest_timestamp=1_700_000_000_099 + first,
            )

    def count(**options: str) -> int:
        return load(spark, shelf.directory, columns="offset", **options).count()

    assert count(topics="clicks", partitions="1") == 200
    assert count(topics="or*", startingOffset="90", endingOffset="110") == 20
    assert count(outputPartitions="dt=2026-11-21", startingTimestamp="1700000000150") == 150
    chosen = spark.read.format("secor").schema("value binary, topic string")
    assert chosen.load(str(shelf.directory)).where("topic = 'orders'").count() == 200


def test_java_secors_objects_are_read(spark: SparkSession) -> None:
    source = [
        json.loads(line) for line in (VECTORS / "source/c_raw.jsonl").read_text().splitlines()
    ]
    expected = sorted(bytes.fromhex(one["value"] or "") for one in source)
    for folder in ("seq_default", "msgpack"):
        rows = load(spark, VECTORS / "s3" / folder).collect()
        assert sorted(bytes(one.value) for one in rows) == expected
        assert len({(one.partition, one.offset) for one in rows}) == len(expected)
    day = load(spark, VECTORS / "s3/json_dt_gz", outputPartitions="dt=2025-01-01")
    assert day.where("get_json_object(cast(value as string), '$') is not null").count() > 10


def test_a_corrupt_object_fails_naming_it_or_is_skipped_and_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    shelf = shelf_of(tmp_path)
    shelf.put(messages(range(100)), OffsetRange(0, 100))
    broken = shelf.put(messages(range(100, 200)), OffsetRange(100, 200))
    shelf.change(broken, lambda data: data[:-3])
    with pytest.raises(PySparkException, match=re.escape(broken)):
        load(spark, shelf.directory).collect()
    told = load(spark, shelf.directory, corruptObjects="skip", columns="object,error").collect()
    assert len(told) == 101
    [fault] = [one for one in told if one.error]
    assert fault.object == broken
    assert "cut short" in fault.error


def test_faults_of_the_caller_are_told_in_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="did you mean startingOffset"):
        load(spark, tmp_path, startOffset="1")
    with pytest.raises(PySparkException, match="no objects below"):
        load(spark, tmp_path).count()
    with pytest.raises(PySparkException, match="column 'offset' is bigint, not int"):
        spark.read.format("secor").schema("offset int").load(str(tmp_path)).count()


def test_registering_needs_spark_4() -> None:
    class Old:
        version = "3.5.1"

    with pytest.raises(ConfigurationError, match=r"use secor\.spark\.read_archive"):
        register(Old())


def test_objects_of_a_bucket_are_read_by_our_own_store(
    spark: SparkSession, sandbox: Sandbox, tmp_path: Path
) -> None:
    access = sandbox.s3
    shelf = Shelf(tmp_path / "store", make_format("sequencefile"), prefix="spark/backup")
    key = shelf.put(messages(range(1000)), OffsetRange(0, 1000))
    store = S3Store(
        access.bucket,
        endpoint_url=access.endpoint_url,
        region=access.region,
        path_style=True,
        access_key=access.access_key,
        secret_key=access.secret_key,
    )
    file = shelf.directory / key
    store.put(key, file, crc32c(file.read_bytes()), shelf.store.head(key).metadata or {})
    store.close()
    options = {
        "endpoint": access.endpoint_url,
        "region": access.region,
        "pathStyle": "true",
        "accessKey": access.access_key,
        "secretKey": access.secret_key,
    }
    frame = load(spark, f"s3a://{access.bucket}/spark/backup", startingOffset="10", **options)
    rows = frame.select("object", "offset").collect()
    assert sorted(one.offset for one in rows) == list(range(10, 1000))
    assert {one.object for one in rows} == {key}
    assert access.secret_key not in frame._jdf.queryExecution().toString()


# ------------------------------------------------------------------- streams


def run_stream(spark: SparkSession, archive: Path, place: Path) -> list[int]:
    """Give what is new to a Parquet table; return all offsets that it has now."""
    query = (
        spark.readStream.format("secor")
        .option("columns", "offset,value,object")
        .load(str(archive))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / "table"))
    )
    query.awaitTermination(120)
    table = spark.read.parquet(str(place / "table"))
    return sorted(one.offset for one in table.select("offset").collect())


def test_a_stream_gives_every_object_once_also_after_a_crash(
    spark: SparkSession, tmp_path: Path
) -> None:
    shelf = shelf_of(tmp_path)
    shelf.put(messages(range(10)), OffsetRange(0, 10))
    assert run_stream(spark, shelf.directory, tmp_path) == list(range(10))
    shelf.put(messages(range(10, 20)), OffsetRange(10, 20))
    assert run_stream(spark, shelf.directory, tmp_path) == list(range(20))
    # As if the driver had died after the batch was written and before that was noted.
    commits = sorted((tmp_path / "checkpoint/commits").glob("[0-9]*"), key=lambda one: one.name)
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
    shelf.put(messages(range(20, 25)), OffsetRange(20, 25))
    # This trigger ends when the interrupted batch is done again.
    assert run_stream(spark, shelf.directory, tmp_path) == list(range(20))
    assert run_stream(spark, shelf.directory, tmp_path) == list(range(25))


# -------------------------------------------------------------- read_archive


def test_read_archive_gives_the_same_as_the_format(spark: SparkSession, tmp_path: Path) -> None:
    shelf, rows = shelf_of(tmp_path), varied(300)
    shelf.put(batch(rows), OffsetRange(0, 10_000))
    frame = read_archive(spark, str(shelf.directory))
    assert frame.schema == load(spark, shelf.directory).schema
    assert found(frame) == rows
    some = read_archive(
        spark,
        str(shelf.directory),
        topics=["clicks"],
        partitions=[0, 3],
        startingTimestamp=datetime(2025, 1, 1, 0, 0, 0, 10_000, UTC),
        columns=["offset", "timestamp"],
        corruptObjects="skip",
    )
    kept = [one for one in rows if one["timestamp"] and one["timestamp"] >= 1735689600010]
    assert some.count() == len(kept) > 200
    assert some.columns == ["offset", "timestamp"]


# -------------------------------------------------------------------- recipe


def test_the_recipe_of_the_documentation_writes_a_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    shelf = shelf_of(tmp_path)
    rows = [
        row(at, json.dumps({"user": f"u{at}", "amount": at / 2}).encode(), timestamp=at * 3_600_000)
        for at in range(48)
    ]
    shelf.put(batch([*rows, row(48, None), row(49, b"no JSON")]), OffsetRange(0, 50))
    text = (ROOT / "docs/spark.md").read_text()
    [recipe] = re.findall(r"<!-- recipe -->\n```python\n(.*?)```", text, re.DOTALL)
    names: Mapping[str, Any] = {
        "spark": spark,
        "archive": str(shelf.directory),
        "target": str(tmp_path / "table"),
    }
    exec(textwrap.dedent(recipe), dict(names))  # noqa: S102  # it is what users are told to run
    days = spark.read.parquet(str(tmp_path / "table")).groupBy("day").sum("amount").collect()
    assert {(str(day), total) for day, total in days} == {
        ("1970-01-01", sum(range(24)) / 2),
        ("1970-01-02", sum(range(24, 48)) / 2),
    }
