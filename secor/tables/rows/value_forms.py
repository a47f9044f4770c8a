"""Forms in which sources of changes write values, brought to the types of a table's columns.

Messages with a schema say what a value is; a column may be of another type that takes it:

| a message's value | a column | gets |
|---|---|---|
| decimal, date, time, timestamp | string | its text |
| date, time, timestamp | int, long | its count, as the message has it |
| timestamp in UTC | timestamp without a zone | the time in UTC |
| number with a unit of the route | date, time, timestamp | the time, see ``units`` |

Times beyond a day, which MySQL has, have a text, too.

Messages without a schema are read by ``Encodings``, where these are set:

| a message's value | a column | gets |
|---|---|---|
| integer | date, time, timestamp | the time that it counts |
| text in base64, text of a number | decimal | the number; the column says the scale |
| ``{"scale": 2, "value": "AeJA"}`` | decimal, double, string | the number |
| ``NaN``, ``Infinity`` | decimal; float, double | null; the same |
| text in base64 or hexadecimal | binary, fixed | the bytes |
| ISO 8601, ``infinity`` | date, time, timestamp | the time; null |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import (
    EMPTY,
    children,
    entries,
    flatten,
    is_json,
    is_list,
    list_of,
    map_of,
    struct_of,
    text_of,
)
from secor.arrow.time_limits import SECOND, count_type, readable
from secor.arrow.to_python import write_out
from secor.core.variant_json import MIXED, dumps, is_mixed, loads
from secor.tables.rows.encodings import Encodings, time_text, times_of, variable_digits
from secor.tables.rows.units import NO_COLUMN, Units, leads_to, unit_of, with_unit

_UUID_BYTES, _UUID_TEXTS = 16, (32, 36)
"""Text of these lengths in a column of so many bytes is a UUID, and no base64."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A column of messages with its field, and by row why a value cannot be read."""

    field: pa.Field
    column: pa.Array
    bad: Mapping[int, str] = field(default_factory=dict)


class ValueForms:
    """Brings fields to the columns of a table, as far as these do not take them as they are.

    What it does not know stays as it is, and is refused where rows are fitted.
    """

    def __init__(
        self,
        columns: pa.StructType,
        encodings: Encodings | None = None,
        units: Units | None = None,
    ) -> None:
        """``units`` are those of numbers that are times, also where there is no column yet."""
        self._columns = columns
        self._encodings = encodings
        self._units = units or {}

    @property
    def identity(self) -> str:
        """All that changes what becomes of a value, besides the columns."""
        encodings = "" if self._encodings is None else f":{self._encodings.identity}"
        return f"{encodings}:units-1 {sorted(self._units.items())}" if self._units else encodings

    def convert(self, rows: pa.StructArray) -> tuple[pa.StructArray, Mapping[int, str]]:
        """Return renamed rows in forms that the columns take, and why some rows are bad."""
        value = self._nested(_Value(pa.field("", rows.type), rows), self._columns, "")
        assert pa.types.is_struct(value.column.type)
        return value.column, value.bad

    def _nested(self, value: _Value, kind: pa.DataType, path: str) -> _Value:
        unit = unit_of(self._units, path, kind)
        if unit is not None and value.column.null_count < len(value.column):
            field, column, bad = with_unit(value.field, value.column, kind, unit, path)
            if column is not value.column:
                # Times of the column's own type, or text: other forms are brought to it as ever.
                rest = self._without_unit(_Value(field, column), kind, path)
                return _Value(rest.field, rest.column, {**rest.bad, **bad})
        return self._without_unit(value, kind, path)

    def _without_unit(self, value: _Value, kind: pa.DataType, path: str) -> _Value:
        source = value.column.type
        if kind == NO_COLUMN:
            return value
        if is_mixed(value.field):
            return self._mixed(value, kind, path)
        if pa.types.is_struct(source) and pa.types.is_struct(kind):
            return self._struct(value, kind, path)
        if is_list(source) and is_list(kind):
            return self._list(value, kind, path)
        if pa.types.is_map(source) and pa.types.is_map(kind):
            return self._map(value, kind, path)
        if pa.types.is_nested(kind) or value.column.null_count == len(value.column):
            return value
        if pa.types.is_struct(source):
            return self._variable_scale(value, kind)
        if pa.types.is_nested(source):
            return value
        return self._scalar(value, kind, path)

    def _struct(self, value: _Value, kind: pa.StructType, path: str) -> _Value:
        parts = [_Value(inner, column) for inner, column in children(value.column)]
        converted = [self._field(part, kind, path) for part in parts]
        if all(new is old for new, old in zip(converted, parts, strict=True)):
            return value
        bad: dict[int, str] = {}
        for part in converted:
            bad = {**part.bad, **bad}
        columns, fields = (
            [array.column for array in converted],
            [array.field for array in converted],
        )
        rows = struct_of(columns, fields, value.column)
        return _Value(value.field.with_type(rows.type), rows, bad)

    def _field(self, part: _Value, kind: pa.StructType, path: str) -> _Value:
        index = kind.get_field_index(part.field.name)
        inner = f"{path}.{part.field.name}" if path else part.field.name
        if index >= 0:
            return self._nested(part, kind.field(index).type, inner)
        if not self._units:
            return part
        return self._nested(part, EMPTY if leads_to(self._units, inner) else NO_COLUMN, inner)

    def _list(self, value: _Value, kind: pa.ListType, path: str) -> _Value:
        items = _Value(value.column.type.value_field, flatten(value.column))
        converted = self._nested(items, kind.value_type, path)
        if converted is items:
            return value
        lists = list_of(converted.column, converted.field, value.column)
        bad = _of_holders(value.column, converted.bad)
        return _Value(value.field.with_type(lists.type), lists, bad)

    def _map(self, value: _Value, kind: pa.MapType, path: str) -> _Value:
        lists, flat = entries(value.column)
        keys, values = flat.flatten()
        items = _Value(value.column.type.item_field, values)
        converted = self._nested(items, kind.item_type, path)
        if converted is items:
            return value
        maps = map_of(keys, converted.column, lists)
        bad = _of_holders(lists, converted.bad)
        return _Value(value.field.with_type(maps.type), maps, bad)

    def _scalar(self, value: _Value, kind: pa.DataType, path: str) -> _Value:
        column, source = value.column, value.column.type
        if pa.types.is_string(kind):
            return _texts_of(value, path)
        # The count as the message has it: a cast would refuse some, or change the unit.
        if pa.types.is_integer(kind) and pa.types.is_temporal(source):
            return _changed(value, column.view(count_type(source)))
        counts = pa.types.is_integer(source) and source != pa.uint64()
        if self._encodings is not None and counts and _is_time(kind):
            return _changed(value, times_of(column, kind, self._encodings.unit(path)))
        if self._encodings is not None and pa.types.is_string(source):
            return _from_texts(value, self._encodings, kind, path)
        return _changed(value, _without_zone(column, kind))

    def _variable_scale(self, value: _Value, kind: pa.DataType) -> _Value:
        """Read decimals of any scale; what is none stays as its JSON text."""
        if self._encodings is None or not _takes_digits(kind):
            return value
        items = value.column.to_pylist()
        read = [None if item is None else variable_digits(item) or item for item in items]
        if all(item is None or isinstance(item, str) for item in read):
            return _changed(value, pa.array(read, pa.string()))
        return _as_mixed(value, read)

    def _mixed(self, value: _Value, kind: pa.DataType, path: str) -> _Value:
        """Read each value of several kinds as if it had come alone."""
        encodings = self._encodings
        if encodings is None or pa.types.is_nested(kind) or is_json(kind) or _is_time(kind):
            return value
        values = [
            None if text is None else loads(text) for text in text_of(value.column).to_pylist()
        ]
        texts = [parsed if isinstance(parsed, str) else None for parsed in values]
        if pa.types.is_floating(kind):
            return _floats(value, values, texts, encodings, path)
        changed: list[Any] = list(values)
        if _takes_digits(kind):
            for row, single in enumerate(values):
                digits = variable_digits(single) if isinstance(single, dict) else None
                changed[row] = single if digits is None else digits
        column = pa.array(texts, pa.string())
        part = _from_texts(_Value(pa.field("", pa.string()), column), encodings, kind, path)
        if pa.types.is_string(part.column.type):
            read = part.column.to_pylist()
            changed = [
                before if text is None else new
                for before, text, new in zip(changed, texts, read, strict=True)
            ]
        return replace(_as_mixed(value, changed), bad=part.bad)


def _takes_digits(kind: pa.DataType) -> bool:
    numbers = pa.types.is_decimal(kind) or pa.types.is_floating(kind)
    return bool(numbers or pa.types.is_string(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind))


def _from_texts(value: _Value, encodings: Encodings, kind: pa.DataType, path: str) -> _Value:
    """Read texts of values of other types."""
    texts = value.column.to_pylist()
    if pa.types.is_decimal(kind):
        digits = [encodings.digits(text, kind.scale) for text in texts]
        return _changed(value, pa.array(digits, pa.string()))
    if pa.types.is_floating(kind):
        return _floats(value, texts, texts, encodings, path)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _from_bytes(value, texts, encodings, kind, path)
    if _is_time(kind):
        return _changed(
            value, pa.array([time_text(time_as_text, kind) for time_as_text in texts], pa.string())
        )
    return value


def _floats(
    value: _Value,
    values: Sequence[Any],
    texts: Sequence[str | None],
    encodings: Encodings,
    path: str,
) -> _Value:
    """Read what is no finite number, and numbers among it."""
    read: list[Any] = []
    bad: dict[int, str] = {}
    for row, (single, text) in enumerate(zip(values, texts, strict=True)):
        number = single if text is None else encodings.number(text)
        is_number = isinstance(single, int | float) and not isinstance(single, bool)
        if text is None and single is not None and not is_number:
            return value  # what is no number has its reason where rows are fitted
        if text is not None and number is None:
            bad[row] = f"{path}: {text[:40]!r} is no number"
        read.append(None if number is None else float(number))
    return _changed(value, pa.array(read, pa.float64()), bad)


def _from_bytes(
    value: _Value,
    texts: Sequence[str | None],
    encodings: Encodings,
    kind: pa.DataType,
    path: str,
) -> _Value:
    """Read texts of bytes.  A column of bytes takes any text, so what is no such text is bad."""
    uuids = pa.types.is_fixed_size_binary(kind) and kind.byte_width == _UUID_BYTES
    if uuids and all(text is None or len(text) in _UUID_TEXTS for text in texts):
        return value
    contents = [
        # Each text by itself: one that is wrong must not change what the others of its chunk mean.
        None if text is None else (_uuid_of(text) if uuids else None) or encodings.bytes_of(text)
        for text in texts
    ]
    bad = {
        row: f"{path}: {text[:40]!r} is no {encodings.binary_name}"
        for row, (text, content) in enumerate(zip(texts, contents, strict=True))
        if text is not None and content is None
    }
    return _changed(value, pa.array(contents, pa.binary()), bad)


def _uuid_of(text: str) -> bytes | None:
    try:
        return UUID(text).bytes if len(text) in _UUID_TEXTS else None
    except ValueError:
        return None


def _as_mixed(value: _Value, values: Sequence[Any]) -> _Value:
    """Return values of several kinds as their JSON text."""
    texts = pa.array([None if mixed is None else dumps(mixed) for mixed in values], pa.string())
    return _Value(pa.field(value.field.name, pa.string(), metadata=MIXED), texts)


def _of_holders(lists: pa.Array, bad: Mapping[int, str]) -> dict[int, str]:
    """Return why lists are bad, by what is bad of their items."""
    if not bad:
        return {}
    parents = pc.list_parent_indices(lists)
    return {parents[item].as_py(): why for item, why in bad.items()}


def _changed(value: _Value, column: pa.Array, bad: Mapping[int, str] | None = None) -> _Value:
    if column is value.column:
        return value
    return _Value(pa.field(value.field.name, column.type), column, bad or {})


def _texts_of(value: _Value, path: str) -> _Value:
    """Return decimals, dates and times as text; what else a column of text takes is as it is."""
    column, kind = value.column, value.column.type
    if pa.types.is_decimal(kind):
        texts = [None if number is None else format(number, "f") for number in column.to_pylist()]
        return _changed(value, pa.array(texts, pa.string()))
    if pa.types.is_time(kind):
        counts = column.view(count_type(kind)).to_pylist()
        return _changed(value, pa.array([_clock(count, SECOND[kind.unit]) for count in counts]))
    if not pa.types.is_date(kind) and not pa.types.is_timestamp(kind):
        return value
    good = pc.fill_null(readable(column), True)
    rows = pc.indices_nonzero(pc.invert(good)).to_pylist()
    bad = dict.fromkeys(rows, f"{path}: a time that is not of the years 1 to 9999 has no text")
    known = column if not bad else pc.if_else(good, column, pa.scalar(None, kind))
    return _changed(value, write_out(known), bad)


def _clock(count: int | None, second: int) -> str | None:
    """Write a time with six digits behind the point, or nine; MySQL has times beyond one day."""
    if count is None:
        return None
    seconds, nanos = divmod(abs(count) * (10**9 // second), 10**9)
    fraction = f"{nanos:09}" if nanos % 1000 else f"{nanos // 1000:06}"
    minutes = seconds // 60
    sign = "-" if count < 0 else ""
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}:{seconds % 60:02}.{fraction}"


def _without_zone(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return instants as times in UTC where a column of timestamps has no zone."""
    source = column.type
    if not pa.types.is_timestamp(source) or not pa.types.is_timestamp(kind):
        return column
    bare = source.tz is not None and kind.tz is None
    # The same count without a zone: a cast would ask for the local time of the zone instead.
    return column.view(pa.timestamp(source.unit)) if bare else column
