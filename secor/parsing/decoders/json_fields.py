"""JSON fields by paths, read without building the rest of each object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from secor.parsing.decoders import json_text
from secor.parsing.decoders.columns import Undecodable, lookup, scalars, struct_of, ways_of
from secor.parsing.decoders.json_object import decode_quickly

_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def read_fields(values: pa.Array, paths: tuple[str, ...]) -> tuple[pa.StructArray, dict[int, str]]:
    """Return a column for each path, and why some rows are bad; ``values`` are checked."""
    ways = [ways_of(path) for path in paths]
    reader = _FieldReader([names for alternatives in ways for names in alternatives])
    bad: dict[int, str] = {}
    try:
        objects = reader.decoder.decode_lines(json_text.join_lines(values))
        columns = reader.columns(objects) if len(objects) == len(values) else None
    except _ERRORS:
        columns = None
    if columns is None:
        columns, bad = _read_by_row(values, reader)
    merged = _first_of_several(columns, ways)
    return struct_of([scalars(column) for column in merged], paths, len(values), bad), bad


def _first_of_several(
    columns: Sequence[list[Any]], ways: Sequence[Sequence[tuple[str, ...]]]
) -> Iterator[list[Any]]:
    """Yield one column a path, of those of all its ways."""
    remaining = iter(columns)
    for alternatives in ways:
        column = next(remaining)
        for _ in alternatives[1:]:
            others = next(remaining)
            column = [b if a is None else a for a, b in zip(column, others, strict=True)]
        yield column


def _read_by_row(values: pa.Array, reader: _FieldReader) -> tuple[list[list[Any]], dict[int, str]]:
    objects: list[Any] = []
    bad: dict[int, str] = {}
    irregular: dict[int, list[Any]] = {}
    for row, raw in enumerate(values.to_pylist()):
        try:
            objects.append(reader.decoder.decode(raw))
        except _ERRORS:
            objects.append(reader.empty)
            try:
                irregular[row] = reader.fields_of_any(raw)
            except Undecodable as error:
                bad[row] = str(error)
    columns = reader.columns(objects)
    for row, fields in irregular.items():
        for column, value in zip(columns, fields, strict=True):
            column[row] = value
    return columns, bad


class _FieldReader:
    """A decoder of classes with exactly the members that the paths name: the rest is skipped."""

    def __init__(self, paths: Sequence[tuple[str, ...]]) -> None:
        self.paths = paths
        tree = _tree(paths)
        structure = _structure(tree)
        self.decoder = msgspec.json.Decoder(structure)
        self.empty = structure()
        self._routes = [_route(tree, path) for path in paths]

    def columns(self, objects: Sequence[Any]) -> list[list[Any]]:
        return [_column(objects, *route) for route in self._routes]

    def fields_of_any(self, raw: bytes) -> list[Any]:
        """Read a message that may have other values than objects on a path."""
        item = decode_quickly(raw)
        return [lookup(item, path) for path in self.paths]


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
    """Return attributes to follow, then names within the dictionary that is there."""
    attributes = []
    for depth, name in enumerate(path):
        attributes.append(f"f{list(tree).index(name)}")
        tree = tree[name]
        if not tree:
            return attributes, path[depth + 1 :]
    raise AssertionError(f"{path} is not in the tree")


def _column(objects: Sequence[Any], attributes: list[str], names: tuple[str, ...]) -> list[Any]:
    first, *more = attributes
    values = list(map(attrgetter(first), objects))
    for name in more:
        values = [None if value is None else getattr(value, name) for value in values]
    return [lookup(value, names) for value in values] if names else values
