"""Objects and tables as others read them: Arrow, DuckDB, fastavro, the Iceberg library."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from fastavro.read import LOGICAL_READERS
from pyarrow import orc

from secor.core.ports import ObjectStore
from secor.formats import make_format
from secor.parsing.parts import release_part

EXTENSIONS = (".parquet", ".orc", ".avro", ".json", ".json.gz", ".json.zst")
QUARANTINE = "lake/_quarantine/"
_PLAIN_LOGICAL = ("int-date", "long-timestamp-millis", "long-timestamp-micros", "long-time-micros")

Row = Mapping[str, Any]

UNREAD = object()
"""A value that the reader cannot give."""


@dataclass(frozen=True)
class Quarantined:
    """A message in quarantine, by our own reader of SequenceFiles."""

    offset: int
    reason: str
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[Mapping[str, Any]]


def quarantined(store: ObjectStore) -> list[Quarantined]:
    """Return all messages in quarantine."""
    sequencefile = make_format("sequencefile")
    messages = []
    for stored in store.list(QUARANTINE):
        with store.open(stored.key) as file:
            for records in sequencefile.read(file, stored.key):
                rows, reasons = release_part(records)
                for row, reason in zip(rows.to_pylist(), reasons, strict=True):
                    del row["timestamp_type"]
                    messages.append(Quarantined(reason=reason, **row))
    return messages


def data_files(directory: Path) -> list[Path]:
    """Return the data files below a topic's directory, or a table's."""
    return sorted(path for path in directory.rglob("*") if path.name.endswith(EXTENSIONS))


def rows_of(path: Path) -> list[Row]:
    """Return the rows of a file by a reader that is not ours; times as their numbers."""
    if path.suffix == ".parquet":
        with duckdb.connect() as connection:
            counted = connection.execute("select count(*) from read_parquet(?)", [str(path)])
            (count,) = counted.fetchall()[0]
        rows = _rows_of_arrow(pq.ParquetFile(path).read())
        assert count == len(rows), f"DuckDB counts {count} rows of {len(rows)} in {path.name}"
        return rows
    if path.suffix == ".orc":
        return _rows_of_orc(path)
    if path.suffix == ".avro":
        with plain_times(), path.open("rb") as file:
            return [dict(row) for row in fastavro.reader(file)]  # type: ignore[arg-type]
    content = path.read_bytes()
    lines = gzip.decompress(content) if path.suffix == ".gz" else content
    return [json.loads(line) for line in lines.split(b"\n") if line]


def text_lines(path: Path) -> list[bytes]:
    """Return the lines of a text object."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    elif path.suffix == ".zst":
        content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    return content.split(b"\n")[:-1]


def rows_of_table(table: pa.Table) -> list[Row]:
    """Return the rows of a table in memory, times as their numbers."""
    return _rows_of_arrow(table)


def _rows_of_orc(path: Path) -> list[Row]:
    """Return the rows; times beyond those that Arrow reads out of ORC (1677 to 2262) are left out.

    ``UNREAD`` is in their place: no other reader of ORC is at hand.
    """
    file = orc.ORCFile(path)
    columns = {}
    for name in file.schema.names:
        try:
            columns[name] = _plain(pa.chunked_array(file.read(columns=[name]).column(name).chunks))
        except pa.ArrowInvalid as error:
            if "ORC timestamp" not in str(error):
                raise
            columns[name] = None
    lists = [it.to_pylist() if it is not None else [UNREAD] * file.nrows for it in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def _rows_of_arrow(table: pa.Table) -> list[Row]:
    columns = {
        field.name: _plain(column).to_pylist()
        for field, column in zip(table.schema, table.columns, strict=True)
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times and dates as numbers: Python's own end at the year 9999."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64()) if kind.unit == "us" else _microseconds(column)
    return column.cast(pa.int32()) if pa.types.is_date32(kind) else column


def _microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    factor = {"s": 1_000_000, "ms": 1_000}.get(column.type.unit)
    numbers = column.cast(pa.int64()).to_pylist()
    if factor is None:
        return pa.chunked_array([[it // 1000 if it is not None else None for it in numbers]])
    decimals = [it * factor if it is not None else None for it in numbers]
    return pa.chunked_array([pa.array(decimals, pa.decimal128(38, 0))])


@contextmanager
def plain_times() -> Iterator[None]:
    """Let fastavro give times and dates as their numbers, in microseconds and days."""
    before = {name: LOGICAL_READERS[name] for name in _PLAIN_LOGICAL}
    LOGICAL_READERS.update(dict.fromkeys(_PLAIN_LOGICAL, _same))
    LOGICAL_READERS["long-timestamp-millis"] = _thousandfold
    try:
        yield
    finally:
        LOGICAL_READERS.update(before)


def _same(data: int, writer: object = None, reader: object = None) -> int:
    return data


def _thousandfold(data: int, writer: object = None, reader: object = None) -> int:
    return data * 1000
