"""The interface of decoders and transforms: decoded rows, and reasons of bad ones."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Rows = npt.NDArray[np.int64]
"""Numbers of rows, in order."""


class _Tally(threading.local):
    count = 0


_infinite = _Tally()


def null_for_infinite(null: None = None) -> Any:
    """Return null for an infinite time or decimal, which no column holds, and count it."""
    note_infinite(1)
    return null


def note_infinite(values: int) -> None:
    """Count ``values`` that no column holds, which become null, for this thread."""
    _infinite.count += values


def take_infinite() -> int:
    """Return how many such values this thread has met since the last call."""
    count, _infinite.count = _infinite.count, 0
    return count


@dataclass(frozen=True, slots=True)
class Decoded:
    """The fields of a chunk's messages.

    ``rows`` is a struct array with one row a message, null where the message is bad;
    ``bad`` has the reasons, by row number.  A field that a message lacks is null.
    """

    rows: pa.StructArray
    bad: Mapping[int, str] = field(default_factory=dict)


class Decoder(Protocol):
    """Messages to fields: pure, no clock, no randomness, never an exception for a bad message."""

    @property
    def identity(self) -> str:
        """All settings that change the result, schemas included, for the fingerprint."""

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """Decode the values of ``messages`` (``model.SCHEMA``).

        With ``paths`` (dotted, such as ``user.country``) the struct has exactly these
        fields, named by their whole path, scalars only, each with one Arrow type for all
        rows (string, int64, double, bool or binary; numbers of mixed kinds as double;
        anything else as its JSON text; a decoder with a schema keeps its types); None asks
        for everything, nested types kept.
        """


@runtime_checkable
class DividingDecoder(Decoder, Protocol):
    """A decoder that does not give all messages of a chunk one type."""

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """Decode in groups of rows, each as ``decode`` does; every row is in one of them.

        Rows are apart where one type for all would lose something, or where the columns of
        all would take too much memory.  What becomes of a message does not depend on its group.
        """


class Schema(Protocol):
    """The declared fields of rows."""

    @property
    def null_keeping_names(self) -> frozenset[str]:
        """The names of fields that keep the null members of objects: maps and JSON text."""

    @property
    def identity(self) -> str:
        """All that changes the result, for the fingerprint."""

    def fit(self, rows: pa.StructArray) -> tuple[pa.StructArray, Mapping[int, str]]:
        """Return the rows in the declared type, and by row number why one does not fit."""


class SchemaGrowth(Protocol):
    """Finds the messages for which the present schema does not suffice."""

    @property
    def identity(self) -> str:
        """All that changes the result, for the fingerprint."""

    def look(
        self,
        rows: pa.StructArray,
        fitted: pa.StructArray,
        bad: Mapping[int, str],
        live: npt.NDArray[np.bool_],
    ) -> tuple[int | None, Mapping[int, str]]:
        """Return the first of the ``live`` rows that needs a wider schema, None if none does,
        and why others fit no schema that this one can become.

        ``fitted`` and ``bad`` are what the schema's ``fit`` made of ``rows``.
        """

    def has_new_fields(self, rows: pa.StructArray) -> bool:
        """Return whether rows have values in fields that the schema lacks, at little cost."""

    def misfits(self, rows: pa.StructArray) -> Mapping[int, str]:
        """Return why rows do not fit the present schema."""

    def grow(self, first: pa.StructArray, following: Sequence[pa.StructArray]) -> None:
        """Ask for the schema that ``first``, one row, needs, and others after it that fit."""


@runtime_checkable
class Dividing(Protocol):
    """An optional part of a step."""

    def apart(self, decoded: Decoded) -> Sequence[Rows]:
        """Return the rows that it can give one type, in groups; each row is in one."""


class Transform(Protocol):
    """A step between decoding and layout: pure, rows in, as many rows out."""

    @property
    def identity(self) -> str:
        """All settings that change the result, for the fingerprint."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The fields that it must see."""

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows changed; a message that it cannot take is bad."""
