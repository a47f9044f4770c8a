"""Values of a PostgreSQL database and of a table in one form, in which they can be compared.

The source gives every value as its text, the table gives Arrow arrays.  Both become plain values:
texts, numbers, tuples.  Which form a column takes depends on its two types; for types that have
no common form there is a reason instead.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import is_list
from secor.verify.source.texts import (
    array_parser,
    date_text,
    interval_micros,
    interval_parts,
    moment_text,
    parse_date,
    parse_hstore,
    parse_json,
    parse_moment,
    parse_or_text,
    parse_time,
    parse_zoned_time,
    time_text,
)

Value = Any
"""A text, a number, a truth, None, or a tuple of such: equal values have equal ``repr``."""

FromTable = Callable[[pa.Array], list[Value]]


@dataclass(frozen=True, slots=True)
class SourceName:
    """A table of the source: ``schema.name``."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of the source.

    ``type`` is its base type's name in ``pg_type``; of an array that of its items.  ``cast`` is
    the type in SQL.
    """

    name: str
    type: str
    cast: str
    is_array: bool = False
    is_enum: bool = False
    is_range: bool = False
    is_generated: bool = False

    @property
    def sql(self) -> str:
        """The expression whose text ``ComparedColumn.parse`` reads."""
        name = '"' + self.name.replace('"', '""') + '"'
        array = "[]" if self.is_array else ""
        if self.type == "money":
            return f"{name}::numeric{array}::text"
        return f"{name}::text"


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """A column of both sides: ``parse`` reads the source's text, ``read`` the table's arrays.

    ``show`` gives a value as a text that the source takes as a literal.
    """

    source: SourceColumn
    table_name: str
    parse: Callable[[str], Value]
    read: FromTable
    show: Callable[[Value], str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to compare: ``parse`` raises ``ValueError`` for texts that are no such value.

    ``readers`` returns how arrays of a type are read, None for a type that cannot be compared.
    """

    parse: Callable[[str], Value]
    readers: Callable[[pa.DataType], FromTable | None]
    show: Callable[[Value], str] = str


def compared_column(source: SourceColumn, column: pa.Field) -> ComparedColumn | str:
    """Return how a column is compared, or why it cannot be."""
    item_type = column.type
    if source.is_array:
        item_type = column.type.value_type if is_list(column.type) else None
    kind = _kind_of(source, item_type)
    read = None if kind is None else kind.readers(item_type)
    if kind is None or read is None:
        return f"{source.cast} in the source, {_type_name(column.type)} in the table"
    if source.is_array:
        parse, show = array_parser(kind.parse), lambda value: _array_text(value, kind.show)
        return ComparedColumn(source, column.name, parse, _list_reader(read), show)
    return ComparedColumn(source, column.name, kind.parse, read, kind.show)


def _type_name(kind: pa.DataType) -> str:
    return (
        str(kind).replace("extension<arrow.", "").rstrip(">")
        if "arrow." in str(kind)
        else str(kind)
    )


def _kind_of(source: SourceColumn, table_type: pa.DataType | None) -> Kind | None:
    if table_type is None:
        return None
    if source.is_enum or source.is_range:
        return TEXT
    if source.type in ("numeric", "money") and pa.types.is_floating(table_type):
        return KINDS["float8"]  # all the digits that a column of this type can have
    # Debezium writes intervals as ISO 8601 text, or as microseconds, by interval.handling.mode.
    if source.type == "interval" and _is_text(table_type):
        return Kind(interval_parts, lambda _: _texts(interval_parts))
    return KINDS.get(source.type)


def _texts(parse: Callable[[str], Value]) -> FromTable:
    """Return a reader of texts, in which tables hold values of a type that they do not have."""

    def read(column: pa.Array) -> list[Value]:
        return [
            None if value is None else parse_or_text(parse, value) for value in column.to_pylist()
        ]

    return read


def _each(convert: Callable[[Any], Value]) -> FromTable:
    def read(column: pa.Array) -> list[Value]:
        return [None if value is None else convert(value) for value in column.to_pylist()]

    return read


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _parse_integer(text: str) -> int:
    number = int(text)
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError(text)
    return number


def _reads_integers(kind: pa.DataType) -> FromTable | None:
    if pa.types.is_integer(kind):
        return lambda column: column.to_pylist()
    if pa.types.is_boolean(kind):  # MariaDB's tinyint(1), as a connector may write it
        return _each(int)
    if pa.types.is_decimal(kind):
        return _each(_integer_of)
    return _texts(_parse_integer) if _is_text(kind) else None


def _integer_of(number: Decimal) -> Value:
    return int(number) if number == number.to_integral_value() else decimal_text(number)


def decimal_text(number: Decimal) -> str:
    """Return a number's one text: no exponent, no zeros at the end; nothing is rounded."""
    if not number.is_finite():
        return "NaN" if number.is_nan() else str(number)
    # Not ``normalize``, which rounds to the context's precision.
    text = f"{number:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _parse_decimal(text: str) -> str:
    return decimal_text(Decimal(text))


def _reads_decimals(kind: pa.DataType) -> FromTable | None:
    if pa.types.is_decimal(kind):
        return _each(decimal_text)
    if pa.types.is_integer(kind):
        return _each(str)
    return _texts(_parse_decimal) if _is_text(kind) else None


def _float_text(number: float) -> str:
    # Plus zero: -0.0 and 0.0 are one number.
    return repr(float(number) + 0.0) if number == number else "NaN"


def _float32_text(number: float) -> str:
    with np.errstate(over="ignore", under="ignore"):
        return _float_text(float(np.float32(number)))


def _floats(text_of: Callable[[float], str]) -> Kind:
    def readers(kind: pa.DataType) -> FromTable | None:
        if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            return _each(text_of)
        return _texts(lambda text: text_of(float(text))) if _is_text(kind) else None

    return Kind(lambda text: text_of(float(text)), readers)


def _parse_truth(text: str) -> bool:
    truths = {"t": True, "true": True, "1": True, "f": False, "false": False, "0": False}
    if text not in truths:
        raise ValueError(text)
    return truths[text]


def _reads_truths(kind: pa.DataType) -> FromTable | None:
    if pa.types.is_boolean(kind):
        return lambda column: column.to_pylist()
    return _texts(_parse_truth) if _is_text(kind) else None


def _reads_texts(kind: pa.DataType) -> FromTable | None:
    return (lambda column: column.to_pylist()) if _is_text(kind) else None


def _strip_blanks(text: str) -> str:
    return text.rstrip(" ")


def _parse_bytes(text: str) -> str:
    if not text.startswith("\\x"):
        raise ValueError(text)
    return text


def _reads_bytes(kind: pa.DataType) -> FromTable | None:
    if _is_bytes(kind):
        return _each(_bytes_text)
    return (
        _texts(lambda text: _bytes_text(b64decode(text, validate=True))) if _is_text(kind) else None
    )


def _bytes_text(data: bytes) -> str:
    return f"\\x{data.hex()}"


def _reads_uuids(kind: pa.DataType) -> FromTable | None:
    if isinstance(kind, pa.UuidType):
        return _each(str)
    if pa.types.is_fixed_size_binary(kind):
        return _each(lambda data: str(UUID(bytes=data)))
    return _texts(_parse_uuid) if _is_text(kind) else None


def _parse_uuid(text: str) -> str:
    return str(UUID(text))


def _reads_dates(kind: pa.DataType) -> FromTable | None:
    if pa.types.is_date32(kind):
        return lambda column: [date_text(value) for value in column.cast(pa.int32()).to_pylist()]
    return _texts(parse_date) if _is_text(kind) else None


def _reads_times(kind: pa.DataType) -> FromTable | None:
    if pa.types.is_time(kind):
        return lambda column: column.cast(pa.time64("us")).cast(pa.int64()).to_pylist()
    return _texts(parse_time) if _is_text(kind) else None


def _reads_zoned_times(kind: pa.DataType) -> FromTable | None:
    return _texts(parse_zoned_time) if _is_text(kind) else None


def _reads_moments(kind: pa.DataType) -> FromTable | None:
    if pa.types.is_timestamp(kind):
        return lambda column: (
            column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64()).to_pylist()
        )
    return _texts(parse_moment) if _is_text(kind) else None


def _reads_intervals(kind: pa.DataType) -> FromTable | None:
    if pa.types.is_integer(kind):
        return lambda column: column.to_pylist()
    return _texts(interval_micros) if _is_text(kind) else None


def _parse_bits(text: str) -> int:
    return int(text or "0", 2)


def _reads_bits(kind: pa.DataType) -> FromTable | None:
    """Read bits as Debezium has them, the last ones first; one bit may be a truth.

    Its connectors for PostgreSQL leave bytes of zeros at the end out, others do not.
    """
    if pa.types.is_boolean(kind):
        return _each(int)
    if _is_bytes(kind):
        return _each(lambda data: int.from_bytes(data, "little"))
    return _texts(_bits_of_text) if _is_text(kind) else None


def _bits_of_text(text: str) -> int:
    return int.from_bytes(b64decode(text, validate=True), "little")


def _list_reader(read: FromTable) -> FromTable:
    def read_lists(column: pa.Array) -> list[Value]:
        lengths = pc.list_value_length(column).to_pylist()
        items = read(column.flatten())
        lists: list[Value] = []
        start = 0
        for length in lengths:
            lists.append(None if length is None else tuple(items[start : start + length]))
            start += length or 0
        return lists

    return read_lists


def _array_text(value: Value, show: Callable[[Value], str]) -> str:
    if not isinstance(value, tuple):
        return str(value)
    items = (
        "NULL" if item is None else json.dumps(show(item), ensure_ascii=False) for item in value
    )
    return "{" + ",".join(items) + "}"


INTEGER = Kind(_parse_integer, _reads_integers)
DECIMAL = Kind(_parse_decimal, _reads_decimals)
TEXT = Kind(str, _reads_texts)
BITS = Kind(
    _parse_bits, _reads_bits, lambda value: f"{value:b}" if isinstance(value, int) else str(value)
)
JSON = Kind(parse_json, lambda kind: _texts(parse_json) if _is_text(kind) else None)

_PLAIN_TEXTS: Sequence[str] = (
    *("text", "varchar", "name", "citext", "char", "xml", "inet", "cidr", "macaddr", "macaddr8"),
    *("tsvector", "tsquery", "ltree"),
)

KINDS = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), INTEGER),
    **dict.fromkeys(("numeric", "money"), DECIMAL),
    "float4": _floats(_float32_text),
    "float8": _floats(_float_text),
    "bool": Kind(_parse_truth, _reads_truths, lambda value: str(value).lower()),
    **dict.fromkeys(_PLAIN_TEXTS, TEXT),
    "bpchar": Kind(_strip_blanks, lambda kind: _texts(_strip_blanks) if _is_text(kind) else None),
    "bytea": Kind(_parse_bytes, _reads_bytes),
    "uuid": Kind(_parse_uuid, _reads_uuids),
    **dict.fromkeys(("json", "jsonb"), JSON),
    "hstore": Kind(parse_hstore, JSON.readers),
    "date": Kind(parse_date, _reads_dates),
    "time": Kind(parse_time, _reads_times, time_text),
    "timetz": Kind(parse_zoned_time, _reads_zoned_times, lambda value: time_text(value) + "Z"),
    "timestamp": Kind(parse_moment, _reads_moments, moment_text("")),
    "timestamptz": Kind(parse_moment, _reads_moments, moment_text("Z")),
    "interval": Kind(interval_micros, _reads_intervals),
    **dict.fromkeys(("bit", "varbit"), BITS),
}
"""Ways to compare by the source's type; enums and ranges are texts, too."""
