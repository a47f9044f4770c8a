"""The keys of a table's rows, and the keys of deletions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, time
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.errors import ConfigurationError
from secor.core.model import SCHEMA, Chunk
from secor.core.text import load_json
from secor.parsing.decoders.connect_types import struct_reader
from secor.parsing.decoders.json import JsonDecoder
from secor.parsing.decoders.keys import KeyReader, struct_around
from secor.tables.rows.row_changes import DELETE, ReadChanges

RESERVED = frozenset({"_file", "_pos", "_deleted", "_spec_id", "_partition"})
"""Columns that Spark adds to those of an Iceberg table: it merges into none that has its own."""


FRAMED = "it has the frame of a schema registry: set parser.key.decoder"


def check_key(key: Sequence[str], columns: pa.Schema, where: str) -> None:
    """Raise ``ConfigurationError`` for columns that cannot identify rows, or no engine knows."""
    if not key:
        raise ConfigurationError(
            f"{where}: it has no identifier fields: name the columns that identify its rows as"
            " key of [[tables]]"
        )
    for name in key:
        index = columns.get_field_index(name)
        if index < 0:
            raise ConfigurationError(f"{where}: it has no column {name}, which is in key")
        kind = columns.field(index).type
        # NaN equals nothing and 0.0 equals -0.0: engines differ in which rows such a key finds.
        if pa.types.is_nested(kind) or pa.types.is_floating(kind):
            raise ConfigurationError(f"{where}: its column {name} is {kind}, which is no key")
    reserved = sorted(RESERVED & set(columns.names))
    if reserved:
        raise ConfigurationError(
            f"{where}: Spark has a column {reserved[0]} of its own, so it cannot change rows of a"
            " table that has one; rename that column, or append rows"
        )
    for path, kind in _types(columns):
        if pa.types.is_time(kind):
            raise ConfigurationError(
                f"{where}: its column {path} is a time, which Spark cannot read; rows of this"
                " table can be appended only"
            )


def _types(columns: Any, before: str = "") -> Iterator[tuple[str, pa.DataType]]:
    for column in columns:
        yield f"{before}{column.name}", column.type
        if pa.types.is_struct(column.type):
            yield from _types(column.type, f"{before}{column.name}.")


def missing_keys(rows: pa.StructArray, key: Sequence[str]) -> Mapping[int, str]:
    """Return why rows without a whole key are bad."""
    missing: dict[int, str] = {}
    valid = rows.is_valid().to_numpy(zero_copy_only=False)
    for name in key:
        column = pc.struct_field(rows, [rows.type.get_field_index(name)])
        # Rows that are null as a whole have their own reason already.
        for row in np.flatnonzero(~column.is_valid().to_numpy(zero_copy_only=False) & valid):
            missing.setdefault(int(row), f"{name} is missing, which is in the table's key")
    return missing


def read_keys(
    key: Sequence[str],
    rows: npt.NDArray[np.int64],
    chunk: Chunk,
    changed_rows: ReadChanges,
    reader: KeyReader | None = None,
) -> None:
    """Read the identifier columns of deletions out of Kafka's keys, by ``reader`` if there is one.

    Without one they are JSON, or the text of the only column.
    """
    if reader is not None:
        _read_decoded(key, rows, chunk, changed_rows, reader)
        return
    keys = chunk.records.column("key").take(pa.array(rows)).to_pylist()
    objects = [_key_object(key, raw) for raw in keys]
    why = f"deletes, and its key does not have {', '.join(key)}"
    for row, raw, text in zip(rows.tolist(), keys, objects, strict=True):
        if text is None:
            changed_rows.bad[row] = f"{why}: {FRAMED}" if _is_framed(raw) else why
    good = np.array([text is not None for text in objects])
    if not good.any():
        return
    values = pa.array([text for text in objects if text is not None], pa.binary())
    # The decoder of values reads the keys, so both have one way from JSON to types.
    columns = {name: pa.nulls(len(values), SCHEMA.field(name).type) for name in SCHEMA.names}
    messages = pa.RecordBatch.from_pydict({**columns, "value": values}, schema=SCHEMA)
    for group, decoded in JsonDecoder().decode_apart(messages, None):
        deleted = rows[good][group]
        for index, reason in decoded.bad.items():
            changed_rows.bad[int(deleted[index])] = f"{why}: {reason}"
        operations = np.full(len(deleted), DELETE)
        operations[list(decoded.bad)] = -1
        changed_rows.add(deleted, operations, decoded.rows, by_key=True)


def _read_decoded(
    key: Sequence[str],
    rows: npt.NDArray[np.int64],
    chunk: Chunk,
    changed_rows: ReadChanges,
    reader: KeyReader,
) -> None:
    why = f"deletes, and its key does not have {', '.join(key)}"
    for group, decoded in reader.read(chunk.records.take(pa.array(rows))):
        deleted = rows[group]
        columns = reader.identifiers(decoded.rows, key)
        operations = np.full(len(deleted), DELETE)
        for index, reason in decoded.bad.items():
            changed_rows.bad[int(deleted[index])] = f"{why}: {reason}"
            operations[index] = -1
        known = np.zeros(len(deleted), dtype=bool)
        for _, column in columns:
            known |= column.is_valid().to_numpy(zero_copy_only=False)
        for index in np.flatnonzero(~known).tolist():
            changed_rows.bad.setdefault(int(deleted[index]), why)
            operations[index] = -1
        if columns:
            source = pa.StructArray.from_arrays(
                [column for _, column in columns], fields=[field for field, _ in columns]
            )
            changed_rows.add(deleted, operations, source, by_key=True)


def partial_rows(
    key: Sequence[str],
    rows: npt.NDArray[np.int64],
    before: pa.StructArray,
    chunk: Chunk,
    reader: KeyReader | None,
) -> list[int]:
    """Return the places of earlier rows that have nothing but the source's key.

    PostgreSQL sends no more unless the table has ``REPLICA IDENTITY FULL``.  Debezium then fills
    columns that may not be null with zeros and empty texts: no values of the row, and no keys.
    """
    raws = chunk.records.select(["key", "headers"]).take(pa.array(rows))
    partial = []
    for place, names in enumerate(_names_in_keys(raws, reader)):
        # With the table's key within the source's there is no filler in it.
        if names and not names.issuperset(key):
            row = before[place]
            values = row.items() if row.is_valid else ()
            if all(_is_filler(value) for name, value in values if name not in names):
                partial.append(place)
    return partial


def _names_in_keys(
    messages: pa.RecordBatch, reader: KeyReader | None
) -> list[frozenset[str] | None]:
    """Return the fields of Kafka's keys; None for keys that are no objects."""
    names: list[frozenset[str] | None] = [None] * messages.num_rows
    if reader is None:
        for row, raw in enumerate(messages.column("key").to_pylist()):
            names[row] = _fields_of(raw)
        return names
    for group, decoded in reader.read(messages):
        for column in decoded.rows.flatten():
            if not pa.types.is_struct(column.type):
                continue
            # Looked at as columns: a key may have a time that Python does not have.
            fields = zip(column.type.names, column.flatten(), strict=True)
            valid = {name: part.is_valid().to_numpy(zero_copy_only=False) for name, part in fields}
            is_object = column.is_valid().to_numpy(zero_copy_only=False)
            for place in np.flatnonzero(is_object).tolist():
                names[int(group[place])] = frozenset(
                    name for name, rows in valid.items() if rows[place]
                )
    return names


def _fields_of(raw: bytes | None) -> frozenset[str] | None:
    try:
        data = None if raw is None else load_json(raw)
    except ValueError:
        return None
    # Connect's JSON converter wraps keys so, unless schemas.enable is off.
    if isinstance(data, dict) and set(data) == {"schema", "payload"}:
        data = data["payload"]
    return frozenset(data) if isinstance(data, dict) else None


def _is_filler(scalar: pa.Scalar) -> bool:
    """Return whether a value may be one that Debezium made up."""
    try:
        value = scalar.as_py()
    except (OverflowError, ValueError):
        # PostgreSQL has years up to 294276: a time that Python does not have is no filler.
        return False
    return not value or value in _FILLERS


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FILLERS = ("AA==", _EPOCH.date(), _EPOCH, _EPOCH.replace(tzinfo=None), time())


def _key_object(key: Sequence[str], raw: bytes | None) -> bytes | None:
    """Return a key as a JSON object of identifier columns; None where it has none."""
    if raw is None:
        return None
    try:
        data = load_json(raw)
    except ValueError:
        data = None
    enveloped = isinstance(data, dict) and set(data) == {"schema", "payload"}
    if enveloped and isinstance(data["payload"], dict) and _is_schema(data["schema"]):
        return raw  # read with its schema: it says what JSON does not
    if enveloped and len(key) == 1 and data["payload"] is not None:
        whole = struct_around(key[0], data)
        if whole is not None:
            return json.dumps(whole).encode()
    data = data["payload"] if enveloped else data
    if isinstance(data, dict):
        return json.dumps(data).encode()
    if enveloped:
        known = len(key) == 1 and data is not None
        return json.dumps({key[0]: data}).encode() if known else None
    # A text could be any of several columns.
    if len(key) != 1 or _is_framed(raw):  # as text it would be the key of no row
        return None
    try:
        text = data if isinstance(data, str) else raw.decode()
    except UnicodeDecodeError:
        return None
    return json.dumps({key[0]: text}).encode()


def _is_schema(data: object) -> bool:
    return struct_reader(json.dumps(data).encode()) is not None


def _is_framed(raw: bytes | None) -> bool:
    """Return whether a key begins as those of a registry's serialisers do, and no text does."""
    return raw is not None and raw[:1] in (b"\0", b"\1", b"\3") and len(raw) >= 5
