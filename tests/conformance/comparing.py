"""Compares a table with its source: by row, by column and by type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.conformance.columns import is_equal
from tests.conformance.source_tables import SourceTable

Rows = Mapping[tuple[Any, ...], Mapping[str, Any]]

SHOWN = 60
"""Characters of a value in a report."""


@dataclass
class Comparison:
    """Differences between a table and its source; ``columns`` has them by column."""

    table: str
    rows: int = 0
    missing: list[Any] = field(default_factory=list)
    extra: list[Any] = field(default_factory=list)
    twice: list[Any] = field(default_factory=list)
    columns: dict[str, list[str]] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """There is no difference."""
        return not (self.missing or self.extra or self.twice or self.columns)

    def lines(self) -> list[str]:
        """Return the report: one line, and one for each difference of a kind."""
        lines = [f"{self.table}: {self.rows} rows, {'equal' if self.equal else 'DIFFERENT'}"]
        for kind, keys in (("missing", self.missing), ("extra", self.extra), ("twice", self.twice)):
            if keys:
                lines.append(f"    {kind}: {len(keys)} rows, such as {_brief(keys[0])}")
        for column, differences in self.columns.items():
            lines.append(f"    {column}: {len(differences)}: {differences[0]}")
        return lines


def compare(table: SourceTable, source: Rows, present: pa.Table | None) -> Comparison:
    """Compare; ``present`` are the rows that a reader has, None where there is no table."""
    result = Comparison(table.name, len(source))
    if present is None:
        result.missing = list(source)
        return result
    _compare_types(table, present.schema, result)
    if table.keep_deletes:
        present = present.filter(pc.invert(present.column("__deleted")))
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    known = [name for name in table.columns if name in present.column_names]
    if missing := [name for name in table.key if name not in known]:
        result.columns["key"] = [f"the table has no column {missing[0]}"]
        return result
    for item in present.select(known).to_pylist():
        row = {name: _value(table, name, item[name]) for name in known}
        key = tuple(row[name] for name in table.key)
        if key in rows:
            result.twice.append(key)
        rows[key] = row
    result.missing = [key for key in source if key not in rows]
    result.extra = [key for key in rows if key not in source]
    for key, expected in source.items():
        for name in known:
            if key in rows and not is_equal(rows[key][name], expected[name]):
                difference = (
                    f"{_brief(key)}: source {_brief(expected[name])}, table"
                    f" {_brief(rows[key][name])}"
                )
                result.columns.setdefault(name, []).append(difference)
    return result


def _value(table: SourceTable, name: str, value: Any) -> Any:
    if value is None:
        return None
    try:
        return table.columns[name].value(value)
    except (AttributeError, ValueError, TypeError):
        return value  # of another type, which is reported


def _compare_types(table: SourceTable, schema: pa.Schema, result: Comparison) -> None:
    for name, kind in table.columns.items():
        at = schema.get_field_index(name)
        present = None if at < 0 else plain(schema.field(at).type)
        if present != plain(kind.arrow):
            result.columns[name] = [f"type {present}, expected {kind.arrow} for {kind.sql}"]
    known = {*table.columns, *table.gone}
    own = [name for name in schema.names if name not in known and not name.startswith("_")]
    for name in own:
        result.columns[name] = ["the source has no such column"]


def plain(kind: pa.DataType) -> pa.DataType:
    """Return a type without what readers add: large offsets, field ids, names of items."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("item", plain(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain(field.type)) for field in kind])
    return kind


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"
