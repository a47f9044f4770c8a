"""Messages of a topic become rows of a table: read back by the Iceberg library and by DuckDB."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.avro.file import AvroFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, NestedField

from secor.core.errors import TableUnusable, Unavailable
from secor.tables.catalog import FIELD_ID, NewTable
from secor.tables.commit.plan_notes import PlanNotes
from secor.tables.staging.manifest import Manifest
from tests.unit.adapters.test_iceberg_catalog import EVERY_TYPE
from tests.unit.tables.worker_world import TIMESTAMP, WorkerWorld

FLIGHTS = {"table": "db.flights", "auto_create": True, "evolve": True}
GIVEN = {"table": "db.flights"}

EVERYTHING: dict[str, Any] = {
    "id": 1,
    "big": 1 << 40,
    "half": 1.5,
    "whole": 0.1,
    "yes": True,
    "day": "1969-12-31",
    "clock": "23:59:59.999999",
    "local": "2026-01-02T03:04:05.678901",
    "ts": "2026-01-02T03:04:05.678901+02:00",
    "text": "täxt",
    "raw": "raw",
    "fixed": "abc",
    "uuid": "12345678-1234-5678-1234-567812345678",
    "money": 1234567.25,
    "inner": {"a": 1, "b": "x"},
    "many": [1, None, 3],
    "by_name": {"k": {"x": 0.5}},
}
AS_READ: dict[str, Any] = {
    **EVERYTHING,
    "day": dt.date(1969, 12, 31),
    "clock": dt.time(23, 59, 59, 999999),
    "local": dt.datetime.fromisoformat("2026-01-02T03:04:05.678901"),
    "ts": dt.datetime(2026, 1, 2, 1, 4, 5, 678901, dt.UTC),
    "raw": b"raw",
    "fixed": b"abc",
    "uuid": uuid.UUID("12345678-1234-5678-1234-567812345678"),
    "money": Decimal("1234567.25"),
    "by_name": [("k", {"x": 0.5})],
}
NOTHING = {**dict.fromkeys(AS_READ), "id": 2}


OF_ORC = tuple(name for name in EVERY_TYPE.names if name not in ("clock", "uuid", "fixed"))
"""What the Iceberg library reads out of ORC: it knows no attributes of these types."""


def chosen(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return some columns; the library reads a map that is null as an empty one."""
    found = {name: row[name] for name in names}
    return {**found, "by_name": found["by_name"] or None}


def made_in(world: WorkerWorld, file_format: str, names: tuple[str, ...]) -> Manifest:
    schema = pa.schema([EVERY_TYPE.field(name) for name in names])
    properties = {"write.format.default": file_format}
    world.catalog.create_table("db.flights", NewTable(schema, (), properties))
    (manifest,) = world.write(EVERYTHING, {"id": 2})
    assert world.reasons() == []
    assert manifest.tables[0].files[0].format == file_format
    return manifest


@pytest.mark.parametrize(
    ("file_format", "names"), [("parquet", tuple(EVERY_TYPE.names)), ("orc", OF_ORC)]
)
def test_every_type_is_read_as_it_was_meant(
    tmp_path: Path, file_format: str, names: tuple[str, ...]
) -> None:
    world = WorkerWorld(tmp_path, [GIVEN])
    made_in(world, file_format, names)
    assert [chosen(row, names) for row in world.rows()] == [
        {name: row[name] for name in names} for row in (AS_READ, NOTHING)
    ]


def test_orc_tells_the_types_that_it_has_not(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [GIVEN])
    manifest = made_in(world, "orc", tuple(EVERY_TYPE.names))
    path = manifest.tables[0].files[0].path.removeprefix("file://")
    found = {field.name: (field.type, field.metadata) for field in orc.ORCFile(path).schema}
    columns = world.catalog.load_table("db.flights").schema
    told_types: list[tuple[str, pa.DataType, dict[bytes, bytes]]] = [
        ("clock", pa.int64(), {b"iceberg.long-type": b"TIME"}),
        ("uuid", pa.binary(), {b"iceberg.binary-type": b"UUID"}),
        ("fixed", pa.binary(), {b"iceberg.binary-type": b"FIXED", b"iceberg.length": b"3"}),
        ("text", pa.string(), {}),
    ]
    for column, kind, attributes in told_types:
        field_id = columns.field(column).metadata[FIELD_ID]
        told = {b"iceberg.id": field_id, b"iceberg.required": b"false", **attributes}
        assert found[column] == (kind, told)
    assert found["id"][1][b"iceberg.required"] == b"true"
    rows = orc.ORCFile(path).read().to_pylist()
    assert rows[0]["uuid"] == AS_READ["uuid"].bytes
    assert rows[0]["clock"] == 86_399_999_999


def test_avro_is_read_by_field_ids(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [GIVEN])
    manifest = made_in(world, "avro", tuple(EVERY_TYPE.names))
    table = world.catalog.library.load_table("db.flights")
    wanted = table.schema().select("uuid", "money", "clock", "inner", "many", "by_name", "local")
    with AvroFile(table.io.new_input(manifest.tables[0].files[0].path), wanted) as records:
        first, second = list(records)
    assert list(second) == [None] * 7
    clock, local, unique, money, inner, many, by_name = first
    assert (unique, money, clock) == (AS_READ["uuid"], AS_READ["money"], 86_399_999_999)
    assert (list(inner), many, list(by_name["k"])) == ([1, "x"], [1, None, 3], [0.5])
    assert local == 1_767_323_045_678_901
    with Path(manifest.tables[0].files[0].path.removeprefix("file://")).open("rb") as file:
        assert dict(next(iter(fastavro.reader(file))))["whole"] == 0.1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file_format", "key", "codec"),
    [
        ("parquet", "write.parquet.compression-codec", "snappy"),
        ("orc", "write.orc.compression-codec", "zstd"),
        ("avro", "write.avro.compression-codec", "snappy"),
    ],
)
def test_the_codec_is_the_table_s(tmp_path: Path, file_format: str, key: str, codec: str) -> None:
    world = WorkerWorld(tmp_path, [GIVEN])
    properties = {"write.format.default": file_format, key: codec}
    schema = pa.schema([pa.field("id", pa.int64())])
    world.catalog.create_table("db.flights", NewTable(schema, (), properties))
    (manifest,) = world.write({"id": 1})
    path = Path(manifest.tables[0].files[0].path.removeprefix("file://"))
    if file_format == "parquet":
        column = pq.ParquetFile(path).metadata.row_group(0).column(0)
        assert column.compression == "SNAPPY"
    elif file_format == "orc":
        assert orc.ORCFile(path).compression == "ZSTD"
    else:
        with path.open("rb") as file:
            assert fastavro.reader(file).codec == "snappy"


def test_a_codec_or_format_that_is_none_stops_the_topic(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [GIVEN])
    schema = pa.schema([pa.field("id", pa.int64())])
    for name, properties in (
        ("db.flights", {"write.format.default": "csv"}),
        ("db.avro", {"write.format.default": "avro", "write.avro.compression-codec": "lzma"}),
    ):
        world.catalog.create_table(name, NewTable(schema, (), properties))
    with pytest.raises(TableUnusable, match="use parquet, orc or avro"):
        world.plans("flights", None)


def test_duckdb_reads_the_same(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [GIVEN])
    world.catalog.create_table("db.flights", NewTable(EVERY_TYPE))
    (manifest,) = world.write(EVERYTHING, {"id": 2})
    path = manifest.tables[0].files[0].path.removeprefix("file://")
    with duckdb.connect() as database:
        # DuckDB gives instants to Python by a package that is not needed otherwise.
        query = "SELECT * REPLACE (epoch_us(ts) AS ts) FROM read_parquet(?)"
        found = database.execute(query, [path]).fetchall()
    instant = int(AS_READ["ts"].timestamp() * 1_000_000)
    want = {**AS_READ, "by_name": {"k": {"x": 0.5}}, "ts": instant}
    names = EVERY_TYPE.names
    assert [dict(zip(names, row, strict=True)) for row in found] == [want, NOTHING]


def test_statistics_let_readers_skip_files(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    world.write(*({"id": number, "name": "a"} for number in range(10)))
    world.write(*({"id": number, "name": "b"} for number in range(10, 20)))
    table = world.catalog.library.load_table("db.flights")
    for condition, files in (("id < 5", 1), ("id >= 5", 2), ("id > 19", 0), ("name = 'b'", 1)):
        planned = list(table.scan(row_filter=condition).plan_files())
        assert len(planned) == files, condition
    assert len(world.rows(row_filter="id in (3, 13)")) == 2


def test_a_row_tells_where_it_came_from(tmp_path: Path) -> None:
    columns = ["_topic", "_kafka_partition", "_offset", "_timestamp"]
    world = WorkerWorld(tmp_path, [FLIGHTS], {"rows": {"metadata_columns": columns}})
    world.write({"id": 7, "_offset": "a field of this name is no column"}, {"id": 8})
    at = dt.datetime.fromtimestamp(TIMESTAMP / 1000, dt.UTC)
    origin = {"_topic": "flights", "_kafka_partition": 0, "_timestamp": at}
    assert world.rows() == [{"id": 7, "_offset": 0, **origin}, {"id": 8, "_offset": 1, **origin}]


def test_the_manifest_names_what_lies_there(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    (manifest,) = world.stage({"id": 1}, b"rubbish", {"id": 2})
    (table,) = manifest.tables
    (file,) = table.files
    stored = world.store.head(file.path)
    assert (manifest.start, manifest.end, manifest.cluster) == (0, 3, "cluster")
    assert (manifest.topic_id, manifest.greatest_timestamp) == ("topic-id", TIMESTAMP)
    assert (file.records, file.size) == (2, stored.size)
    assert (file.first_offset, file.last_offset) == (0, 2)
    assert table.uuid == world.catalog.load_table("db.flights").uuid
    assert "/data/g-flights-0-00000000000000000000-" in file.path
    assert manifest.fingerprint in file.path
    assert len(world.reasons()) == 1


def test_a_batch_without_any_row_has_a_manifest_all_the_same(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    (manifest,) = world.stage(b"rubbish")
    assert (manifest.start, manifest.end, manifest.tables) == (0, 1, ())


def test_names_of_files_tell_their_content(tmp_path: Path) -> None:
    """A log that was compacted since gives other rows of the same range: another file."""
    world = WorkerWorld(tmp_path, [FLIGHTS])
    world.stage({"id": 0})
    paths = set()
    for rows in ([{"id": 1}, {"id": 2}], [{"id": 2}], [{"id": 1}, {"id": 2}]):
        world.offset = 1
        (sealed,) = world.seal(*rows)
        paths.add(sealed.files[0].key)
        assert sealed.last is not None
        assert sealed.last.key.rpartition("/")[2].startswith(f"{1:020d}-")
    assert len(paths) == 2


def test_a_number_that_truncate_carries_out_of_its_range_is_in_quarantine(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    columns = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.timestamp("us", "UTC"))])
    world.catalog.create_table("db.flights", NewTable(columns, ("truncate(7, id)", "year(at)"), {}))
    world.write({"id": -(1 << 63)}, {"id": -(1 << 63) + 1}, {"id": 5})
    assert sorted(row["id"] for row in world.rows()) == [-(1 << 63) + 1, 5]
    assert world.rows(row_filter=f"id == {-(1 << 63) + 1}") != []
    (reason,) = world.reasons()
    assert "-9223372036854775808 is outside the range" in reason
    assert "partition field id_trunc" in reason


def test_a_table_that_is_partitioned_by_a_double_is_refused_with_what_to_do(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    schema = Schema(NestedField(1, "price", DoubleType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "price"))
    world.catalog.library.create_namespace("db")
    world.catalog.library.create_table("db.flights", schema, partition_spec=spec)
    with pytest.raises(TableUnusable, match="DROP PARTITION FIELD price"):
        world.stage({"price": 0.1})


def test_why_a_topic_has_no_plan_is_noted_until_it_has_one(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    notes = PlanNotes(world.own, world.config.output.prefix)
    for plans in (world.plans, world.plans, world.new_plans()):
        with pytest.raises(TableUnusable):
            plans("flights", None)
    [why] = notes.stops("flights")
    assert why.startswith("there is no table db.flights")
    assert list(notes.stops("other")) == []
    world.catalog.create_table("db.flights", NewTable(pa.schema([("id", pa.int64())])))
    world.new_plans()("flights", None)  # another process than the one that has noted it
    assert list(notes.stops("flights")) == []


def test_a_store_that_takes_no_note_hides_no_reason(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])

    def refuse(call: str, key: str) -> None:
        raise Unavailable(f"{call} {key}: no answer")

    world.own.before = refuse
    with pytest.raises(TableUnusable):
        world.plans("flights", None)
