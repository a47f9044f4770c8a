"""One local file of a batch: its writer, what waits to be framed, and what metadata will say."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from secor.batch.workspace import LocalFile
from secor.core.model import Chunk
from secor.core.naming import ObjectName
from secor.core.ports import FileWriter, LogFormat

FRAMED_BYTES = 128 * 1024
"""Rows of so many bytes are given to the writer at once: each call costs the same, however few
rows it has, and a chunk that is divided among hundreds of files has few for each."""

FEWEST_ROWS = 2_000
"""As many rows are given to it, too: so many cost more than the call."""


FEW_PARTS = 8
"""A chunk that is divided into no more parts is written at once."""

MOST_WAITING = 16 << 20
"""Bytes of chunks of which some rows may wait for more of their file."""

LARGEST_WAITING = 12 << 20
"""A chunk that holds more is written at once: its parts are large, or thousands."""

COLUMN_BYTES = 1024
"""Bytes that a column of a part takes beside its rows, in objects; measured."""


class OpenFile:
    """A writer, its local file, and what the metadata will say.

    Small parts wait in memory until they are worth a call of the writer: its bytes do not
    depend on how rows are split over the calls.
    """

    def __init__(self, name: ObjectName, log_format: LogFormat, local: LocalFile) -> None:
        self.name = name
        self.local = local
        self.writer: FileWriter = log_format.create(local, name.key.encode())
        self.records = 0
        self.first_offset = -1
        self.least: int | None = None
        self.greatest: int | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0

    def append(self, records: pa.RecordBatch, size: int, *, wait: bool) -> bool:
        """Take rows of about ``size`` bytes; return whether some wait in memory.

        Unless they may ``wait``, they are given to the writer at once.

        Raises what the writer raises, for earlier rows as well.
        """
        if not self.records:
            self.first_offset = records.column("offset")[0].as_py()
        self.records += records.num_rows
        if self._waiting and not self._waiting[0].schema.equals(records.schema, True):
            self.write_waiting()
        self._waiting.append(records)
        self._waiting_rows += records.num_rows
        self._waiting_bytes += size
        enough = self._waiting_rows >= FEWEST_ROWS or self._waiting_bytes >= FRAMED_BYTES
        if enough or not wait:
            self.write_waiting()
        return bool(self._waiting)

    def write_waiting(self) -> None:
        """Give the writer what waits."""
        if not self._waiting:
            return
        waiting = self._waiting
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        records = waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
        self.writer.append(records)
        self._include_times(records.column("timestamp"))

    @property
    def size(self) -> int:
        """Bytes of the file, in memory and on disk."""
        return self._waiting_bytes + self.writer.buffered() + self.local.size

    def close(self) -> None:
        """Write the rest, and finish the local file."""
        self.write_waiting()
        self.writer.close()
        self.local.finish()

    def discard(self) -> None:
        """Give it up, and delete the local file."""
        self._waiting = []
        self.writer.discard()
        self.local.delete()

    def _include_times(self, timestamps: pa.Array) -> None:
        span = pc.min_max(timestamps)
        least, greatest = span["min"].as_py(), span["max"].as_py()
        if least is not None:
            self.least = least if self.least is None else min(least, self.least)
            self.greatest = greatest if self.greatest is None else max(greatest, self.greatest)


class Framing:
    """Gives the parts of chunks to their files; small ones wait for more."""

    def __init__(self) -> None:
        self.waiting = 0
        """Bytes in memory of chunks of which some rows wait."""
        self._files: dict[OpenFile, None] = {}

    def append(self, chunk: Chunk, parts: Sequence[tuple[OpenFile, pa.RecordBatch]]) -> None:
        """Append the parts of a chunk.  Rows that wait keep the whole chunk in memory."""
        rows = max(chunk.records.num_rows, 1)
        row_bytes = chunk.records.nbytes / rows
        columns = sum(records.num_columns for _, records in parts)
        size = chunk.records.get_total_buffer_size() + columns * COLUMN_BYTES
        may_wait = len(parts) > FEW_PARTS and size <= LARGEST_WAITING
        for file, records in parts:
            if file.append(records, int(row_bytes * records.num_rows), wait=may_wait):
                self._files[file] = None
            else:
                self._files.pop(file, None)
        if not self._files:
            self.waiting = 0
        elif may_wait:
            self.waiting += size
        if self.waiting >= MOST_WAITING:
            for file in self._files:
                file.write_waiting()
            self._files, self.waiting = {}, 0
