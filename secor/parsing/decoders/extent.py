"""Limits of decoded messages: how many cells their columns take, and how to divide them.

A name in one message has a cell in each row of the chunk.  Where names are data
(``{"<user>": 1}``), cells grow with the square of the messages.  So rows are put into groups
with cells in proportion to their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from secor.parsing.rows import Rows

MAX_FIELDS = 1000
"""A nested object with more distinct names than this, in one chunk, is kept as JSON text."""

CELLS_PER_BYTE = 4
FREE_CELLS = 1 << 15
"""A group of messages takes at most so many cells, and ``CELLS_PER_BYTE`` of its bytes."""

FREE_CELLS_OF_ONE = 1 << 20
"""The same for a single message, which cannot be divided."""

LARGE = 1 << 14
"""Bytes; below, a message alone cannot take more cells than that is worth a look."""

MOST_COLUMNS = 10_000
"""Fields of a message, at all levels; one with more is bad."""

TOO_SPARSE = "its lists have objects with too many different names to be columns"


def affordable(cells: int, size: int, free: int | None = None) -> bool:
    """Return whether so many cells are in proportion to ``size`` bytes of messages."""
    return cells <= CELLS_PER_BYTE * size + (FREE_CELLS if free is None else free)


class Node:
    """The values at one place of the messages seen so far: names below, items of lists."""

    __slots__ = ("crowded", "fields", "item")

    def __init__(self) -> None:
        """Begin without anything below."""
        self.fields: dict[str, Node] = {}
        self.item: _Items | None = None
        self.crowded = False


class _Items(Node):
    """The items of all lists at one place: how many, and how many paths they have."""

    __slots__ = ("length", "paths")

    def __init__(self) -> None:
        super().__init__()
        self.length = 0
        self.paths = 1


class CellCounter:
    """Counts the cells of messages as they are added.

    ``crowded`` says whether some nested object has more than ``MAX_FIELDS`` names.
    """

    def __init__(self, known: Node | None = None) -> None:
        """``known`` has crowded objects: nothing below them is a column."""
        self.root = _Items()
        self.cells = 0
        self.crowded = False
        self._known = known

    @property
    def rows(self) -> int:
        """The messages that were added."""
        return self.root.length

    def add(self, message: Any) -> None:
        """Add a decoded message, None for one without fields."""
        self._lengthen(self.root, 1)
        if type(message) is dict:
            self._object(message, self.root, self.root, self._known)

    def _lengthen(self, items: _Items, count: int) -> None:
        items.length += count
        self.cells += count * items.paths

    def _object(self, value: dict[str, Any], node: Node, items: _Items, known: Node | None) -> None:
        if node.crowded or (known is not None and known.crowded):
            return
        fields = node.fields
        for name, inner in value.items():
            child = fields.get(name)
            if child is None:
                child = fields[name] = Node()
                items.paths += 1
                self.cells += items.length
            if type(inner) is dict or type(inner) is list:
                below = known.fields.get(name) if known is not None else None
                self._add_nested(inner, child, items, below)
        if node is not self.root and len(fields) > MAX_FIELDS:
            self._crowd(node, items)

    def _crowd(self, node: Node, items: _Items) -> None:
        """Take away what is below ``node``: it is to be one column of text."""
        paths = _paths_below(node)
        items.paths -= paths
        self.cells -= paths * items.length
        node.fields, node.crowded = {}, True
        self.crowded = True

    def _add_nested(self, value: Any, node: Node, items: _Items, known: Node | None) -> None:
        if type(value) is dict:
            self._object(value, node, items, known)
            return
        if node.item is None:
            node.item = _Items()
        inner = node.item
        self._lengthen(inner, len(value))
        below = known.item if known is not None else None
        for item in value:
            if type(item) is dict or type(item) is list:
                self._add_nested(item, inner, inner, below)


def _paths_below(node: Node) -> int:
    return sum(1 + _paths_below(child) for child in node.fields.values())


def oversized(message: Any, size: int) -> str | None:
    """Return why a decoded message of ``size`` bytes cannot be columns, None if it can.

    That is a function of the message only.
    """
    if size < LARGE:
        return None
    extent = CellCounter()
    extent.add(message)
    if extent.root.paths > MOST_COLUMNS:
        return f"has {extent.root.paths - 1} fields, more than {MOST_COLUMNS}"
    return None if affordable(extent.cells, size, FREE_CELLS_OF_ONE) else TOO_SPARSE


def divide(messages: Sequence[Any], sizes: Sequence[int]) -> Iterator[tuple[Rows, Node]]:
    """Yield rows that have affordable columns together, in order, and what is crowded in all.

    ``sizes`` are the bytes of each message.
    """
    whole = extent_of(messages)
    if affordable(whole.cells, sum(sizes)):
        yield np.arange(len(messages)), whole.root
        return
    first, size = 0, 0
    extent = CellCounter(whole.root)
    for row, message in enumerate(messages):
        extent.add(message)
        size += sizes[row]
        if extent.rows > 1 and not affordable(extent.cells, size):
            yield np.arange(first, row), whole.root
            first, size, extent = row, sizes[row], CellCounter(whole.root)
            extent.add(message)
    yield np.arange(first, len(messages)), whole.root


def extent_of(messages: Iterable[Any]) -> CellCounter:
    """Return the extent of all messages together."""
    extent = CellCounter()
    for message in messages:
        extent.add(message)
    return extent
