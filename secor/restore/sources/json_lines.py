"""A directory of JSON lines as a source that defines its own transactions: the small example.

Files are ``<directory>/<topic>/<partition>.jsonl``.  A line is a message,

    {"offset": 7, "timestamp": 1700000000000, "key": "k", "value": "v", "headers": [["h", "x"]]}

where only ``offset`` must be there, and offsets rise; or it ends the transaction of the
messages before it, ``{"end": "commit"}`` or ``{"end": "abort"}``.  Texts are written as UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from secor.core.errors import ArchiveIncomplete
from secor.core.model import SCHEMA, OffsetRange, next_offset
from secor.core.text import load_json
from secor.restore.model import Boundary, Piece, SourceExtent, SourcePartition
from secor.restore.ports import PieceReader
from secor.restore.reading import ReadAhead
from secor.restore.sources.foreign_files import lines_of

LINES = 1000
"""Messages of one piece at most."""


@dataclass(frozen=True, slots=True)
class JsonLinesSource:
    """A ``RestoreSource`` over ``directory``; ``wanted`` chooses topics by name.

    Files may grow at their ends, and must not change otherwise.
    """

    name: str
    directory: Path
    wanted: Callable[[str], bool]
    reader: Callable[[Iterator[Piece]], PieceReader] = ReadAhead

    def exactly_once(self) -> bool:
        """Return True: files grow at their ends alone."""
        return True

    def defines_transactions(self) -> bool:
        """Return True: lines of the files end them."""
        return True

    def partitions(self) -> list[SourcePartition]:
        """Return a source partition for each file."""
        return sorted(
            SourcePartition(self.name, path.parent.name, int(path.stem))
            for path in self.directory.glob("*/*.jsonl")
            if path.stem.isdigit() and self.wanted(path.parent.name)
        )

    def extent(self, source: SourcePartition) -> SourceExtent:
        """Read the file from end to end."""
        first, end, oldest = None, 0, None
        for piece in self.pieces(source, 0):
            for row in piece.records.select(["offset", "timestamp"]).to_pylist():
                first = row["offset"] if first is None else first
                if row["timestamp"] is not None:
                    oldest = min(row["timestamp"], row["timestamp"] if oldest is None else oldest)
            end = max(end, piece.next_offset)
        size = self._path(source).stat().st_size
        whole = OffsetRange(first or 0, max(end, first or 0))
        return SourceExtent(source, whole, objects=1, size=size, oldest=oldest)

    def open(self, source: SourcePartition, next_offset: int) -> PieceReader:
        """Read from an offset on."""
        return self.reader(self.pieces(source, next_offset))

    def pieces(self, source: SourcePartition, start: int) -> Iterator[Piece]:
        """Give the messages from ``start`` on.  Raises ``ArchiveIncomplete``."""
        rows: list[dict[str, Any]] = []
        reached = 0
        for number, line in self._lines(source):
            if "end" in line:
                if reached > start:
                    yield Piece(_records(rows), reached, Boundary(line["end"]))
                rows = []
                continue
            row = self._row(source, number, line)
            offset = row["offset"]
            if offset < reached:
                raise ArchiveIncomplete(
                    f"{self._path(source)}, line {number}: offset {offset} does not rise"
                )
            reached = next_offset(offset)
            if offset >= start:
                rows.append(row)
            if len(rows) == LINES:
                yield Piece(_records(rows), reached)
                rows = []
        if rows:
            yield Piece(_records(rows), reached)

    def _lines(self, source: SourcePartition) -> Iterator[tuple[int, Mapping[str, Any]]]:
        path = self._path(source)
        with path.open("rb") as file:
            texts = lines_of(file)
            for number in count(1):
                try:
                    text = next(texts, None)
                    if text is None:
                        return
                    line = load_json(text)
                    if "end" in line:
                        Boundary(line["end"])
                except (ValueError, TypeError) as error:
                    raise self._unreadable(source, number, error) from error
                yield number, line

    def _row(self, source: SourcePartition, number: int, line: Mapping[str, Any]) -> dict[str, Any]:
        try:
            row = _row(line)
            _records([row])
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            raise self._unreadable(source, number, error) from error
        return row

    def _unreadable(
        self, source: SourcePartition, number: int, error: Exception
    ) -> ArchiveIncomplete:
        return ArchiveIncomplete(
            f"{self._path(source)}, line {number}: not a message with an offset, nor the end of a"
            f" transaction ({error})"
        )

    def _path(self, source: SourcePartition) -> Path:
        return self.directory / source.topic / f"{source.partition}.jsonl"


def _row(line: Mapping[str, Any]) -> dict[str, Any]:
    headers = [{"key": name, "value": _bytes(value)} for name, value in line.get("headers", [])]
    return {
        "offset": int(line["offset"]),
        "timestamp": line.get("timestamp"),
        "timestamp_type": 0,
        "key": _bytes(line.get("key")),
        "value": _bytes(line.get("value")),
        "headers": headers,
    }


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _records(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)
