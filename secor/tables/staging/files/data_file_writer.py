"""The shared part of writers of data files: groups of rows, and the description of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa

from secor.formats.row_groups import RowGroups
from secor.parsing.parts import ROW
from secor.schema.required_fields import without_hidden_nulls
from secor.tables.staging.manifest import Statistics

FileFormat = Literal["parquet", "orc", "avro"]


@dataclass(frozen=True, slots=True)
class FileReport:
    """The description of a finished data file; offsets are those of its rows."""

    format: FileFormat
    records: int
    first_offset: int
    last_offset: int
    statistics: Statistics


class GroupFile(Protocol):
    """A file of one format that takes whole groups of rows."""

    def write(self, group: pa.Table) -> None:
        """Write one row group, stripe or block."""

    def close(self) -> Statistics:
        """Write the footer; the sink stays open."""

    def discard(self) -> None:
        """Let nothing more reach the sink."""


class DataFileWriter:
    """One data file in the making, see ``ports.FileWriter``; ``report`` after ``close``."""

    def __init__(
        self,
        file_format: FileFormat,
        columns: pa.Schema,
        group_rows: int,
        begin: Callable[[], GroupFile],
    ) -> None:
        """``columns`` is the schema of the file, field ids included."""
        self._format = file_format
        self._columns = columns
        self._begin = begin
        self._groups = RowGroups(group_rows)
        self._file: GroupFile | None = None
        self._records = 0
        self._first_offset = 0
        self._last_offset = 0
        self._report: FileReport | None = None

    def append(self, records: pa.RecordBatch) -> None:
        """Add rows: ``offset``, and ``row`` with the table's columns."""
        if not records.num_rows:
            return
        offsets = records.column("offset")
        if not self._records:
            self._first_offset = offsets[0].as_py()
        self._last_offset = offsets[-1].as_py()
        self._records += records.num_rows
        rows = pa.RecordBatch.from_struct_array(records.column(ROW))
        for group in self._groups.add(rows):
            self._write(group)

    def buffered(self) -> int:
        """Return the bytes of the group that is not full yet."""
        return self._groups.buffered

    def close(self) -> None:
        """Write the rest and the footer."""
        if len(self._groups):
            self._write(self._groups.rest())
        assert self._file is not None, "a data file has rows"
        statistics = self._file.close()
        # What the library holds is freed now: a batch may have thousands of files.
        self._file = None
        self._report = FileReport(
            self._format, self._records, self._first_offset, self._last_offset, statistics
        )

    @property
    def losses(self) -> Mapping[str, int]:
        """None: everything is in the file."""
        return {}

    def discard(self) -> None:
        """Let nothing more reach the sink."""
        if self._file is not None:
            self._file.discard()

    def report(self) -> FileReport:
        """Return what the manifest says of the file."""
        assert self._report is not None, "the file is not closed"
        return self._report

    def _write(self, group: pa.RecordBatch) -> None:
        if self._file is None:
            # Begun with the first group: a file without rows is never made, as no manifest could
            # name it.
            self._file = self._begin()
        columns = [without_hidden_nulls(column) for column in group.columns]
        rows = pa.Table.from_arrays(columns, schema=group.schema)
        self._file.write(rows.cast(self._columns))
