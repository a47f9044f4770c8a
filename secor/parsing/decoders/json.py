"""JSON objects, one a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from secor.parsing.decoders import json_text
from secor.parsing.decoders.columns import (
    MAX_DEPTH,
    Undecodable,
    brief,
    decoded_apart,
    everything,
    lookup,
    scalars,
    struct_of,
    ways_of,
)
from secor.parsing.rows import Decoded, Rows

MAX_ELEMENTS = 1_000_000
"""Values in one message: some seconds of work."""


class JsonDecoder:
    """RFC 8259 objects in UTF-8; everything else is bad, with a reason.

    Bad: null and empty payloads, other top levels than objects, NaN and Infinity, numbers
    beyond a double, invalid UTF-8, lone surrogates, nesting beyond ``MAX_DEPTH``, more values
    than ``max_elements``, and, when everything is asked for, a name twice in one object or
    what ``extent.oversized`` tells.  With paths, fields that are not
    asked for are checked for syntax only, and of a name that is there twice the last counts.
    Integers beyond int64 turn their column (of this chunk) into text, never into doubles.
    """

    def __init__(self, max_elements: int = MAX_ELEMENTS) -> None:
        """``max_elements`` bounds the values of a message, those within others included."""
        self._max_elements = max_elements
        self.identity = f"json-4:{max_elements}"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        values = messages.column("value")
        bad = json_text.check(values, self._max_elements)
        good = values if not bad else values.take(_others(len(values), bad))
        if paths is not None:
            return _whole(*_fields(good, paths), bad, len(values))
        rows, more = _columns(good)
        if rows is not None:
            return _whole(rows, more, bad, len(values))
        objects, bad = _objects(values, _merged(bad, more, len(values)))
        return Decoded(everything(objects, bad), bad)

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """See ``rows.DividingDecoder``."""
        values = messages.column("value")
        every = np.arange(len(values))
        if paths is not None:
            return [(every, self.decode(messages, paths))]
        bad = json_text.check(values, self._max_elements)
        good = values if not bad else values.take(_others(len(values), bad))
        rows, more = _columns(good)
        if rows is not None:
            return [(every, _whole(rows, more, bad, len(values)))]
        return decoded_apart(*_objects(values, _merged(bad, more, len(values))), messages)


def _whole(
    rows: pa.StructArray, more: Mapping[int, str], bad: dict[int, str], total: int
) -> Decoded:
    """Return the rows of all messages, of which those in ``bad`` were left out."""
    if not bad:
        return Decoded(rows, more)
    scattered = _scattered(rows, _others(total, bad), total)
    return Decoded(scattered, _merged(bad, more, total))


def _merged(bad: dict[int, str], more: Mapping[int, str], total: int) -> dict[int, str]:
    """Return all reasons; ``more`` counts only the rows that are not in ``bad``."""
    places = _others(total, bad)
    merged = bad | {int(places[row].as_py()): reason for row, reason in more.items()}
    return dict(sorted(merged.items()))


def _others(rows: int, bad: Mapping[int, str]) -> pa.Array:
    keep = np.ones(rows, dtype=bool)
    keep[list(bad)] = False
    return pa.array(np.flatnonzero(keep))


def _scattered(rows: pa.StructArray, places: pa.Array, total: int) -> pa.StructArray:
    """Put row i at ``places[i]`` of ``total`` rows, null elsewhere."""
    indices = np.zeros(total, dtype=np.int64)
    mask = np.ones(total, dtype=bool)
    at = places.to_numpy()
    indices[at] = np.arange(len(at))
    mask[at] = False
    return rows.take(pa.array(indices, mask=mask))


def _fields(values: pa.Array, paths: tuple[str, ...]) -> tuple[pa.StructArray, dict[int, str]]:
    ways = [ways_of(path) for path in paths]
    shape = _Shape([names for several in ways for names in several])
    bad: dict[int, str] = {}
    try:
        found = shape.decoder.decode_lines(json_text.joined(values))
        columns = shape.columns(found) if len(found) == len(values) else None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        columns = None
    if columns is None:
        columns, bad = _fields_by_row(values, shape)
    merged = _first_of_several(columns, ways)
    return struct_of([scalars(column) for column in merged], paths, len(values), bad), bad


def _first_of_several(
    columns: Sequence[list[Any]], ways: Sequence[Sequence[tuple[str, ...]]]
) -> Iterator[list[Any]]:
    """Give one column a path, of those of all its ways."""
    left = iter(columns)
    for several in ways:
        found = next(left)
        for _ in several[1:]:
            more = next(left)
            found = [b if a is None else a for a, b in zip(found, more, strict=True)]
        yield found


def _fields_by_row(values: pa.Array, shape: _Shape) -> tuple[list[list[Any]], dict[int, str]]:
    found: list[Any] = []
    bad: dict[int, str] = {}
    odd: dict[int, list[Any]] = {}
    for row, raw in enumerate(values.to_pylist()):
        try:
            found.append(shape.decoder.decode(raw))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            found.append(shape.empty)
            try:
                odd[row] = shape.anyhow(raw)
            except Undecodable as error:
                bad[row] = str(error)
    columns = shape.columns(found)
    for row, fields in odd.items():
        for column, value in zip(columns, fields, strict=True):
            column[row] = value
    return columns, bad


class _Shape:
    """Classes with exactly the members that the paths name: the rest is skipped, unbuilt."""

    def __init__(self, paths: Sequence[tuple[str, ...]]) -> None:
        self.paths = paths
        tree = _tree(paths)
        structure = _structure(tree)
        self.decoder = msgspec.json.Decoder(structure)
        self.empty = structure()
        self._routes = [_route(tree, path) for path in paths]

    def columns(self, found: Sequence[Any]) -> list[list[Any]]:
        return [_column(found, *route) for route in self._routes]

    def anyhow(self, raw: bytes) -> list[Any]:
        """Take the fields where another kind of value than an object may stand in the way."""
        item = _loose(raw)
        return [lookup(item, path) for path in self.paths]


def _loose(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Undecodable(_reason(error)) from error


Tree = dict[str, "Tree"]


def _tree(paths: Sequence[tuple[str, ...]]) -> Tree:
    root: Tree = {}
    for path in paths:
        node = root
        for name in path:
            node = node.setdefault(name, {})
    for path in paths:  # what is wanted itself is not a structure, even if parts of it are too
        node = root
        for name in path[:-1]:
            node = node.get(name, {})
        if path[-1] in node:
            node[path[-1]] = {}
    return root


def _structure(tree: Tree) -> Any:
    fields = []
    for number, (name, below) in enumerate(tree.items()):
        kind = _structure(below) | None if below else Any
        fields.append((f"f{number}", kind, msgspec.field(name=name, default=None)))
    return msgspec.defstruct("Fields", fields, gc=False)


def _route(tree: Tree, path: tuple[str, ...]) -> tuple[list[str], tuple[str, ...]]:
    """Attributes to follow, then names within the dictionary that is there."""
    attributes = []
    for depth, name in enumerate(path):
        attributes.append(f"f{list(tree).index(name)}")
        tree = tree[name]
        if not tree:
            return attributes, path[depth + 1 :]
    raise AssertionError(f"{path} is not in the tree")


def _column(found: Sequence[Any], attributes: list[str], names: tuple[str, ...]) -> list[Any]:
    first, *more = attributes
    values = [getattr(item, first) for item in found]
    for name in more:
        values = [None if value is None else getattr(value, name) for value in values]
    return [lookup(value, names) for value in values] if names else values


def _columns(values: pa.Array) -> tuple[pa.StructArray | None, dict[int, str]]:
    """Return all fields, None where a look at each row is needed, and why some rows are bad."""
    rows = json_text.read(values)
    if rows is not None:
        return rows, {}
    bad = _refused(_loose, values.to_pylist())
    if not bad:
        return None, {}
    places = _others(len(values), bad)
    rows = json_text.read(values.take(places))
    return None if rows is None else _scattered(rows, places, len(values)), bad


def _refused(decode: Callable[[bytes], Any], raws: Sequence[bytes]) -> dict[int, str]:
    bad: dict[int, str] = {}
    for row, raw in enumerate(raws):
        try:
            decode(raw)
        except Undecodable as error:
            bad[row] = str(error)
    return bad


def _objects(values: pa.Array, bad: Mapping[int, str]) -> tuple[list[Any], dict[int, str]]:
    """Return an object for each message, None where it is bad, and all reasons."""
    objects: list[Any] = []
    reasons = dict(bad)
    for row, raw in enumerate(values.to_pylist()):
        try:
            objects.append(None if row in bad else _exact(raw))
        except Undecodable as error:
            objects.append(None)
            reasons[row] = str(error)
    return objects, dict(sorted(reasons.items()))


def _exact(raw: bytes) -> Any:
    """Decode strictly, with Python's integers."""
    try:
        text = raw.decode()
        item = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite
        )
        if "\\u" in text:
            json.dumps(item, ensure_ascii=False).encode()  # a lone surrogate fails here
    except (ValueError, RecursionError) as error:
        raise Undecodable(_reason(error)) from error
    return item


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
    value = float(text)
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
