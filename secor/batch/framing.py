"""Gives the parts of a chunk to their files: what is the same for all rows is done once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.batch.open_file import OpenFile
from secor.core.model import Part
from secor.core.ports import LogFormat, RenderedRows, RenderingFormat

FEW_PARTS = 8
"""A chunk that is divided into no more parts is written at once."""

MOST_WAITING = 16 << 20
"""Bytes of chunks with rows that may wait for more of their file."""

LARGEST_WAITING = 12 << 20
"""A chunk that holds more is written at once: its parts are large, or thousands."""

COLUMN_BYTES = 1024
"""Bytes of objects that a column of rows takes, without the rows; measured."""

PART_BYTES = 256
"""Bytes of objects that a part takes, without its rows."""


class Framing:
    """Appends parts to their files: rendered together, or small ones when there are more."""

    def __init__(self) -> None:
        self.waiting = 0
        """Bytes in memory of chunks with rows that wait."""
        self._files: dict[OpenFile, None] = {}
        self._schema: pa.Schema | None = None
        self._kinds = 0

    def append(self, files: Sequence[OpenFile], parts: Sequence[Part]) -> None:
        """Append the parts of a chunk to their files.

        Rows that wait keep all of its rows in memory.
        """
        for file, facts in zip(files, facts_of(parts), strict=True):
            file.add_facts(*facts)
        rest = self._append_rendered(files, parts)
        if rest:
            self._append_apart(rest)

    def _append_rendered(
        self, files: Sequence[OpenFile], parts: Sequence[Part]
    ) -> Sequence[tuple[OpenFile, Part]]:
        """Render rows of several parts together, and append them; return the other parts."""
        rest: list[tuple[OpenFile, Part]] = []
        rendered: dict[tuple[int, int], RenderedRows | None] = {}
        for file, part in zip(files, parts, strict=True):
            rows = None
            if part.rows < part.ordered.num_rows:
                # By identity: parts of a chunk share one record batch and streams share a format.
                # Both live as long as ``parts`` and ``files``, so no id is used again meanwhile.
                key = (id(part.ordered), id(file.log_format))
                if key in rendered:
                    rows = rendered[key]
                else:
                    rows = rendered[key] = _render(file.log_format, part.ordered)
            if rows is None:
                rest.append((file, part))
            else:
                file.append_rendered(rows, part.first, part.end)
        return rest

    def _append_apart(self, parts: Sequence[tuple[OpenFile, Part]]) -> None:
        ordered = {id(part.ordered): part.ordered for _, part in parts}
        size = sum(
            rows.get_total_buffer_size() + COLUMN_BYTES * rows.num_columns
            for rows in ordered.values()
        )
        row_bytes = {key: rows.nbytes / max(rows.num_rows, 1) for key, rows in ordered.items()}
        kinds = {key: self._kind(rows.schema) for key, rows in ordered.items()}
        size += len(parts) * PART_BYTES
        may_wait = len(parts) > FEW_PARTS and size <= LARGEST_WAITING
        for file, part in parts:
            part_size = int(row_bytes[id(part.ordered)] * part.rows)
            if file.append(part, part_size, kinds[id(part.ordered)], wait=may_wait):
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

    def _kind(self, schema: pa.Schema) -> int:
        """Return a number that is another one when the schema is not that of the rows before."""
        if self._schema is None or not self._schema.equals(schema, True):
            self._schema = schema
            self._kinds += 1
        return self._kinds


def _render(log_format: LogFormat, ordered: pa.RecordBatch) -> RenderedRows | None:
    return log_format.render_rows(ordered) if isinstance(log_format, RenderingFormat) else None


Facts = tuple[int, int, int | None, int | None]
"""Of the rows of a part: how many, the first offset, the least and the greatest timestamp."""


def facts_of(parts: Sequence[Part]) -> Iterable[Facts]:
    """Return the facts of each part, in this order."""
    ordered = parts[0].ordered if parts else None
    # Together only where all are slices of the same rows, none of them without a timestamp: numpy
    # has no null, and would take the filler for the least or the greatest time.
    if ordered is None or not all(part.ordered is ordered for part in parts):
        return [_facts(part.records) for part in parts]
    if len(parts) == 1 or ordered.column("timestamp").null_count:
        return [_facts(part.records) for part in parts]
    return _facts_together(ordered, parts)


def _facts(records: pa.RecordBatch) -> Facts:
    span = pc.min_max(records.column("timestamp"))
    least, greatest = span["min"].as_py(), span["max"].as_py()
    return records.num_rows, records.column("offset")[0].as_py(), least, greatest


def _facts_together(ordered: pa.RecordBatch, parts: Sequence[Part]) -> Iterator[Facts]:
    """Return the facts of parts that are slices of ``ordered``, one behind the other."""
    bounds = np.array([(part.first, part.end) for part in parts])
    firsts, counts = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
    timestamps = ordered.column("timestamp").cast(pa.int64()).to_numpy()
    # Between the bounds of a part lies its own span; what lies between two parts is left out.
    inner = bounds.ravel()
    # ``reduceat`` takes no index at the end of its array; without one, the last span goes to the
    # end.
    inner = inner[:-1] if inner[-1] == len(timestamps) else inner
    least = np.minimum.reduceat(timestamps, inner)[::2].tolist()
    greatest = np.maximum.reduceat(timestamps, inner)[::2].tolist()
    offsets = ordered.column("offset").to_numpy()[firsts].tolist()
    return zip(counts.tolist(), offsets, least, greatest, strict=True)
