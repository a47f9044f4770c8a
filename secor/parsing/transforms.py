"""Transforms: steps that drop, rename or mask fields, or filter and route messages.

``drop``, ``rename`` and ``mask`` change the decoded fields only.  Formats that write values
as they came would not show them, so the configuration refuses them there.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from secor.core.expressions import fullmatches
from secor.parsing.fields import Texts, along, field_at, show_value, text_of, texts
from secor.parsing.rows import Decoded, Rows
from secor.parsing.structures import (
    Truths,
    alike,
    beyond,
    rename_field,
    replace_field,
    routes_of,
    valid,
)


@runtime_checkable
class Selector(Protocol):
    """A step that leaves messages out on purpose; they are counted."""

    @property
    def identity(self) -> str:
        """All settings that change the result, for the fingerprint."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The fields that it must see."""

    def keep(self, decoded: Decoded) -> Truths:
        """Return for each row whether it stays."""


@runtime_checkable
class Router(Protocol):
    """A step that says to which topic's directory a message goes."""

    @property
    def identity(self) -> str:
        """All settings that change the result, for the fingerprint."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The fields that it must see."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Every topic name that it may give."""

    def route(self, decoded: Decoded) -> tuple[Texts, Mapping[int, str]]:
        """Return the topic of each row (null: its own), and why rows have none."""


# ---------------------------------------------------------------------- fields


@dataclass(frozen=True, slots=True)
class Drop:
    """A step that leaves a field out, at any depth."""

    path: str

    @property
    def identity(self) -> str:
        """The field."""
        return f"drop {self.path}"

    @property
    def paths(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows without it; what it cannot be taken out of is bad."""
        bad = _kept(decoded.rows, self.path, "drop")
        rows = replace_field(decoded.rows, self.path, lambda _: None)
        return Decoded(rows, bad | dict(decoded.bad))


@dataclass(frozen=True, slots=True)
class Mask:
    """Puts a constant, or without one a salted hash (HMAC-SHA256, 64 hex digits), for a value.

    Null stays null.  The hash is of the value's text, so 5 and "5" have the same.
    """

    path: str
    constant: str | None = None
    salt: bytes = field(default=b"", repr=False)

    @property
    def identity(self) -> str:
        """The field, the constant, and a hash of the salt."""
        if self.constant is not None:
            return f"mask {self.path} {self.constant!r}"
        return f"mask {self.path} {hashlib.sha256(self.salt).hexdigest()[:16]}"

    @property
    def paths(self) -> tuple[str, ...]:
        """Nothing: where the field was not asked for, there is nothing to hide."""
        return ()

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows with the field as text; where it would be left as it is is bad."""
        bad = _kept(decoded.rows, self.path, "mask")
        rows = replace_field(decoded.rows, self.path, self._mask)
        return Decoded(rows, bad | dict(decoded.bad))

    def _mask(self, column: pa.Array) -> pa.Array:
        values = texts(column)
        masked = pa.array([self._text(text) for text in values.distinct], pa.string())
        codes = pa.array(values.codes, mask=values.codes < 0)
        return masked.take(codes)

    def _text(self, text: str) -> str:
        if self.constant is not None:
            return self.constant
        # An HMAC, not a plain hash: without the salt, names and numbers could be found by trying
        # them.
        return hmac.new(self.salt, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def _kept(rows: pa.StructArray, path: str, verb: str) -> dict[int, str]:
    """Return the rows where a secret would stay, with the reason."""
    why = f"{path} is within a list or a map: {verb} the whole of that"
    return dict.fromkeys(np.flatnonzero(beyond(rows, path)).tolist(), why)


@dataclass(frozen=True, slots=True)
class Rename:
    """Gives a field another name in the same structure; a message that has both is bad."""

    path: str
    name: str

    @property
    def identity(self) -> str:
        """Both names."""
        return f"rename {self.path} {self.name}"

    @property
    def paths(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def apart(self, decoded: Decoded) -> Sequence[Rows]:
        """Return apart the rows that have the old name, where the new one is of another type."""
        kind = decoded.rows.type
        codes = np.zeros(len(decoded.rows), dtype=np.int64)
        places = routes_of(kind, self.path)
        for steps in places:
            target = self._target(steps)
            if len(places) > 1 or not alike(kind, steps, target):
                old, new = valid(along(decoded.rows, steps)), valid(along(decoded.rows, target))
                codes = codes * 2 + (old & ~new)
        return [np.flatnonzero(codes == code) for code in np.unique(codes)]

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows with the new name."""
        rows = decoded.rows
        bad: dict[int, str] = {}
        # Within structures first: what a whole name becomes may be one of them.
        for steps in reversed(routes_of(rows.type, self.path)):
            target = self._target(steps)
            both = valid(along(rows, steps)) & valid(along(rows, target))
            why = f"has {self.path} and {'.'.join(target)}, too"
            bad |= dict.fromkeys(np.flatnonzero(both).tolist(), why)
            rows = rename_field(rows, steps, self.name)
        return Decoded(rows, bad | dict(decoded.bad))

    def _target(self, steps: Sequence[str]) -> list[str]:
        return [*steps[:-1], self.name]


# -------------------------------------------------------------------- messages


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps messages whose field has one of ``values``, or matches, or just exists.

    Values are compared as text; ``pattern`` (RE2's) must match the whole text.  A missing field
    has no value.  ``negated`` keeps the others.
    """

    path: str
    values: tuple[object, ...] | None = None
    pattern: str | None = None
    negated: bool = False

    @property
    def identity(self) -> str:
        """All of it."""
        pattern = None if self.pattern is None else f"RE2 {self.pattern!r}"
        return f"filter {self.path} {self._wanted_texts()} {pattern} {self.negated}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The field."""
        return (self.path,)

    def _wanted_texts(self) -> list[str] | None:
        return None if self.values is None else sorted(str(text_of(value)) for value in self.values)

    def keep(self, decoded: Decoded) -> Truths:
        """Return for each row whether it stays."""
        column = field_at(decoded.rows, self.path)
        if self.values is None and self.pattern is None:
            return valid(column) ^ self.negated
        values = texts(column)
        fits = np.ones(len(values.distinct), dtype=bool)
        if self.values is not None:
            wanted = set(self._wanted_texts() or ())
            fits &= np.array([text in wanted for text in values.distinct], dtype=bool)
        if self.pattern is not None:
            fits &= fullmatches(self.pattern, values.distinct)
        return values.lookup(fits, null=False) ^ self.negated


@dataclass(frozen=True, slots=True)
class RouteTransform:
    """Sends messages to the directory of another topic: always ``topic``, or by a field.

    A field's value must be one of ``targets``; a missing one leaves the message where it is.
    """

    targets: tuple[str, ...]
    path: str | None = None

    @property
    def identity(self) -> str:
        """The field and the targets."""
        return f"route {self.path} {' '.join(self.targets)}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The field."""
        return () if self.path is None else (self.path,)

    def route(self, decoded: Decoded) -> tuple[Texts, Mapping[int, str]]:
        """Return the topic of each row (null: its own), and why rows have none."""
        if self.path is None:
            codes = np.zeros(len(decoded.rows), dtype=np.int64)
            return Texts(codes, [self.targets[0]]), {}
        topics = texts(field_at(decoded.rows, self.path))
        allowed = np.array([text in self.targets for text in topics.distinct], dtype=bool)
        wrong = np.flatnonzero(~topics.lookup(allowed, null=True))
        why = "is none of the topics that this may go to"
        return topics, {
            row: f"{self.path} {show_value(topics.at(row))} {why}" for row in wrong.tolist()
        }
