"""Messages of Kafka Connect's JSON converter: ``{"schema": …, "payload": …}`` found and unwrapped.

Source: Kafka's ``connect.json.JsonConverter`` (``org.apache.kafka``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.parsing.decoders.avro_types import wider
from secor.parsing.decoders.columns import Undecodable, build_declared
from secor.parsing.decoders.connect_types import StructReader, struct_reader
from secor.parsing.rows import Decoded, Rows

MOST_SCHEMAS = 1000
"""Schemas that are kept ready; a topic has a few, a hostile one could bring any number."""
_HEAD = r'^\s*\{\s*"(schema|payload)"\s*:'
_NAMES = (b'"sc', b'"pa')
"""The bytes behind the brace of most envelopes, as far as they are compared."""


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly these two: what has others is a message that happens to have such names."""

    schema: msgspec.Raw
    payload: msgspec.Raw


@dataclass(frozen=True, slots=True)
class EnvelopedMessages:
    """The messages of a chunk that are envelopes: typed ones, and those without a schema.

    ``readers`` and ``payloads`` have one item for each of ``rows``.  ``schemaless`` have a payload
    and ``null`` for a schema: ``bare`` is their payload alone.
    """

    rows: Rows
    readers: Sequence[StructReader]
    payloads: Sequence[bytes]
    schemaless: Rows
    bare: Sequence[bytes]


class ConnectEnvelopes:
    """Finds envelopes among JSON messages, and reads them by their schemas."""

    def __init__(self) -> None:
        self._readers: dict[bytes, StructReader | None] = {}
        self._decoder = msgspec.json.Decoder(_Envelope)

    def find(self, values: pa.Array) -> EnvelopedMessages | None:
        """Return which messages are envelopes; None, at little cost, where none is."""
        candidates = _candidates(values)
        if not len(candidates):
            return None
        rows, readers, payloads = [], [], []
        schemaless, bare = [], []
        chosen = values.take(pa.array(candidates)).to_pylist()
        for row, raw in zip(candidates.tolist(), chosen, strict=True):
            try:
                envelope = self._decoder.decode(raw)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                continue
            schema, payload = bytes(envelope.schema), bytes(envelope.payload)
            if schema == b"null" and payload[:1] == b"{":
                schemaless.append(row)
                bare.append(payload)
            elif (reader := self._reader(schema)) is not None:
                rows.append(row)
                readers.append(reader)
                payloads.append(payload)
        if not rows and not schemaless:
            return None
        numbers = np.array(rows, np.int64), np.array(schemaless, np.int64)
        return EnvelopedMessages(numbers[0], readers, payloads, numbers[1], bare)

    def _reader(self, schema: bytes) -> StructReader | None:
        """Return what reads payloads of a schema; None if this is no schema of Connect's."""
        if schema not in self._readers:
            if len(self._readers) >= MOST_SCHEMAS:
                self._readers.clear()
            self._readers[schema] = struct_reader(schema)
        return self._readers[schema]


def decode_enveloped(
    enveloped: EnvelopedMessages, bad: Mapping[int, str], paths: tuple[str, ...] | None
) -> list[tuple[Rows, Decoded]]:
    """Decode the typed messages: those whose schemas go together are together.

    ``bad`` says, by place in ``enveloped.rows``, what is known to be bad, and why.
    """
    return [
        (enveloped.rows[places], _decode_group(kind, enveloped, places, bad, paths))
        for kind, places in _groups(enveloped.readers)
    ]


def _groups(readers: Sequence[StructReader]) -> list[tuple[pa.DataType, Rows]]:
    kinds: list[pa.DataType] = []
    group_of: dict[int, int] = {}
    numbers = np.empty(len(readers), np.int64)
    for place, reader in enumerate(readers):
        number = group_of.get(id(reader))
        if number is None:
            number = group_of[id(reader)] = _place_in(kinds, reader.column.type)
        numbers[place] = number
    return [(kind, np.flatnonzero(numbers == number)) for number, kind in enumerate(kinds)]


def _place_in(kinds: list[pa.DataType], kind: pa.DataType) -> int:
    for number, known in enumerate(kinds):
        both = wider(known, kind)
        if both is not None:
            kinds[number] = both
            return number
    kinds.append(kind)
    return len(kinds) - 1


def _decode_group(
    kind: pa.DataType,
    enveloped: EnvelopedMessages,
    places: Rows,
    known_bad: Mapping[int, str],
    paths: tuple[str, ...] | None,
) -> Decoded:
    objects: list[Any] = []
    bad: dict[int, str] = {}
    for row, place in enumerate(places.tolist()):
        try:
            if place in known_bad:
                raise Undecodable(known_bad[place])
            objects.append(enveloped.readers[place].read(enveloped.payloads[place]))
        except Undecodable as error:
            objects.append(None)
            bad[row] = str(error)
    return build_declared(objects, kind, bad, paths)


def _candidates(values: pa.Array) -> Rows:
    """Return the messages that begin as an envelope does, mostly by a look at four bytes."""
    none: Rows = np.zeros(0, np.int64)
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return none
    places = np.frombuffer(offsets, dtype=np.int32)[values.offset :][: len(values) + 1]
    starts, lengths = places[:-1], np.diff(places)
    rows = np.flatnonzero(lengths > len('{"schema":1,"payload":1'))
    content = np.frombuffer(data, dtype=np.uint8)
    first, second, *more = (content[starts[rows] + place] for place in range(4))
    named = np.zeros(len(rows), dtype=bool)
    for quote, *letters in _NAMES:
        named |= (second == quote) & (more[0] == letters[0]) & (more[1] == letters[1])
    # What has white space in front, or other names first, is looked at more closely, if ever.
    spaced = (first <= 0x20) | (second <= 0x20)
    rows = rows[named | spaced]
    if not len(rows):
        return none
    alike = pc.match_substring_regex(values.take(pa.array(rows)), _HEAD)
    return rows[pc.fill_null(alike, False).to_numpy(zero_copy_only=False)]
