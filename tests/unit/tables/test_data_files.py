"""Columnar files whose disk is full."""

from __future__ import annotations

import errno
import gc
import random
import sys

import pyarrow as pa
import pytest

from secor.core.errors import DiskFull
from secor.core.ports import LogFormat, Sink
from secor.formats.typed.avro import AvroFormat
from secor.formats.typed.orc import OrcFormat
from secor.formats.typed.parquet import TypedParquetFormat
from secor.parsing.parts import ROW
from secor.schema.schema import RowSchema
from secor.tables.staging.files.orc import OrcDataFormat
from secor.tables.staging.files.parquet import ParquetDataFormat
from secor.tables.staging.manifest import Statistics

COLUMNS = pa.schema([pa.field(name, pa.int64()) for name in "abcd"])


class FullDisk:
    """Takes a number of bytes."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, data: bytes | bytearray | memoryview | pa.Buffer, /) -> None:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_that_is_discarded_on_a_full_disk_ends_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    data_format = ParquetDataFormat(
        COLUMNS, {}, lambda footer, floats: Statistics(), group_rows=20_000
    )
    writer = data_format.create(FullDisk(100_000), b"")
    ids = pa.array([random.getrandbits(60) for _ in range(20_000)], pa.int64())
    row = pa.StructArray.from_arrays([ids] * len(COLUMNS), fields=list(COLUMNS))
    with pytest.raises(OSError, match="No space left"):
        writer.append(pa.record_batch({"offset": ids, ROW: row}))
    writer.discard()
    del writer
    gc.collect()
    assert ignored == []


class FullLocalFile(FullDisk):
    """Raises what a local file raises."""

    def write(self, data: bytes | bytearray | memoryview | pa.Buffer, /) -> None:
        try:
            super().write(data)
        except OSError as error:
            raise DiskFull("no room") from error


def format_of(name: str) -> LogFormat:
    schema = RowSchema(pa.struct(list(COLUMNS)))
    match name:
        case "parquet":
            return TypedParquetFormat(schema=schema, row_group_rows=20_000)
        case "orc":
            return OrcFormat(schema=schema, stripe_rows=20_000)
        case "avro":
            return AvroFormat(schema=schema, block_rows=20_000)
        case "table parquet":
            return ParquetDataFormat(
                COLUMNS, {}, lambda footer, floats: Statistics(), group_rows=20_000
            )
        case _:
            ids = (field.with_metadata({"PARQUET:field_id": "1"}) for field in COLUMNS)
            return OrcDataFormat(pa.schema(list(ids)), "zlib", 20_000)


def write(name: str, sink: Sink, records: pa.RecordBatch) -> None:
    writer = format_of(name).create(sink, b"")
    try:
        writer.append(records)
        writer.close()
    finally:
        writer.discard()


@pytest.mark.parametrize("room", [0, 100, 100_000])
@pytest.mark.parametrize("name", ["parquet", "orc", "avro", "table parquet", "table orc"])
def test_a_full_disk_is_what_the_local_file_calls_it_whatever_the_library_makes_of_it(
    name: str, room: int
) -> None:
    """ORC's library makes an error of its own, and ends the process if its footer fails, too."""
    ids = pa.array([random.getrandbits(60) for _ in range(20_000)], pa.int64())
    row = pa.StructArray.from_arrays([ids] * len(COLUMNS), fields=list(COLUMNS))
    offsets = pa.array(range(20_000), pa.int64())
    with pytest.raises(DiskFull):
        write(name, FullLocalFile(room), pa.record_batch({"offset": offsets, ROW: row}))
    gc.collect()
