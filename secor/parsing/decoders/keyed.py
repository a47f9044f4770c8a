"""Fields of keys, added to those of values.

A key becomes one field, ``key``; with a prefix, the fields of keys that are objects become fields
of the message, each with the prefix in front of its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from secor.core.variant_json import is_mixed
from secor.parsing.decoders.keys import Column, KeyReader, Truths, groups_of
from secor.parsing.fields import field_at, parse_mixed, text_of, texts
from secor.parsing.rows import Decoded, Decoder, Rows


class KeyedDecoder:
    """A decoder of the fields of values and of keys, side by side."""

    def __init__(self, values: Decoder, keys: KeyReader) -> None:
        """Take what decodes values, and what reads keys."""
        self._values = values
        self._keys = keys
        self.identity = f"{values.identity}|{keys.identity}"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``; the messages must go together."""
        [(_, decoded)] = self.decode_apart(messages, paths)
        return decoded

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """See ``rows.DividingDecoder``: by the types of values and of keys."""
        keys = self._keys.read(messages)
        of_keys = None if paths is None else [path for path in paths if self._keys.may_have(path)]
        groups: list[tuple[Rows, Decoded]] = []
        for rows, decoded in groups_of(self._values, messages, paths):
            for key_rows, key in keys:
                # Both sides are divided by type already, and rows of a group must have one type on
                # both: so the groups are all pairs that have a row in common.
                shared, places, key_places = np.intersect1d(
                    rows, key_rows, assume_unique=True, return_indices=True
                )
                if not len(shared):
                    continue
                value_part, key_part = _taken(decoded, places), _taken(key, key_places)
                columns = self._keys.fields(key_part.rows)
                if of_keys is not None:
                    columns = _at_paths(columns, of_keys)
                for inner, both in _with_key_fields(value_part, columns, key_part.bad):
                    groups.append((shared[inner], both))
        return groups


def _at_paths(columns: Sequence[Column], paths: Sequence[str]) -> list[Column]:
    """Return the scalars at paths, structures as their text."""
    rows = (
        pa.StructArray.from_arrays(
            [column for _, column in columns], fields=[field for field, _ in columns]
        )
        if columns
        else None
    )
    chosen = []
    for path in paths:
        column = pa.nulls(0) if rows is None else field_at(rows, path)
        if rows is None or pa.types.is_null(column.type):
            continue
        if pa.types.is_nested(column.type):
            known = texts(column)
            column = pa.array([known.at(row) for row in range(len(column))], pa.string())
        chosen.append((pa.field(path, column.type), column))
    return chosen


def _taken(decoded: Decoded, places: Rows) -> Decoded:
    if len(places) == len(decoded.rows) and (np.diff(places) == 1).all():
        return decoded
    numbers = {int(place): index for index, place in enumerate(places)}
    bad = {numbers[row]: why for row, why in decoded.bad.items() if row in numbers}
    return Decoded(decoded.rows.take(pa.array(places)), bad)


def _with_key_fields(
    decoded: Decoded, columns: Sequence[Column], bad_keys: Mapping[int, str]
) -> list[tuple[Rows, Decoded]]:
    """Return rows with the fields of keys added, apart where one name has two types.

    Where both have a value under one name, they must be equal.
    """
    own = {
        field.name: (field, column)
        for field, column in zip(decoded.rows.type.fields, decoded.rows.flatten(), strict=True)
    }
    bad = {row: f"key: {why}" for row, why in bad_keys.items()} | dict(decoded.bad)
    shared = [(field, column) for field, column in columns if field.name in own]
    for field, column in shared:
        # Compared before rows are divided: one with two unlike values is bad in whichever group it
        # gets.
        for row in _differing(own[field.name], (field, column)):
            bad.setdefault(row, f"key: its {field.name} differs from the value's")
    every = np.arange(len(decoded.rows))
    unlike = [(field, column) for field, column in shared if not _alike(own[field.name][0], field)]
    if not unlike:
        return [(every, Decoded(_merged(decoded.rows, own, columns), bad))]
    # A column has one type.  Where a name has two, rows are divided by which of these names have a
    # value of the message's own; under the others they get the key's.
    has_value = np.stack([_valid(own[field.name][1]) for field, _ in unlike])
    groups = []
    for pattern in np.unique(has_value, axis=1).T:
        rows = np.flatnonzero((pattern == has_value.T).all(axis=1))
        names = [field.name for field, _ in unlike]
        from_key = {name for name, own_value in zip(names, pattern, strict=True) if not own_value}
        left = {name: own_column for name, own_column in own.items() if name not in from_key}
        from_value = set(names) - from_key
        right = [(field, column) for field, column in columns if field.name not in from_value]
        whole = Decoded(_merged(decoded.rows, left, right), bad)
        groups.append((rows, _taken(whole, rows)))
    return groups


def _merged(
    like: pa.StructArray, own: Mapping[str, Column], columns: Sequence[Column]
) -> pa.StructArray:
    merged = dict(own)
    for field, column in columns:
        before = own.get(field.name)
        if before is not None:
            column = _first_of(before[1], column)
        merged[field.name] = (field if before is None else before[0]), column
    # Columns do not say which rows are null as a whole: without the mask a null value would become
    # an object of nulls.
    mask = like.is_null() if like.null_count else None
    # Made of no columns, an array would have no rows either.
    if not merged:
        return like
    return pa.StructArray.from_arrays(
        [column for _, column in merged.values()],
        fields=[field for field, _ in merged.values()],
        mask=mask,
    )


def _first_of(column: pa.Array, other: pa.Array) -> pa.Array:
    """Return the values of a column, where it has none those of another of its type."""
    if not column.null_count:
        return column
    rows = np.arange(len(column))
    return pa.concat_arrays([column, other]).take(
        pa.array(np.where(_valid(column), rows, len(rows) + rows))
    )


def _alike(field: pa.Field, other: pa.Field) -> bool:
    """Return whether one column can have the values of both: JSON text is no plain text."""
    same = field.type.equals(other.type, check_metadata=True)
    return bool(same) and is_mixed(field) == is_mixed(other)


def _differing(of_value: Column, of_key: Column) -> list[int]:
    rows = np.flatnonzero(_valid(of_value[1]) & _valid(of_key[1]))
    if not len(rows):
        return []
    left, right = (
        _texts(field, column.take(pa.array(rows))) for field, column in (of_value, of_key)
    )
    return [
        row
        for row, one_value, other in zip(rows.tolist(), left, right, strict=True)
        if one_value != other
    ]


def _texts(field: pa.Field, column: pa.Array) -> list[str | None]:
    """Return the text of each value, the same whatever kinds are in its column."""
    if is_mixed(field):
        return [text_of(value) for value in parse_mixed(column)]
    known = texts(column)
    return [known.at(row) for row in range(len(column))]


def _valid(column: pa.Array) -> Truths:
    truths: Truths = column.is_valid().to_numpy(zero_copy_only=False)
    return truths
