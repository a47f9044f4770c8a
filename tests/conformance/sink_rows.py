"""Rows of objects, as readers that are not ours have them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

_OF_MESSAGE = frozenset({"id", "region", "at"})
"""Fields that differ from message to message."""


@dataclass(frozen=True, slots=True)
class Row:
    """One message: its number, its fields by name, and the columns' types where the file says."""

    number: int
    values: Mapping[str, Any]
    types: Mapping[str, str]

    def differences(self, other: Row) -> Iterator[str]:
        """Yield what a reader finds otherwise in ``other``, a text for each field."""
        for name in self.types.keys() | other.types.keys():
            theirs, ours = self.types.get(name), other.types.get(name)
            if theirs != ours:
                yield f"type of {name}: {theirs} by the connector, {ours} by Secor"
        names = (self.values.keys() | other.values.keys()) - _OF_MESSAGE
        missing = object()
        for name in names:
            # A member that is null and one that is not there are the same to every reader.
            theirs, ours = self.values.get(name), other.values.get(name)
            if repr(_plain(theirs)) != repr(_plain(ours)):
                yield f"{name}: {theirs!r} by the connector, {ours!r} by Secor"
        for name in _OF_MESSAGE & self.values.keys():
            theirs, ours = self.values[name], other.values.get(name, missing)
            if type(theirs) is not type(ours):
                yield f"{name}: {theirs!r} by the connector, {ours!r} by Secor"


def rows_of(path: Path) -> list[Row]:
    """Read an object by its content."""
    with path.open("rb") as file:
        begin = file.read(4)
    if begin == b"PAR1":
        table = pq.read_table(path, partitioning=None)
        types = {item.name: _parquet_type(item.type) for item in table.schema}
        return [Row(row["id"], row, types) for row in table.to_pylist()]
    if begin == b"Obj\x01":
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            schema = cast("dict[str, Any]", reader.writer_schema)
            types = {item["name"]: _avro_type(item["type"]) for item in schema["fields"]}
            avro_rows = [cast("dict[str, Any]", row) for row in reader]
            return [Row(row["id"], row, types) for row in avro_rows]
    data = path.read_bytes()
    text = gzip.decompress(data) if begin[:2] == b"\x1f\x8b" else data
    lines = (json.loads(line) for line in text.decode().splitlines())
    return [Row(row["id"], row, {}) for row in lines]


def _plain(value: Any) -> Any:
    """Return a value without members that are null, and whole floats as integers, as JSON's are."""
    if isinstance(value, dict):  # of a map the entries have no order
        return {name: _plain(item) for name, item in sorted(value.items()) if item is not None}
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        return sorted(items) if items and isinstance(value[0], tuple) else items
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _avro_type(kind: Any) -> str:
    """Return a type without the names and notes that no reader looks at."""
    if isinstance(kind, list):
        return "|".join(sorted(map(_avro_type, kind)))
    if isinstance(kind, str):
        return kind
    name = kind["type"]
    if isinstance(name, dict | list):
        return _avro_type(name)
    if name == "record":
        inside = ", ".join(f"{item['name']} {_avro_type(item['type'])}" for item in kind["fields"])
        return f"record({inside})"
    if name == "array":
        return f"array({_item_type(kind['items'])})"
    if name == "map":
        return f"map({_item_type(kind['values'])})"
    parts = [kind[part] for part in ("logicalType", "precision", "scale") if part in kind]
    return f"{name}({', '.join(map(str, parts))})" if parts else str(name)


def _item_type(kind: Any) -> str:
    """Return the type of an array's or map's items, which are optional here: docs say so."""
    if isinstance(kind, list):
        (kind,) = [item for item in kind if item != "null"]
    return _avro_type(kind)


def _parquet_type(kind: pa.DataType) -> str:
    """Return a type without the names and the nulls of items, which no reader looks at."""
    return f"list({kind.value_type})" if pa.types.is_list(kind) else str(kind)
