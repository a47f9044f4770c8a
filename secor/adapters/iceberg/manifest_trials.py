"""Tries of manifests in memory: which files no commit can append, and whether the table can."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import cast

from pyiceberg.io import InputFile, OutputFile, OutputStream
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table as LibraryTable

from secor.adapters.iceberg.appending import AppendedSnapshot
from secor.adapters.iceberg.failures import translated
from secor.core.errors import ConfigurationError
from secor.tables.staging.manifest import DataFile as StagedFile
from secor.tables.staging.manifest import TableFiles


def refused_files(table: LibraryTable, files: Sequence[TableFiles]) -> dict[str, str]:
    """Return which files no manifest of the table can hold, and why: by path.

    Each is tried in a manifest of its own, in memory.  A file without any value shows whether it
    is the table that has no manifests.
    """
    snapshot = _SnapshotInMemory(table, None)
    refused: dict[str, str] = {}
    for of_table in files:
        try:
            spec = snapshot.spec_of(of_table)
        except ConfigurationError as error:
            refused |= dict.fromkeys((file.path for file in of_table.files), str(error))
            continue
        empty = StagedFile("control", "parquet", 1, 1, 0, 0, (None,) * len(spec.fields))
        # Not even a file without values can be written: it is the table's fault, and no file is to
        # be noted for it.
        if snapshot.why_not(spec, empty) is not None:
            continue
        for file in of_table.files:
            why = snapshot.why_not(spec, file)
            if why is not None:
                refused[file.path] = why
    return refused


def try_empty_snapshot(table: LibraryTable, base: int | None) -> None:
    """Write a snapshot without new files to memory.  Raises what the library raises."""
    _SnapshotInMemory(table, base).write((), {})


class _SnapshotInMemory(AppendedSnapshot):
    """A snapshot that is never committed."""

    def why_not(self, spec: PartitionSpec, file: StagedFile) -> str | None:
        """Return why a manifest cannot hold a file, None if it can."""
        try:
            with translated("its manifest cannot be written"):
                self.write_added(spec.spec_id, [self.data_file(spec, file)])
        except ConfigurationError as error:
            return str(error)
        return None

    def new_output(self, location: str) -> OutputFile:
        super().new_output(location)  # a location that nothing can be written to fails here
        return _Memory(location)


class _Memory(OutputFile):
    """Bytes that are thrown away."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._stream = BytesIO()

    def __len__(self) -> int:
        return len(self._stream.getbuffer())

    def exists(self) -> bool:
        return False

    def to_input_file(self) -> InputFile:
        raise NotImplementedError("nobody reads what was merged in memory")

    def create(self, overwrite: bool = False) -> OutputStream:
        return cast(OutputStream, _KeptOpen(self._stream))


class _KeptOpen:
    """A stream whose length is asked for after it was closed."""

    def __init__(self, stream: BytesIO) -> None:
        self.write, self.tell = stream.write, stream.tell

    def close(self) -> None:
        """Keep the bytes."""

    def __enter__(self) -> _KeptOpen:
        return self

    def __exit__(self, *_: object) -> None:
        """Keep the bytes."""
