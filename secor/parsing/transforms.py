"""Steps between decoding and layout: fields dropped, renamed or masked, messages filtered
or sent to another topic's directory.

``drop``, ``rename`` and ``mask`` change the decoded fields only.  Formats that write values
as they came would not show them, so the configuration refuses them there.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.parsing.fields import Texts, field_at, shown, text_of, texts
from secor.parsing.rows import Decoded
from secor.parsing.structures import Truths, exists, in_text, renamed, replaced, valid


class Selector(Protocol):
    """A step that leaves messages out on purpose; they are counted."""

    @property
    def identity(self) -> str:
        """All settings that change the result, for the fingerprint."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The fields that it must see."""

    def keep(self, decoded: Decoded) -> Truths:
        """Tell for each row whether it stays."""


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
    """Leaves a field out, wherever it stands."""

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
        """Return the rows without it."""
        return Decoded(replaced(decoded.rows, self.path, lambda _: None), decoded.bad)


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
        """Return the rows with the field as text."""
        return Decoded(replaced(decoded.rows, self.path, self._masked), decoded.bad)

    def _masked(self, column: pa.Array) -> pa.Array:
        found = texts(column)
        masked = pa.array([self._text(text) for text in found.distinct], pa.string())
        codes = pa.array(found.codes, mask=found.codes < 0)
        return masked.take(codes)

    def _text(self, text: str) -> str:
        if self.constant is not None:
            return self.constant
        return hmac.new(self.salt, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Rename:
    """Gives a field another name in the same structure.

    A message that has both is bad.  So is one with the old name where the chunk has the new
    one with another type.
    """

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

    @property
    def _target(self) -> str:
        return ".".join([*self.path.split(".")[:-1], self.name])

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows with the new name."""
        old = field_at(decoded.rows, self.path)
        if not exists(decoded.rows.type, self._target):
            return Decoded(renamed(decoded.rows, self.path, self.name), decoded.bad)
        new = field_at(decoded.rows, self._target)
        both = np.flatnonzero(valid(old) & (valid(new) | (old.type != new.type)))
        bad = dict.fromkeys(both.tolist(), f"has {self.path} and {self._target}, too")
        if in_text(decoded.rows.type, self.path):
            return Decoded(renamed(decoded.rows, self.path, self.name), bad | dict(decoded.bad))
        rows = replaced(decoded.rows, self.path, lambda _: None)
        if old.type == new.type:
            # A renamed value whose structure is missing has nowhere to be, nor was it there.
            rows = replaced(rows, self._target, lambda column: pc.coalesce(column, old))
        return Decoded(rows, bad | dict(decoded.bad))


# -------------------------------------------------------------------- messages


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps messages whose field has one of ``values``, or matches, or just exists.

    Values are compared as text; ``pattern`` must match the whole text.  A missing field
    has no value.  ``negated`` keeps the others.
    """

    path: str
    values: tuple[object, ...] | None = None
    pattern: re.Pattern[str] | None = None
    negated: bool = False

    @property
    def identity(self) -> str:
        """All of it."""
        pattern = self.pattern.pattern if self.pattern else None
        return f"filter {self.path} {self._wanted()} {pattern!r} {self.negated}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The field."""
        return (self.path,)

    def _wanted(self) -> list[str] | None:
        return None if self.values is None else sorted(str(text_of(it)) for it in self.values)

    def keep(self, decoded: Decoded) -> Truths:
        """Tell for each row whether it stays."""
        column = field_at(decoded.rows, self.path)
        if self.values is None and self.pattern is None:
            return valid(column) ^ self.negated
        found = texts(column)
        wanted = self._wanted()
        fits = [
            (wanted is None or text in wanted)
            and (self.pattern is None or self.pattern.fullmatch(text) is not None)
            for text in found.distinct
        ]
        return found.lookup(np.array(fits, dtype=bool), null=False) ^ self.negated


@dataclass(frozen=True, slots=True)
class Route:
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
        found = texts(field_at(decoded.rows, self.path))
        allowed = np.array([text in self.targets for text in found.distinct], dtype=bool)
        wrong = np.flatnonzero(~found.lookup(allowed, null=True))
        why = "is none of the topics that this may go to"
        return found, {row: f"{self.path} {shown(found.at(row))} {why}" for row in wrong.tolist()}
