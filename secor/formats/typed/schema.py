"""Which fields a typed file has: declared, or inferred from its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Self

import pyarrow as pa
import pyarrow.compute as pc

from secor.errors import ConfigurationError
from secor.formats.typed.descriptions import DEFAULT, describe, parse
from secor.formats.typed.fitting import MisfitError, default_of, fitted_field, undeclared
from secor.formats.typed.inference import final, observed, widened
from secor.formats.typed.plain import json_texts, plain
from secor.formats.typed.trees import JSON, as_json, children, struct_of

ExtraFields = Literal["drop", "quarantine", "json"]

EXTRA = "_extra"
"""The column of undeclared fields."""


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The fields of rows: ``fields`` as declared, None to infer them file by file.

    Declared: rows are brought to the types by ``fit``, what does not fit is told.  A field
    that is not declared is left out (``drop``), makes its row a misfit (``quarantine``), or
    is kept in the column ``_extra`` as JSON text (``json``).

    Inferred: a file's columns are those that its own rows have, with the types that hold
    all their values, see ``inference``.  Other files of the topic may get other types, so
    for more than a look declare what ``infer`` proposes.
    """

    fields: pa.StructType | None = None
    extra_fields: ExtraFields = "drop"

    def __post_init__(self) -> None:
        if self.extra_fields not in ("drop", "quarantine", "json"):
            raise ConfigurationError(
                f"extra_fields cannot be {self.extra_fields!r}: use drop, quarantine or json"
            )
        declared = () if self.fields is None else self.fields.names
        if self.extra_fields == "json" and EXTRA in declared:
            raise ConfigurationError(
                f'the schema has a field {EXTRA}: extra_fields = "json" needs that name'
            )

        if self.fields is not None:
            _check_defaults(self.fields, "")

    @classmethod
    def parse(cls, text: str, where: str, extra_fields: ExtraFields = "drop") -> Self:
        """Read a declaration, an Avro schema or our own JSON.  Raises ``ConfigurationError``."""
        return cls(parse(text, where), extra_fields)

    @classmethod
    def infer(cls, samples: Iterable[pa.StructArray], extra_fields: ExtraFields = "json") -> Self:
        """Return a declaration that all ``samples`` fit; ``describe`` writes it down."""
        kind: pa.DataType = pa.struct([])
        for rows in samples:
            kind = widened(kind, observed(rows).type)
        kind = final(kind)
        if not pa.types.is_struct(kind):
            raise ConfigurationError("the messages looked at have no fields to infer a schema from")
        return cls(kind, extra_fields)

    def describe(self) -> str:
        """Return the declaration as JSON that ``parse`` reads."""
        assert self.fields is not None
        return describe(self.fields)

    @property
    def declared(self) -> bool:
        """Whether files can be written row group by row group, without a second pass."""
        return self.fields is not None

    @property
    def type(self) -> pa.StructType:
        """The type of declared rows, ``_extra`` included."""
        assert self.fields is not None
        if self.extra_fields != "json":
            return self.fields
        return pa.struct([*self.fields.fields, pa.field(EXTRA, JSON)])

    @property
    def identity(self) -> str:
        """Everything that changes the bytes."""
        if self.fields is None:
            return "inferred"
        digest = hashlib.sha256(self.describe().encode()).hexdigest()[:16]
        return f"declared:{digest}:{self.extra_fields}"

    def fit(self, rows: pa.StructArray) -> tuple[pa.StructArray, Mapping[int, str]]:
        """Return the rows in the declared type, and by row number why one does not fit.

        Rows that do not fit, and those that were null, are null.  Inferred rows all fit.
        """
        if self.fields is None or rows.type.equals(self.type, check_metadata=True):
            return rows, {}
        bad: dict[int, str] = {}
        extra = undeclared(rows, self.fields) if self.extra_fields != "drop" else None
        if extra is not None and self.extra_fields == "quarantine":
            for row, found in enumerate(plain(extra)):
                if found is not None:
                    bad[row] = f"{_path(found)}: is not declared"
        found = {field.name: (field, column) for field, column in children(rows)}
        columns = []
        for target in self.fields.fields:
            field, column = found.get(target.name, (None, None))
            columns.append(_fitted(field, column, target, rows.is_valid(), 0, bad))
        good = pa.array([row not in bad for row in range(len(rows))]) if bad else rows.is_valid()
        if bad:
            good = pc.and_(good, rows.is_valid())
        fields = list(self.fields.fields)
        if self.extra_fields == "json":
            texts = pa.nulls(len(rows), pa.string()) if extra is None else json_texts(extra)
            fields, columns = [*fields, pa.field(EXTRA, JSON)], [*columns, as_json(texts)]
        like = pc.if_else(good, True, pa.scalar(None, pa.bool_())) if bad else rows
        return struct_of(columns, fields, like), dict(sorted(bad.items()))


def _fitted(
    field: pa.Field | None,
    column: pa.Array | None,
    target: pa.Field,
    valid: pa.Array,
    first: int,
    bad: dict[int, str],
) -> pa.Array:
    """Fit a field of all rows at once, or halve them until the culprits stand alone.

    ``first`` is the number of the first row, for ``bad``; a row's first reason stays.
    """
    rows = len(valid)
    try:
        return fitted_field(field, column, target, pc.if_else(valid, True, None))
    except MisfitError as misfit:
        if rows == 1:
            bad.setdefault(first, str(misfit))
            return pa.nulls(1, target.type)
    half = rows // 2
    parts = []
    for start, end in ((0, half), (half, rows)):
        piece = None if column is None else column[start:end]
        parts.append(_fitted(field, piece, target, valid[start:end], first + start, bad))
    return pa.concat_arrays(parts)


def _check_defaults(fields: pa.StructType, path: str) -> None:
    for field in fields.fields:
        inner = f"{path}.{field.name}" if path else field.name
        try:
            if field.metadata and DEFAULT in field.metadata:
                default_of(field, inner)
        except (MisfitError, pa.ArrowException) as error:
            raise ConfigurationError(f"the schema's default does not fit: {error}") from error
        if pa.types.is_struct(field.type):
            _check_defaults(field.type, inner)


def _path(found: object) -> str:
    """Name the first field of what is undeclared."""
    names = []
    while isinstance(found, dict) and found:
        name, found = next(iter(found.items()))
        names.append(str(name))
    return ".".join(names)
