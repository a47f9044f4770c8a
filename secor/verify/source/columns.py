"""Columns of a table and of the source of its rows, in pairs; and rows as plain values of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.verify.source.report import SourceComparison
from secor.verify.source.texts import parse_or_text
from secor.verify.source.values import ComparedColumn, SourceColumn, Value, compared_column

Key = tuple[Value, ...]
Row = tuple[Value, ...]

SHOWN = 60
"""Characters of a value in a report."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that are compared; ``key`` are the places of those that identify a row."""

    columns: Sequence[ComparedColumn]
    key: Sequence[int]

    def source_row(self, texts: Sequence[str | None]) -> Row:
        """Return a row of the source as plain values."""
        return tuple(
            None if text is None else parse_or_text(column.parse, text)
            for column, text in zip(self.columns, texts, strict=True)
        )

    def table_rows(self, batch: pa.RecordBatch) -> Iterator[Row]:
        """Give the rows of the table as plain values."""
        values = [column.read(batch.column(column.table_name)) for column in self.columns]
        yield from zip(*values, strict=True)

    def key_of(self, row: Row) -> Key:
        """Return the key of a row."""
        return tuple(row[index] for index in self.key)

    def literals(self, key: Key) -> list[str] | None:
        """Return a key as the source takes it; None for values that it cannot have."""
        texts = []
        for index, value in zip(self.key, key, strict=True):
            column = self.columns[index]
            if value is None:
                return None
            text = column.show(value)
            try:
                # A value that does not come back as it is would find another row, or none: such a
                # key is not in the source.
                if repr(column.parse(text)) != repr(value):
                    return None
            except (ValueError, ArithmeticError):
                return None
            texts.append(text)
        return texts

    def show_key(self, key: Key) -> str:
        """Return a key for people."""
        shown = (
            f"{self.columns[index].source.name}={self._show(index, value)}"
            for index, value in zip(self.key, key, strict=True)
        )
        return ", ".join(shown)

    def differing(self, source: Row, table: Row) -> dict[str, tuple[str, str]]:
        """Return the columns with other values, and both values for people."""
        return {
            column.source.name: (self._show(index, source[index]), self._show(index, table[index]))
            for index, column in enumerate(self.columns)
            if repr(source[index]) != repr(table[index])
        }

    def _show(self, index: int, value: Value) -> str:
        if value is None:
            return "null"
        text = self.columns[index].show(value) if not isinstance(value, Long) else value.shown
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)"


@dataclass(frozen=True, slots=True)
class Long:
    """A large value in memory: its beginning, and a digest that identifies it."""

    shown: str
    digest: str


def shortened(row: Row) -> Row:
    """Return a row whose large values are kept as digests."""
    return tuple(_shorten(value) for value in row)


def _shorten(value: Value) -> Value:
    if not isinstance(value, str | tuple):
        return value
    text = value if isinstance(value, str) else repr(value)
    if len(text) <= 10 * SHOWN:
        return value
    shown = f"{text[:SHOWN]}… ({len(text):,} characters)"
    # Texts of megabytes for each of thousands of keys would not be room in memory.
    return Long(shown, blake2b(bytes_of(value), digest_size=16).hexdigest())


def bytes_of(value: Value) -> bytes:
    """Return what is hashed of a value, whatever its text has."""
    return repr(value).encode("utf-8", "surrogatepass")


def pair_columns(
    sources: Sequence[SourceColumn],
    schema: pa.Schema,
    key: Sequence[str],
    result: SourceComparison,
    *,
    ignored: Sequence[str] = (),
    case_sensitive: bool = True,
) -> Columns:
    """Pair the columns of both sides by name; note in ``result`` those that cannot be compared.

    Raises ``ConfigurationError`` where rows cannot be identified.
    """

    def fold(name: str) -> str:
        return name if case_sensitive else name.lower()

    fields = {fold(field.name): field for field in schema}
    compared: list[ComparedColumn] = []
    for source in sources:
        column = fields.pop(fold(source.name), None)
        if source.name in ignored:
            result.left_out.append(source.name)
            continue
        if column is None and source.is_generated:  # the database does not replicate these
            continue
        pair: ComparedColumn | str = f"{source.cast} in the source, not in the table"
        if column is not None:
            pair = compared_column(source, column)
        if isinstance(pair, str):
            result.unlike[source.name] = pair
        else:
            compared.append(pair)
    result.only_in_table = sorted(
        field.name for field in fields.values() if not field.name.startswith("_")
    )
    places = {fold(candidate.table_name): index for index, candidate in enumerate(compared)}
    missing = [name for name in key if fold(name) not in places]
    if missing or not key:
        why = result.unlike.get(missing[0], "the source does not have it") if missing else "no key"
        raise ConfigurationError(
            f"table {result.table}: its rows cannot be paired with those of {result.source}:"
            f" {', '.join(missing[:1])}: {why}"
        )
    return Columns(compared, [places[fold(name)] for name in key])
