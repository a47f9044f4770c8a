"""Each row of a table is found by filters on its value, by Spark's own reader of tables.

``tests/unit/tables/test_rows_are_found.py`` has the other engines.
"""

from __future__ import annotations

from itertools import count

import pytest
from pyspark.sql import DataFrame, SparkSession

from secor.adapters.iceberg.commits import IcebergCatalog
from secor.spark.table_reader import SparkTables, read_head
from secor.tables.catalog import Table
from secor.tables.spark_catalog import spark_catalog
from secor.verify.engine_filters import AT_LEAST, EQUAL
from tests.found_rows import TRANSFORMS, VALUES, EdgeTable, edge_table, not_read
from tests.unit.adapters.iceberg_tables import sqlite_catalog

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # PySpark leaves sockets behind
]

numbers = count()

FEWER = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings for many small scans."""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> IcebergCatalog:
    return sqlite_catalog(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def reader(spark: SparkSession, catalog: IcebergCatalog) -> SparkTables:
    session = spark.newSession()
    settings = spark_catalog("secor", catalog.library.properties).settings
    for key, value in {**settings, **FEWER}.items():
        if key in FEWER or key.startswith("spark.sql.catalog."):
            session.conf.set(key, value)

    def read(table: Table, branch: str) -> DataFrame | None:
        return read_head(session, f"secor.{table.identifier}", table.head(branch))

    return SparkTables(read, "nowhere")


def made(catalog: IcebergCatalog, kind: str, **options: object) -> EdgeTable:
    return edge_table(catalog, kind, name=f"db.edges_{next(numbers)}", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "file_format", "group_rows"),
    [
        ("string", "parquet", 3),
        ("string", "orc", 3),
        ("double", "parquet", 1),
        ("timestamptz", "orc", 100),
        ("decimal(38, 0)", "avro", 3),
        ("uuid", "parquet", 3),
    ],
)
def test_spark_finds_a_row_by_its_value(
    catalog: IcebergCatalog, reader: SparkTables, kind: str, file_format: str, group_rows: int
) -> None:
    table = made(catalog, kind, file_format=file_format, group_rows=group_rows)
    assert not_read(table, reader, (EQUAL, AT_LEAST)) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("file_format", "group_rows"), [("parquet", 1), ("parquet", 3), ("orc", 3), ("avro", 3)]
)
@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind != "time"])
def test_spark_finds_a_row_of_any_type(
    catalog: IcebergCatalog, reader: SparkTables, kind: str, file_format: str, group_rows: int
) -> None:
    table = made(catalog, kind, file_format=file_format, group_rows=group_rows)
    assert not_read(table, reader) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("term", "kind"),
    [(term, kind) for term, kinds in TRANSFORMS.items() for kind in kinds if kind != "time"],
)
def test_spark_finds_a_row_of_any_partition(
    catalog: IcebergCatalog, reader: SparkTables, term: str, kind: str
) -> None:
    table = made(catalog, kind, partition_by=(term,))
    assert not_read(table, reader, (EQUAL, AT_LEAST)) == []
