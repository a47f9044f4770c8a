"""The Thrift decoder: structs by field ids or a generated class, one a message."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.core.variant_json import dumps, schema_field
from secor.parsing.decoders.columns import (
    MAX_DEPTH,
    Undecodable,
    build_apart,
    build_declared,
    build_decoded,
    rowwise,
)
from secor.parsing.decoders.thrift_wire import (
    BOOL,
    BYTE,
    DOUBLE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRING,
    STRUCT,
    UUID,
    BinaryReader,
    CompactReader,
    Reader,
)
from secor.parsing.rows import Decoded, Rows
from secor.parsing.user_classes import import_class

BINARY = "BINARY"
"""The argument of a string that is bytes; others have ``UTF8``."""

SCALARS: Mapping[int, tuple[pa.DataType, type]] = {
    BOOL: (pa.bool_(), bool),
    BYTE: (pa.int8(), int),
    I16: (pa.int16(), int),
    I32: (pa.int32(), int),
    I64: (pa.int64(), int),
    DOUBLE: (pa.float64(), float),
    STRING: (pa.string(), str),
    UUID: (pa.string(), str),
}

Above = tuple[type, ...] | None
"""The structs around a value; None where a struct may be in itself, as within JSON text."""


@dataclass(frozen=True, slots=True)
class ThriftField:
    """One field; ``default`` is as the wire would have it, by ids."""

    name: str
    kind: int
    args: Any
    default: Any


class GeneratedStruct:
    """The fields of a generated class; ``type`` is the Arrow type of its rows.

    Fields have their names, absent ones their default; ids that the class does not know are
    left out, as it leaves them out.  Structs within themselves are JSON text (metadata
    ``MIXED``).  Raises ``ConfigurationError`` for what is no such class.
    """

    def __init__(self, place: str) -> None:
        self._class = import_class("thrift", place)
        self._place = place
        self._fields: dict[type, dict[str, ThriftField]] = {}
        self.type = self._struct(self._class, (self._class,))
        # The identity goes into the fingerprint: a class that is generated anew from another
        # definition makes other objects of the same messages.
        stated = "\n".join(f"{kind.__name__} {known}" for kind, known in self._fields.items())
        self.identity = f"{place}:{hashlib.sha256(stated.encode()).hexdigest()[:16]}"

    def named(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return a struct that was read by ids, for ``type``.  Raises ``Undecodable``."""
        return self._name_fields(fields, self._class, (self._class,))

    # ------------------------------------------------------------------ types

    def _known_fields(self, kind: Any) -> dict[str, ThriftField]:
        """Return a struct's fields by the digits of their ids."""
        spec = getattr(kind, "thrift_spec", None)
        if not isinstance(kind, type) or not isinstance(spec, tuple):
            raise ConfigurationError(
                f"thrift class {self._place!r}: {kind!r} is no generated struct, it has no"
                " thrift_spec"
            )
        if kind not in self._fields:
            self._fields[kind] = {
                str(number): ThriftField(name, code, args, _by_ids(default, code, args))
                for number, code, name, args, default in filter(None, spec)
            }
        return self._fields[kind]

    def _struct(self, kind: Any, above: tuple[type, ...]) -> pa.StructType:
        return pa.struct(
            [
                self._field(member.name, member.kind, member.args, above)
                for member in self._known_fields(kind).values()
            ]
        )

    def _field(self, name: str, kind: int, args: Any, above: tuple[type, ...]) -> pa.Field:
        # A type that holds itself has no end as columns; as JSON text it is as deep as each
        # message.
        if kind == STRUCT and args[0] in above:
            return schema_field(name, pa.string(), text=True)
        return schema_field(name, self._type(kind, args, above))

    def _type(self, kind: int, args: Any, above: tuple[type, ...]) -> pa.DataType:
        if kind == STRUCT:
            return self._struct(args[0], (*above, args[0]))
        if kind in (LIST, SET):
            return pa.list_(self._field("item", args[0], args[1], above))
        if kind == MAP:
            key = self._field("key", args[0], args[1], above).with_nullable(False)
            value = self._field("value", args[2], args[3], above)
            return pa.map_(key, schema_field("value", value.type))
        if kind not in SCALARS:
            raise ConfigurationError(f"thrift class {self._place!r}: unknown type {kind}")
        return pa.binary() if args == BINARY else SCALARS[kind][0]

    # ----------------------------------------------------------------- values

    def _name_fields(self, fields: Mapping[str, Any], kind: type, above: Above) -> dict[str, Any]:
        return {
            member.name: self._value(
                member.name, fields.get(number, member.default), member.kind, member.args, above
            )
            for number, member in self._fields[kind].items()
        }

    def _value(self, name: str, value: Any, kind: int, args: Any, above: Above) -> Any:
        if value is None:
            return None
        if kind == STRUCT:
            return self._inner(_check(name, value, dict), args[0], above)
        if kind in (LIST, SET):
            of = _check(name, value, list)
            return [self._value(name, item, args[0], args[1], above) for item in of]
        if kind == MAP:
            pairs = [_pair(name, item) for item in _check(name, value, list)]
            return [
                {
                    "key": self._value(name, key, args[0], args[1], above),
                    "value": self._value(name, item, args[2], args[3], above),
                }
                for key, item in pairs
            ]
        # The reader gives text where bytes happen to be UTF-8; the class says that they are none.
        if args == BINARY and type(value) is str:
            return value.encode()
        return _check(name, value, bytes if args == BINARY else SCALARS[kind][1])

    def _inner(self, fields: dict[str, Any], kind: type, above: Above) -> Any:
        if above is None:
            return self._name_fields(fields, kind, None)
        if kind in above:
            return dumps(self._name_fields(fields, kind, None))
        return self._name_fields(fields, kind, (*above, kind))


def _check(name: str, value: Any, wanted: type) -> Any:
    pair = wanted is dict and type(value) is dict and "key" in value  # of a map
    if pair or type(value) is not wanted:
        given_kind = "map" if pair else type(value).__name__
        raise Undecodable(f"field {name}: {given_kind} where the class has {wanted.__name__}")
    return value


def _pair(name: str, item: Any) -> tuple[Any, Any]:
    if type(item) is not dict or "key" not in item:
        raise Undecodable(f"field {name}: a list where the class has a map")
    return item["key"], item["value"]


def _by_ids(default: Any, kind: int, args: Any) -> Any:
    """Return a default as the wire would have it."""
    if default is None:
        return None
    if kind == STRUCT:
        spec = filter(None, type(default).thrift_spec)
        by_id = {
            str(entry[0]): _by_ids(getattr(default, entry[2]), entry[1], entry[3]) for entry in spec
        }
        return {number: value for number, value in by_id.items() if value is not None}
    if kind in (LIST, SET):
        items = sorted(default) if kind == SET else default  # a set has no order of its own
        return [_by_ids(item, args[0], args[1]) for item in items]
    if kind == MAP:
        return [
            {"key": _by_ids(key, args[0], args[1]), "value": _by_ids(value, args[2], args[3])}
            for key, value in default.items()
        ]
    return default


READERS: Mapping[str, type[Reader]] = {"binary": BinaryReader, "compact": CompactReader}


class ThriftDecoder:
    """Structs; without a definition their fields are named by id, such as ``1.3``.

    ``message_class`` is a class of the Thrift compiler, which names and types them instead
    (``thrift_class.GeneratedStruct``); a value of another type is bad then.  ``names`` gives
    names to id paths (``{"1": "user", "1.3": "country"}``: the path is then ``user.country``);
    elements of lists and values of maps continue the path of their field.
    Maps are lists of ``key`` and ``value``.  A string field is text where it is UTF-8, else
    binary.  Bad: truncated, bytes after the stop, unknown types, a field twice.
    """

    def __init__(
        self,
        protocol: str = "binary",
        names: Mapping[str, str] | None = None,
        message_class: str | None = None,
    ) -> None:
        if protocol not in READERS:
            raise ConfigurationError(
                f"thrift protocol {protocol!r}: must be one of {', '.join(READERS)}"
            )
        self._reader = READERS[protocol]
        if names and message_class is not None:
            raise ConfigurationError("thrift: names are those of message_class, give only one")
        self._class = None if message_class is None else GeneratedStruct(message_class)
        self._names = dict(names or {})
        _check_names(self._names)
        stated = self._class.identity if self._class else json.dumps(self._names, sort_keys=True)
        self.identity = f"thrift-3:{protocol}:{stated}"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        objects, bad = rowwise(messages, self._decode)
        if self._class is not None:
            return build_declared(objects, self._class.type, bad, paths)
        return build_decoded(objects, bad, paths)

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """See ``rows.DividingDecoder``."""
        if paths is None and self._class is None:
            objects, bad = rowwise(messages, self._decode)
            return build_apart(objects, bad, messages)
        return [(np.arange(messages.num_rows), self.decode(messages, paths))]

    def _decode(self, raw: bytes) -> dict[str, Any]:
        reader = self._reader(raw)
        fields = reader.struct(MAX_DEPTH)
        # Mostly the other protocol, whose bytes happen to begin as a struct: half of it is no
        # message.
        if reader.position != len(raw):
            raise Undecodable(f"bytes after the struct's end, at byte {reader.position}")
        if self._class is not None:
            return self._class.named(fields)
        return self._name_fields(fields, "") if self._names else fields

    def _name_fields(self, value: Any, above: str) -> Any:
        if type(value) is list:
            return [self._name_fields(item, above) for item in value]
        if type(value) is not dict:
            return value
        if "key" in value:  # a pair of a map
            return {part: self._name_fields(item, above) for part, item in value.items()}
        fields_by_name = {}
        for number, item in value.items():
            path = f"{above}.{number}" if above else number
            fields_by_name[self._names.get(path, number)] = self._name_fields(item, path)
        return fields_by_name


def _check_names(names: Mapping[str, str]) -> None:
    taken: dict[tuple[str, str], str] = {}
    for path, name in names.items():
        if not all(part.isdigit() for part in path.split(".")):
            raise ConfigurationError(f"thrift names: {path!r} is no path of field ids such as 1.3")
        if not name or name.isdigit() or "." in name:
            raise ConfigurationError(f"thrift names: {name!r} for {path} is no name")
        place = (path.rpartition(".")[0], name)
        if place in taken:
            raise ConfigurationError(f"thrift names: {name!r} for both {taken[place]} and {path}")
        taken[place] = path
