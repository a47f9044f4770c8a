"""JSON text of values of several kinds, as one column holds them between decoder and format.

How a decoder types a column depends on what else is in the chunk; what becomes of a value may
not.  So the text has all that a column of one kind has: JSON, and bytes, which are told from
the text that is their base64.  It never leaves: what is stored, or names a path, is made of
the values.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa

MIXED = {b"secor.encoding": b"json"}
"""Of a string field that holds such text."""

_BYTES = "\udcff"
"""In front of bytes in base64: no text of a message has half of a surrogate pair."""

_WRITTEN = r"\udcff"


def is_mixed(field: pa.Field) -> bool:
    """Tell whether a field holds such text, by its type or by a decoder's metadata."""
    return isinstance(field.type, pa.JsonType) or MIXED.items() <= (field.metadata or {}).items()


def dumps(value: Any) -> str:
    """Write a value: names in their order, decimals as strings."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_marked)
    return text.replace(_BYTES, _WRITTEN) if _BYTES in text else text


def _marked(value: Any) -> str:
    return _BYTES + base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def loads(text: str) -> Any:
    """Read what ``dumps`` wrote, or any JSON."""
    value = json.loads(text)
    return _with_bytes(value) if _WRITTEN in text else value


def _with_bytes(value: Any) -> Any:
    if isinstance(value, str):
        return base64.b64decode(value[1:]) if value[:1] == _BYTES else value
    if isinstance(value, list):
        return [_with_bytes(item) for item in value]
    if isinstance(value, dict):
        return {name: _with_bytes(item) for name, item in value.items()}
    return value
