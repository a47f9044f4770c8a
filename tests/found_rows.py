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
from pyiceberg.table import ManifestGroupPlanner

from secor.adapters.iceberg.commits import IcebergCatalog
from secor.adapters.iceberg.library import IcebergLibrary
from secor.arrow.time_limits import END_DAY, FIRST_DAY
from secor.parsing.parts import ROW
from secor.tables.catalog import MAIN, NewTable, TableCommit
from secor.tables.rows.routing import TableSettings
from secor.tables.rows.row_changes import ChangeSettings
from secor.tables.staging.files.data_file_writer import DataFileWriter
from secor.tables.staging.manifest import DataFile, TableFiles
from secor.tables.staging.table_version import RowSettings, open_version
from secor.verify.engine_filters import (
    AT_LEAST,
    BELOW,
    EQUAL,
    IN,
    IS_NULL,
    Condition,
    RowFilter,
    TableReader,
)

TABLE = "db.edges"

COMPARISONS = (EQUAL, BELOW, AT_LEAST, IN, IS_NULL)

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
    "identity(x)": tuple(
        kind for kind in VALUES if kind not in ("float", "double", "uuid", "fixed")
    ),
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
    name: str = TABLE
    values: dict[int, Any] = field(default_factory=dict)
    files: dict[str, list[int]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    @property
    def library(self) -> Any:
        """The table as the Iceberg library loads it."""
        return self.catalog.library.load_table(self.name)


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
    name: str = TABLE,
) -> EdgeTable:
    """Make a table of one type, with a null, and store all rows that it takes."""
    arrow, edges = VALUES[kind]
    rows = [*(edges if values is None else values), None]
    columns = pa.schema([pa.field("id", pa.int64()), pa.field("x", arrow)])
    properties = {"write.format.default": file_format}
    table = catalog.create_table(name, NewTable(columns, partition_by, properties))
    settings = RowSettings(row_group_rows=group_rows, stripe_rows=group_rows, block_rows=group_rows)
    version = open_version(
        table, TableSettings(changes=ChangeSettings()), settings, IcebergLibrary()
    )
    made = EdgeTable(catalog, kind, name, dict(enumerate(rows)))
    ids, stored = pa.array(range(len(rows)), pa.int64()), array_of(arrow, rows)
    fields = list(columns)
    struct = pa.StructArray.from_arrays([ids, stored], fields=fields)
    made.refused = dict(version.refused(struct))
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


def not_planned(table: EdgeTable) -> list[str]:
    """Return the rows that filters on their values pass over, as messages.

    The Iceberg library for Python chooses the files.
    """
    library = table.library
    manifests = library.current_snapshot().manifests(library.io)
    entries = [
        (manifest, entry.data_file)
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(library.io)
    ]
    file_of = {row: path for path, rows in table.files.items() for row in rows}
    return [
        f"{table.values[row]!r} by {condition}"[:200]
        for row, path in file_of.items()
        for condition in filters(table.kind, table.values[row])
        if path not in _planned(library, condition, entries)
    ]


def _planned(library: Any, condition: BooleanExpression, entries: Sequence[Any]) -> set[str]:
    """Return the files that the library reads for a condition.

    By the steps of its own planner: it would read the same manifests for each condition again.
    """
    planner = ManifestGroupPlanner(library.metadata, library.io, condition)
    has_metrics = planner._build_metrics_evaluator()
    planned = set()
    for manifest, file in entries:
        spec = manifest.partition_spec_id
        if not planner._build_manifest_evaluator(spec)(manifest):
            continue
        if planner._build_partition_evaluator(spec)(file) and has_metrics(file):
            planned.add(file.file_path)
    return planned


def not_read(
    table: EdgeTable, reader: TableReader, comparisons: Sequence[str] = COMPARISONS
) -> list[str]:
    """Return the rows that an engine does not give by filters on their values, as messages."""
    stored = table.catalog.load_table(table.name)
    asked = [
        (row, condition)
        for rows in table.files.values()
        for row in rows
        if _is_of_calendar(table.kind, table.values[row])
        for condition in conditions(table.kind, table.values[row])
        if condition.comparison in comparisons
    ]
    queries = [
        RowFilter((condition, Condition("id", EQUAL, (pa.scalar(row, pa.int64()),))))
        for row, condition in asked
    ]
    counts = reader.counts(stored, MAIN, queries)
    assert len(counts) == len(queries) > 0
    return [
        f"{table.kind}, {reader.name}: {count} of {table.values[row]!r} by {condition}"[:300]
        for (row, condition), count in zip(asked, counts, strict=True)
        if count != 1
    ]


def _is_of_calendar(kind: str, value: Any) -> bool:
    """Tell whether messages can bring a value: those with times that nobody reads are refused.

    DuckDB fails of some, such as 2 ** 63 - 1 microseconds, which it has for infinity.
    """
    if value is None:
        return True
    if kind == "date":
        return bool(FIRST_DAY <= value < END_DAY)
    if kind.startswith("timestamp"):
        return bool(MICROSECONDS_A_YEAR_1 <= value < MICROSECONDS_A_YEAR_10000)
    return True


def conditions(kind: str, value: Any) -> Iterator[Condition]:
    """Give conditions that hold for a value, for engines."""
    if value is None:
        yield Condition("x", IS_NULL)
        return
    arrow, _ = VALUES[kind]
    this, another = array_of(arrow, [value, _another_edge(kind)])
    yield Condition("x", EQUAL, (this,))
    yield Condition("x", IN, (this, another))
    yield Condition("x", AT_LEAST, (this,))
    above = _above(kind, value)
    if above is not None:
        yield Condition("x", BELOW, (array_of(arrow, [above])[0],))


def _another_edge(kind: str) -> Any:
    return VALUES[kind][1][1]


def _another(kind: str) -> Any:
    edge = _another_edge(kind)
    return uuid.UUID(bytes=edge) if kind == "uuid" else edge


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
