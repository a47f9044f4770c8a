"""The types of new columns, by the messages of one look.

The rule: a new column takes the great majority of what was seen.  A type is proposed by what most
values are (``dominance``) and then tried on the very messages: while more than one of 100 messages
do not fit, the field with most misfits becomes text, which takes everything.

Integers and fractions of one field are numbers.  A field with a fraction, be it ``2826.0``, holds
fractions, also where the only one is in a message that was decoded with these and is not among
them: a column of doubles does not say which were written as integers.

``numbers`` says what fields of numbers become:

| numbers | only integers seen | some fractions seen |
|---|---|---|
| as seen | int64 | double |
| double | double | double |
| decimal | decimal(38, 18) | decimal(38, 18) |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from secor.arrow.nested_arrays import JSON, children, flatten, is_json, is_list
from secor.arrow.scalar_casts import TypeRules
from secor.core.variant_json import is_mixed
from secor.schema.columns import ColumnFit
from secor.schema.dominance import (
    BIG_INTEGERS,
    ENTRY,
    ITEM,
    MAJORITY,
    NUMBERS,
    OutvotedValues,
    Path,
    find_outvoted,
    prune,
    show_path,
    tally_of,
    with_times,
)
from secor.schema.inference import observe, widen

Numbers = Literal["as seen", "double", "decimal"]

DECIMAL = pa.decimal128(38, 18)
"""Of new columns with ``numbers = "decimal"``: every integer of 64 bits, and 18 more digits."""

ANY_TEXT = TypeRules(any_text=True)

NOTHING: pa.StructType = pa.struct([])


@dataclass(frozen=True, slots=True)
class MixedField:
    """A field with values of several kinds, so that its column is text."""

    path: Path
    kinds: Mapping[str, int]

    def __str__(self) -> str:
        """Return it as a log line shows it."""
        return f"{show_path(self.path)} (text, of {show_kinds(self.kinds)})"


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """Observations of messages: the type of rows, values that will not fit it, and columns of text
    that hold several kinds.  ``kinds`` has the kinds of values of each field.
    """

    type: pa.DataType
    outvoted: list[OutvotedValues]
    mixed: list[MixedField]
    kinds: Mapping[Path, Mapping[str, int]]


def show_kinds(kinds: Mapping[str, int]) -> str:
    """Return the kinds of a field's values as a log line shows them."""
    return " and ".join(f"{count:,} {kind}" for kind, count in kinds.items())


def seen_together(
    groups: Sequence[pa.StructArray],
    times: Collection[str] = (),
    *,
    numbers: Numbers = "as seen",
    rules: TypeRules = ANY_TEXT,
    known: pa.StructType = NOTHING,
) -> ObservedRows:
    """Return what rows show that were decoded in groups of one type each.

    ``times`` are dotted names of fields that hold times: of these any number of values is enough.
    ``rules`` are those by which rows are fitted afterwards.  ``known`` are the columns that there
    are already: ``numbers`` and fractions change none of these.
    """
    look = _Look(groups, times, numbers, rules, known)
    seen = look.seen()
    # Ends, because each turn makes one more field text, which takes everything.
    while (path := look.worst_path(seen.type)) is not None:
        look.texts.add(path)
        seen = look.seen()
    return seen


class _Look:
    """One look at rows; ``texts`` are the paths of fields that are text whatever they show."""

    def __init__(
        self,
        groups: Sequence[pa.StructArray],
        times: Collection[str],
        numbers: Numbers,
        rules: TypeRules,
        known: pa.StructType,
    ) -> None:
        self._known = known
        self._groups = groups
        self._times = times
        self._numbers = numbers
        self._rules = rules
        self._tally, self._fractions = tally_of(groups)
        self.texts: set[Path] = set()

    def seen(self) -> ObservedRows:
        outvoted = [
            outvoted_name
            for path, kinds in self._tally.items()
            if not self._is_within_text(path)
            and (outvoted_name := find_outvoted(path, self._merged(kinds)))
        ]
        winners = {field_name.path: field_name.kind for field_name in outvoted}
        columns = [observe(prune(group, winners) if winners else group) for group in self._groups]
        together, *others = (column.type for column in columns) if columns else (pa.struct([]),)
        for other in others:
            both = widen(together, other)
            if pa.types.is_struct(both):  # else there are too many fields
                together = both
        kind = self._finished(with_times(together, columns, self._times), ())
        types = dict(_types(kind, ()))
        if self._rules.any_text:
            outvoted = [
                field_name for field_name in outvoted if not _is_any(types.get(field_name.path))
            ]
        mixed = [
            MixedField(path, dict(kinds.most_common()))
            for path, kinds in self._tally.items()
            if len(kinds) > 1 and _is_any(types.get(path))
        ]
        return ObservedRows(kind, outvoted, mixed, self._tally)

    def _is_within_text(self, path: Path) -> bool:
        return any(path[: len(text)] == text for text in self.texts)

    def _merged(self, kinds: Counter[str]) -> Counter[str]:
        """Return kinds of values as they count: a decimal holds integers beyond 64 bits, too."""
        if self._numbers != "decimal" or BIG_INTEGERS not in kinds:
            return kinds
        merged = Counter(kinds)
        merged[NUMBERS] += merged.pop(BIG_INTEGERS)
        return merged

    def _finished(self, kind: pa.DataType, path: Path) -> pa.DataType:
        """Return a type with the numbers that are wanted, and text where it has to be."""
        if path in self.texts:
            return JSON
        if pa.types.is_struct(kind):
            return pa.struct(
                [
                    field.with_type(self._finished(field.type, (*path, field.name)))
                    for field in kind.fields
                ]
            )
        if is_list(kind):
            return pa.list_(pa.field("item", self._finished(kind.value_type, (*path, ITEM))))
        if pa.types.is_map(kind):
            return pa.map_(pa.string(), self._finished(kind.item_type, (*path, ENTRY)))
        if not is_new(self._known, path):
            return kind
        if self._numbers == "decimal":
            kinds = self._merged(self._tally.get(path, Counter()))
            is_number = kind in (pa.int64(), pa.float64()) or (is_json(kind) and len(kinds) == 1)
            return DECIMAL if is_number and NUMBERS in kinds else kind
        if kind == pa.int64() and (self._numbers == "double" or path in self._fractions):
            return pa.float64()
        return kind

    def worst_path(self, kind: pa.DataType) -> Path | None:
        """Return the field with most misfits; None if 99 of 100 rows fit."""
        if not pa.types.is_struct(kind):
            return None
        total = sum(len(rows) - rows.null_count for rows in self._groups)
        bad = 0
        misfits: Counter[Path] = Counter()
        for rows in self._groups:
            valid = rows.is_valid()
            bad_rows: set[int] = set()
            columns = {field.name: (field, column) for field, column in children(rows)}
            for target in kind.fields:
                own = self._misfits(*columns.get(target.name, (None, None)), target, valid)
                if own:
                    bad_rows |= own
                    chosen = pa.array(sorted(own), pa.int64())
                    field, column = columns[target.name]
                    path = self._deepest(field, column.take(chosen), target, (target.name,))
                    misfits[path] += len(own)
            bad += len(bad_rows)
        if bad <= total * (1 - MAJORITY) or not misfits:
            return None
        # One at a time: with the worst field as text, the messages that it made bad may have no
        # other fault.
        return max(misfits, key=lambda path: misfits[path])

    def _misfits(
        self, field: pa.Field | None, column: pa.Array | None, target: pa.Field, valid: pa.Array
    ) -> set[int]:
        if field is None or column is None or is_json(target.type) or _is_null(target.type):
            return set()
        fit = ColumnFit(field, column, target, valid, extra=False, rules=self._rules)
        fit.fit()
        return set(fit.bad)

    def _deepest(self, field: pa.Field, column: pa.Array, target: pa.Field, path: Path) -> Path:
        """Return the innermost field that makes most values of a column misfits."""
        kind = target.type
        parts: list[tuple[pa.Field, pa.Array, pa.Field, Path]] = []
        if not is_mixed(field) and pa.types.is_struct(column.type) and pa.types.is_struct(kind):
            targets = {inner.name: inner for inner in kind.fields}
            parts = [
                (inner, values, targets[inner.name], (*path, inner.name))
                for inner, values in children(column)
                if inner.name in targets
            ]
        elif not is_mixed(field) and is_list(column.type) and is_list(kind):
            items = pa.field("item", column.type.value_type, metadata=column.type.field(0).metadata)
            parts = [(items, flatten(column), kind.value_field, (*path, ITEM))]
        worst, most = None, 0
        for part in parts:
            inner, values, wanted, _ = part
            own = self._misfits(inner, values, wanted, pa.array(np.ones(len(values), dtype=bool)))
            if len(own) > most:
                worst, most = part, len(own)
        return path if worst is None else self._deepest(*worst)


def is_new(fields: pa.StructType, path: Sequence[str]) -> bool:
    """Return whether nothing is known of the field to which ``path`` leads."""
    kind: pa.DataType = fields
    for step in path:
        if pa.types.is_struct(kind):
            if kind.get_field_index(step) < 0:
                return True
            kind = kind.field(step).type
        elif is_list(kind):
            kind = kind.value_type
        else:
            return False
    return False


def _is_null(kind: pa.DataType) -> bool:
    return bool(pa.types.is_null(kind))


def _is_any(kind: pa.DataType | None) -> bool:
    """Return whether a column of this type takes every value."""
    return kind is not None and (is_json(kind) or bool(pa.types.is_string(kind)))


def _types(kind: pa.DataType, path: Path) -> Iterator[tuple[Path, pa.DataType]]:
    """Give the types of all fields by path."""
    yield path, kind
    if pa.types.is_struct(kind):
        for field in kind.fields:
            yield from _types(field.type, (*path, field.name))
    elif is_list(kind):
        yield from _types(kind.value_type, (*path, ITEM))
    elif pa.types.is_map(kind):
        yield from _types(kind.item_type, (*path, ENTRY))
