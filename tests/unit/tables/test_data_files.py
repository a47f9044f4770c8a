"""Data files of tables whose disk is full."""

from __future__ import annotations

import errno
import gc
import random
import sys

import pyarrow as pa
import pytest

from secor.parsing.parts import ROW
from secor.tables.files.parquet import ParquetDataFormat
from secor.tables.manifest import Statistics

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
    data_format = ParquetDataFormat(COLUMNS, {}, lambda footer: Statistics(), group_rows=20_000)
    writer = data_format.create(FullDisk(100_000), b"")
    ids = pa.array([random.getrandbits(60) for _ in range(20_000)], pa.int64())
    row = pa.StructArray.from_arrays([ids] * len(COLUMNS), fields=list(COLUMNS))
    with pytest.raises(OSError, match="No space left"):
        writer.append(pa.record_batch({"offset": ids, ROW: row}))
    writer.discard()
    del writer
    gc.collect()
    assert ignored == []
