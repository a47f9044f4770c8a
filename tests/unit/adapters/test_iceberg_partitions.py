"""Where rows of an Iceberg table go: what was described for one chunk serves for the next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from secor.adapters.iceberg import library
from secor.adapters.iceberg.library import IcebergLibrary
from secor.adapters.iceberg.partition_terms import check_declared
from secor.core.errors import ConfigurationError
from secor.tables.catalog import NewTable
from secor.tables.library import Partitioning
from tests.unit.adapters.iceberg_tables import sqlite_catalog

COLUMNS: Mapping[str, pa.DataType] = {"number": pa.int64(), "text": pa.string()}


@pytest.fixture
def partitioning(tmp_path: Path) -> Partitioning:
    schema = pa.schema([pa.field(name, kind) for name, kind in COLUMNS.items()])
    new = NewTable(schema, ("identity(number)", "identity(text)"), {})
    table = sqlite_catalog(tmp_path).create_table("db.places", new)
    return IcebergLibrary().partitioning(table, table.schema_id, table.spec_id)


def places(partitioning: Partitioning, rows: list[Mapping[str, object]]) -> list[tuple[str, str]]:
    """Return for each row the JSON values, as text, and the path of its partition."""
    codes, values = partitioning.place(pa.array(rows, pa.struct(list(COLUMNS.items()))))
    return [(repr(values[code].values), values[code].path) for code in codes]


ROWS: list[Mapping[str, object]] = [
    {"number": 0, "text": "a/b"},
    {"number": -1, "text": "a/b"},
    {"number": 1, "text": None},
    {"number": None, "text": "None"},
    {"number": None, "text": None},
    {"number": 1 << 62, "text": "c"},
]


def test_the_same_rows_have_the_same_places_in_every_chunk(partitioning: Partitioning) -> None:
    first = places(partitioning, ROWS)
    assert [path for _, path in first] == [
        "number=0/text=a%2Fb",
        "number=-1/text=a%2Fb",
        "number=1/text=null",
        "number=null/text=None",
        "number=null/text=null",
        f"number={1 << 62}/text=c",
    ]
    assert [places(partitioning, [row])[0] for row in ROWS] == first
    assert places(partitioning, ROWS[::-1]) == first[::-1]


def test_there_may_be_more_partitions_than_are_kept(
    partitioning: Partitioning, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = places(partitioning, ROWS)
    monkeypatch.setattr(library, "MOST_KNOWN", 2)
    assert places(partitioning, ROWS) == first
    assert places(partitioning, [*ROWS, *ROWS]) == [*first, *first]


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        *(("price", pa.float64()), ("identity(price)", pa.float32())),
        *(("price", pa.uuid()), ("price", pa.binary(3))),
    ],
)
def test_columns_whose_rows_readers_do_not_find_partition_no_table(
    term: str, kind: pa.DataType
) -> None:
    with pytest.raises(ConfigurationError, match="would not find its rows"):
        check_declared("db.places", pa.schema([pa.field("price", kind)]), (term,))
    for other in (
        "void(price)",
        *(["bucket(4, price)"] if kind in (pa.uuid(), pa.binary(3)) else []),
    ):
        check_declared("db.places", pa.schema([pa.field("price", kind)]), (other,))
