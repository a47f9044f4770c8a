"""The layout: a template of fields, time and offset that gives output partitions.

``{country}/dt={time:%Y-%m-%d}/hr={time:%H}``:  ``{name}`` is a field by dotted path (with a
dot in front, ``{.time}``, even if it is called like one of the following), ``{time:…}`` the
message's time in parts, ``{offset:10000000}`` the offset rounded down, ``{topic}`` the topic,
``{kafka_partition}`` the Kafka partition.  An empty template gives the topic's own directory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from secor.core.errors import ConfigurationError
from secor.core.naming import ROUTED
from secor.parsing.fields import show_value
from secor.parsing.layout_pieces import (
    BucketPiece,
    FieldPiece,
    LayoutColumns,
    LayoutPiece,
    PartitionPiece,
    TimePiece,
    TopicPiece,
    directives,
)
from secor.parsing.zones import Zone, few_distinct

LONGEST_PATH = 600
"""Bytes of an output partition; a key has 1,024, and the topic and file name need the rest."""

LONGEST_LITERAL = 50
"""Bytes of a template's own text in one piece: file systems allow 255 with the value."""

_TOKEN = re.compile(r"\{(?P<inside>[^{}]*)\}|(?P<text>[^{}]+)|(?P<brace>[{}])")
_LITERAL = re.compile(r"[A-Za-z0-9_=.,@+~ -]*")

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowPaths:
    """For each row an index into ``paths``; rows in ``bad`` have -1."""

    codes: Codes
    paths: list[str]
    bad: dict[int, str] = field(default_factory=dict)


class Layout:
    """A compiled template."""

    def __init__(self, template: str, zone: Zone | None = None) -> None:
        """Compile.  Raises ``ConfigurationError`` that names the part at fault."""
        self.template = template
        self.zone = zone or Zone()
        self.parts: Sequence[str | LayoutPiece] = _compile(template, self.zone)
        pieces = [part for part in self.parts if not isinstance(part, str)]
        self.paths = tuple(
            dict.fromkeys(
                layout_piece.path for layout_piece in pieces if isinstance(layout_piece, FieldPiece)
            )
        )
        self.needs_time = any(isinstance(piece, TimePiece) for piece in pieces)
        self.needs_topic = any(isinstance(piece, TopicPiece) for piece in pieces)

    @property
    def is_routes(self) -> bool:
        """True if it begins as do the directories into which routes bring messages."""
        return self.template.startswith(ROUTED)

    @property
    def identity(self) -> str:
        """The template, and the zone if it matters."""
        return f"{self.template}:{self.zone.identity}" if self.needs_time else self.template

    def place(self, columns: LayoutColumns) -> RowPaths:
        """Return the output partition of each row."""
        parts: list[tuple[Codes, list[str]] | str] = [
            part if isinstance(part, str) else part.texts(columns) for part in self.parts
        ]
        if not len(columns.offsets):
            return RowPaths(np.zeros(0, np.int64), [])
        varying = [part for part in parts if not isinstance(part, str)]
        combined = _combine([codes for codes, _ in varying], len(columns.offsets))
        distinct, first, codes = _first_rows(combined)
        return _places(codes, _paths(parts, first), len(distinct))


def _combine(columns: Sequence[Codes], rows: int) -> Codes:
    """Make one number of several columns' codes."""
    total = np.zeros(rows, dtype=np.int64)
    for codes in columns:
        # Renumbered each time, so that it never grows beyond rows times distinct values.
        total = few_distinct(total)[1] * (int(codes.max()) + 1) + codes
    return total


def _first_rows(values: Codes) -> tuple[Codes, Codes, Codes]:
    """Return distinct values, the first row of each, and each row's index among them."""
    distinct, codes = few_distinct(values)
    first = np.full(len(distinct), len(values), dtype=np.int64)
    if len(distinct) == 1:
        return distinct, np.zeros(1, np.int64), codes
    # Backwards, so that of several rows with one code the first is written last, and stays.
    first[codes[::-1]] = np.arange(len(values) - 1, -1, -1)
    return distinct, first, codes


def _paths(parts: Sequence[tuple[Codes, list[str]] | str], rows: Codes) -> list[str]:
    """Return the paths of some rows."""
    if not parts:
        return [""] * len(rows)
    columns = [
        [part] * len(rows)
        if isinstance(part, str)
        else list(map(part[1].__getitem__, part[0][rows].tolist()))
        for part in parts
    ]
    return list(map("".join, zip(*columns, strict=True)))


def _places(codes: Codes, paths: list[str], distinct: int) -> RowPaths:
    """Return one code for equal paths, and refuse those that no store would take."""
    kept: dict[str, int] = {}
    table = np.empty(distinct, dtype=np.int64)
    long: dict[int, str] = {}
    for index, path in enumerate(paths):
        # Four bytes a character at most.
        if (
            len(path) * 4 > LONGEST_PATH
            and len(path.encode("utf-8", "surrogatepass")) > LONGEST_PATH
        ):
            table[index] = -1
            long[index] = f"the path {show_value(path)} is longer than {LONGEST_PATH} bytes"
        else:
            # Different values may have one path, such as times of the same hour: they are one
            # output partition.
            table[index] = kept.setdefault(path, len(kept))
    bad = {
        int(row): reason for index, reason in long.items() for row in np.flatnonzero(codes == index)
    }
    return RowPaths(table[codes], list(kept), bad)


# ------------------------------------------------------------------- templates


def _compile(template: str, zone: Zone) -> list[str | LayoutPiece]:
    parts: list[str | LayoutPiece] = []
    written = ""
    for token in _TOKEN.finditer(template):
        if token["brace"]:
            raise _fault(template, f"the brace {token['brace']!r} has no partner")
        if token["text"]:
            _check_literal(template, token["text"])
            parts.append(token["text"])
            written += token["text"]
        else:
            piece = _placeholder(template, token["inside"], zone, "=" in written.split("/")[-1])
            parts.append(piece)
            written += _sample_text(template, token["inside"], piece)
    _check_pieces(template, written)
    return parts


def _fault(template: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"layout {template!r}: {why}")


def _check_literal(template: str, text: str) -> None:
    for piece in text.split("/"):
        if not _LITERAL.fullmatch(piece):
            raise _fault(template, f"{piece!r} has characters that do not belong into paths")


def _placeholder(template: str, inside: str, zone: Zone, named: bool) -> LayoutPiece:
    name, colon, argument = inside.partition(":")
    if name == "time":
        if "%" not in argument:
            raise _fault(template, "{time} needs its parts, such as {time:%Y-%m-%d}")
        for literal, _ in directives(argument):
            _check_literal(template, literal)
        return TimePiece(argument, zone)
    if name == "offset":
        if not argument.isascii() or not argument.isdigit() or int(argument) == 0:
            raise _fault(template, "{offset} needs the size of a bucket: {offset:10000000}")
        return BucketPiece(int(argument))
    if colon:
        raise _fault(template, f"{{{inside}}}: only time and offset take something after a colon")
    if name == "topic":
        return TopicPiece(named)
    if name == "kafka_partition":
        return PartitionPiece()
    path = name.removeprefix(".")
    if not path or any(not step for step in path.split(".")):
        raise _fault(template, f"{{{inside}}} names no field")
    return FieldPiece(path, named)


def _sample_text(template: str, inside: str, piece: LayoutPiece) -> str:
    """Return the text for a placeholder where pieces are counted: NUL for a value."""
    if isinstance(piece, TimePiece):
        return "".join(f"{text}0" for text, _ in directives(inside.partition(":")[2]))
    return "0" if isinstance(piece, BucketPiece | PartitionPiece) else "\0"


def _check_pieces(template: str, written: str) -> None:
    if not template:
        return
    for piece in written.split("/"):
        if piece in ("", ".", ".."):
            raise _fault(template, 'empty pieces, "." and ".." are no directories')
        if piece.count("\0") > 1:
            raise _fault(template, "one field a directory: put a / between two")
        if len(piece) > LONGEST_LITERAL:
            raise _fault(template, f"a directory has more than {LONGEST_LITERAL} characters")
        if piece[0] in "._" and "=" not in piece:
            raise _fault(template, 'directories that begin with "_" or "." are hidden from readers')
