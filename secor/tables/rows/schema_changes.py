"""Growth of a table's schema: the changes that rows need, and the schema after them.

| the table has | the row shows | change |
|---|---|---|
| nothing of that name | a value of a known type | a new optional column |
| int | an integer beyond 32 bits | long |
| float | a number beyond floats, a double of the message's own schema | double |
| decimal | more digits before the point | a decimal with more digits, up to 38 |
| a required column | nothing | an optional column |

The same holds inside structs, lists and maps.  Nothing is dropped, renamed or narrowed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import pyarrow as pa

from secor.arrow.decimals import LONGEST_INTEGER, MOST_DIGITS
from secor.arrow.nested_arrays import is_json, is_list
from secor.core.variant_json import is_uuid_text
from secor.tables.catalog import AddColumn, MakeOptional, SchemaChange, WidenColumn

RESERVED = frozenset(
    {"_partition", "_file", "_pos", "_deleted", "_spec_id"}
    | {"_row_id", "_last_updated_sequence_number"}
)
"""Columns that readers of Iceberg tables add: Spark cannot change a table with one of its own."""

MOST_FIELDS = 2000
"""Columns at all levels; what comes beyond is an undeclared field.  PostgreSQL has 1,600."""

TextTypes = frozenset[Literal["time", "uuid"]]
"""Types that new columns of a table cannot have: Spark reads no times, and Hudi has no UUIDs."""

_SMALL_INTEGERS = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()})

ELEMENT, VALUE = "element", "value"
"""How a path goes into a list and into a map."""

Path = tuple[str, ...]


def changes_for(kept: pa.StructType, seen: pa.StructType) -> list[SchemaChange]:
    """Return what ``kept`` lacks for rows of the type ``seen`` (of ``inference.observed``)."""
    room = MOST_FIELDS - field_count(kept)
    names = set(_names(kept, ""))
    changes = []
    for change in _struct(kept, seen, ()):
        if isinstance(change, AddColumn):
            *around, name = change.path
            own = list(
                _names(pa.struct([(name, change.type)]), "".join(f"{outer}." for outer in around))
            )
            # Iceberg refuses the whole change where one name is there twice: this column alone is
            # left out.
            if not names.isdisjoint(own) or len(set(own)) < len(own):
                continue
            room -= len(own)
            if room < 0:
                continue
            names.update(own)
        changes.append(change)
    return changes


def columns_of(seen: pa.StructType) -> pa.StructType:
    """Return the columns of a table that is made of rows of the type ``seen``."""
    nothing = pa.struct([])
    return apply(nothing, changes_for(nothing, seen))


def storable(
    seen: pa.DataType,
    messages: Sequence[pa.DataType],
    text_types: TextTypes = frozenset(),
    as_text: Container[str] = (),
) -> pa.DataType:
    """Return the type of rows with the types that their columns get.

    Text that the ``messages``' own schemas call UUIDs is such, and ``text_types`` are text.  So are
    columns ``as_text``.
    """
    if pa.types.is_time(seen):
        return pa.string() if "time" in text_types else seen
    if pa.types.is_struct(seen):
        return pa.struct([_storable(field, messages, text_types, as_text) for field in seen.fields])
    if is_list(seen):
        inner = [kind.value_field for kind in messages if is_list(kind)]
        return pa.list_(_inside(seen.value_field, inner, text_types))
    if pa.types.is_map(seen):
        inner = [kind.item_field for kind in messages if pa.types.is_map(kind)]
        return pa.map_(seen.key_type, _inside(seen.item_field, inner, text_types | {"uuid"}))
    return seen


def _storable(
    field: pa.Field,
    messages: Sequence[pa.DataType],
    text_types: TextTypes,
    as_text: Container[str],
) -> pa.Field:
    structs = [kind for kind in messages if pa.types.is_struct(kind)]
    inner = [kind.field(field.name) for kind in structs if kind.get_field_index(field.name) >= 0]
    names = frozenset({*text_types, *(("uuid",) if field.name in as_text else ())})
    return _inside(field, inner, names)


def _inside(field: pa.Field, messages: Sequence[pa.Field], text_types: TextTypes) -> pa.Field:
    if pa.types.is_string(field.type) and "uuid" not in text_types:
        return field.with_type(pa.uuid()) if any(map(is_uuid_text, messages)) else field
    return field.with_type(storable(field.type, [message.type for message in messages], text_types))


def as_declared(seen: pa.DataType, messages: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of rows with 32 bits for numbers to which the ``messages``' own schemas give
    no more: what was seen has 64 for all of them.
    """
    if pa.types.is_struct(seen):
        structs = [kind for kind in messages if pa.types.is_struct(kind)]
        fields = []
        for field in seen.fields:
            own = [
                struct.field(field.name)
                for struct in structs
                if struct.get_field_index(field.name) >= 0
            ]
            fields.append(
                field.with_type(
                    as_declared(field.type, [message_field.type for message_field in own])
                )
            )
        return pa.struct(fields)
    if is_list(seen):
        inner = [kind.value_type for kind in messages if is_list(kind)]
        return pa.list_(seen.value_field.with_type(as_declared(seen.value_type, inner)))
    if pa.types.is_map(seen):
        inner = [kind.item_type for kind in messages if pa.types.is_map(kind)]
        return pa.map_(seen.key_type, as_declared(seen.item_type, inner))
    kinds = {kind for kind in messages if not pa.types.is_null(kind)}
    if seen == pa.int64() and kinds and kinds <= _SMALL_INTEGERS:
        return pa.int32()
    return pa.float32() if seen == pa.float64() and kinds == {pa.float32()} else seen


def _names(kind: pa.DataType, below: str) -> Iterator[str]:
    """Give the names of all fields as Iceberg writes them, in which a dot is a step inwards.

    It takes no two that are the same, such as ``a.b`` and the ``b`` in ``a``.
    """
    if pa.types.is_struct(kind):
        for field in kind.fields:
            yield below + field.name
            yield from _names(field.type, f"{below}{field.name}.")
    elif is_list(kind):
        yield from _names(kind.value_type, f"{below}{ELEMENT}.")
    elif pa.types.is_map(kind):
        yield from _names(kind.item_type, f"{below}{VALUE}.")


def field_count(kind: pa.DataType) -> int:
    """Return the number of fields at all levels."""
    if pa.types.is_struct(kind):
        return sum(1 + field_count(field.type) for field in kind.fields)
    if is_list(kind):
        return field_count(kind.value_type)
    return field_count(kind.item_type) if pa.types.is_map(kind) else 0


def _struct(kept: pa.StructType, seen: pa.StructType, path: Path) -> Iterator[SchemaChange]:
    shown = {field.name: field.type for field in seen.fields}
    for field in kept.fields:
        kind = shown.pop(field.name, pa.null())
        inner = (*path, field.name)
        if not field.nullable and pa.types.is_null(kind):
            yield MakeOptional(inner)
        yield from _column(field.type, kind, inner)
    yield from (
        AddColumn((*path, name), new_type)
        for name, new_type in _new_fields(shown, (field.name for field in kept.fields))
        if path or name.lower() not in RESERVED
    )


def _new_fields(
    shown: Mapping[str, pa.DataType], known: Iterable[str]
) -> Iterator[tuple[str, pa.DataType]]:
    """Give the fields that can be columns besides those that are ``known``."""
    # Most readers of tables take Id and id for one column, and no name for none.
    taken = {"", *(name.lower() for name in known)}
    for name, kind in shown.items():
        new_type = column_type(kind)
        if new_type is not None and name.lower() not in taken:
            taken.add(name.lower())
            yield name, new_type


def _column(kept: pa.DataType, seen: pa.DataType, path: Path) -> Iterator[SchemaChange]:
    if pa.types.is_struct(kept) and pa.types.is_struct(seen):
        yield from _struct(kept, seen, path)
    elif is_list(kept) and is_list(seen):
        yield from _column(kept.value_type, seen.value_type, (*path, ELEMENT))
    elif pa.types.is_map(kept) and pa.types.is_map(seen):
        yield from _column(kept.item_type, seen.item_type, (*path, VALUE))
    elif pa.types.is_map(kept) and pa.types.is_struct(seen):
        for field in seen.fields:
            yield from _column(kept.item_type, field.type, (*path, VALUE))
    else:
        wide = _wider(kept, seen)
        if wide is not None and wide != kept:
            yield WidenColumn(path, wide)


def _wider(kept: pa.DataType, seen: pa.DataType) -> pa.DataType | None:
    if kept == pa.int32() and seen == pa.int64():
        return pa.int64()
    if kept == pa.float32() and seen in (pa.float64(), pa.int64(), pa.int32()):
        return pa.float64()
    if not pa.types.is_decimal(kept):
        return None
    if seen in (pa.int32(), pa.int64()) or pa.types.is_uint64(seen):
        digits = LONGEST_INTEGER
    elif pa.types.is_decimal(seen) and seen.scale <= kept.scale:
        digits = seen.precision - seen.scale
    else:
        return None
    # The scale stays: Iceberg allows more digits before the point, and no others.
    precision = min(MOST_DIGITS, max(kept.precision, digits + kept.scale))
    return pa.decimal128(precision, kept.scale)


def column_type(seen: pa.DataType, *, keep_required: bool = False) -> pa.DataType | None:
    """Return the type of a new column, None while its values show none.

    JSON text, the type of values of several kinds, becomes a string.  ``keep_required``
    is for declared types: what may not be null in a struct stays so.
    """
    if pa.types.is_struct(seen) and not keep_required:
        fields = list(_new_fields({field.name: field.type for field in seen.fields}, ()))
        return pa.struct(fields) if fields else None
    if pa.types.is_struct(seen):
        declared = [
            pa.field(field.name, kind, nullable=field.nullable)
            for field in seen.fields
            if (kind := column_type(field.type, keep_required=True)) is not None
        ]
        return pa.struct(declared) if declared else None
    if is_list(seen):
        item = column_type(seen.value_type, keep_required=keep_required)
        return None if item is None else pa.list_(pa.field(ELEMENT, item))
    if pa.types.is_map(seen):
        item = column_type(seen.item_type, keep_required=keep_required)
        return None if item is None else pa.map_(pa.string(), item)
    return _scalar(seen)


def _scalar(seen: pa.DataType) -> pa.DataType | None:
    if pa.types.is_null(seen):
        return None
    if is_json(seen):
        return pa.string()
    if pa.types.is_timestamp(seen):
        return pa.timestamp("us", None if seen.tz is None else "UTC")
    if pa.types.is_time(seen):
        return pa.time64("us")
    if seen == pa.uint64():
        return pa.decimal128(LONGEST_INTEGER, 0)
    return pa.date32() if pa.types.is_date(seen) else seen


def apply(kept: pa.StructType, changes: Sequence[SchemaChange]) -> pa.StructType:
    """Return the type that a schema has after ``changes``; field ids of new columns are none."""
    for change in changes:
        kept = _applied(kept, change.path, change)
    return kept


def _applied(kind: pa.DataType, path: Path, change: SchemaChange) -> pa.DataType:
    if is_list(kind):
        element = kind.value_field
        return pa.list_(_field(element, path[1:], change))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, _field(kind.item_field, path[1:], change))
    fields = list(kind.fields)
    index = kind.get_field_index(path[0])
    if index < 0:
        assert isinstance(change, AddColumn)
        return pa.struct([*fields, pa.field(path[0], change.type)])
    fields[index] = _field(fields[index], path[1:], change)
    return pa.struct(fields)


def _field(field: pa.Field, inner_path: Path, change: SchemaChange) -> pa.Field:
    if inner_path:
        return field.with_type(_applied(field.type, inner_path, change))
    match change:
        case WidenColumn(_, kind):
            return field.with_type(kind)
        case MakeOptional():
            return field.with_nullable(True)
        case AddColumn():
            return field  # somebody else has added it


def still_needed(schema: pa.StructType, changes: Sequence[SchemaChange]) -> list[SchemaChange]:
    """Return those of ``changes`` that a schema, perhaps changed by others, still lacks.

    What is in conflict with the schema, because others gave the column another type, is left
    out: its rows are looked at again.
    """
    needed: list[SchemaChange] = []
    for change in changes:
        if _is_needed(schema, change.path, change):
            needed.append(change)
            schema = apply(schema, [change])
    return needed


def _is_needed(kind: pa.DataType, path: Path, change: SchemaChange) -> bool:
    if is_list(kind):
        return path[0] == ELEMENT and _field_needs(kind.value_field, path[1:], change)
    if pa.types.is_map(kind):
        return path[0] == VALUE and _field_needs(kind.item_field, path[1:], change)
    if not pa.types.is_struct(kind):
        return False
    index = kind.get_field_index(path[0])
    if index >= 0:
        return _field_needs(kind.field(index), path[1:], change)
    taken = {field.name.lower() for field in kind.fields}
    return isinstance(change, AddColumn) and len(path) == 1 and path[0].lower() not in taken


def _field_needs(field: pa.Field, inner_path: Path, change: SchemaChange) -> bool:
    if inner_path:
        return _is_needed(field.type, inner_path, change)
    match change:
        case WidenColumn(_, kind):
            return _wider(field.type, kind) == kind or _more_digits(field.type, kind)
        case MakeOptional():
            return not field.nullable
        case AddColumn():
            return False


def _more_digits(present: pa.DataType, target: pa.DataType) -> bool:
    are_decimals = pa.types.is_decimal(present) and pa.types.is_decimal(target)
    return bool(
        are_decimals and present.scale == target.scale and present.precision < target.precision
    )
