"""JSON text of values of several kinds, as one column holds them between decoder and format.

How a decoder types a column depends on what else is in the chunk; what becomes of a value may
not.  So the text has all that a column of one kind has: JSON, and bytes, marked to differ from
the text that is their base64.  It never leaves: what is stored, or names a path, is made of
the values.
"""

from __future__ import annotations

import base64
import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

MIXED = {b"secor.encoding": b"json"}
"""Of a string field that holds such text."""

DECLARED = {b"secor.type": b"declared"}
"""Of a field of doubles by the messages' schema: it is no column of integers, even if its
values have no fraction yet."""

UUID = {b"secor.type": b"uuid"}
"""Of a string field that holds UUIDs as its messages' schema says: tables have a type for them."""

_BYTES = "\udcff"
"""In front of bytes in base64: no text of a message has half of a surrogate pair."""

_WRITTEN = r"\udcff"

_NUMBER = "\udcfe"
"""In front of the digits of a number while JSON is written."""

_QUOTED_NUMBER = re.compile(f'"{_NUMBER}([^"]*)"')

EXACT_DIGITS = 15
"""Decimal digits that every double keeps, unless it is close to 0."""

MANY_DIGITS = r"[0-9.]{16}|[eE]-[0-9]{3}"
"""In the text of every number for which ``number`` may return a ``LongNumber``."""

_MAYBE_LONG = re.compile(MANY_DIGITS)

EXACT = 1 << 53
SMALLEST_EXACT = 1e-290


class LongNumber(float):
    """A double for a number with more digits than it holds; ``text`` has them."""

    __slots__ = ("text",)

    text: str

    def decimal(self) -> Decimal | None:
        """Return the number with all its digits; None if no ``Decimal`` has such an exponent."""
        try:
            return Decimal(self.text)
        except InvalidOperation:
            return None


def number(text: str) -> float:
    """Return a JSON number with fraction or exponent as a double that knows all its digits."""
    value = float(text)
    if len(text) <= EXACT_DIGITS + 1 and "-" not in text[1:]:
        return value
    if _is_kept(text, value):
        return value
    long = LongNumber(value)
    long.text = text
    return long


def _is_kept(text: str, value: float) -> bool:
    """Return whether the shortest text of a double is the number that was written."""
    if text == repr(value):  # ``dumps`` may have written it, of a double that was never text
        return True
    digits = repr(value).partition("e")[0].replace(".", "").strip("-0")
    if abs(value) > EXACT and len(digits) > EXACT_DIGITS:
        return False  # other sources have digits there that nobody wrote
    if abs(value) > SMALLEST_EXACT and len(text) <= EXACT_DIGITS + 1:
        return True
    try:
        return Decimal(text) == Decimal(repr(value))
    except InvalidOperation:
        return False


def is_mixed(field: pa.Field) -> bool:
    """Return whether a field holds such text, by its type or by a decoder's metadata."""
    return isinstance(field.type, pa.JsonType) or MIXED.items() <= (field.metadata or {}).items()


def is_declared(field: pa.Field) -> bool:
    """Return whether a field's type is that of its messages' schema, by a decoder's metadata."""
    return DECLARED.items() <= (field.metadata or {}).items()


def is_uuid_text(field: pa.Field) -> bool:
    """Return whether a field holds UUIDs as text, by a decoder's metadata."""
    return UUID.items() <= (field.metadata or {}).items()


def schema_field(
    name: str, kind: pa.DataType, *, text: bool = False, uuid: bool = False
) -> pa.Field:
    """Return the field that a message's schema describes.

    ``text``: it is JSON text; ``uuid``: the text of UUIDs.
    """
    metadata = MIXED if text else DECLARED if pa.types.is_floating(kind) else None
    return pa.field(name, kind, metadata=UUID if uuid else metadata)


def dumps(value: Any) -> str:
    """Write a value: names in their order, decimals as strings."""
    value = _with_marked_numbers(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_marked)
    text = _QUOTED_NUMBER.sub(r"\1", text) if _NUMBER in text else text
    # Escaped: half of a surrogate pair cannot be encoded, and Arrow's text is UTF-8.
    return text.replace(_BYTES, _WRITTEN) if _BYTES in text else text


def _with_marked_numbers(value: Any) -> Any:
    if isinstance(value, LongNumber):
        return _NUMBER + value.text
    if isinstance(value, dict):
        return {name: _with_marked_numbers(item) for name, item in value.items()}
    return [_with_marked_numbers(item) for item in value] if isinstance(value, list) else value


def _marked(value: Any) -> str:
    return _BYTES + base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def loads(text: str) -> Any:
    """Read what ``dumps`` wrote, or any JSON."""
    # A look at the text first: Python's own parser of numbers is many times as fast as ours.
    long = _MAYBE_LONG.search(text) is not None
    value = json.loads(text, parse_float=number if long else None)
    return _with_bytes(value) if _WRITTEN in text else value


def _with_bytes(value: Any) -> Any:
    if isinstance(value, str):
        return base64.b64decode(value[1:]) if value[:1] == _BYTES else value
    if isinstance(value, list):
        return [_with_bytes(item) for item in value]
    if isinstance(value, dict):
        return {name: _with_bytes(item) for name, item in value.items()}
    return value
