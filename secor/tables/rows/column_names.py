"""Renames fields to the names of a table's columns: exactly, by name mapping, in any case.

It also turns UUIDs in text into their 16 bytes, because later stages do this for no other type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import (
    as_json,
    children,
    flatten,
    has_marks,
    is_list,
    list_of,
    struct_of,
    unmark,
)
from secor.arrow.to_python import json_texts
from secor.core.errors import ConfigurationError
from secor.core.text import load_json
from secor.core.variant_json import is_mixed
from secor.tables.catalog import FIELD_ID

MAPPING_PROPERTY = "schema.name-mapping.default"

Aliases = Mapping[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Renames the fields of rows; ``aliases`` are further names of columns, by field id."""

    columns: pa.StructType
    aliases: Aliases = field(default_factory=dict)
    case_sensitive: bool = True

    def rename(self, rows: pa.StructArray) -> pa.StructArray:
        """Return the rows with the names of the columns; other fields keep theirs."""
        renamed = self._column(rows, self.columns)
        assert pa.types.is_struct(renamed.type)
        return renamed

    @property
    def null_keeping_names(self) -> frozenset[str]:
        """The names of fields with objects that become maps: their null members are entries."""
        return frozenset(self._null_keeping_names(self.columns))

    def _null_keeping_names(self, kind: pa.StructType) -> Iterator[str]:
        for column in kind.fields:
            inner = column.type
            while is_list(inner):
                inner = inner.value_type
            if pa.types.is_struct(inner):
                yield from self._null_keeping_names(inner)
            elif pa.types.is_map(inner):
                yield from (column.name, *self._aliases_of(column))

    def column_of(self, kind: pa.StructType) -> dict[str, str]:
        """Return the column of each field of rows of this type that has one."""
        return {
            source: column
            for column, sources in self._sources(kind, self.columns).items()
            for source in sources
        }

    def conflicts(self, rows: pa.StructArray) -> dict[int, str]:
        """Return the rows with two different values for one column: one would vanish."""
        return self._conflicts(rows, self.columns, "")

    def _conflicts(self, array: pa.Array, kind: pa.DataType, path: str) -> dict[int, str]:
        if not self._differs(array.type, kind):
            return {}
        if is_list(kind):
            items = self._conflicts(flatten(array), kind.value_type, f"{path}[]")
            if not items:
                return {}
            parents = pc.list_parent_indices(array)
            return {parents[item].as_py(): why for item, why in items.items()}
        if not pa.types.is_struct(kind):
            return {}
        conflicts: dict[int, str] = {}
        columns = {source.name: (source, column) for source, column in children(array)}
        for name, sources in self._sources(array.type, kind).items():
            column_path = f"{path}.{name}" if path else name
            if len(sources) > 1:
                nulls = pa.types.is_map(kind.field(name).type)
                differing = _differing([columns[source] for source in sources], nulls=nulls)
                conflicts |= {row: f"{column_path}: {why}" for row, why in differing.items()}
            for child, column in (columns[source] for source in sources):
                if not is_mixed(child):
                    conflicts |= self._conflicts(column, kind.field(name).type, column_path)
        return conflicts

    def _column(self, array: pa.Array, kind: pa.DataType) -> pa.Array:
        if not self._differs(array.type, kind):
            return array
        if is_uuid(kind):
            return _uuids(array)
        if is_list(kind):
            source = array.type.value_field
            values = self._column(array.flatten(), kind.value_type)
            return list_of(values, source.with_type(values.type), array)
        return self._struct(array, kind)

    def _struct(self, array: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
        remaining = {source.name: (source, column) for source, column in children(array)}
        fields, columns = [], []
        for name, sources in self._sources(array.type, kind).items():
            target = kind.field(name).type
            child_columns = [self._child(*remaining.pop(source), target) for source in sources]
            source, column = _first_present(name, child_columns)
            fields.append(source)
            columns.append(column)
        for source, column in remaining.values():
            fields.append(source)
            columns.append(column)
        return struct_of(columns, fields, array)

    def _child(
        self, source: pa.Field, column: pa.Array, target: pa.DataType
    ) -> tuple[pa.Field, pa.Array]:
        if is_mixed(source):
            return source, column
        renamed = self._column(column, target)
        return source.with_type(renamed.type), renamed

    def _sources(self, source: pa.StructType, kind: pa.StructType) -> dict[str, list[str]]:
        """Return the source fields of each column, first the one with the column's name."""
        free = {field.name for field in source.fields}
        sources_by_name = {field.name: [field.name] for field in kind.fields if field.name in free}
        # Exact names first, for all columns: an alias of one must not take the field that another
        # one is named by.
        free -= set(sources_by_name)
        for column in kind.fields:
            candidates = [alias for alias in self._aliases_of(column) if alias in free]
            if not self.case_sensitive:
                names = (column.name, *self._aliases_of(column))
                lower = {name.lower() for name in names}
                candidates += sorted(name for name in free if name.lower() in lower)
            candidates = list(dict.fromkeys(candidates))
            if candidates:
                sources_by_name.setdefault(column.name, []).extend(candidates)
                free -= set(candidates)
        return sources_by_name

    def _aliases_of(self, column: pa.Field) -> tuple[str, ...]:
        field_id = (column.metadata or {}).get(FIELD_ID)
        return () if field_id is None else self.aliases.get(int(field_id), ())

    def _differs(self, source: pa.DataType, kind: pa.DataType) -> bool:
        """Return whether any field must be renamed or read as UUID."""
        if pa.types.is_struct(source) and pa.types.is_struct(kind):
            sources = self._sources(source, kind)
            if any(names != [column] for column, names in sources.items()):
                return True
            pairs = ((inner, kind.get_field_index(inner.name)) for inner in source.fields)
            return any(
                index >= 0
                and not is_mixed(inner)
                and self._differs(inner.type, kind.field(index).type)
                for inner, index in pairs
            )
        if is_list(source) and is_list(kind):
            return not is_mixed(source.value_field) and self._differs(
                source.value_type, kind.value_type
            )
        return is_uuid(kind) and pa.types.is_string(source)


def _first_present(
    name: str, candidates: list[tuple[pa.Field, pa.Array]]
) -> tuple[pa.Field, pa.Array]:
    """Merge several columns into one: each row has its first value that is not null.

    Which of them a row has depends on the row alone, and not on its neighbours.
    """
    if len(candidates) == 1:
        source, column = candidates[0]
        return source.with_name(name), column
    alike = all(source.type.equals(candidates[0][0].type) for source, _ in candidates)
    unmarked = alike and not any(has_marks(source) for source, _ in candidates)
    columns = [
        column if unmarked else as_json(json_texts(unmark(column, source), nulls=True))
        for source, column in candidates
    ]
    rows = np.arange(len(columns[0]))
    chosen = rows.copy()
    # From the last to the first, so that the first one with a value is the one that stays.
    for index in range(len(columns) - 1, -1, -1):
        valid = columns[index].is_valid().to_numpy(zero_copy_only=False)
        chosen = np.where(valid, index * len(rows) + rows, chosen)
    merged = pa.concat_arrays(columns).take(pa.array(chosen))
    return pa.field(name, merged.type), merged


def _differing(candidates: list[tuple[pa.Field, pa.Array]], *, nulls: bool) -> dict[int, str]:
    """Return the rows in which the columns have more than one value, and why they are bad.

    Null members count where ``nulls`` says so: in maps they are entries.
    """
    present = sum(
        column.is_valid().to_numpy(zero_copy_only=False).astype(int) for _, column in candidates
    )
    rows = np.flatnonzero(present > 1)
    chosen = pa.array(rows)
    texts = [
        json_texts(unmark(column.take(chosen), source), nulls=nulls).to_pylist()
        for source, column in candidates
    ]
    differing = {}
    for row, values in zip(rows.tolist(), zip(*texts, strict=True), strict=True):
        if len(set(values) - {None}) > 1:
            # Only the fields of this message: its reason does not depend on its neighbours.
            named = sorted(
                source.name
                for (source, _), value in zip(candidates, values, strict=True)
                if value is not None
            )
            names = " and ".join(map(repr, named))
            differing[row] = f"the fields {names} have different values for this column"
    return differing


def is_uuid(kind: pa.DataType) -> bool:
    """Return whether a column has UUIDs."""
    return isinstance(kind, pa.UuidType)


def _uuids(texts: pa.Array) -> pa.Array:
    """Return the bytes of UUIDs; other text keeps a length that no UUID has."""
    return pa.array([_uuid(text) for text in texts.to_pylist()], pa.binary())


def _uuid(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return UUID(text).bytes
    except ValueError:
        raw = text.encode("utf-8", "surrogatepass")
        return raw if len(raw) != len(UUID(int=0).bytes) else raw + b" "


def read_aliases(properties: Mapping[str, str], where: str) -> Aliases:
    """Return a table's name mapping.  Raises ``ConfigurationError`` naming ``where``."""
    text = properties.get(MAPPING_PROPERTY)
    if text is None:
        return {}
    aliases: dict[int, tuple[str, ...]] = {}
    try:
        _collect(load_json(text), aliases)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(
            f"{where}: its property {MAPPING_PROPERTY} is no name mapping ({error!r})"
        ) from error
    return aliases


def _collect(mapped: list[dict[str, Any]], aliases: dict[int, tuple[str, ...]]) -> None:
    for entry in mapped:
        if "field-id" in entry:
            aliases[int(entry["field-id"])] = tuple(map(str, entry.get("names", ())))
        _collect(entry.get("fields") or [], aliases)
