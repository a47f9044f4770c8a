"""Rows in groups of one exact size, however they come; and a place on disk for them."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from secor.errors import DiskFull
from secor.formats.typed.inference import observed, promoted, widened
from secor.formats.typed.metadata import ROW

SMALL = 1024
"""Rows; smaller pieces are put together when there are ``MANY``."""

MANY = 64

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

Merge = Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]


class RowGroups:
    """Holds rows until there are ``rows`` of them; ``merge`` makes one batch of pieces."""

    def __init__(self, rows: int, merge: Merge) -> None:
        self._rows = rows
        self._merge = merge
        self._held: list[pa.RecordBatch] = []
        self._small: list[pa.RecordBatch] = []
        self._count = 0
        self.buffered = 0

    def add(self, records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows; give every group that is full."""
        at = 0
        while at < records.num_rows:
            part = records.slice(at, self._rows - self._count)
            at += part.num_rows
            self._hold(part)
            if self._count == self._rows:
                yield self.rest()

    def rest(self) -> pa.RecordBatch:
        """Give what is held, at least one row."""
        pieces = [*self._held, *self._small]
        self._held, self._small, self._count, self.buffered = [], [], 0, 0
        return self._merge(pieces)

    def __len__(self) -> int:
        return self._count

    def _hold(self, part: pa.RecordBatch) -> None:
        size = part.get_total_buffer_size()
        if size > 2 * part.nbytes + 4096:
            # A few rows would keep a whole fetched batch in memory.
            part = part.take(pa.array(np.arange(part.num_rows)))
            size = part.get_total_buffer_size()
        self._count += part.num_rows
        self.buffered += size
        if part.num_rows >= SMALL:
            self._flush_small()
            self._held.append(part)
            return
        self._small.append(part)
        if len(self._small) == MANY:
            self._flush_small()

    def _flush_small(self) -> None:
        """Put small pieces together: each costs some kilobytes beside its rows."""
        if len(self._small) > 1:
            before = sum(piece.get_total_buffer_size() for piece in self._small)
            one = self._merge(self._small)
            self.buffered += one.get_total_buffer_size() - before
            self._held.append(one)
        else:
            self._held += self._small
        self._small = []


def concatenated(pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Make one batch of pieces of one schema.

    Pages are cut along the pieces of a column: in one they depend on the rows alone.
    """
    return pieces[0] if len(pieces) == 1 else pa.concat_batches(list(pieces))


def inferred(pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Make one batch of pieces whose ``row`` columns differ, typed by their values."""
    runs = [
        concatenated(list(run))
        for _, run in groupby(pieces, key=lambda piece: _Exactly(piece.schema))
    ]
    rows = [observed(run.column(ROW)) for run in runs]
    kind = reduce(widened, (column.type for column in rows), pa.struct([]))
    return concatenated(
        [with_row(run, promoted(column, kind)) for run, column in zip(runs, rows, strict=True)]
    )


def with_row(records: pa.RecordBatch, row: pa.Array) -> pa.RecordBatch:
    """Return the batch with another ``row`` column, its last."""
    columns = [*records.columns[:-1], row]
    return pa.RecordBatch.from_arrays(columns, names=records.schema.names)


class _Exactly:
    """Schemas compared with the metadata of their fields: it marks JSON text."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Exactly) and self._schema.equals(
            other._schema, check_metadata=True
        )

    __hash__ = None  # type: ignore[assignment]


class Scratch(Protocol):
    """A temporary file that is written, then read, and gone when it is closed."""

    def write(self, data: Any, /) -> object:
        """Append."""

    def read(self, size: int = -1, /) -> bytes:
        """Read on from the place sought."""

    def seek(self, place: int, /) -> object:
        """Go where ``read`` is to begin; nothing is written after that."""

    def tell(self) -> int:
        """Return the place: the bytes written, or where ``read`` is."""

    def flush(self) -> object:
        """Let ``read`` see what was written."""

    def close(self) -> object:
        """Delete it."""


class Spool:
    """Groups on disk, compressed Arrow IPC, each with a schema of its own."""

    def __init__(self, create: Callable[[], Scratch]) -> None:
        self._create = create
        self._file: Scratch | None = None
        self._places: list[int] = []

    def __len__(self) -> int:
        return len(self._places)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return 0 if self._file is None else int(self._file.tell())

    def write(self, group: pa.RecordBatch) -> None:
        """Append a group.  Raises ``DiskFull``."""
        try:
            if self._file is None:
                self._file = self._create()
            self._places.append(self._file.tell())
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            with pa.ipc.new_stream(_KeptOpen(self._file), group.schema, options=options) as out:
                out.write_batch(group)
            self._file.flush()
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise DiskFull(f"temporary file: {error.strerror}; free some room") from error
            raise

    def read(self) -> Iterator[pa.RecordBatch]:
        """Give the groups back; the file is gone after the last one."""
        for place in self._places:
            assert self._file is not None
            self._file.seek(place)
            with pa.ipc.open_stream(_KeptOpen(self._file)) as stream:
                yield stream.read_next_batch()
        self.delete()

    def delete(self) -> None:
        """Give the room back."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._places = []


class _KeptOpen:
    """A file that Arrow may close without closing it."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        self._file.write(data)
        return len(data)

    def read(self, size: int = -1) -> bytes:
        return bytes(self._file.read(size))

    def seek(self, *place: int) -> int:
        return int(self._file.seek(*place))

    def tell(self) -> int:
        return int(self._file.tell())

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True
