"""JSON objects decoded singly, where their columns could not be read at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from secor.core.variant_json import number
from secor.parsing.decoders.columns import MAX_DEPTH, Undecodable, brief


def decode_exactly(raw: bytes, parse_float: Callable[[str], Any] | None = None) -> Any:
    """Decode strictly: a name may occur once in an object.  Raises ``Undecodable``.

    ``parse_float`` makes something else than a double of a number with fraction or exponent.
    """
    try:
        text = raw.decode()
        item = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse,
            parse_float=parse_float or _finite,
        )
        if "\\u" in text:
            # A lone surrogate fails here; decimals, which JSON does not know, never do.
            json.dumps(item, ensure_ascii=False, default=str).encode()
    except (ValueError, RecursionError) as error:
        raise Undecodable(_reason(error)) from error
    return item


def decode_quickly(raw: bytes) -> Any:
    """Decode; of a name that is there twice the last counts.  Raises ``Undecodable``."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Undecodable(_reason(error)) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    item = dict(pairs)
    if len(item) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Undecodable(f"name {name[:40]!r} twice in one object")
            seen.add(name)
    return item


def _refuse(constant: str) -> Any:
    raise Undecodable(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = number(text)
    if value in (float("inf"), float("-inf")):
        raise Undecodable("a number is beyond the range of a double")
    return value


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return f"nested deeper than {MAX_DEPTH}"
    if isinstance(error, UnicodeDecodeError):
        return f"invalid UTF-8 at byte {error.start}"
    if isinstance(error, UnicodeEncodeError):
        return "a lone surrogate in a string"
    return f"invalid JSON: {brief(error).removeprefix('JSON is malformed: ')}"
