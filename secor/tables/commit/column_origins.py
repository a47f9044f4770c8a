"""Origins of a table's columns: steps that the table itself records, and their types.

A commit that makes a table, or changes its schema for messages, writes a step into the property
``secor.<group>.columns``: the time, the first of the messages, and the kinds
of values that were seen.  The property is bounded: beyond ``MOST_BYTES`` the kinds go, then the
oldest steps.  Columns of no step are of somebody else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa

from secor.arrow.nested_arrays import is_list
from secor.core.model import TopicPartition
from secor.core.text import load_json
from secor.tables.catalog import AddColumn, SchemaChange, Table, WidenColumn
from secor.tables.commit.group_record import property_name
from secor.tables.rows.column_names import is_uuid
from secor.tables.rows.needs import ColumnNotes

PROPERTY = "columns"

MOST_BYTES = 32 << 10
"""Of the property."""

Kind = Literal["made", "added", "widened", "made optional"]


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """One change of a table's columns, at wall clock milliseconds ``time``.

    ``columns`` are what the step did, and the kinds of values seen, "" where nobody looked, by
    dotted path.  ``declared`` is the file that declared them, ``first`` the place of the first
    message of those that they were made from.
    """

    time: int
    columns: Mapping[str, tuple[Kind, str]] = field(default_factory=dict)
    declared: str | None = None
    first: tuple[TopicPartition, int] | None = None

    def data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        data: dict[str, Any] = {"at": self.time}
        if self.declared is not None:
            data["declared"] = self.declared
        if self.first is not None:
            key, offset = self.first
            data["first"] = [key.topic, key.partition, offset]
        for kind in dict.fromkeys(kind for kind, _ in self.columns.values()):
            own = {
                path: seen
                for path, (column_kind, seen) in self.columns.items()
                if column_kind == kind
            }
            data[kind] = own if any(own.values()) else list(own)
        return data

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> SchemaStep:
        """Read what ``data`` gives."""
        columns: dict[str, tuple[Kind, str]] = {}
        kinds: tuple[Kind, ...] = ("made", "added", "widened", "made optional")
        for kind in kinds:
            own = data.get(kind, ())
            pairs = own.items() if isinstance(own, dict) else ((path, "") for path in own)
            columns |= {str(path): (kind, str(seen)) for path, seen in pairs}
        first = None
        if "first" in data:
            topic, partition, offset = data["first"]
            first = TopicPartition(str(topic), int(partition)), int(offset)
        return cls(int(data["at"]), columns, data.get("declared"), first)


def step_of_new_table(
    time: int, columns: pa.Schema, declared: str | None, notes: ColumnNotes
) -> SchemaStep:
    """Return the step that makes a table, by its ``schema_file`` or by messages."""
    kinds = {} if declared is not None else dict(notes.kinds)
    made: dict[str, tuple[Kind, str]] = {
        name: ("made", kinds.get(name, "")) for name in columns.names
    }
    first = None if declared is not None else notes.first
    return SchemaStep(time, made, declared, first)


def step_of_changes(time: int, changes: Sequence[SchemaChange], notes: ColumnNotes) -> SchemaStep:
    """Return the step that messages ask for."""
    kinds = dict(notes.kinds)
    columns: dict[str, tuple[Kind, str]] = {}
    for change in changes:
        path = ".".join(change.path)
        if isinstance(change, AddColumn):
            columns[path] = "added", kinds.get(path, "")
        elif isinstance(change, WidenColumn):
            columns[path] = "widened", f"to {type_name(change.type)}"
        else:
            columns[path] = "made optional", ""
    return SchemaStep(time, columns, None, notes.first)


def properties_after(properties: Mapping[str, str], group: str, step: SchemaStep) -> dict[str, str]:
    """Return the property of a table with one step more; none without a group."""
    if not group:
        return {}
    steps = [*_steps(properties, group), step]
    name = property_name(group, PROPERTY)
    # The property is in every metadata file of the table, and readers take all of it into memory.
    while len(text := _dumped(steps)) > MOST_BYTES and steps:
        known = [
            index
            for index, earlier in enumerate(steps)
            if any(seen for _, seen in earlier.columns.values())
        ]
        # What was seen in messages goes first, of the oldest steps: which column came when is asked
        # for more often.
        if known:
            plain = {path: (kind, "") for path, (kind, _) in steps[known[0]].columns.items()}
            steps[known[0]] = replace(steps[known[0]], columns=plain)
        else:
            steps.pop(0)
    return {name: text}


def steps_of(table: Table, group: str) -> list[SchemaStep]:
    """Return the recorded steps of a table, the first one first; none of what nobody can read."""
    return _steps(table.properties, group)


def _steps(properties: Mapping[str, str], group: str) -> list[SchemaStep]:
    text = properties.get(property_name(group, PROPERTY))
    try:
        return [SchemaStep.of(data) for data in load_json(text)] if text else []
    except (ValueError, LookupError, TypeError, AttributeError):
        return []  # it only explains: nothing depends on it


def _dumped(steps: Sequence[SchemaStep]) -> str:
    return json.dumps([step.data() for step in steps], separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """A column, its type and the steps that made it what it is: pairs of path and step."""

    name: str
    type: str
    steps: tuple[tuple[str, SchemaStep], ...]


def origins_of(table: Table, group: str) -> Iterator[ColumnOrigin]:
    """Give the columns of a table, each with the steps that are recorded of it and within it."""
    steps = steps_of(table, group)
    for column in table.schema:
        own = tuple(
            (path, step)
            for step in steps
            for path in step.columns
            if path == column.name or path.startswith(f"{column.name}.")
        )
        yield ColumnOrigin(column.name, described_type(column), own)


def described_type(field: pa.Field) -> str:
    """Return a column's type, and whether it must have a value."""
    return type_name(field.type) + ("" if field.nullable else " required")


def type_name(kind: pa.DataType) -> str:
    """Return the name of a column's type, as Iceberg has it."""
    if pa.types.is_struct(kind):
        children = ", ".join(f"{child.name}: {type_name(child.type)}" for child in kind.fields)
        return f"struct<{children}>"
    if is_list(kind):
        return f"list<{type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)}, {type_name(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    return "uuid" if is_uuid(kind) else _NAMES.get(kind, str(kind))


_NAMES = {
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.time64("us"): "time",
}
"""Names that differ from Arrow's."""
