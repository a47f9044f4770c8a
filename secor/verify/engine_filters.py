"""Rows found again by filters, through an engine's own reader of tables.

What a table records of its files (bounds, null counts, partition values) lets readers pass over
files.  A record that is wrong hides rows, and only from those who filter.  So for each column of
each file the least and the greatest value and nulls, which a wrong record hides first, are read
without a filter, and must be found again by equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from secor.core.errors import ConfigurationError, Unavailable
from secor.core.text import how_many
from secor.tables.catalog import Table
from secor.verify.finding import LINES, Finding, FindingKind

EQUAL, BELOW, AT_LEAST, IN, IS_NULL = "=", "<", ">=", "IN", "IS NULL"

FILE = "file"
"""The column of ``TableReader.extremes`` with the place of each data file."""

TOGETHER = 100
"""Filters that an engine answers by one statement."""

LONGEST = 100
"""Characters of a value that a finding shows."""

LARGEST = 100_000
"""Bytes of a value that is written into a statement; a larger one is not looked up."""

MOST = 300
"""Values of a table that are looked up, each by a scan of its own; else it would take hours."""

LOOK_UP = {"duckdb": MOST, "spark": 60}
"""The same by engine: a statement each, for which Spark takes seconds."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a column with values; ``IS_NULL`` has none, ``IN`` may have several."""

    column: str
    comparison: str
    values: tuple[pa.Scalar, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(_show(value) for value in self.values)
        return f"{self.column} {self.comparison} {shown}".rstrip()


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Conditions that all hold, for rows of one data ``file`` where it is named."""

    conditions: tuple[Condition, ...]
    file: str | None = None


class TableReader(Protocol):
    """An engine that reads tables by its own reader.  All methods raise ``Unavailable``."""

    name: str

    def scan(self, table: Table, branch: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give some columns of all rows that a reader of a branch sees."""
        ...

    def extremes(self, table: Table, branch: str) -> Iterator[pa.RecordBatch]:
        """Give a row for each data file, read without a filter.

        It has ``FILE``, and of each column that can be compared ``least <column>``,
        ``greatest <column>`` (both without NaN) and ``nulls <column>``.
        """
        ...

    def counts(self, table: Table, branch: str, filters: Sequence[RowFilter]) -> Sequence[int]:
        """Return how many rows each filter gives."""
        ...


Engine = AbstractContextManager[TableReader]


@dataclass
class FilterCheck:
    """The outcome for the tables of a group: how much was compared, and what was not found.

    Of a table with more than ``most`` values to look up these are taken, evenly over its files
    and columns.
    """

    engine: str
    most: int = MOST
    files: int = 0
    values: int = 0
    looked_up: int = 0
    unfound: list[Finding] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """One line of what was looked up."""
        part = "" if self.looked_up == self.values else f" of {self.values:,}"
        verdict = f"{len(self.unfound):,} not found" if self.unfound else "all found"
        return (
            f"{self.engine} read {how_many(self.files, 'data file')}, and by filters"
            f" {self.looked_up:,}{part} of their least and greatest values and nulls: {verdict}"
        )

    def lines(self) -> Iterator[str]:
        """Give what is printed."""
        yield from map(str, self.unfound[:LINES])
        if len(self.unfound) > LINES:
            yield f"... and {len(self.unfound) - LINES:,} more"
        yield self.summary

    def as_json(self) -> dict[str, Any]:
        """Return it as ``--json`` prints it."""
        return {
            "engine": self.engine,
            "files": self.files,
            "values": self.values,
            "looked_up": self.looked_up,
            "not_found": [finding.as_json() for finding in self.unfound],
        }

    def check(self, reader: TableReader, table: Table, branch: str) -> None:
        """Look up the extremes of each file of a table.

        Raises ``ConfigurationError``, ``Unavailable`` where the engine cannot read it.
        """
        filters = list(self._filters(reader, table, branch))
        self.values += len(filters)
        step = max(1, -(-len(filters) // self.most))
        chosen = filters[::step]
        self.looked_up += len(chosen)
        for begin in range(0, len(chosen), TOGETHER):
            asked = chosen[begin : begin + TOGETHER]
            for filter_, rows in zip(asked, reader.counts(table, branch, asked), strict=True):
                if not rows:
                    text = (
                        f"{self.engine} does not find the row with"
                        f" {filter_.conditions[0]} that {filter_.file or 'a file'} holds: what the"
                        " table or the file records of its values hides it; 'secor tables repair'"
                        " records it anew, or let Spark rewrite the file (rewrite_data_files)"
                    )
                    self.unfound.append(Finding(FindingKind.HIDDEN, table.identifier, text))

    def _filters(self, reader: TableReader, table: Table, branch: str) -> Iterator[RowFilter]:
        for batch in reader.extremes(table, branch):
            columns = [
                name.removeprefix("nulls ")
                for name in batch.schema.names
                if name != FILE
                if name.startswith("nulls ")
            ]
            self.files += batch.num_rows
            for row in range(batch.num_rows):
                file = batch.column(FILE)[row].as_py()
                for column in columns:
                    for condition in _conditions(batch, row, column):
                        yield RowFilter((condition,), file)


def _conditions(batch: pa.RecordBatch, row: int, column: str) -> Iterator[Condition]:
    least, greatest, nulls = (
        batch.column(f"{what} {column}")[row] for what in ("least", "greatest", "nulls")
    )
    if _can_be_written(least):
        yield Condition(column, EQUAL, (least,))
    # One value in all rows needs one filter.
    if _can_be_written(greatest) and not least.equals(greatest):
        yield Condition(column, EQUAL, (greatest,))
    if nulls.as_py():
        yield Condition(column, IS_NULL)


def _can_be_written(value: pa.Scalar) -> bool:
    if not value.is_valid:
        return False
    return value.as_buffer().size <= LARGEST if hasattr(value, "as_buffer") else True


def comparable_columns(schema: pa.Schema) -> list[pa.Field]:
    """Return the columns that engines can compare for equality: no nested ones."""
    return [column for column in schema if not pa.types.is_nested(column.type)]


def where_sql(
    filter_: RowFilter,
    file_column: str,
    quoted: Callable[[str], str],
    literal: Callable[[pa.Scalar], str],
) -> str:
    """Return the condition of a filter in SQL, with names and values as the engine writes them.

    ``file_column`` is the engine's, quoted where needed, with the place of a row's file.
    """
    conditions = []
    for condition in filter_.conditions:
        sql = f"{quoted(condition.column)} {condition.comparison}"
        if condition.comparison != IS_NULL:
            sql += f" ({', '.join(map(literal, condition.values))})"
        conditions.append(sql)
    if filter_.file is not None:
        conditions.append(f"{file_column} = {literal(pa.scalar(filter_.file))}")
    return " AND ".join(conditions)


def extremes_sql(columns: Sequence[pa.Field], quoted: Callable[[str], str]) -> list[str]:
    """Return the aggregates of ``TableReader.extremes``, with names as the engine quotes them."""
    aggregates = []
    for column in columns:
        name = quoted(column.name)
        value = name
        if pa.types.is_floating(column.type):
            # Engines take NaN for the greatest number: it would hide the one that a bound is about.
            value = f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END"
        for what, sql in (
            ("least", f"min({value})"),
            ("greatest", f"max({value})"),
            ("nulls", f"count(*) - count({name})"),
        ):
            aggregates.append(f"{sql} AS {quoted(f'{what} {column.name}')}")
    return aggregates


def _show(value: pa.Scalar) -> str:
    try:
        text = str(value.as_py())
    except (ValueError, OverflowError):  # a date or time that Python does not have
        text = f"{value.value} ({value.type})"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def check_filters(
    reader: TableReader,
    tables: Mapping[str, Table],
    branch: str,
    stopped: dict[str, str],
    most: int | None,
) -> FilterCheck:
    """Look values of each file up; note in ``stopped`` why a table could not be read."""
    check = FilterCheck(reader.name, most or LOOK_UP[reader.name.lower()])
    for name, table in sorted(tables.items()):
        if name in stopped:
            continue
        try:
            check.check(reader, table, branch)
        except (ConfigurationError, Unavailable) as error:
            stopped[name] = str(error)
    return check
