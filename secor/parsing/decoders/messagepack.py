"""The MessagePack decoder: maps, one a message."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from secor.parsing.decoders.columns import (
    MAX_DEPTH,
    Undecodable,
    brief,
    build_apart,
    build_decoded,
    keep_nulls,
    rowwise,
)
from secor.parsing.rows import Decoded, Rows

NANOSECONDS = 1_000_000_000


class MessagePackDecoder:
    """Maps with string or integer keys (an integer is named by its digits).

    Timestamps become integers, nanoseconds since the epoch; other extension types their
    bytes.  Bad: anything else than one whole map, a key twice, keys of other kinds,
    strings that are not UTF-8, nesting beyond ``MAX_DEPTH``; when everything is asked for, what
    ``extent.oversized`` reports.
    Source: https://github.com/msgpack/msgpack/blob/master/spec.md
    """

    def __init__(self, keep_nulls_in: Collection[str] = ()) -> None:
        """Objects in fields of the names ``keep_nulls_in`` keep their null members."""
        self._keep_nulls_in = frozenset(name.lower() for name in keep_nulls_in)
        nulls = f":nulls in {sorted(self._keep_nulls_in)}" if self._keep_nulls_in else ""
        self.identity = f"messagepack-3{nulls}"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        objects, bad = rowwise(messages, _decode)
        if paths is None:
            objects = keep_nulls(objects, self._keep_nulls_in)
        return build_decoded(objects, bad, paths)

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """See ``rows.DividingDecoder``."""
        objects, bad = rowwise(messages, _decode)
        if paths is None:
            return build_apart(keep_nulls(objects, self._keep_nulls_in), bad, messages)
        return [(np.arange(len(objects)), build_decoded(objects, bad, paths))]


def _decode(raw: bytes) -> dict[str, Any]:
    try:
        item = msgpack.unpackb(
            raw, strict_map_key=False, ext_hook=_extension, object_pairs_hook=_map
        )
    except msgpack.ExtraData as error:
        reached = len(raw) - len(error.extra)
        raise Undecodable(f"bytes after the message's end, at byte {reached}") from error
    except msgpack.StackError as error:
        raise Undecodable(f"nested deeper than {MAX_DEPTH}") from error
    except UnicodeDecodeError as error:
        raise Undecodable("a string is not UTF-8") from error
    except (ValueError, TypeError, RecursionError, OverflowError, msgpack.UnpackException) as error:
        raise Undecodable(f"invalid messagepack: {brief(error)}") from error
    if type(item) is not dict:
        raise Undecodable("not a messagepack map")
    return _plain(item, MAX_DEPTH)


def _map(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    item = {name if type(name) is str else _name(name): value for name, value in pairs}
    if len(item) != len(pairs):
        raise Undecodable("a key twice in one map")
    return item


def _name(key: Any) -> str:
    if type(key) is not int:
        raise Undecodable(f"a map's key is neither text nor integer but {type(key).__name__}")
    return str(key)


def _extension(_code: int, data: bytes) -> bytes:
    return data


def _plain(value: Any, levels: int) -> Any:
    """Replace timestamps and check the depth."""
    if type(value) is dict:
        if not levels:
            raise Undecodable(f"nested deeper than {MAX_DEPTH}")
        for name, item in value.items():
            if type(item) in NESTED:
                value[name] = _plain(item, levels - 1)
    elif type(value) is list:
        if not levels:
            raise Undecodable(f"nested deeper than {MAX_DEPTH}")
        return [_plain(item, levels - 1) if type(item) in NESTED else item for item in value]
    elif type(value) is msgpack.Timestamp:
        return value.seconds * NANOSECONDS + value.nanoseconds
    return value


NESTED = frozenset({dict, list, msgpack.Timestamp})
