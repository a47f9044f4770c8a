"""Tables of edge values, for the tests that each of their rows is found by filters.

A table has the columns ``id`` and ``x``; its files are made by what makes those of a daemon.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import (
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StartsWith,
)

from secor.adapters.iceberg.commits import IcebergCatalog
from secor.adapters.iceberg.library import IcebergLibrary
from secor.parsing.parts import ROW
from secor.tables.catalog import NewTable, TableCommit
from secor.tables.files.data_file_writer import DataFileWriter
from secor.tables.manifest import DataFile, TableFiles
from secor.tables.routing import TableSettings
from secor.tables.row_changes import ChangeSettings
from secor.tables.table_version import RowSettings, open_version

TABLE = "db.edges"

WIDE = Context(prec=60)
NINES = Decimal("9" * 38)

MICROSECONDS_A_YEAR_1, MICROSECONDS_A_YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000

TIMES = [
    0,
    -1,
    1_700_000_000_123_456,
    MICROSECONDS_A_YEAR_1 + 1,
    MICROSECONDS_A_YEAR_10000 - 2,
    MICROSECONDS_A_YEAR_1 - 1,
    MICROSECONDS_A_YEAR_10000,
    -(1 << 63),
    (1 << 63) - 1,
]
"""In microseconds since 1970.  The judge computes a neighbour of a filter's value, which for the
very first and last that Python has fails.
"""

VALUES: Mapping[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [0, -1, 6, 7, -(1 << 31), -(1 << 31) + 1, (1 << 31) - 1]),
    "long": (pa.int64(), [0, -1, 6, 7, -(1 << 63), -(1 << 63) + 1, (1 << 63) - 1, 1 << 53]),
    "float": (pa.float32(), [0.0, -0.0, 1.5, -3.5, 2.0**127, float("nan")]),
    "double": (
        pa.float64(),
        [0.0, -0.0, 0.1, 1e300, 5e-324, float("inf"), float("-inf"), float("nan")],
    ),
    "decimal(9, 2)": (
        pa.decimal128(9, 2),
        [Decimal(text) for text in ("0.00", "-0.01", "1.28", "9999999.99", "-9999999.99")],
    ),
    "decimal(38, 0)": (
        pa.decimal128(38, 0),
        [Decimal(0), Decimal(-129), NINES, NINES.copy_negate(), Decimal(10) ** 20],
    ),
    "decimal(38, 38)": (
        pa.decimal128(38, 38),
        [NINES.scaleb(-38, WIDE), NINES.copy_negate().scaleb(-38, WIDE)],
    ),
    "date": (pa.date32(), [0, -1, 20_000, -719_161, 2_932_895, 2_932_897, -(1 << 31)]),
    "time": (pa.time64("us"), [0, 1, 86_399_999_999]),
    "timestamp": (pa.timestamp("us"), TIMES),
    "timestamptz": (pa.timestamp("us", "UTC"), TIMES),
    "string": (
        pa.string(),
        [
            "",
            "a",
            "b" * 17,
            "z" * 5000,
            "\ud7ff" * 17,
            "\U0010ffff" * 17,
            "x\ud7ff" + "\U0010ffff" * 17,
            "\uffff" * 17,
            "a/b=%",
        ],
    ),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff" * 17, b"a" * 17, b"\x7f" * 5000]),
    "fixed": (pa.binary(3), [b"\x00" * 3, b"\xff" * 3, b"abc"]),
    "uuid": (pa.uuid(), [b"\x00" * 16, b"\xff" * 16, b"\x7f" * 16, b"\x80" + b"\x00" * 15]),
}
"""Values of ``x`` by Iceberg's type."""

TRANSFORMS: Mapping[str, tuple[str, ...]] = {
    "identity(x)": tuple(kind for kind in VALUES if kind not in ("float", "double", "uuid")),
    "bucket(16, x)": tuple(kind for kind in VALUES if kind not in ("boolean", "float", "double")),
    "truncate(7, x)": (
        *("int", "long", "decimal(9, 2)", "decimal(38, 0)", "decimal(38, 38)"),
        *("string", "binary"),
    ),
    "void(x)": tuple(VALUES),
    **{f"{unit}(x)": ("date", "timestamp", "timestamptz") for unit in ("year", "month", "day")},
    "hour(x)": ("timestamp", "timestamptz"),
}
"""Types that each transform takes."""


@dataclass
class EdgeTable:
    """What was stored: ``files`` are the ids of rows by the files' URIs, ``refused`` the ids of
    rows that the table's partitioning does not take.
    """

    catalog: IcebergCatalog
    kind: str
    values: dict[int, Any] = field(default_factory=dict)
    files: dict[str, list[int]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    @property
    def library(self) -> Any:
        """The table as the Iceberg library loads it."""
        return self.catalog.library.load_table(TABLE)


def array_of(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Return values, times as their integers."""
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def edge_table(
    catalog: IcebergCatalog,
    kind: str,
    *,
    partition_by: tuple[str, ...] = (),
    file_format: str = "parquet",
    group_rows: int = 2,
    values: Sequence[Any] | None = None,
) -> EdgeTable:
    """Make a table of one type, with a null, and store all rows that it takes."""
    arrow, edges = VALUES[kind]
    rows = [*(edges if values is None else values), None]
    columns = pa.schema([pa.field("id", pa.int64()), pa.field("x", arrow)])
    properties = {"write.format.default": file_format}
    table = catalog.create_table(TABLE, NewTable(columns, partition_by, properties))
    settings = RowSettings(row_group_rows=group_rows, stripe_rows=group_rows, block_rows=group_rows)
    version = open_version(
        table, TableSettings(changes=ChangeSettings()), settings, IcebergLibrary()
    )
    made = EdgeTable(catalog, kind, dict(enumerate(rows)))
    ids, stored = pa.array(range(len(rows)), pa.int64()), array_of(arrow, rows)
    fields = list(columns)
    struct = pa.StructArray.from_arrays([ids, stored], fields=fields)
    made.refused = dict(version.partitioning.refused(struct))
    kept = pa.array([row for row in range(len(rows)) if row not in made.refused], pa.int64())
    struct, ids = struct.take(kept), ids.take(kept)
    codes, partitions = version.partitioning.place(struct)
    files = []
    for code in np.unique(codes):
        members = pa.array(np.flatnonzero(codes == code))
        path = f"{version.root}/{uuid.uuid4().hex}{version.data_format.extension}"
        data = struct.take(members)
        records = pa.record_batch({"offset": ids.take(members), ROW: data})
        files.append(
            _write(version.data_format.create, records, path, tuple(partitions[code].values))
        )
        made.files[path] = ids.take(members).to_pylist()
    staged = TableFiles(
        table.identifier, table.uuid, table.schema_id, table.spec_id, "append", tuple(files)
    )
    result = catalog.commit(table, TableCommit(None, (staged,)))
    assert result.table is not None, result.why
    return made


class _FileSink:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("wb")

    def write(self, data: Any, /) -> None:
        self.file.write(data)


def _write(
    create: Callable[..., Any], records: pa.RecordBatch, path: str, partition: tuple[Any, ...]
) -> DataFile:
    local = Path(path.removeprefix("file://"))
    sink = _FileSink(local)
    writer: DataFileWriter = create(sink, b"seed")
    writer.append(records)
    writer.close()
    sink.file.close()
    report = writer.report()
    return DataFile(
        path,
        report.format,
        report.records,
        local.stat().st_size,
        report.first_offset,
        report.last_offset,
        partition,
        report.statistics,
    )


def filters(kind: str, value: Any) -> Iterator[BooleanExpression]:
    """Give filters that hold for a value."""
    if value is None:
        yield IsNull("x")
        return
    if value != value:
        yield IsNaN("x")
        return
    literal = uuid.UUID(bytes=value) if kind == "uuid" else value
    yield EqualTo("x", literal)
    yield In("x", {literal, _another(kind)})
    if kind != "boolean":
        yield GreaterThanOrEqual("x", literal)
        yield LessThanOrEqual("x", literal)
    above = _above(kind, value)
    if above is not None:
        yield LessThan("x", above)
    if kind == "string":
        yield StartsWith("x", value[:3])


def _another(kind: str) -> Any:
    _, edges = VALUES[kind]
    return uuid.UUID(bytes=edges[1]) if kind == "uuid" else edges[1]


def _above(kind: str, value: Any) -> Any:
    """Return another of the edges above a value, None where there is none."""
    _, edges = VALUES[kind]
    above = [edge for edge in edges if edge > value]
    if kind in ("date", "timestamp", "timestamptz"):
        last = 2_932_895 if kind == "date" else MICROSECONDS_A_YEAR_10000 - 2
        above = [edge for edge in above if edge <= last]  # the library's own transforms end there
    if not above or kind in ("boolean", "uuid"):
        return None
    return min(above)
