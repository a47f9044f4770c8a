"""Messages as changes of rows: which operation each one is, and the row or key it is about.

A message is an upsert of a whole row, or a deletion by key.  Nothing here looks at the table's
rows: an engine merges what is staged (``tables.merging``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.errors import ConfigurationError
from secor.core.foreign_json import load_json
from secor.core.model import SCHEMA, Chunk
from secor.formats.typed.nested_arrays import children, struct_of
from secor.parsing.decoders.json import JsonDecoder
from secor.parsing.fields import Texts, field_at, texts
from secor.tables.table_rows import plain_type

Mode = Literal["append", "insert", "upsert", "cdc"]

UPSERT, DELETE = 0, 1
"""Values of the column ``operation`` of staged changes."""

POSITION = (
    pa.field("operation", pa.int8(), nullable=False),
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.int64()),
)
"""Columns of staged changes before ``row``; the timestamp is Kafka's, in milliseconds."""

ROW = "row"

DIRECTORY = "_changes"
"""Below the group's prefix, with a directory for each table; no topic's directory."""

RESERVED = frozenset({"_file", "_pos", "_deleted", "_spec_id", "_partition"})
"""Columns that Spark has beside those of an Iceberg table: it merges into none that has its own."""

DEBEZIUM_UPSERTS = ("c", "r", "u")
DEBEZIUM_DELETES = ("d",)
MOST_SHOWN = 40

Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """How messages of a route change rows.

    ``key`` names the identifier columns; without it they are the table's own.  In mode
    ``insert`` each message is a row of its own, told apart by its place in Kafka: for tables
    that only an engine can append to.  In mode ``upsert`` a message is the newest state of its
    key, unless ``operation_field`` has one of ``deletes``.  In mode ``cdc`` that field says what
    each message is; without a field the messages are Debezium's envelopes.
    """

    mode: Mode = "append"
    key: tuple[str, ...] = ()
    operation_field: str | None = None
    upserts: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """All that changes the staged rows; nothing for rows that are appended."""
        if self.mode == "append":
            return ""
        values = f"{self.operation_field}:{self.upserts}:{self.deletes}"
        return f" {self.mode}:{self.key}:{values}"


@dataclass(frozen=True, slots=True)
class Changes:
    """What ``rows`` (numbers in the work) are: the decoded ``source`` has a row for each."""

    operation: int
    rows: npt.NDArray[np.int64]
    source: pa.StructArray


@dataclass
class ReadChanges:
    """The changes that messages make, and why others make none."""

    changes: list[Changes] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)


def read_changes(
    settings: ChangeSettings,
    key: Sequence[str],
    rows: npt.NDArray[np.int64],
    decoded: pa.StructArray,
    chunk: Chunk,
) -> ReadChanges:
    """Return what the messages ``rows`` do; ``decoded`` and ``chunk`` have all of the work."""
    changed_rows = ReadChanges()
    values = chunk.records.column("value").is_valid().to_numpy(zero_copy_only=False)
    by_key = [rows[~values[rows]]]
    present = rows[values[rows]]
    fields = decoded.take(pa.array(present))
    if settings.mode == "cdc" and settings.operation_field is None:
        by_key += _read_envelopes(present, fields, changed_rows)
    elif settings.operation_field is not None:
        _read_flat(settings, present, fields, changed_rows)
    elif len(present):
        changed_rows.changes.append(Changes(UPSERT, present, fields))
    deleted = np.sort(np.concatenate(by_key))
    if settings.mode == "insert":
        changed_rows.bad |= dict.fromkeys(deleted.tolist(), "has no value, and rows are inserted")
    elif len(deleted):
        _read_keys(key, deleted, chunk, changed_rows)
    return changed_rows


def source_of(settings: ChangeSettings, decoded: pa.StructArray) -> pa.StructArray:
    """Return the rows as a new table would have them: what is inside of envelopes."""
    if settings.mode == "cdc" and settings.operation_field is None:
        after = field_at(_unwrap(decoded), "after")
        return after if pa.types.is_struct(after.type) else pa.array([{}] * len(decoded))
    if settings.operation_field is not None:
        return _without(decoded, settings.operation_field)
    return decoded


def _read_flat(
    settings: ChangeSettings,
    rows: npt.NDArray[np.int64],
    fields: pa.StructArray,
    changed_rows: ReadChanges,
) -> None:
    """Read messages whose own field says what they are."""
    assert settings.operation_field is not None
    values = texts(field_at(fields, settings.operation_field))
    upserts = settings.upserts if settings.mode == "cdc" else values.distinct
    operations = np.where(_among(values, upserts, settings.mode == "upsert"), UPSERT, -1)
    operations[_among(values, settings.deletes)] = DELETE
    for at in np.flatnonzero(operations < 0).tolist():
        value = values.at(at)
        what = "is missing" if value is None else f"is {value[:MOST_SHOWN]!r}"
        changed_rows.bad[int(rows[at])] = f"{settings.operation_field} {what}: no known operation"
    _add(changed_rows, rows, operations, _without(fields, settings.operation_field))


def _add(
    changed_rows: ReadChanges,
    rows: npt.NDArray[np.int64],
    operations: npt.NDArray[np.int64],
    source: pa.StructArray,
) -> None:
    for operation in (UPSERT, DELETE):
        chosen = np.flatnonzero(operations == operation)
        if len(chosen):
            rows_of_it = source if len(chosen) == len(rows) else source.take(pa.array(chosen))
            changed_rows.changes.append(Changes(operation, rows[chosen], rows_of_it))


def _read_envelopes(
    rows: npt.NDArray[np.int64], fields: pa.StructArray, changed_rows: ReadChanges
) -> list[npt.NDArray[np.int64]]:
    """Read Debezium's envelopes; return the rows of deletions that only their key tells."""
    if not len(rows):
        return []
    envelopes = _unwrap(fields)
    values = texts(field_at(envelopes, "op"))
    before, after = field_at(envelopes, "before"), field_at(envelopes, "after")
    sides = {UPSERT: after, DELETE: before}
    deletes = _among(values, DEBEZIUM_DELETES)
    by_key = deletes & ~_present(before)
    upserts = _among(values, DEBEZIUM_UPSERTS) & _present(after)
    operations = np.where(upserts, UPSERT, np.where(deletes & ~by_key, DELETE, -1))
    for at in np.flatnonzero((operations < 0) & ~by_key).tolist():
        changed_rows.bad[int(rows[at])] = _why_no_envelope(values.at(at))
    for operation, side in sides.items():
        if pa.types.is_struct(side.type):
            _add(changed_rows, rows, np.where(operations == operation, operation, -1), side)
        else:
            wrong = rows[operations == operation].tolist()
            changed_rows.bad |= dict.fromkeys(wrong, "no Debezium envelope: its row is no object")
    return [rows[by_key]]


def _among(values: Texts, wanted: Sequence[str], null: bool = False) -> Truths:
    """Tell which rows have one of the ``wanted`` texts; ``null`` is for those without text."""
    return values.lookup(np.isin(np.array(values.distinct, dtype=object), list(wanted)), null)


def _present(column: pa.Array) -> Truths:
    present: Truths = column.is_valid().to_numpy(zero_copy_only=False)
    return present


def _why_no_envelope(operation: str | None) -> str:
    if operation is None:
        return "no Debezium envelope: it has no op; name the operation_field of flat messages"
    if operation == "t":
        return "truncates the table: delete the rows yourself, and drop this message"
    if operation in DEBEZIUM_UPSERTS:
        return f"Debezium's {operation!r} without after"
    return f"op is {operation[:MOST_SHOWN]!r}: no known operation"


def _unwrap(fields: pa.StructArray) -> pa.StructArray:
    """Return envelopes without the schema that the JSON converter puts around them."""
    payload = field_at(fields, "payload")
    if not pa.types.is_struct(payload.type) or not payload.is_valid().true_count:
        return fields
    names = ("op", "before", "after")
    own = {name: field_at(fields, name) for name in names}
    inner = {name: field_at(payload, name) for name in names}
    if not any(column.is_valid().true_count for column in own.values()):
        return payload
    # Some are wrapped and some are not: each message is read by what it has itself.
    wrapped = payload.is_valid().to_numpy(zero_copy_only=False)
    pieces = []
    for name in names:
        first, second = inner[name], own[name]
        if first.type != second.type:
            pieces.append(_merge_by_text(wrapped, first, second))
        else:
            pieces.append(pc.if_else(pa.array(wrapped), first, second))
    return pa.StructArray.from_arrays(pieces, list(names))


def _merge_by_text(wrapped: Truths, first: pa.Array, second: pa.Array) -> pa.Array:
    merged = [
        a if inner else b
        for inner, a, b in zip(wrapped, first.to_pylist(), second.to_pylist(), strict=True)
    ]
    return pa.array(merged)


def _without(fields: pa.StructArray, name: str) -> pa.StructArray:
    """Return the fields but one: the operation is no column."""
    kept = [(given, column) for given, column in children(fields) if given.name != name]
    return struct_of([column for _, column in kept], [given for given, _ in kept], fields)


def _read_keys(
    key: Sequence[str], rows: npt.NDArray[np.int64], chunk: Chunk, changed_rows: ReadChanges
) -> None:
    """Read the identifier columns of deletions out of Kafka's keys."""
    keys = chunk.records.column("key").take(pa.array(rows)).to_pylist()
    objects = [_key_object(key, raw) for raw in keys]
    for row, text in zip(rows.tolist(), objects, strict=True):
        if text is None:
            changed_rows.bad[row] = f"deletes, and its key does not tell {', '.join(key)}"
    good = np.array([text is not None for text in objects])
    if not good.any():
        return
    values = pa.array([text for text in objects if text is not None], pa.binary())
    columns = {name: pa.nulls(len(values), SCHEMA.field(name).type) for name in SCHEMA.names}
    messages = pa.RecordBatch.from_pydict({**columns, "value": values}, schema=SCHEMA)
    for group, decoded in JsonDecoder().decode_apart(messages, None):
        changed_rows.changes.append(Changes(DELETE, rows[good][group], decoded.rows))


def _key_object(key: Sequence[str], raw: bytes | None) -> bytes | None:
    """Return a key as a JSON object of identifier columns; None where it tells none."""
    if raw is None:
        return None
    try:
        data = load_json(raw)
    except ValueError:
        data = None
    if isinstance(data, dict):
        payload = data.get("payload")
        data = payload if set(data) == {"schema", "payload"} else data
    if isinstance(data, dict):
        return json.dumps(data).encode()
    if len(key) != 1:
        return None
    try:
        text = data if isinstance(data, str) else raw.decode()
    except UnicodeDecodeError:
        return None
    return json.dumps({key[0]: text}).encode()


def changes_root(prefix: str) -> str:
    """Return the directory of staged changes below a group's prefix."""
    return "/".join([*(part for part in prefix.split("/") if part), DIRECTORY])


def staged_schema(columns: pa.Schema) -> pa.Schema:
    """Return the columns of staged changes of a table; those of ``row`` are all optional."""
    row = pa.struct([column.with_nullable(True) for column in columns])
    return pa.schema([*POSITION, pa.field(ROW, row)])


def staged_rows(operation: int, rows: pa.StructArray, columns: pa.Schema, chunk: Chunk) -> pa.Array:
    """Return rows of a table as staged changes; columns that ``rows`` lack are null."""
    records, count = chunk.records, len(rows)
    arrays = [_column(rows, column) for column in columns]
    fields = [pa.field(it.name, array.type) for it, array in zip(columns, arrays, strict=True)]
    position = [
        pa.repeat(pa.scalar(operation, pa.int8()), count),
        pa.repeat(chunk.topic_partition.topic, count),
        pa.repeat(pa.scalar(chunk.topic_partition.partition, pa.int32()), count),
        records.column("offset"),
        records.column("timestamp"),
    ]
    row = pa.StructArray.from_arrays(arrays, fields=fields)
    return pa.StructArray.from_arrays([*position, row], fields=[*POSITION, pa.field(ROW, row.type)])


def _column(rows: pa.StructArray, column: pa.Field) -> pa.Array:
    at = rows.type.get_field_index(column.name)
    return pa.nulls(len(rows), plain_type(column.type)) if at < 0 else rows.field(at)


def check_key(key: Sequence[str], columns: pa.Schema, where: str) -> None:
    """Raise ``ConfigurationError`` for columns that cannot tell rows apart, or no engine knows."""
    if not key:
        raise ConfigurationError(
            f"{where}: it has no identifier fields: name the columns that tell its rows apart as"
            " key of [[tables]]"
        )
    for name in key:
        at = columns.get_field_index(name)
        if at < 0:
            raise ConfigurationError(f"{where}: it has no column {name}, which is in key")
        kind = columns.field(at).type
        if pa.types.is_nested(kind) or pa.types.is_floating(kind):
            raise ConfigurationError(f"{where}: its column {name} is {kind}, which is no key")
    taken = sorted(RESERVED & set(columns.names))
    if taken:
        raise ConfigurationError(
            f"{where}: Spark has a column {taken[0]} of its own, so it cannot change rows of a"
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
        for row in np.flatnonzero(~column.is_valid().to_numpy(zero_copy_only=False) & valid):
            missing.setdefault(int(row), f"{name} is missing, which is in the table's key")
    return missing
