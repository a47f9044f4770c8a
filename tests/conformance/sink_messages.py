"""Messages for a sink that is taken over: the same values in each part, told apart by ``id``."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

_LOGICAL = "org.apache.kafka.connect.data."


def _field(named: str, kind: str, *, optional: bool = True, **more: object) -> dict[str, object]:
    return {"field": named, "type": kind, "optional": optional, **more}


SCHEMA: Mapping[str, object] = MappingProxyType(
    {
        "type": "struct",
        "name": "shop.Order",
        "optional": False,
        "fields": [
            _field("id", "int64", optional=False),
            _field("region", "string", optional=False),
            _field("at", "int64", optional=False, name=f"{_LOGICAL}Timestamp", version=1),
            _field("small", "int8"),
            _field("whole", "int32"),
            _field("half", "float"),
            _field("double", "double"),
            _field("right", "boolean"),
            _field("note", "string"),
            _field("raw", "bytes"),
            _field(
                "price",
                "bytes",
                name=f"{_LOGICAL}Decimal",
                version=1,
                parameters={"scale": "2", "connect.decimal.precision": "9"},
            ),
            _field("day", "int32", name=f"{_LOGICAL}Date", version=1),
            _field("clock", "int32", name=f"{_LOGICAL}Time", version=1),
            _field("seen", "int64", name=f"{_LOGICAL}Timestamp", version=1),
            _field("tags", "array", items={"type": "string", "optional": False}),
            _field(
                "counts",
                "map",
                keys={"type": "string", "optional": False},
                values={"type": "int32", "optional": False},
            ),
            _field(
                "place",
                "struct",
                name="shop.Place",
                fields=[_field("city", "string"), _field("floor", "int32")],
            ),
        ],
    }
)
"""In the words of Connect's JSON converter."""

TIME = 1_790_000_000_000
"""Milliseconds since 1970 of the first message, in September 2026."""

_HOUR = 3_600_000
_PRICE = 1995
_EMPTY: Mapping[str, object] = MappingProxyType(
    {
        **dict.fromkeys(
            ("small", "whole", "half", "double", "right", "note", "raw", "price", "day", "clock")
        ),
        **dict.fromkeys(("seen", "tags", "counts", "place")),
    }
)
BODIES: Sequence[Mapping[str, object]] = (
    {
        "small": 7,
        "whole": -70000,
        "half": 0.5,
        "double": 0.1,
        "right": True,
        "note": 'é, "quoted", \U0001f980',
        "raw": base64.b64encode(b"\x00\xff").decode(),
        "price": base64.b64encode(_PRICE.to_bytes(2, "big")).decode(),
        "day": 20_000,
        "clock": 45_296_789,
        "seen": TIME + 123,
        "tags": ["a", ""],
        "counts": {"b": 2, "a": 1},
        "place": {"city": "Riga", "floor": None},
    },
    {
        **_EMPTY,
        "double": 3.0,
        "note": "",
        "tags": [],
        "counts": {},
        "place": {"city": None, "floor": 3},
    },
    {**_EMPTY, "whole": 0, "right": False},
    _EMPTY,
)
"""Values of the optional fields, by the number of a message modulo their number."""

PLAIN: Sequence[Mapping[str, Any]] = (
    {"n": 1, "d": 0.5, "t": 'é, "quoted"', "b": True, "none": None, "list": [1, None, {"a": 1}]},
    {"n": -5, "d": 3.0, "t": "", "b": False, "nested": {"z": 1, "a": {"none": None}}},
    {"n": 12_345_678_901_234, "d": 1e300, "list": []},
)
"""Values of messages without a schema, likewise."""


def messages(numbers: range, *, schemas: bool) -> Iterator[tuple[int, int, bytes]]:
    """Give number, timestamp in milliseconds and value of each message."""
    bodies = BODIES if schemas else PLAIN
    for number in numbers:
        at = TIME + number * _HOUR // 8
        region = ("eu", "us", "a b")[number % 3]
        row = {"id": number, "region": region, "at": at, **bodies[number % len(bodies)]}
        value = {"schema": dict(SCHEMA), "payload": row} if schemas else row
        yield number, at, json.dumps(value).encode()


def body_of(number: int, *, schemas: bool) -> int:
    """Return which of the values a message has."""
    return number % len(BODIES if schemas else PLAIN)
