"""The schema of typed rows: declared or kept fields, and how messages are fitted to them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import (
    JSON,
    any_leaf,
    as_json,
    children,
    null_keeping_names,
    struct_of,
    unmark,
)
from secor.arrow.scalar_casts import DECLARED, TypeRules
from secor.arrow.time_limits import all_readable, is_limited
from secor.arrow.to_python import json_text, plain, write_out
from secor.core.errors import ConfigurationError
from secor.schema.columns import ColumnFit
from secor.schema.declarations import parse
from secor.schema.descriptions import DEFAULT, describe
from secor.schema.dominance import OutvotedValues
from secor.schema.fitting import MisfitError, default_of
from secor.schema.inference import final
from secor.schema.new_columns import seen_together
from secor.schema.required_fields import has_required

ExtraFields = Literal["drop", "quarantine", "json"]

EXTRA = "_extra"
"""The column of undeclared fields."""


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The fields of rows; ``fields`` None for whatever each row has, which JSON lines can store.

    ``fit`` brings rows to the types and reports misfits.  A field that is not
    declared is left out (``drop``), makes its row a misfit (``quarantine``), or is kept in the
    column ``_extra`` as JSON text (``json``).  ``exact`` and ``any_text`` are those of
    ``TypeRules``.
    """

    fields: pa.StructType | None = None
    extra_fields: ExtraFields = "drop"
    exact: bool = False
    any_text: bool = False
    _limited: bool = attribute(default=False, init=False, repr=False, compare=False)
    _type: pa.StructType | None = attribute(default=None, init=False, repr=False, compare=False)

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
            object.__setattr__(self, "_limited", any_leaf(self.fields, is_limited))
            kind = self.fields
            if self.extra_fields == "json":
                kind = pa.struct([*kind.fields, pa.field(EXTRA, JSON)])
            object.__setattr__(self, "_type", kind)

    @classmethod
    def parse(cls, text: str, where: str, extra_fields: ExtraFields = "drop") -> Self:
        """Read a declaration, an Avro schema or our own JSON.  Raises ``ConfigurationError``."""
        fields = parse(text, where)
        try:
            return cls(fields, extra_fields)
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {error}") from error

    @classmethod
    def infer(
        cls, samples: Iterable[pa.StructArray], extra_fields: ExtraFields = "json"
    ) -> tuple[Self, list[OutvotedValues]]:
        """Return a declaration that ``samples`` fit, but for the values that were outvoted.

        ``describe`` writes it down.  Raises ``ConfigurationError`` where no field is to be seen.
        """
        groups = list(samples)
        seen = seen_together(groups, rules=DECLARED)
        kind = final(seen.type)
        if not pa.types.is_struct(kind):
            raise ConfigurationError("the messages looked at have no fields to infer a schema from")
        return cls(kind, extra_fields), seen.outvoted

    def describe(self) -> str:
        """Return the declaration as JSON that ``parse`` reads."""
        assert self.fields is not None
        return describe(self.fields)

    @property
    def declared(self) -> bool:
        """True if it says which fields there are: columns need that."""
        return self.fields is not None

    @property
    def type(self) -> pa.StructType:
        """The type of declared rows, ``_extra`` included."""
        assert self._type is not None
        return self._type

    @property
    def null_keeping_names(self) -> frozenset[str]:
        """The names of fields that keep the null members of objects: maps and JSON text."""
        return frozenset() if self.fields is None else null_keeping_names(self.fields)

    @property
    def rules(self) -> TypeRules:
        """The values that columns take besides those of their own type."""
        return TypeRules(self.exact, self.any_text)

    @property
    def identity(self) -> str:
        """Everything that changes the bytes."""
        if self.fields is None:
            return "inferred-2"
        digest = hashlib.sha256(self.describe().encode()).hexdigest()[:16]
        # Only what is written in another way than before has other fingerprints than before.
        # A fingerprint that changes supersedes open batches, so it changes only where bytes do.
        version = 4 if self.exact or has_required(self.fields) else 3
        if any_leaf(self.fields, pa.types.is_decimal):
            version = 5
        if self.null_keeping_names:
            version = 6
        exact = ":exact" if self.exact else ""
        if self.any_text and any_leaf(self.fields, pa.types.is_string):
            exact += ":any text"
        return f"declared-{version}:{digest}:{self.extra_fields}{exact}"

    def fit(self, rows: pa.StructArray) -> tuple[pa.StructArray, Mapping[int, str]]:
        """Return the rows in the declared type, and by row number why one does not fit.

        Rows that do not fit, and those that were null, are null.  Undeclared rows all fit, but
        for dates and times that cannot be written out.
        """
        if self.fields is None:
            return _readable(rows)
        # The usual case with a registry: types agree, and nothing has to be looked at row by row.
        if rows.type.equals(self.type, check_metadata=True) and (
            not self._limited or all_readable(rows)
        ):
            return rows, {}
        extra = self.extra_fields != "drop"
        fitting = _Fitting(len(rows), rows.is_valid(), extra=extra, rules=self.rules)
        by_name = {field.name: (field, column) for field, column in children(rows)}
        columns = [
            fitting.column(*by_name.pop(target.name, (None, None)), target)
            for target in self.fields.fields
        ]
        for field, column in by_name.values():
            fitting.keep(field, column)
        if self.extra_fields == "quarantine":
            fitting.refuse_extra()
        fields = list(self.fields.fields)
        if self.extra_fields == "json":
            fields, columns = [*fields, pa.field(EXTRA, JSON)], [*columns, fitting.texts()]
        return struct_of(columns, fields, fitting.good()), dict(sorted(fitting.bad.items()))


class _Fitting:
    """One call of ``fit``: rows that are ``valid``, what is wrong with some, what is left over."""

    def __init__(self, rows: int, valid: pa.Array, *, extra: bool, rules: TypeRules) -> None:
        self._rows = rows
        self._rules = rules
        self._valid = valid
        self._extra = extra
        self._left: dict[int, dict[str, Any]] = {}
        self.bad: dict[int, str] = {}

    def column(self, field: pa.Field | None, column: pa.Array | None, target: pa.Field) -> pa.Array:
        """Return a field of all rows; a row's first reason stays."""
        fit = ColumnFit(field, column, target, self._valid, extra=self._extra, rules=self._rules)
        fitted = fit.fit()
        # What was there wins: the reason of the first declared column, whatever the order of the
        # message.
        self.bad = fit.bad | self.bad
        for row, value in fit.left.items():
            self._left.setdefault(row, {})[target.name] = value
        return fitted

    def keep(self, field: pa.Field, column: pa.Array) -> None:
        """Take a field that is not declared."""
        more = unmark(column, field) if self._extra else None
        if more is None or more.null_count == len(more):
            return
        for row, value in enumerate(plain(write_out(more))):
            if value is not None:
                self._left.setdefault(row, {})[field.name] = value

    def refuse_extra(self) -> None:
        """Make misfits of the rows with something that is not declared."""
        for row, left in self._left.items():
            self.bad[row] = f"{_path(left)}: is not declared"

    def texts(self) -> pa.Array:
        """Return what is left over of each row."""
        if not self._left:
            return as_json(pa.nulls(self._rows, pa.string()))
        texts = [json_text(left) if (left := self._left.get(row)) else None for row in self._all]
        return as_json(pa.array(texts, pa.string()))

    @property
    def _all(self) -> range:
        return range(self._rows)

    def good(self) -> pa.Array:
        """Return true for the rows that fit, null for the others."""
        good = self._valid
        if self.bad:
            good = pc.and_(good, pa.array([row not in self.bad for row in self._all]))
        return pc.if_else(good, True, pa.scalar(None, pa.bool_()))


def _readable(rows: pa.StructArray) -> tuple[pa.StructArray, Mapping[int, str]]:
    """Return undeclared rows, and which of them have dates or times that nobody can read."""
    bad: dict[int, str] = {}
    for field, column in children(rows):
        if not all_readable(column):
            wrong = [row for row in range(len(rows)) if not all_readable(column[row : row + 1])]
            reason = f"{field.name}: holds a date or time that is not of the years 1 to 9999"
            bad = dict.fromkeys(wrong, reason) | bad
    if not bad:
        return rows, {}
    good = pc.and_(rows.is_valid(), pa.array([row not in bad for row in range(len(rows))]))
    like = pc.if_else(good, True, pa.scalar(None, pa.bool_()))
    columns = children(rows)
    fields = [field for field, _ in columns]
    return struct_of([column for _, column in columns], fields, like), dict(sorted(bad.items()))


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


def _path(error: object) -> str:
    """Name the first field, by name, of what is undeclared."""
    names = []
    while isinstance(error, dict) and error:
        name, error = min(error.items(), key=lambda item: item[0])
        names.append(str(name))
    return ".".join(names)
