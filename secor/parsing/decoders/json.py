"""The JSON decoder: objects, one a message.

Three libraries read JSON, each what no other does as fast or as exactly.  Arrow's reader reads
whole objects as columns, four times as fast as msgspec; msgspec reads a few fields of each object,
twice as fast as Arrow's reader; only Python's own sees a name twice in an object.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.parsing.decoders import MAX_ELEMENTS, json_text
from secor.parsing.decoders.columns import Undecodable, build_apart, everything, keep_nulls
from secor.parsing.decoders.connect_json import ConnectEnvelopes, decode_enveloped
from secor.parsing.decoders.json_fields import read_fields
from secor.parsing.decoders.json_object import decode_exactly, decode_quickly
from secor.parsing.rows import Decoded, Rows

NO_ROWS: Rows = np.zeros(0, np.int64)


class JsonDecoder:
    """RFC 8259 objects in UTF-8; everything else is bad, with a reason.

    Bad: null and empty payloads, other top levels than objects, NaN and Infinity, numbers
    beyond a double, invalid UTF-8, lone surrogates, nesting beyond ``MAX_DEPTH``, more values
    than ``max_elements``, and, when everything is asked for, a name twice in one object or
    what ``extent.oversized`` reports.  With paths, fields that are not
    asked for are checked for syntax only, and of a name that is there twice the last counts.
    Integers beyond int64 turn their column (of this chunk) into text, never into doubles; so do
    numbers with more digits than a double has.

    ``{"schema": …, "payload": …}`` of Connect's JSON converter is the payload, with the schema's
    types (``connect_json``); ``decode`` alone, for one type of all rows, leaves it as it is.
    """

    def __init__(
        self, max_elements: int = MAX_ELEMENTS, keep_nulls_in: Collection[str] = ()
    ) -> None:
        """``max_elements`` bounds the values of a message, those within others included.

        Objects in fields of the names ``keep_nulls_in`` keep their null members.
        """
        self._max_elements = max_elements
        self._keep_nulls_in = frozenset(name.lower() for name in keep_nulls_in)
        self._may_have_nulls = _may_have_nulls(self._keep_nulls_in)
        self._envelopes = ConnectEnvelopes()
        nulls = f":nulls in {sorted(self._keep_nulls_in)}" if self._keep_nulls_in else ""
        self.identity = f"json-7:{max_elements}{nulls}"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        values = messages.column("value")
        bad = json_text.check(values, self._max_elements)
        if paths is None and len(self._rows_with_nulls(values)):
            objects, bad = self._decode_objects(values, bad)
            return Decoded(everything(objects, bad), bad)
        # Bad ones are left out before the columns are read, since Arrow's reader fails for all or
        # for none.
        good = values if not bad else values.take(_rows_without(len(values), bad))
        if paths is not None:
            return _rows_of_all(*read_fields(good, paths), bad, len(values))
        rows, more = _columns(good)
        if rows is not None:
            return _rows_of_all(rows, more, bad, len(values))
        objects, bad = _decode_objects(values, _merge(bad, more, len(values)))
        return Decoded(everything(objects, bad), bad)

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """See ``rows.DividingDecoder``: envelopes with schemas apart, by their types."""
        values = messages.column("value")
        enveloped = self._envelopes.find(values)
        if enveloped is None:
            return self.decode_objects_apart(messages, paths)
        bad = json_text.check(values.take(pa.array(enveloped.rows)), self._max_elements)
        groups = decode_enveloped(enveloped, bad, paths)
        if len(enveloped.schemaless):
            bare = _messages_of(enveloped.bare)
            # Not ``decode_apart``: an envelope within an envelope is an object like others.
            parts = self.decode_objects_apart(bare, paths)
            groups += [(enveloped.schemaless[rows], decoded) for rows, decoded in parts]
        rest = np.delete(
            np.arange(len(values)), np.concatenate([enveloped.rows, enveloped.schemaless])
        )
        if len(rest):
            parts = self.decode_objects_apart(messages.take(pa.array(rest)), paths)
            groups += [(rest[rows], decoded) for rows, decoded in parts]
        return groups

    def decode_objects_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """Decode as ``decode_apart`` does, and every object as it is: none is an envelope."""
        values = messages.column("value")
        places = self._rows_with_nulls(values) if paths is None else NO_ROWS
        if not len(places):
            return self._columns_apart(messages, paths)
        chosen = messages.take(pa.array(places))
        bad = json_text.check(chosen.column("value"), self._max_elements)
        objects, bad = self._decode_objects(chosen.column("value"), bad)
        groups = [(places[rows], decoded) for rows, decoded in build_apart(objects, bad, chosen)]
        others = np.delete(np.arange(len(values)), places)
        if len(others):
            parts = self._columns_apart(messages.take(pa.array(others)), paths)
            groups += [(others[rows], decoded) for rows, decoded in parts]
        return groups

    def _rows_with_nulls(self, values: pa.Array) -> Rows:
        """Return the messages with a null member that is kept."""
        if not self._keep_nulls_in:
            return NO_ROWS
        candidates = pc.fill_null(pc.match_substring(values, "null"), False)
        rows = np.flatnonzero(candidates.to_numpy(zero_copy_only=False))
        raws = values.take(pa.array(rows)).to_pylist()
        if self._may_have_nulls is not None:
            search = self._may_have_nulls.search
            suspect = [place for place, raw in enumerate(raws) if search(raw) is not None]
            rows, raws = rows[suspect], [raws[place] for place in suspect]
        bad = json_text.check(values.take(pa.array(rows)), self._max_elements)
        objects = [None if place in bad else _decode_or_none(raw) for place, raw in enumerate(raws)]
        kept = keep_nulls(objects, self._keep_nulls_in)
        return rows[np.fromiter(map(operator.is_not, kept, objects), bool, len(rows))]

    def _decode_objects(
        self, values: pa.Array, bad: Mapping[int, str]
    ) -> tuple[list[Any], dict[int, str]]:
        objects, reasons = _decode_objects(values, bad)
        return keep_nulls(objects, self._keep_nulls_in), reasons

    def _columns_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        values = messages.column("value")
        every = np.arange(len(values))
        if paths is not None:
            return [(every, self.decode(messages, paths))]
        bad = json_text.check(values, self._max_elements)
        good = values if not bad else values.take(_rows_without(len(values), bad))
        rows, more = _columns(good)
        if rows is not None:
            return [(every, _rows_of_all(rows, more, bad, len(values)))]
        return build_apart(*_decode_objects(values, _merge(bad, more, len(values))), messages)


def _may_have_nulls(names: Collection[str]) -> re.Pattern[bytes] | None:
    """Return what finds JSON that may have null members in fields of these names.

    An object without braces, brackets, escapes and nulls within it has none.  None where the
    names are not all of ASCII: only its bytes distinguish small letters from capitals.
    """
    if not all(map(str.isascii, names)):
        return None
    any_name = "|".join(map(re.escape, sorted(names)))
    flat = r'\{(?:[^{}\[\]"n]++|"[^"\\]*+")*+\}'
    pattern = rf'"(?:{any_name})"\s*:\s*(?=[{{\[])(?!{flat})|\\'
    return re.compile(pattern.encode(), re.IGNORECASE)


def _decode_or_none(raw: bytes) -> Any:
    try:
        return decode_quickly(raw)
    except Undecodable:
        return None


def _messages_of(payloads: Sequence[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(payloads, pa.binary())], ["value"])


def _rows_of_all(
    rows: pa.StructArray, more: Mapping[int, str], bad: dict[int, str], total: int
) -> Decoded:
    """Return the rows of all messages; those in ``bad`` were left out."""
    if not bad:
        return Decoded(rows, more)
    scattered = _scatter(rows, _rows_without(total, bad), total)
    return Decoded(scattered, _merge(bad, more, total))


def _merge(bad: dict[int, str], more: Mapping[int, str], total: int) -> dict[int, str]:
    """Return all reasons; ``more`` counts only the rows that are not in ``bad``."""
    places = _rows_without(total, bad)
    merged = bad | {int(places[row].as_py()): reason for row, reason in more.items()}
    return dict(sorted(merged.items()))


def _rows_without(rows: int, bad: Mapping[int, str]) -> pa.Array:
    keep = np.ones(rows, dtype=bool)
    keep[list(bad)] = False
    return pa.array(np.flatnonzero(keep))


def _scatter(rows: pa.StructArray, places: pa.Array, total: int) -> pa.StructArray:
    """Put row i at ``places[i]`` of ``total`` rows, null elsewhere."""
    indices = np.zeros(total, dtype=np.int64)
    mask = np.ones(total, dtype=bool)
    targets = places.to_numpy()
    indices[targets] = np.arange(len(targets))
    mask[targets] = False
    return rows.take(pa.array(indices, mask=mask))


def _columns(values: pa.Array) -> tuple[pa.StructArray | None, dict[int, str]]:
    """Return all fields, None where a look at each row is needed, and why some rows are bad."""
    rows = json_text.read(values)
    if rows is not None:
        return rows, {}
    # Only now, row by row, which is slow: a chunk without bad messages never comes here.
    bad = _undecodable(values.to_pylist())
    if not bad:
        return None, {}
    places = _rows_without(len(values), bad)
    rows = json_text.read(values.take(places))
    return None if rows is None else _scatter(rows, places, len(values)), bad


def _undecodable(raws: Sequence[bytes]) -> dict[int, str]:
    bad: dict[int, str] = {}
    for row, raw in enumerate(raws):
        try:
            decode_quickly(raw)
        except Undecodable as error:
            bad[row] = str(error)
    return bad


def _decode_objects(values: pa.Array, bad: Mapping[int, str]) -> tuple[list[Any], dict[int, str]]:
    """Return an object for each message, None where it is bad, and all reasons."""
    objects: list[Any] = []
    reasons = dict(bad)
    for row, raw in enumerate(values.to_pylist()):
        try:
            objects.append(None if row in bad else decode_exactly(raw))
        except Undecodable as error:
            objects.append(None)
            reasons[row] = str(error)
    return objects, dict(sorted(reasons.items()))
