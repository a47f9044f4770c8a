"""Comparison of a table with the source of its rows: a hash of each row first, then values.

Hashes of both sides go into files on the local disk, divided by key, so memory is bounded however
large the table is, and the order of rows, in which two engines seldom agree, does not matter.
Rows that differ are read again with their values, at a position that both sides agree on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

import msgpack
import pyarrow as pa

from secor.core.ports import Clock
from secor.verify.finding import Finding, FindingKind
from secor.verify.source.columns import Columns, Key, Row, bytes_of, shortened
from secor.verify.source.report import SourceComparison, finding_of_row

BUCKET_ROWS = 50_000
"""Rows of the source for each pair of files."""

MOST_BUCKETS = 512
MOST_KEYS = 10_000
"""Differing keys of a table whose values are read; further ones are counted."""

EVERY = 2.0
"""Seconds between two looks at the log."""


class SourceRows(Protocol):
    """A snapshot of the source; ``position`` is its log's position, at or after the snapshot."""

    position: int

    def rows(self) -> Iterator[Sequence[Sequence[str | None]]]:
        """Give the texts of all rows, in chunks."""

    def rows_of(self, keys: Sequence[Sequence[str]]) -> Iterator[Sequence[Sequence[str | None]]]:
        """Give the texts of rows by the texts of their keys."""


class SourceDatabase(Protocol):
    """The database that the rows come from."""

    def snapshot(self) -> Any:
        """Open a ``SourceRows``, as a context manager."""

    def delivered(self) -> int | None:
        """Return up to which position every change is in the log; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class LogTail:
    """Messages behind a table: ``keys`` that they change, and the greatest position they name."""

    keys: frozenset[Key]
    position: int | None


class ComparedTable(Protocol):
    """The table, at one snapshot of it."""

    def refresh(self) -> bool:
        """Load the newest snapshot; return whether that is another one."""

    def scan(self) -> Iterator[pa.RecordBatch]:
        """Give the compared columns of all rows."""

    def tail(self) -> LogTail:
        """Read the messages that this snapshot does not have."""


class RowHashes:
    """Files with the keys and hashes of the rows of one side, divided by key."""

    def __init__(self, folder: Path, side: str, buckets: int) -> None:
        """``folder`` exists, and its maker deletes it."""
        self._paths = [folder / f"{side}-{number}" for number in range(buckets)]
        self._columns: Columns | None = None
        self.rows = 0

    def add(self, columns: Columns, rows: Iterable[Row]) -> None:
        """Write the hashes of some rows."""
        parts: dict[int, list[bytes]] = {}
        for row in rows:
            key = columns.key_of(row)
            packed = msgpack.packb((key, blake2b(bytes_of(row), digest_size=16).digest()))
            parts.setdefault(crc32(bytes_of(key)) % len(self._paths), []).append(packed)
            self.rows += 1
        for bucket, pieces in parts.items():
            with self._paths[bucket].open("ab") as file:
                file.write(b"".join(pieces))

    def bucket(self, number: int) -> Iterator[tuple[Key, bytes]]:
        """Give the keys and hashes of one file."""
        if self._paths[number].exists():
            with self._paths[number].open("rb") as file:
                yield from msgpack.Unpacker(file, use_list=False)


def buckets_for(rows: int) -> int:
    """Return into how many files the hashes of so many rows are divided."""
    return max(1, min(MOST_BUCKETS, -(-rows // BUCKET_ROWS)))


def differing_keys(source: RowHashes, table: RowHashes, buckets: int) -> Iterator[Key]:
    """Give the keys whose rows are not the same on both sides, each once."""
    for number in range(buckets):
        expected = dict(source.bucket(number))
        seen: set[Key] = set()
        wrong: set[Key] = set()
        for key, digest in table.bucket(number):
            # A key that is there twice is wrong even where both rows are right.
            if key in seen or expected.get(key) != digest:
                wrong.add(key)
            seen.add(key)
        yield from sorted(wrong | (expected.keys() - seen), key=repr)


class Settling:
    """The second look at keys that differ: by their values, until both sides are comparable.

    The table is loaded before the source is read, so that the source has every change that the
    table has.  Once the log shows all changes up to the source's position, a row that differs
    is wrong, unless a message that the table does not have yet changes it.
    """

    def __init__(
        self,
        source: SourceDatabase,
        table: ComparedTable,
        columns: Columns,
        clock: Clock,
        wait: float,
    ) -> None:
        """``wait`` is in seconds."""
        self._source = source
        self._table = table
        self._columns = columns
        self._clock = clock
        self._wait = wait

    def settle(self, keys: Sequence[Key], result: SourceComparison) -> None:
        """Bring what became of each key into the result."""
        deadline = self._clock.monotonic() + self._wait
        # The table before the source, so that the source has every change that the table has.
        self._table.refresh()
        pending = self._read(keys, result)
        while pending:
            late = self._clock.monotonic() >= deadline
            delivered = self._source.delivered()
            # After the source's position is known: what the log shows then is at least as new.
            tail = self._table.tail()
            positions = [item for item in (delivered, tail.position) if item is not None]
            arrived = max(positions, default=-1) >= result.position
            if arrived or late:
                for key in [key for key in pending if key not in tail.keys]:
                    result.add(pending.pop(key))
                    result.undelivered |= not arrived
            if late:
                break
            if pending:
                self._clock.sleep(EVERY)
                # Read again only with a new snapshot: otherwise both sides would be what they were.
                if self._table.refresh():
                    pending = self._read(list(pending), result)
        result.unsettled += len(pending)

    def _read(self, keys: Sequence[Key], result: SourceComparison) -> dict[Key, Finding]:
        """Read the rows of keys on both sides; return those that are not the same."""
        columns = self._columns
        wanted = set(keys)
        of_table: dict[Key, list[Row]] = {}
        for batch in self._table.scan():
            for row in columns.table_rows(batch):
                key = columns.key_of(row)
                if key in wanted:
                    of_table.setdefault(key, []).append(shortened(row))
        of_source: dict[Key, Row] = {}
        literals = [literal for literal in map(columns.literals, keys) if literal is not None]
        with self._source.snapshot() as snapshot:
            result.position = snapshot.position
            for chunk in snapshot.rows_of(literals):
                for texts in chunk:
                    row = columns.source_row(texts)
                    of_source[columns.key_of(row)] = shortened(row)
        compared = (
            (key, self._compare(result.table, key, of_source.get(key), of_table.get(key, [])))
            for key in keys
        )
        return {key: difference for key, difference in compared if difference is not None}

    def _compare(
        self, table: str, key: Key, source: Row | None, rows: Sequence[Row]
    ) -> Finding | None:
        shown = self._columns.show_key(key)
        if len(rows) > 1:
            return finding_of_row(table, FindingKind.TWICE, shown)
        if source is None:
            return finding_of_row(table, FindingKind.SURPLUS, shown) if rows else None
        if not rows:
            return finding_of_row(table, FindingKind.MISSING, shown)
        differing = self._columns.differing(source, rows[0])
        if not differing:
            return None
        return finding_of_row(table, FindingKind.DIFFERENT, shown, differing)


def compare_with_source(
    source: SourceDatabase,
    table: ComparedTable,
    columns: Columns,
    result: SourceComparison,
    folder: Path,
    *,
    rows: int,
    clock: Clock,
    wait: float,
    progress: Any = None,
) -> None:
    """Compare all rows, and look again at those that differ; bring the outcome into ``result``.

    ``rows`` is about how many the source has; ``progress`` is called with numbers of rows.
    """
    buckets = buckets_for(rows)
    of_table = RowHashes(folder, "table", buckets)
    of_source = RowHashes(folder, "source", buckets)
    # The table first: the source has every change then that the table has.
    for batch in table.scan():
        of_table.add(columns, columns.table_rows(batch))
        if progress is not None:
            progress(batch.num_rows)
    with source.snapshot() as snapshot:
        result.position = snapshot.position
        for chunk in snapshot.rows():
            of_source.add(columns, map(columns.source_row, chunk))
            if progress is not None:
                progress(len(chunk))
    result.columns = len(columns.columns)
    result.source_rows, result.table_rows = of_source.rows, of_table.rows
    keys: list[Key] = []
    for key in differing_keys(of_source, of_table, buckets):
        if len(keys) < MOST_KEYS:
            keys.append(key)
        else:
            result.unread += 1
    if keys:
        Settling(source, table, columns, clock, wait).settle(keys, result)
