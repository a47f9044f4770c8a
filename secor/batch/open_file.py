"""One local file of a batch: its writer, what waits to be framed, and what metadata will say."""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from secor.batch.local_file import LocalFile
from secor.core.model import Part
from secor.core.naming import ObjectName
from secor.core.ports import FileWriter, LogFormat, RenderedRows, RenderingWriter

FRAMED_BYTES = 128 * 1024
"""Rows of so many bytes are given to the writer at once: each call costs the same, however few
rows it has, and a chunk that is divided among hundreds of files has few for each."""

FEWEST_ROWS = 2_000
"""As many rows are given to it, too: so many cost more than the call."""


class OpenFile:
    """A writer, its local file, and what the metadata will say.

    Small parts wait in memory until they are worth a call of the writer: its bytes do not
    depend on how rows are split over the calls.
    """

    def __init__(self, name: ObjectName, log_format: LogFormat, local: LocalFile) -> None:
        self.name = name
        self.local = local
        self.log_format = log_format
        self.writer: FileWriter = log_format.create(local, name.key.encode())
        self._rendering = cast("RenderingWriter", self.writer)  # asked only where it is one
        self.records = 0
        self.first_offset = -1
        self.least: int | None = None
        self.greatest: int | None = None
        self._waiting: list[Part] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._kind = 0

    def add_facts(
        self, rows: int, first_offset: int, least: int | None, greatest: int | None
    ) -> None:
        """Count rows that are about to be appended, with the span of their timestamps."""
        if not self.records:
            self.first_offset = first_offset
        self.records += rows
        if least is not None and (self.least is None or least < self.least):
            self.least = least
        if greatest is not None and (self.greatest is None or greatest > self.greatest):
            self.greatest = greatest

    def append_rendered(self, rows: RenderedRows, first: int, end: int) -> None:
        """Take the rows ``[first, end)``, rendered with those of other files.

        Raises what the writer raises.
        """
        # Rows of a file keep the order of their offsets: what waits is older.
        if self._waiting:
            self.write_waiting()
        self._rendering.append_rendered(rows, first, end)

    def append(self, part: Part, size: int, kind: int, *, wait: bool) -> bool:
        """Take rows of about ``size`` bytes; return whether some wait in memory.

        Unless they may ``wait``, they are given to the writer at once.  Rows of one ``kind`` have
        one schema.

        Raises what the writer raises, for earlier rows as well.
        """
        # Rows of another schema cannot be put together with those that wait.
        if self._waiting and kind != self._kind:
            self.write_waiting()
        self._kind = kind
        self._waiting.append(part)
        self._waiting_rows += part.rows
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
        # Before the writer is called: if it fails, the batch is dropped, and nothing may write them
        # again.
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        pieces = [part.records for part in waiting]
        self.writer.append(pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces))

    @property
    def written(self) -> int:
        """Bytes that wait for the writer, and those that it has written or spilled."""
        return self._waiting_bytes + self.local.size + self.local.spilled

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
