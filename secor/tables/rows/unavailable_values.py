"""Columns that an update leaves out: found by Debezium's placeholder, and hidden from the row.

PostgreSQL does not log a large value that an update leaves as it is, and Debezium writes
``unavailable.value.placeholder`` in its place, in a form that the column's type allows.

Source: Debezium's ``UnchangedToastedPlaceholder`` and its documentation of that setting.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import children, flatten, is_list, struct_of
from secor.arrow.nested_arrays import text_of as storage_of
from secor.core.variant_json import is_mixed
from secor.parsing.fields import parse_mixed

Truths = npt.NDArray[np.bool_]

DEBEZIUM_DEFAULT = "__debezium_unavailable_value"

HEX = "hex:"
"""In front of a placeholder that is given as the digits of its bytes."""

_POINTS = (
    "0101000020e6100000000000fc83d797c1000000fc83d797c1",
    "0101000020e61000000c21e7fdff7f66401842cefbff7f5640",
)
"""Well-known binary of the points that replace a geometry and a geography."""


@dataclass(frozen=True)
class Placeholder:
    """The placeholder in each form that Debezium gives it."""

    text: str

    @cached_property
    def raw(self) -> bytes:
        """The bytes of the placeholder."""
        if self.text.startswith(HEX):
            return bytes.fromhex(self.text.removeprefix(HEX))
        return self.text.encode()

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """As text, and its bytes by each ``binary.handling.mode``."""
        raw = self.raw
        encoded = [base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()]
        forms = [raw.decode("utf-8", "replace"), *encoded, raw.hex(), raw.hex().upper()]
        return tuple(dict.fromkeys(forms))

    @cached_property
    def uuid(self) -> uuid.UUID:
        """The UUID that Java derives of the bytes, for columns of UUIDs in lists."""
        digest = hashlib.md5(self.raw, usedforsecurity=False).digest()
        # As Java's ``UUID.nameUUIDFromBytes``: Python's own uuid3 puts a namespace in front.
        return uuid.UUID(bytes=digest, version=3)

    @cached_property
    def numbers(self) -> list[int]:
        """The bytes as Java has them, signed, for columns of integers in lists."""
        return [byte - 256 if byte > 127 else byte for byte in self.raw]

    @property
    def name(self) -> str:
        """The key and the value of the only entry of a map."""
        return self.texts[0]

    def matches(self, value: Any) -> bool:
        """Return whether a value as JSON has it is the placeholder."""
        match value:
            case str():
                return value in self.texts
            case bytes():
                return value == self.raw
            case [str() as only]:
                return only in self.texts or only == str(self.uuid)
            case [bytes() as only]:
                return only in (self.raw, self.uuid.bytes)
            case [uuid.UUID() as only]:
                return only == self.uuid
            case list():
                return value == self.numbers
            case dict():
                return value == {self.name: self.name} or self._is_point(value.get("wkb"))
        return False

    def _is_point(self, wkb: object) -> bool:
        raw = [bytes.fromhex(point) for point in _POINTS]
        return wkb in raw or wkb in [base64.b64encode(point).decode() for point in raw]

    def find(self, column: pa.Array, field: pa.Field) -> Truths | None:
        """Return a mask of the rows that have the placeholder; None if there are none."""
        candidates = self._candidates(column, field)
        if candidates is None:
            return None
        rows = np.flatnonzero(candidates)
        if not len(rows):
            return None
        # Python sees only the few rows that the first look in C could not rule out.
        chosen = column.take(pa.array(rows))
        values = parse_mixed(chosen) if is_mixed(field) else _python(chosen, field)
        mask = np.zeros(len(column), dtype=bool)
        mask[rows] = [self.matches(value) for value in values]
        return mask if mask.any() else None

    def _candidates(self, column: pa.Array, field: pa.Field) -> Truths | None:
        """Return the rows to be looked at in Python, mostly none; None for types that have none."""
        kind = column.type
        if is_mixed(field):
            return _truths(pc.match_substring_regex(storage_of(column), self._pattern))
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return _truths(pc.is_in(column, pa.array(self.texts, kind)))
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return _truths(pc.equal(column, pa.scalar(self.raw, kind)))
        if is_list(kind):
            return self._lists(column, kind)
        if pa.types.is_map(kind):
            if not pa.types.is_string(kind.item_type):
                return None
            mask: Truths = np.diff(column.offsets.to_numpy()) == 1
            return mask
        if pa.types.is_struct(kind):
            names = (self.name, "wkb")
            inner = [column.field(name) for name in names if kind.get_field_index(name) >= 0]
            return _truths(pc.is_valid(inner[0])) if inner else None
        return None

    def _lists(self, column: pa.Array, kind: pa.DataType) -> Truths | None:
        item = kind.value_type
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        integers = pa.types.is_integer(item) and not is_mixed(kind.value_field)
        mask: Truths = lengths == (len(self.raw) if integers else 1)
        rows = np.flatnonzero(mask)
        if integers or not len(rows) or not pa.types.is_string(item):
            # Times are no placeholders, and Python has no values for those beyond the year 9999.
            return None if pa.types.is_nested(item) or pa.types.is_temporal(item) else mask
        # Lists of one text are common: these are compared before Python sees any.
        texts = pa.array([*self.texts, str(self.uuid)])
        if is_mixed(kind.value_field):
            texts = pa.array([json.dumps(text) for text in texts.to_pylist()])
        alike = pc.is_in(storage_of(flatten(column.take(pa.array(rows)))), texts)
        mask[rows] &= alike.to_numpy(zero_copy_only=False)
        return mask

    @cached_property
    def _pattern(self) -> str:
        """A regular expression that JSON text with the placeholder matches, and little else."""
        forms = [*self.texts, str(self.uuid)]
        numbers = r"\[\s*" + r"\s*,\s*".join(map(str, self.numbers[:3]))
        points = [base64.b64encode(bytes.fromhex(point)).decode() for point in _POINTS]
        return "|".join([*map(re.escape, (*forms, *points)), numbers])


def _python(column: pa.Array, field: pa.Field) -> list[Any]:
    """Return values as ``Placeholder.matches`` takes them."""
    if pa.types.is_map(field.type):
        return [None if value is None else dict(value) for value in column.to_pylist()]
    values = column.to_pylist()
    if pa.types.is_struct(field.type):
        return [_present(value) for value in values]
    if is_list(field.type) and is_mixed(field.type.value_field):
        return [[json.loads(item) for item in value] for value in values]
    return list(values)


def _present(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return an object without the names that only its neighbours have."""
    return None if value is None else {key: item for key, item in value.items() if item is not None}


def _truths(mask: pa.Array) -> Truths:
    truths: Truths = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    return truths


def hide_unavailable(
    rows: pa.StructArray, placeholder: Placeholder, keeps_value: Callable[[str], bool]
) -> tuple[pa.StructArray, Mapping[str, Truths]]:
    """Return rows with null where their value is the placeholder, and where that is, by field.

    Fields have it all the same where ``keeps_value`` says so: columns that must have a value.
    """
    masks = {}
    columns, fields = [], []
    for field, column in children(rows):
        mask = placeholder.find(column, field)
        if mask is not None:
            masks[field.name] = mask
            if not keeps_value(field.name):
                column = _with_nulls(column, mask)
                field, column = _without_name(field, column, placeholder.name)
        columns.append(column)
        fields.append(field)
    return (struct_of(columns, fields, rows), masks) if masks else (rows, masks)


def _with_nulls(column: pa.Array, mask: Truths) -> pa.Array:
    places = np.arange(len(column))
    return column.take(pa.array(places, mask=mask))


def _without_name(field: pa.Field, column: pa.Array, name: str) -> tuple[pa.Field, pa.Array]:
    """Return an object's column without the field that only the placeholder has."""
    if not pa.types.is_struct(field.type) or field.type.get_field_index(name) < 0:
        return field, column
    kept = [(inner, values) for inner, values in children(column) if inner.name != name]
    if not kept:  # nothing but placeholders: they show no type
        return pa.field(field.name, pa.null()), pa.nulls(len(column))
    without = struct_of([values for _, values in kept], [inner for inner, _ in kept], column)
    return field.with_type(without.type), without


def without_placeholders(
    sources: Iterable[pa.StructArray], placeholder: Placeholder
) -> list[pa.StructArray]:
    """Return rows as a new table would have them: a placeholder shows no type."""
    return [hide_unavailable(rows, placeholder, lambda _: False)[0] for rows in sources]
