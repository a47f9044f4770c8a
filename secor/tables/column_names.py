"""Fields brought under the names of a table's columns: exactly, by name mapping, by any case.

UUIDs written as text become their 16 bytes on the way, since no other type of text does that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.core.variant_json import is_mixed
from secor.formats.typed.nested_arrays import children, is_list, list_of, struct_of
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
        made = self._column(rows, self.columns)
        assert pa.types.is_struct(made.type)
        return made

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
        names = self._names(array.type, kind)
        fields, columns = [], []
        for source, column in children(array):
            name = names.get(source.name, source.name)
            at = kind.get_field_index(name)
            if at >= 0 and not is_mixed(source):
                column = self._column(column, kind.field(at).type)
            fields.append(source.with_name(name).with_type(column.type))
            columns.append(column)
        return struct_of(columns, fields, array)

    def _names(self, source: pa.StructType, kind: pa.StructType) -> dict[str, str]:
        """Return the new names of fields; a column that has its own gets no second one."""
        found: dict[str, str] = {}
        given = {inner.name for inner in source.fields}
        lower = {name.lower(): name for name in sorted(given, reverse=True)}
        for column in kind.fields:
            if column.name in given:
                continue
            others = [alias for alias in self._aliases_of(column) if alias in given]
            if not others and not self.case_sensitive and column.name.lower() in lower:
                others = [lower[column.name.lower()]]
            if others and others[0] not in found and kind.get_field_index(others[0]) < 0:
                found[others[0]] = column.name
        return found

    def _aliases_of(self, column: pa.Field) -> tuple[str, ...]:
        field_id = (column.metadata or {}).get(FIELD_ID)
        return () if field_id is None else self.aliases.get(int(field_id), ())

    def _differs(self, source: pa.DataType, kind: pa.DataType) -> bool:
        """Tell whether anything is to be renamed or read as UUID."""
        if pa.types.is_struct(source) and pa.types.is_struct(kind):
            if self._names(source, kind):
                return True
            pairs = ((inner, kind.get_field_index(inner.name)) for inner in source.fields)
            return any(
                at >= 0 and not is_mixed(inner) and self._differs(inner.type, kind.field(at).type)
                for inner, at in pairs
            )
        if is_list(source) and is_list(kind):
            return not is_mixed(source.value_field) and self._differs(
                source.value_type, kind.value_type
            )
        return is_uuid(kind) and pa.types.is_string(source)


def is_uuid(kind: pa.DataType) -> bool:
    """Tell whether a column has UUIDs."""
    return isinstance(kind, pa.UuidType)


def _uuids(texts: pa.Array) -> pa.Array:
    """Return the bytes of UUIDs; other text stays, at a length that none has."""
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
    found: dict[int, tuple[str, ...]] = {}
    try:
        _collect(json.loads(text), found)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(
            f"{where}: its property {MAPPING_PROPERTY} is no name mapping ({error!r})"
        ) from error
    return found


def _collect(mapped: list[dict[str, Any]], found: dict[int, tuple[str, ...]]) -> None:
    for entry in mapped:
        if "field-id" in entry:
            found[int(entry["field-id"])] = tuple(map(str, entry.get("names", ())))
        _collect(entry.get("fields") or [], found)
