"""Keys of messages, decoded like values: each is one field, ``key``, of whatever type."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.text import load_json
from secor.core.variant_json import is_mixed
from secor.parsing.decoders import make_decoder
from secor.parsing.decoders.connect_types import struct_reader
from secor.parsing.decoders.framing import FRAMINGS
from secor.parsing.decoders.json import JsonDecoder
from secor.parsing.rows import Decoded, Decoder, DividingDecoder, Rows

KEY = "key"
"""The field that key decoders give: the whole key."""

_SCALAR = r"\A\s*[^{\s]"
_ENVELOPE = b'"payload"'

Column = tuple[pa.Field, pa.Array]
Truths = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.int64]


class IntegerKeys:
    """Keys of 1, 2, 4 or 8 bytes, as Kafka's and Connect's serialisers of integers write them."""

    identity = "integer"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """Return the field ``key``."""
        known: list[int | None] = []
        bad: dict[int, str] = {}
        for row, raw in enumerate(messages.column("value").to_pylist()):
            if raw is not None and len(raw) not in _INTEGER_BYTES:
                bad[row] = f"has {len(raw)} bytes, and integers have 1, 2, 4 or 8"
            good = raw is not None and row not in bad
            known.append(int.from_bytes(raw, "big", signed=True) if good else None)
        return Decoded(_whole(pa.array(known, pa.int64()), pa.field(KEY, pa.int64())), bad)


_INTEGER_BYTES = (1, 2, 4, 8)


class PlainKeys:
    """Keys that are text, or bytes."""

    def __init__(self, *, of_text: bool) -> None:
        """Take what keys are."""
        self._of_text = of_text
        self.identity = "text" if of_text else "bytes"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """Return the field ``key``."""
        keys = messages.column("value")
        if not self._of_text:
            return Decoded(_whole(keys, pa.field(KEY, keys.type)))
        try:
            return Decoded(_whole(keys.cast(pa.string()), pa.field(KEY, pa.string())))
        except pa.ArrowInvalid:
            raws = keys.to_pylist()
        known: list[str | None] = []
        bad: dict[int, str] = {}
        for row, raw in enumerate(raws):
            try:
                known.append(None if raw is None else raw.decode())
            except UnicodeDecodeError:
                known.append(None)
                bad[row] = "is not UTF-8"
        return Decoded(_whole(pa.array(known, pa.string()), pa.field(KEY, pa.string())), bad)


class JsonKeys:
    """Keys in JSON: objects, and other values, also as Connect's converter writes them."""

    def __init__(self, decoder: JsonDecoder) -> None:
        """``decoder`` reads the objects."""
        self._decoder = decoder
        self.identity = f"json keys-2:{decoder.identity}"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """Return the field ``key`` of keys that go together."""
        [(_, decoded)] = self.decode_apart(messages, paths)
        return decoded

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """Return the field ``key``: objects apart from other values."""
        keys, kinds, bad = self._other_values(messages.column("value"))
        groups: list[tuple[Rows, Decoded]] = []
        for kind in (_OBJECT, _SINGLE, _TYPED):
            rows = np.flatnonzero(kinds == kind)
            if not len(rows):
                continue
            values = keys.take(pa.array(rows))
            if kind == _SINGLE:
                # Around each scalar an object: the reader of columns takes objects alone.
                values = pc.binary_join_element_wise(b'{"key":', values, b"}", b"")
            batch = pa.RecordBatch.from_arrays([values], ["value"])
            for inner, decoded in self._decoder.decode_apart(batch, None):
                own = rows[inner]
                reasons = {**decoded.bad}
                reasons |= {index: bad[row] for index, row in enumerate(own.tolist()) if row in bad}
                as_key = (as_field if kind == _OBJECT else _only_key)(decoded.rows)
                groups.append((own, Decoded(as_key, reasons)))
        return groups

    def _other_values(self, keys: pa.Array) -> tuple[pa.Array, Kinds, dict[int, str]]:
        """Return the keys, those in envelopes around single values with these alone, or as the
        field of an object whose schema says what they are; what each is; and why some are bad.
        """
        singles = pc.match_substring_regex(keys, _SCALAR).to_numpy(zero_copy_only=False)
        kinds = np.where(singles, _SINGLE, _OBJECT)
        bad: dict[int, str] = {}
        changed = keys.to_pylist() if singles.any() or _may_have_envelopes(keys) else []
        for row, raw in enumerate(changed):
            if not singles[row] and _ENVELOPE not in raw:
                continue
            try:
                value = load_json(raw)
            except ValueError as error:
                # A part of an object would otherwise be read as one value.
                if singles[row]:
                    bad[row], changed[row] = f"is no JSON: {error}", b"null"
                continue
            if isinstance(value, dict) and set(value) == {"schema", "payload"}:
                payload = _payload_of(raw, value)
                if payload is None:
                    continue
                whole = struct_around(KEY, value)
                if whole is None or value["payload"] is None:
                    changed[row], kinds[row] = payload, _SINGLE
                else:
                    schema = json.dumps(whole["schema"]).encode()
                    changed[row] = b'{"schema":%b,"payload":{"key":%b}}' % (schema, payload)
                    kinds[row] = _TYPED
        return pa.array(changed, pa.binary()) if changed else keys, kinds, bad


_OBJECT, _SINGLE, _TYPED = range(3)


def struct_around(name: str, envelope: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an envelope of Connect's around a value with a schema as that of an object with the
    one field ``name``; None if there is no such schema, or it is that of an object.
    """
    schema = envelope["schema"]
    if not isinstance(schema, dict) or schema.get("type") in (None, "struct"):
        return None
    whole = {"type": "struct", "fields": [{**schema, "field": name}]}
    if struct_reader(json.dumps(whole).encode()) is None:
        return None
    return {"schema": whole, "payload": {name: envelope["payload"]}}


def _may_have_envelopes(keys: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring(keys, _ENVELOPE)).as_py())


def _payload_of(raw: bytes, envelope: Mapping[str, object]) -> bytes | None:
    """Return the payload of an envelope as it is written; None of an object, and of what the
    decoder of objects has to refuse.
    """
    if isinstance(envelope["payload"], dict):
        return None
    try:
        parts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    return bytes(parts["payload"])


class WholeKeys:
    """Keys that a decoder of values reads, each as one struct."""

    def __init__(self, decoder: Decoder) -> None:
        """``decoder`` gives the fields of keys."""
        self._decoder = decoder
        self.identity = decoder.identity

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """Return the field ``key``."""
        decoded = self._decoder.decode(messages, None)
        return Decoded(as_field(decoded.rows), decoded.bad)

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """Return the field ``key``."""
        return [
            (rows, Decoded(as_field(decoded.rows), decoded.bad))
            for rows, decoded in groups_of(self._decoder, messages, None)
        ]


def as_field(rows: pa.StructArray) -> pa.StructArray:
    """Return structs as the one field ``key``."""
    return _whole(rows, pa.field(KEY, rows.type))


def _whole(column: pa.Array, field: pa.Field) -> pa.StructArray:
    return pa.StructArray.from_arrays([column], fields=[field])


def _only_key(rows: pa.StructArray) -> pa.StructArray:
    """Return rows of the field ``key`` alone, also where no row has a value."""
    place = rows.type.get_field_index(KEY)
    if place < 0:
        return _whole(pa.nulls(len(rows)), pa.field(KEY, pa.null()))
    return _whole(pc.struct_field(rows, [place]), rows.type.field(place))


def groups_of(
    decoder: Decoder, messages: pa.RecordBatch, paths: tuple[str, ...] | None
) -> Sequence[tuple[Rows, Decoded]]:
    """Decode in groups of rows of one type each."""
    if isinstance(decoder, DividingDecoder):
        return decoder.decode_apart(messages, paths)
    return [(np.arange(messages.num_rows), decoder.decode(messages, paths))]


@dataclass(frozen=True, slots=True)
class KeyReader:
    """Reads the keys of messages.

    ``field`` names the field of a whole key, None if keys become no fields.  With ``prefix`` the
    fields of a key that is an object become fields themselves.  ``most_bytes`` bounds a key.
    """

    decoder: Decoder
    field: str | None = KEY
    prefix: str | None = None
    most_bytes: int | None = None

    @property
    def identity(self) -> str:
        """All settings that change the result."""
        size = f":{self.most_bytes}"
        return f"keys-1:{self.field}:{self.prefix}{size}:{self.decoder.identity}"

    @property
    def gives_fields(self) -> bool:
        """True if keys become fields; else they only say which rows messages delete."""
        return self.field is not None or self.prefix is not None

    def read(self, messages: pa.RecordBatch) -> list[tuple[Rows, Decoded]]:
        """Return the field ``key`` of messages in groups of one type; null without a key."""
        keys = messages.column("key")
        lengths = pc.fill_null(pc.binary_length(keys), 0).to_numpy(zero_copy_only=False)
        large = lengths > self.most_bytes if self.most_bytes is not None else lengths < 0
        read = keys.is_valid().to_numpy(zero_copy_only=False) & ~large
        groups = []
        present = np.flatnonzero(read)
        if len(present):
            for rows, decoded in groups_of(self.decoder, _as_values(messages, present), None):
                groups.append((present[rows], decoded))
        rest = np.flatnonzero(~read)
        if len(rest):
            kind = groups[0][1].rows.type if groups else pa.struct([pa.field(KEY, pa.null())])
            bad = {
                place: f"has {lengths[row]} bytes, more than {self.most_bytes}"
                for place, row in enumerate(rest.tolist())
                if large[row]
            }
            # Rows without a key, or with one too large, are of the first group's type: they need no
            # group of a type of their own, which would be one more file.
            nothing = pa.StructArray.from_arrays(
                [pa.nulls(len(rest), field.type) for field in kind], fields=list(kind)
            )
            groups.append((rest, Decoded(nothing, bad)))
        return groups

    def fields(self, rows: pa.StructArray) -> list[Column]:
        """Return the fields that keys become, with their columns."""
        if not rows.type.num_fields:
            return []  # no key could be read
        [field], [column] = list(rows.type), rows.flatten()
        if self.prefix is not None and pa.types.is_struct(field.type) and not is_mixed(field):
            return [
                (inner.with_name(f"{self.prefix}{inner.name}").with_nullable(True), part)
                for inner, part in zip(field.type.fields, column.flatten(), strict=True)
            ]
        return [] if self.field is None else [(field.with_name(self.field), column)]

    def identifiers(self, rows: pa.StructArray, names: Sequence[str]) -> list[Column]:
        """Return the columns ``names`` of a table out of the field ``key``: by their own names,
        or by those that fields of keys have; a key of one value is the only one of them.
        """
        if not rows.type.num_fields:
            return []
        [field], [column] = list(rows.type), rows.flatten()
        if not pa.types.is_struct(field.type) or is_mixed(field):
            return [(field.with_name(names[0]), column)] if len(names) == 1 else []
        parts = dict(zip((child.name for child in field.type), column.flatten(), strict=True))
        fields = {inner.name: inner.with_nullable(True) for inner in field.type}
        columns = []
        for name in names:
            own = name if name in parts else name.removeprefix(self.prefix or "")
            if own in parts:
                columns.append((fields[own].with_name(name), parts[own]))
        return columns

    def may_have(self, path: str) -> bool:
        """Return whether a path may lead into a key."""
        whole = self.field is not None and f"{path}.".startswith(f"{self.field}.")
        return whole or (self.prefix is not None and path.startswith(self.prefix))


def _as_values(messages: pa.RecordBatch, rows: Rows) -> pa.RecordBatch:
    """Return messages with their keys for values, and the headers that name keys' schemas so."""
    keys = messages.column("key")
    headers = messages.column("headers")
    if len(rows) < messages.num_rows:
        keys, headers = keys.take(pa.array(rows)), headers.take(pa.array(rows))
    return pa.RecordBatch.from_arrays([keys, _swapped(headers)], ["value", "headers"])


def _swapped(headers: pa.Array) -> pa.Array:
    """Return headers with the names for schemas of keys and of values exchanged."""
    entries = headers.flatten()
    if not len(entries):
        return headers
    names = entries.field("key")
    known = pc.is_in(names, pa.array([*_OTHER_NAME]))
    if not pc.any(known).as_py():
        return headers
    # The decoder looks for the value's headers: it finds those of the key under these names.
    exchanged = pa.array([_OTHER_NAME.get(name, name) for name in names.to_pylist()], names.type)
    kind = entries.type
    changed = pa.StructArray.from_arrays([exchanged, entries.field("value")], fields=list(kind))
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), changed, type=headers.type)


_OTHER_NAME = {
    name: other
    for framing in FRAMINGS.values()
    for of, other_of in (("key", "value"), ("value", "key"))
    for name, other in zip(framing().headers(of), framing().headers(other_of), strict=True)
}


def make_key_decoder(name: str, *, keep_nulls_in: Collection[str] = (), **settings: Any) -> Decoder:
    """Make what decodes keys, by the name of its decoder.  Raises ``ConfigurationError``."""
    if name in ("text", "bytes"):
        return PlainKeys(of_text=name == "text")
    if name == "integer":
        return IntegerKeys()
    if name == "avro":
        return make_decoder(name, of_keys=True, **settings)
    decoder = make_decoder(name, keep_nulls_in=keep_nulls_in, **settings)
    return JsonKeys(decoder) if isinstance(decoder, JsonDecoder) else WholeKeys(decoder)
