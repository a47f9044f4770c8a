"""Schema files of users: Avro's ``.avsc``, or the short JSON of ``descriptions``."""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from secor.arrow.decimals import MOST_DIGITS
from secor.arrow.nested_arrays import is_list
from secor.core.errors import ConfigurationError
from secor.schema.avro_declarations import AvroDeclaration
from secor.schema.declared_fields import FaultError, field_of, inside, row_of
from secor.schema.descriptions import SCALARS

_WITH_ARGUMENTS = re.compile(r"(\w+)\(([^)]*)\)")
_TIMES = MappingProxyType(
    {"s": pa.time32("s"), "ms": pa.time32("ms"), "us": pa.time64("us"), "ns": pa.time64("ns")}
)

DEEPEST = 32
"""Levels of a declaration; readers of Parquet end at some three times as many groups."""


def parse(text: str, where: str, *, uuids: bool = False) -> pa.StructType:
    """Return the fields of a schema; ``where`` names it in errors.

    Fields that may not be null are marked so; defaults are in their metadata under
    ``DEFAULT``.  With ``uuids`` such are a type, but for values of maps; else they are text.
    Raises ``ConfigurationError``.
    """
    try:
        fields = _parse_declared(json.loads(text))
        if _levels(fields) > DEEPEST:
            raise FaultError(f"it is nested deeper than {DEEPEST} levels")
    except FaultError as fault:
        raise ConfigurationError(f"{where}: {fault}") from fault
    except ValueError as error:
        raise ConfigurationError(f"{where}: is no JSON: {error}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{where}: is nested deeper than {DEEPEST} levels") from error
    return _with_text(fields, uuids=uuids)


def _with_text(kind: pa.DataType, *, uuids: bool) -> pa.DataType:
    """Return a type with text in place of UUIDs, unless ``uuids`` stay."""
    if isinstance(kind, pa.UuidType):
        return kind if uuids else pa.string()
    if pa.types.is_struct(kind):
        return pa.struct(
            [field.with_type(_with_text(field.type, uuids=uuids)) for field in kind.fields]
        )
    if is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_text(kind.value_type, uuids=uuids)))
    if pa.types.is_map(kind):
        item = kind.item_field
        return pa.map_(kind.key_type, item.with_type(_with_text(item.type, uuids=False)))
    return kind


def _parse_declared(declared: Any) -> pa.StructType:
    if isinstance(declared, dict) and declared.get("type") == "record":
        return AvroDeclaration().record(declared)
    if isinstance(declared, dict) and "fields" in declared:
        return _struct(declared["fields"])
    raise FaultError(
        "is neither an Avro schema of a record nor a list of fields as documented:"
        ' {"fields": [{"name": "user", "type": "string"}]}'
    )


def _levels(kind: pa.DataType) -> int:
    inner = [kind.field(index).type for index in range(kind.num_fields)]
    return 1 + max(map(_levels, inner), default=0)


def _struct(declared: Any) -> pa.StructType:
    fields = []
    if not isinstance(declared, list):
        raise FaultError(f"its fields are no list but {declared!r:.80}")
    for field in declared:
        if not isinstance(field, dict):
            raise FaultError(f"a field is no object with name and type but {field!r:.80}")
        with inside(field.get("name")):
            unknown = set(field) - {"name", "type", "nullable", "default"}
            if unknown:
                raise FaultError(f"has no setting {min(unknown)!r}")
            nullable = field.get("nullable", True)
            if not isinstance(nullable, bool):
                raise FaultError(f"nullable is true or false, not {nullable!r:.80}")
            kind = _kind(field.get("type"))
            fields.append(field_of(field["name"], kind, nullable, field.get("default")))
    return row_of(fields)


def _kind(declared: Any) -> pa.DataType:
    if isinstance(declared, dict) and len(declared) == 1:
        ((word, inner),) = declared.items()
        if word == "struct":
            return _struct(inner)
        if word == "list":
            return pa.list_(_kind(inner))
        if word == "map":
            return pa.map_(pa.string(), _kind(inner))
    kind = _scalar(declared) if isinstance(declared, str) else None
    if kind is None:
        raise FaultError("has no type" if declared is None else f"no type {declared!r:.80}")
    return kind


def _scalar(declared: str) -> pa.DataType | None:
    if declared == "uuid":
        return pa.uuid()
    if declared in SCALARS:
        return SCALARS[declared]
    match = _WITH_ARGUMENTS.fullmatch(declared)
    word, arguments = (match[1], match[2].split(",")) if match else ("", [])
    first, second, *more = [*(argument.strip() for argument in arguments), "", ""]
    if word == "decimal" and first.isdecimal() and second.isdecimal() and not any(more):
        if not (1 <= int(first) <= MOST_DIGITS and int(second) <= int(first)):
            span = f"of 1 to {MOST_DIGITS} digits, no more than all in the fraction"
            raise FaultError(f"{declared}: {span}")
        return pa.decimal128(int(first), int(second))
    if word == "timestamp" and first in _TIMES and not any(more):
        return _timestamp(first, second)
    return _TIMES[first] if word == "time" and first in _TIMES and not second else None


def _timestamp(unit: str, zone: str) -> pa.DataType:
    kind = pa.timestamp(unit, zone or None)
    try:
        pa.scalar(0, kind).as_py()
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise FaultError(f"no time zone {zone!r}: use a name of the tz database, or UTC") from error
    return kind
