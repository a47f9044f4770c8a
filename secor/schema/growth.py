"""Schemas that grow: which rows ask for more than the present one, and what it then becomes.

Everything is a function of the schema and the row: what other rows are in the chunk changes
nothing.  A row

- **fits**: every value has a column that takes it exactly.  What shows no type yet (an empty
  list, an empty object) and what no column may be made of is kept in ``_extra``;
- **grows** the schema: it has a field that the schema lacks, or a value that a wider type of
  its column takes, see ``inference.widened``, and fits what the schema becomes;
- is a **conflict**: anything else.

A column never gets a type that would not hold what it held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.arrow.decimals import LONGEST_INTEGER, MOST_DIGITS
from secor.arrow.nested_arrays import children, is_json, is_list
from secor.arrow.scalar_casts import TypeRules
from secor.schema.descriptions import NAMES, describe_type
from secor.schema.inference import observe, widen
from secor.schema.new_columns import Numbers, is_new, seen_together
from secor.schema.observed_types import first_that_adds, groups
from secor.schema.schema import EXTRA, RowSchema

MOST_FIELDS = 1000
"""Fields at all levels; what comes beyond is kept in ``_extra``."""

LONGEST_NAME = 255
"""Characters; fields with longer names are kept in ``_extra``."""

DEEPEST = 20
"""Levels; what is nested deeper is JSON text."""

KEPT = TypeRules(exact=True, any_text=True)
"""Of types that nobody has declared."""

LONGEST_SHOWN = 100
"""Characters of a type in a log line."""

Propose = Callable[[pa.StructType, Sequence[str]], None]
"""Takes the fields that a schema is to have, and which values of new ones do not fit."""


def field_count(kind: pa.DataType) -> int:
    """Return the number of fields at all levels."""
    if pa.types.is_struct(kind):
        return sum(1 + field_count(field.type) for field in kind.fields)
    if is_list(kind):
        return field_count(kind.value_type)
    return field_count(kind.item_type) if pa.types.is_map(kind) else 0


def grow_schema(kept: pa.StructType, seen: pa.StructType) -> pa.StructType:
    """Return ``kept`` with what it can take over from ``seen``: new fields last, wider types.

    Doing it again changes nothing.  Where the two are in conflict, ``kept`` stays.
    """
    return _Growing(kept, widens=True).struct(kept, seen, 0)


def with_new_fields(kept: pa.StructType, seen: pa.StructType) -> pa.StructType:
    """Return ``kept`` with the new fields of ``seen``; types stay."""
    return _Growing(kept, widens=False).struct(kept, seen, 0)


class _Growing:
    """One step; it knows how many fields there is still room for."""

    def __init__(self, kept: pa.StructType, *, widens: bool) -> None:
        self._room = MOST_FIELDS - field_count(kept)
        self._widens = widens

    def struct(self, kept: pa.StructType, seen: pa.StructType, depth: int) -> pa.StructType:
        new_types = {field.name: field.type for field in seen.fields}
        fields = [
            field.with_type(self._both(field.type, new_types.pop(field.name, pa.null()), depth + 1))
            for field in kept.fields
        ]
        names = [field.name for field in fields]
        new = self._new(new_types, [*names, EXTRA] if depth == 0 else names, depth)
        return pa.struct([*fields, *new])

    def _new(
        self, new_types: Mapping[str, pa.DataType], names: Iterable[str], depth: int
    ) -> list[pa.Field]:
        """Return the columns of new fields, without those called ``names``.

        Most readers of tables take ``Id`` and ``id`` for one, and some no name at all for none.
        """
        fields = []
        taken = {"", *(name.lower() for name in names)}
        for name, kind in new_types.items():
            if len(name) > LONGEST_NAME or name.lower() in taken or self._room <= 0:
                continue
            # Taken before the fields within it: they count, too, and a column that shows no type
            # gives its place back.
            self._room -= 1
            new = self._column(kind, depth + 1)
            if new is None:
                self._room += 1
            else:
                fields.append(pa.field(name, new))
                taken.add(name.lower())
        return fields

    def _both(self, kept: pa.DataType, seen: pa.DataType, depth: int) -> pa.DataType:
        if pa.types.is_struct(kept) and pa.types.is_struct(seen):
            return self.struct(kept, seen, depth)
        if is_list(kept) and is_list(seen):
            return pa.list_(self._both(kept.value_type, seen.value_type, depth + 1))
        if pa.types.is_map(kept) and pa.types.is_map(seen):
            return pa.map_(pa.string(), self._both(kept.item_type, seen.item_type, depth + 1))
        if pa.types.is_map(kept) and pa.types.is_struct(seen):
            item = kept.item_type
            for field in seen.fields:
                item = self._both(item, field.type, depth + 1)
            return pa.map_(pa.string(), item)
        wide = widen(kept, _leaf(seen)) if self._widens else kept
        if kept == pa.int64() and pa.types.is_decimal(wide):
            digits = max(wide.precision, LONGEST_INTEGER + wide.scale)
            wide = pa.decimal128(min(digits, MOST_DIGITS), wide.scale)
        return kept if is_json(wide) else wide

    def _column(self, kind: pa.DataType, depth: int) -> pa.DataType | None:
        """Return the type of a new column; None while its values show none."""
        inner = self._inner(kind, depth)
        if inner is None or depth < DEEPEST or not pa.types.is_nested(kind):
            return inner
        return pa.string()

    def _inner(self, kind: pa.DataType, depth: int) -> pa.DataType | None:
        if pa.types.is_null(kind):
            return None
        if pa.types.is_struct(kind):
            fields = self._new({field.name: field.type for field in kind.fields}, (), depth)
            return pa.struct(fields) if fields else None
        if is_list(kind):
            item = self._column(kind.value_type, depth + 1)
            return None if item is None else pa.list_(item)
        if pa.types.is_map(kind):
            item = self._column(kind.item_type, depth + 1)
            return None if item is None else pa.map_(pa.string(), item)
        return _leaf(kind)


def _leaf(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a schema writes down what is not nested."""
    if kind == pa.uint64():
        return pa.decimal128(LONGEST_INTEGER, 0)
    known = kind in NAMES or pa.types.is_timestamp(kind) or pa.types.is_time(kind)
    if known or pa.types.is_null(kind) or pa.types.is_decimal128(kind) or pa.types.is_nested(kind):
        return kind
    return pa.string()


class GrowthFinder:
    """Finds the rows by which one version of a schema grows."""

    def __init__(self, schema: RowSchema, propose: Propose, numbers: Numbers = "as seen") -> None:
        """``schema`` keeps what has no column as JSON.  ``propose`` takes what it becomes, and
        which values of new fields do not fit that.  ``numbers`` is what new fields of numbers are.
        """
        self._numbers = numbers
        assert schema.fields is not None
        assert schema.extra_fields == "json"
        self._fields = schema.fields
        self._propose = propose

    @property
    def identity(self) -> str:
        """Of the rule: another one gives other objects of the same messages."""
        return "growth-5" if self._numbers == "as seen" else f"growth-5:{self._numbers}"

    def look(
        self,
        rows: pa.StructArray,
        fitted: pa.StructArray,
        bad: Mapping[int, str],
        live: npt.NDArray[np.bool_],
    ) -> tuple[int | None, Mapping[int, str]]:
        """Return the first row that grows the schema, if one does, and why others do not fit.

        ``fitted`` and ``bad`` are what ``RowSchema.fit`` made of ``rows``; those that are not
        ``live`` do not count.  A reason names what is in conflict, not what would have grown
        if nothing were.
        """
        extra = live & fitted.field(EXTRA).is_valid().to_numpy(zero_copy_only=False)
        wrong = [row for row in bad if live[row]]
        if not wrong and not extra.any():
            return None, bad
        # Rows that do not fit are looked at apart: what they would add must not count unless they
        # then fit.
        extra[wrong] = False
        added = first_that_adds(rows, np.flatnonzero(extra).tolist(), self._fields, self._adds)
        grows, reasons = self._first_grown(rows, wrong)
        first = min((row for row in (added, grows) if row is not None), default=None)
        return first, {**bad, **reasons}

    def has_new_fields(self, rows: pa.StructArray) -> bool:
        """Return whether rows have values in fields that the schema lacks; at the top only."""
        return any(
            column.null_count < len(column)
            for field, column in children(rows)
            if self._fields.get_field_index(field.name) < 0
        )

    def misfits(self, rows: pa.StructArray) -> Mapping[int, str]:
        """Return why rows do not fit the present schema; what it lacks is not written down."""
        return RowSchema(self._fields, "drop", exact=True, any_text=True).fit(rows)[1]

    def grow(self, first: pa.StructArray, following: Sequence[pa.StructArray]) -> None:
        """Propose what the schema becomes by one row, and by all after it that fit.

        So one step is enough for all new fields.  ``following`` are the rows of one type each,
        those of the type of ``first`` first.
        """
        seen = seen_together(following, numbers=self._numbers, rules=KEPT, known=self._fields)
        new = [
            str(field_name) for field_name in seen.outvoted if is_new(self._fields, field_name.path)
        ]
        # By itself, too: among others that are in conflict with it, it widens nothing.
        alone = observe(first).type
        self._propose(grow_schema(grow_schema(self._fields, seen.type), alone), new)

    def _adds(self, rows: pa.StructArray) -> bool:
        return bool(with_new_fields(self._fields, observe(rows).type) != self._fields)

    def _first_grown(
        self, rows: pa.StructArray, wrong: Sequence[int]
    ) -> tuple[int | None, Mapping[int, str]]:
        """Return the first row that does not fit, but would fit what the schema becomes by it,
        and why others do not even fit that.
        """
        if not wrong:
            return None, {}
        chosen = np.array(wrong, dtype=np.int64)
        growing: list[int] = []
        reasons: dict[int, str] = {}
        for alike in groups(rows.take(pa.array(chosen)), self._fields):
            fields = grow_schema(self._fields, self._seen(rows, chosen[alike[:1]].tolist()))
            if fields != self._fields:
                same = chosen[alike].tolist()
                _, bad = RowSchema(fields, "json", exact=True, any_text=True).fit(
                    rows.take(pa.array(same))
                )
                growing += [row for index, row in enumerate(same) if index not in bad][:1]
                reasons |= {same[index]: reason for index, reason in bad.items()}
        return min(growing, default=None), reasons

    def _seen(self, rows: pa.StructArray, chosen: Sequence[int]) -> pa.StructType:
        """Return the type that the rows show, whatever others are decoded with them."""
        return observe(rows.take(pa.array(chosen, pa.int64()))).type


def changes(before: pa.StructType, after: pa.StructType) -> list[str]:
    """Return the paths of fields that are new or wider, with their types."""
    return list(_changes(before, after, ""))


def _changes(before: pa.DataType, after: pa.DataType, path: str) -> Iterator[str]:
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        known = {field.name: field.type for field in before.fields}
        for field in after.fields:
            inner = f"{path}.{field.name}" if path else field.name
            if field.name in known:
                yield from _changes(known[field.name], field.type, inner)
            else:
                yield f"{inner} ({_short(field.type)})"
    elif is_list(before) and is_list(after):
        yield from _changes(before.value_type, after.value_type, f"{path}[]")
    elif pa.types.is_map(before) and pa.types.is_map(after):
        yield from _changes(before.item_type, after.item_type, f"{path}{{}}")
    elif before != after:
        yield f"{path} ({_short(before)} to {_short(after)})"


def _short(kind: pa.DataType) -> str:
    """Return a type as a log line shows it."""
    if pa.types.is_struct(kind):
        fields = ", ".join(f"{field.name}: {_short(field.type)}" for field in kind.fields)
        text = f"struct<{fields}>"
    elif is_list(kind):
        text = f"list<{_short(kind.value_type)}>"
    elif pa.types.is_map(kind):
        text = f"map<{_short(kind.item_type)}>"
    else:
        return str(describe_type(kind))
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."
