"""Rows deleted by the values of a column: the SQL of it for Spark, and what still holds such rows.

One statement is one commit of Iceberg.  Up to ``LITERALS`` values are written into the statement,
where they let Spark pass over files by their statistics; more of them come by a view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.tables.catalog import MAIN, Snapshot, Table
from secor.tables.maintenance import sql_name, sql_text

LITERALS = 1000
VIEW = "secor_erased"
"""The view with one column, ``value``, of text: binary values in hexadecimal."""

COPY_ON_WRITE = "copy-on-write"
DELETE_MODE = "write.delete.mode"
LONGEST_AGE = "history.expire.max-snapshot-age-ms"
_FIVE_DAYS = 5 * 86_400_000
"""Iceberg's default of ``LONGEST_AGE``, in milliseconds."""

Value = str | bytes | int | bool | Decimal | date | datetime


@dataclass(frozen=True, slots=True)
class Deletion:
    """The rows to delete: those whose ``column`` has one of ``values``, or, with ``null``, none.

    The path of a column in structs has dots.
    """

    column: str
    type: pa.DataType
    values: Sequence[Value]
    null: bool = False

    @property
    def by_view(self) -> bool:
        """Whether the values come by ``VIEW``."""
        return len(self.values) > LITERALS

    def view_rows(self) -> list[tuple[str]]:
        """Return the rows of ``VIEW``."""
        return [(entry.hex() if isinstance(entry, bytes) else str(entry),) for entry in self.values]

    def condition(self) -> str:
        """Return the condition of a row, in Spark's dialect."""
        column = _path(self.column)
        parts = [f"{column} IS NULL"] if self.null else []
        if self.by_view:
            value = "unhex(value)" if _is_binary(self.type) else f"CAST(value AS {self._sql_type})"
            parts.append(f"{column} IN (SELECT {value} FROM {VIEW})")  # noqa: S608  # names and values are quoted
        elif self.values:
            parts.append(f"{column} IN ({', '.join(map(self._literal, self.values))})")
        return " OR ".join(parts)

    @property
    def _sql_type(self) -> str:
        return _sql_type(self.column, self.type)

    def _literal(self, value: Value) -> str:
        match value:
            # Before the numbers: a truth is an int for Python, and Spark would compare it with 1.
            case bool():
                return "true" if value else "false"
            case str():
                return sql_text(value)
            case bytes():
                return f"X'{value.hex()}'"
        return f"CAST({sql_text(str(value))} AS {self._sql_type})"

    def delete(self, catalog: str, table: str, branch: str = MAIN) -> str:
        """Return the statement that deletes."""
        return f"DELETE FROM {_name(catalog, table, branch)} WHERE {self.condition()}"  # noqa: S608  # names and values are quoted

    def count(self, catalog: str, table: str, branch: str = MAIN) -> str:
        """Return the statement that counts, as ``messages``."""
        name = _name(catalog, table, branch)
        return f"SELECT count(*) AS messages FROM {name} WHERE {self.condition()}"  # noqa: S608  # names and values are quoted


def column_type(table: Table, column: str) -> pa.DataType | None:
    """Return the type of a table's column, None where it has none of this path."""
    fields: pa.Schema | pa.StructType = table.schema
    kind: pa.DataType | None = None
    for name in column.split("."):
        position = fields.get_field_index(name) if isinstance(fields, _STRUCTS) else -1
        if position < 0:
            return None
        kind = fields.field(position).type
        fields = kind
    return kind


_STRUCTS = (pa.Schema, pa.StructType)


def parsed(text: bytes, type_: pa.DataType, where: str) -> Value:
    """Return the value of a line.  Raises ``ConfigurationError`` naming ``where`` it is wrong."""
    if _is_binary(type_):
        return text
    try:
        value = pa.array([text.decode()], pa.string()).cast(type_)[0].as_py()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{where}: is no value of the type {type_}") from error
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value
    assert value is not None
    if not isinstance(value, str | int | bool | Decimal | date):
        raise ConfigurationError(f"{where}: rows cannot be chosen by values of the type {type_}")
    return value


def _is_binary(type_: pa.DataType) -> bool:
    return pa.types.is_binary(type_) or pa.types.is_large_binary(type_)


_NAMES: Sequence[tuple[Callable[[pa.DataType], bool], str]] = (
    (pa.types.is_string, "STRING"),
    (pa.types.is_large_string, "STRING"),
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int32, "INT"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_date32, "DATE"),
)


def _sql_type(column: str, type_: pa.DataType) -> str:
    for is_it, name in _NAMES:
        if is_it(type_):
            return name
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP_NTZ" if type_.tz is None else "TIMESTAMP"
    raise ConfigurationError(f"{column}: rows cannot be chosen by values of the type {type_}")


def require_type(column: str, type_: pa.DataType) -> None:
    """Raise ``ConfigurationError`` for a type by whose values no row can be chosen exactly."""
    if not _is_binary(type_):
        _sql_type(column, type_)


@dataclass(frozen=True, slots=True)
class Holders:
    """Snapshots that still have the rows; ``named`` are the branches and tags that keep some.

    ``until`` is when the newest of the others may expire, in milliseconds since the epoch.
    """

    snapshots: Sequence[Snapshot]
    named: Mapping[str, int] = field(default_factory=dict)
    until: int | None = None


def holders(before: Table, after: Table, branch: str = MAIN) -> Holders:
    """Return what may still hold the rows that were deleted between two looks at a table."""
    kept = {snapshot.snapshot_id for snapshot in _ancestors(after, branch)}
    # Only what came with the deletion is free of the rows: every older snapshot may still have
    # them.
    kept -= {snapshot.snapshot_id for snapshot in _ancestors(before, branch)}
    old = sorted(
        (candidate for candidate in after.snapshots.values() if candidate.snapshot_id not in kept),
        key=lambda snapshot: snapshot.timestamp,
    )
    named = {
        name: candidate
        for name, candidate in after.refs.items()
        if name != branch and candidate not in kept
    }
    newest = [
        candidate.timestamp for candidate in old if candidate.snapshot_id not in named.values()
    ]
    age = int(after.properties.get(LONGEST_AGE, _FIVE_DAYS))
    return Holders(old, named, max(newest) + age if newest else None)


def _ancestors(table: Table, branch: str) -> list[Snapshot]:
    ancestors: list[Snapshot] = []
    snapshot = table.head(branch)
    while snapshot is not None:
        ancestors.append(snapshot)
        # A parent may have expired: the chain ends there.
        snapshot = None if snapshot.parent_id is None else table.snapshots.get(snapshot.parent_id)
    return ancestors


def _name(catalog: str, table: str, branch: str) -> str:
    parts = [catalog, *table.split("."), *([] if branch == MAIN else [f"branch_{branch}"])]
    return ".".join(map(sql_name, parts))


def _path(column: str) -> str:
    return ".".join(map(sql_name, column.split(".")))
