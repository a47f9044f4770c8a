"""A corpus of messages for sinks: in JSON without a schema, and in ``{"schema": …, "payload": …}``.

Every case is the few messages of one table.  Beside its own fields each has ``t``, the table, and
``n``, its number.  What is in it are the shapes that sinks' own tests and users' reports are
about, written anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

NAMESPACE = "lake"

Fields = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Case:
    """``bodies`` are the members of each message as JSON; ``schemas`` its fields for Connect."""

    name: str
    bodies: tuple[str, ...]
    schemas: tuple[Fields, ...] = ()

    @property
    def with_schema(self) -> bool:
        """Whether the messages bring their schema."""
        return bool(self.schemas)

    @property
    def table(self) -> str:
        """The table's own name."""
        kind = "s" if self.with_schema else "j"
        return f"{kind}_{re.sub(r'[^a-z0-9]+', '_', self.name.lower())}"

    def messages(self) -> list[bytes]:
        """Return the values of the messages."""
        return [self._message(number, body) for number, body in enumerate(self.bodies)]

    def _message(self, number: int, body: str) -> bytes:
        own = f", {body}" if body else ""
        payload = f'{{"t": "{NAMESPACE}.{self.table}", "n": {number}{own}}}'
        if not self.with_schema:
            return payload.encode()
        schema = {"type": "struct", "optional": False, "fields": [*_COMMON, *self.schemas[number]]}
        return f'{{"schema": {json.dumps(schema)}, "payload": {payload}}}'.encode()


_COMMON: Fields = (
    {"field": "t", "type": "string", "optional": True},
    {"field": "n", "type": "int64", "optional": True},
)

_PLAIN: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "integer": ["1", "-7", "0"],
        "integers of 32 bits and more": ["1", "2147483648", "-9007199254740993"],
        "greatest integers": ["9223372036854775807", "-9223372036854775808"],
        "integer beyond 64 bits": ["9223372036854775808"],
        "integer then one beyond 64 bits": ["1", "18446744073709551615"],
        "fraction": ["1.5", "-0.25", "1e300"],
        "fraction beyond a double": ["1.5", "1e400"],
        "fraction of many digits": ["0.1234567890123456789", "123456789012345678.9"],
        "fraction without digits": ["2826.0", "1e3"],
        "fraction without digits then another": ["2826.0", "2826.5"],
        "integer then fraction": ["10", "10.5"],
        "fraction then integer": ["10.5", "10"],
        "minus zero": ["-0.0", "0.0"],
        "boolean": ["true", "false"],
        "null alone": ["null"],
        "null then integer": ["null", "1"],
        "integer then null": ["1", "null"],
        "text": ['"a"', '""', '"  b "'],
        "text of other scripts": ['"é"', '"表"', '"😀"'],
        "text with controls": [r'"a\u0000b"', r'"\n\t\u007f"'],
        "long text": [f'"{"x" * 5000}"'],
        "text of digits": ['"1"', '"007"'],
        "text of a fraction": ['"1.50"'],
        "text true": ['"true"'],
        "text of a date": ['"2026-01-31"'],
        "text of a time": ['"03:17:00"'],
        "text of a local time": ['"2026-01-31T03:17:00"'],
        "text of an instant": ['"2026-01-31T03:17:00Z"'],
        "text of an instant with offset": ['"2026-01-31T03:17:00.123+05:30"'],
        "text of an instant with a blank": ['"2026-01-31 03:17:00"'],
        "text of an instant then a word": ['"2026-01-31T03:17:00Z"', '"yesterday"'],
        "text of a uuid": ['"123e4567-e89b-12d3-a456-426614174000"'],
        "text of base64": ['"AAEC/w=="'],
        "integer of milliseconds": ["1769829420000"],
        "list of integers": ["[1, 2]", "[3]"],
        "list of integers then fractions": ["[1]", "[1.5]"],
        "empty list": ["[]"],
        "empty list then integers": ["[]", "[1]"],
        "list with null": ["[null, 1]", "[1, null]"],
        "list of null": ["[null]"],
        "list of text": ['["a", ""]'],
        "list of several kinds": ['[1, "a"]'],
        "list of lists": ["[[1], [2, 3]]"],
        "list of objects": ['[{"a": 1}, {"a": 2}]'],
        "list of objects with other members": ['[{"a": 1}, {"b": 2}]'],
        "object": ['{"a": 1, "b": "x"}'],
        "object of objects": ['{"a": {"b": {"c": 1}}}'],
        "empty object": ["{}"],
        "empty object then one with a member": ["{}", '{"a": 1}'],
        "object with a null member": ['{"a": null, "b": 1}'],
        "object with another member each": ['{"a": 1}', '{"b": "x"}'],
        "object whose member becomes a fraction": ['{"a": 1}', '{"a": 1.5}'],
        "object then null": ['{"a": 1}', "null"],
        "object whose names are numbers": ['{"1": 1, "2": 2}'],
        "integer then text": ["1", '"a"'],
        "text then integer": ['"a"', "1"],
        "text then fraction": ['"a"', "1.50"],
        "text then boolean": ['"a"', "true"],
        "text then object": ['"a"', '{"b": 1, "a": [2]}'],
        "text then list": ['"a"', "[1, 2]"],
        "integer then boolean": ["1", "true"],
        "boolean then integer": ["true", "1"],
        "object then integer": ['{"a": 1}', "1"],
        "list then integer": ["[1]", "1"],
        "integer then list": ["1", "[1]"],
    }
)
"""Values of the field ``v``."""

_BODIES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "field that comes later": ["", '"v": 1'],
        "field that goes": ['"v": 1', ""],
        "several fields that come later": ['"a": 1', '"b": "x"', '"c": {"d": [1.5]}'],
        "name with a dot": ['"v.w": 1'],
        "name with a dot next to an object": ['"v.w": 1, "v": {"w": 2}'],
        "name with a blank": ['"v w": 1'],
        "name of other scripts": ['"表": 1, "é": 2'],
        "names that differ in capitals": ['"v": 1, "V": 2'],
        "name in capitals": ['"VALUE": 1'],
        "name that is a number": ['"1": 1'],
        "name that is a word of SQL": ['"select": 1, "order": 2'],
        "name that is empty": ['"": 1'],
        "name with a dollar": ['"$v": 1, "@v": 2, "#v": 3'],
        "name of a column that readers add": ['"_file": "x", "_pos": 1'],
        "name twice": ['"v": 1, "v": 2'],
        "schema and payload as fields": ['"schema": {"type": "string"}, "payload": "x"'],
        "tables own field alone": [""],
    }
)


def _of(kind: str, *, optional: bool = True, **more: Any) -> Mapping[str, Any]:
    return {"field": "v", "type": kind, "optional": optional, **more}


_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_STRUCT: Mapping[str, Any] = {"fields": [{"field": "a", "type": "int32", "optional": True}]}

_TYPED: Mapping[str, tuple[Mapping[str, Any], Sequence[str]]] = MappingProxyType(
    {
        "int8": (_of("int8"), ["1", "-128", "null"]),
        "int16": (_of("int16"), ["32767"]),
        "int32": (_of("int32"), ["2147483647", "null"]),
        "int64": (_of("int64"), ["9223372036854775807"]),
        "float": (_of("float"), ["0.1", "16777217"]),
        "double": (_of("double"), ["0.1", "1"]),
        "boolean": (_of("boolean"), ["true", "null"]),
        "string": (_of("string"), ['"a"', '""', "null"]),
        "string of an instant": (_of("string"), ['"2026-01-31T03:17:00Z"']),
        "bytes": (_of("bytes"), ['"AAEC/w=="', '""', "null"]),
        "required int32": (_of("int32", optional=False), ["1"]),
        "default that is left out": (_of("int32", optional=False, default=5), ["null"]),
        "optional default that is null": (_of("int32", default=5), ["null", "7"]),
        "list of int32": (_of("array", items={"type": "int32", "optional": True}), ["[1, null]"]),
        "list of required int32": (
            _of("array", items={"type": "int32", "optional": False}),
            ["[1, 2]", "[]"],
        ),
        "list of structs": (
            _of("array", items={"type": "struct", "optional": True, **_STRUCT}),
            ['[{"a": 1}, null]'],
        ),
        "struct": (_of("struct", **_STRUCT), ['{"a": 1}', '{"a": null}', "null"]),
        "map": (
            _of("map", keys={"type": "string"}, values={"type": "int32", "optional": True}),
            ['{"x": 1, "y": null}', "{}"],
        ),
        "map of integers": (
            _of("map", keys={"type": "int32"}, values={"type": "string"}),
            ['[[1, "a"], [2, "b"]]'],
        ),
        "Decimal": (
            _of("bytes", name=_DECIMAL, parameters={"scale": "2"}),
            ['"AfQ="', '"+2Q="', "null"],
        ),
        "Decimal with a precision": (
            _of(
                "bytes",
                name=_DECIMAL,
                parameters={"scale": "2", "connect.decimal.precision": "10"},
            ),
            ['"AfQ="'],
        ),
        "Decimal without digits after the point": (
            _of("bytes", name=_DECIMAL, parameters={"scale": "0"}),
            ['"AfQ="'],
        ),
        "Date": (_of("int32", name="org.apache.kafka.connect.data.Date"), ["20484", "-1"]),
        "Time": (_of("int32", name="org.apache.kafka.connect.data.Time"), ["11820123"]),
        "Timestamp": (
            _of("int64", name="org.apache.kafka.connect.data.Timestamp"),
            ["1769829420123", "-1", "null"],
        ),
        "Debezium Date": (_of("int32", name="io.debezium.time.Date"), ["20484"]),
        "Debezium Time": (_of("int32", name="io.debezium.time.Time"), ["11820123"]),
        "Debezium MicroTime": (_of("int64", name="io.debezium.time.MicroTime"), ["11820123456"]),
        "Debezium Timestamp": (_of("int64", name="io.debezium.time.Timestamp"), ["1769829420123"]),
        "Debezium MicroTimestamp": (
            _of("int64", name="io.debezium.time.MicroTimestamp"),
            ["1769829420123456"],
        ),
        "Debezium NanoTimestamp": (
            _of("int64", name="io.debezium.time.NanoTimestamp"),
            ["1769829420123456789"],
        ),
        "Debezium ZonedTimestamp": (
            _of("string", name="io.debezium.time.ZonedTimestamp"),
            ['"2026-01-31T03:17:00.123456Z"'],
        ),
        "Debezium Json": (_of("string", name="io.debezium.data.Json"), ['"{\\"a\\": 1}"']),
        "Debezium Uuid": (
            _of("string", name="io.debezium.data.Uuid"),
            ['"123e4567-e89b-12d3-a456-426614174000"'],
        ),
        "Debezium Enum": (
            _of("string", name="io.debezium.data.Enum", parameters={"allowed": "a,b"}),
            ['"a"'],
        ),
        "Debezium VariableScaleDecimal": (
            _of(
                "struct",
                name="io.debezium.data.VariableScaleDecimal",
                fields=[
                    {"field": "scale", "type": "int32", "optional": False},
                    {"field": "value", "type": "bytes", "optional": False},
                ],
            ),
            ['{"scale": 2, "value": "AfQ="}'],
        ),
        "unknown name of a type": (_of("int64", name="com.example.Money"), ["12"]),
    }
)
"""A type of Connect, and values of it."""

_CHANGING: Mapping[str, Sequence[tuple[Fields, str]]] = MappingProxyType(
    {
        "field that comes later": [((), ""), ((_of("int32"),), '"v": 1')],
        "required field that comes later": [
            ((), ""),
            ((_of("int32", optional=False),), '"v": 1'),
        ],
        "required field that goes": [((_of("int32", optional=False),), '"v": 1'), ((), "")],
        "int32 that becomes int64": [
            ((_of("int32"),), '"v": 1'),
            ((_of("int64"),), '"v": 9223372036854775807'),
        ],
        "float that becomes double": [
            ((_of("float"),), '"v": 0.5'),
            ((_of("double"),), '"v": 0.1'),
        ],
        "required that becomes optional": [
            ((_of("int32", optional=False),), '"v": 1'),
            ((_of("int32"),), '"v": null'),
        ],
        "int32 that becomes string": [
            ((_of("int32"),), '"v": 1'),
            ((_of("string"),), '"v": "a"'),
        ],
        "string that becomes int32": [
            ((_of("string"),), '"v": "a"'),
            ((_of("int32"),), '"v": 1'),
        ],
    }
)
"""Messages of which each has another schema."""


def cases() -> list[Case]:
    """Return all of them, in the order of the page."""
    plain = [
        Case(name, tuple(f'"v": {value}' for value in values)) for name, values in _PLAIN.items()
    ]
    plain += [Case(name, tuple(bodies)) for name, bodies in _BODIES.items()]
    typed = [
        Case(name, tuple(f'"v": {value}' for value in values), ((field,),) * len(values))
        for name, (field, values) in _TYPED.items()
    ]
    typed += [
        Case(name, tuple(body for _, body in steps), tuple(fields for fields, _ in steps))
        for name, steps in _CHANGING.items()
    ]
    return plain + typed
