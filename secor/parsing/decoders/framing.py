"""Frames that serialisers of schema registries put around messages.

A frame names the schema by its id (a zero byte and four bytes) or by its GUID (a one and 16
bytes), in front of the payload or in a record header; Protobuf's adds the indexes of the
message's type in its file.  Headers come first, as for Confluent's own deserialisers.

Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.parsing.decoders.columns import EMPTY_PAYLOAD, Undecodable
from secor.parsing.registry import SchemaId

MAGIC_OF_ID, MAGIC_OF_GUID = 0, 1
HEAD_OF_ID = struct.Struct(">BI")
SIZE_OF_GUID = 17

VALUE_HEADER = "__value_schema_id"
KEY_HEADER = "__key_schema_id"

LONGEST = (1 << 31) - 1
"""Bytes of a value: what offsets of 32 bits reach."""

MOST_INDEXES = 64
"""Levels of nested types in a frame; a real file has a few."""


@dataclass(frozen=True, slots=True)
class SchemaName:
    """The schema that a frame names, and which of its types."""

    schema_id: SchemaId
    indexes: tuple[int, ...] = ()

    def __str__(self) -> str:
        kind = "id" if isinstance(self.schema_id, int) else "GUID"
        return f"schema {kind} {self.schema_id}"


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a chunk's messages.

    ``codes`` has for each row an index into ``names``, -1 where the message has no frame, and
    ``bad`` says why one is none; ``payloads`` are what is behind the frames.
    """

    names: Sequence[SchemaName]
    codes: npt.NDArray[np.int64]
    payloads: pa.Array
    bad: Mapping[int, str]


def read_frames(
    messages: pa.RecordBatch, *, column: str = "value", indexed: bool = False
) -> Frames:
    """Read the frames of all messages; ``indexed``: with Protobuf's indexes."""
    return _FrameReader(messages, column, indexed).read()


def unframed(
    messages: pa.RecordBatch, *, indexed: bool = False
) -> tuple[pa.RecordBatch, Mapping[int, str]]:
    """Return the messages with their payloads for values, null where a frame is bad, and why."""
    frames = read_frames(messages, indexed=indexed)
    return with_payloads(messages, frames.payloads, frames.bad), frames.bad


def with_payloads(
    messages: pa.RecordBatch, payloads: pa.Array, bad: Mapping[int, str]
) -> pa.RecordBatch:
    """Return messages with these values, null in ``bad`` rows."""
    if bad:
        good = np.ones(len(payloads), dtype=bool)
        good[list(bad)] = False
        payloads = pc.if_else(pa.array(good), payloads, pa.scalar(None, payloads.type))
    place = messages.schema.get_field_index("value")
    return messages.set_column(place, messages.schema.field(place), payloads)


class _FrameReader:
    """The frames of one chunk while they are read: those of the usual form by columns."""

    def __init__(self, messages: pa.RecordBatch, column: str, indexed: bool) -> None:
        self._messages = messages
        self._values = messages.column(column)
        self._header = KEY_HEADER if column == "key" else VALUE_HEADER
        self._indexed = indexed
        self._names: dict[SchemaName, int] = {}
        self._codes = np.full(len(self._values), -1, np.int64)
        self._sizes = np.zeros(len(self._values), np.int64)
        self._bad: dict[int, str] = {}

    def read(self) -> Frames:
        """Return what the frames are."""
        present = self._values.is_valid().to_numpy(zero_copy_only=False)
        unread = present.copy()
        self._read_headers(unread)
        if unread.any():
            self._read_prefixes(unread)
        self._codes[~present] = -1
        bad = {row: self._bad[row] for row in sorted(self._bad) if present[row]}
        return Frames(list(self._names), self._codes, self._payloads(), bad)

    def _code(self, name: SchemaName) -> int:
        return self._names.setdefault(name, len(self._names))

    def _read_headers(self, unread: npt.NDArray[np.bool_]) -> None:
        """Read the headers that name schemas; of several the last one counts."""
        headers = self._headers()
        if headers is None:
            return
        entries = headers.flatten()
        places = pa.array(_true_places(pc.equal(entries.field("key"), self._header)))
        rows = pc.list_parent_indices(headers).take(places).to_numpy(zero_copy_only=False)
        contents = entries.field("value").take(places).dictionary_encode()
        codes = [self._parse_header(content) for content in contents.dictionary.to_pylist()]
        absent = self._parse_header(b"")
        for row, place in zip(rows.tolist(), contents.indices.to_pylist(), strict=True):
            code = absent if place is None else codes[place]
            unread[row] = False
            self._bad.pop(row, None)
            self._codes[row] = code if isinstance(code, int) else -1
            if isinstance(code, str):
                self._bad[row] = code

    def _headers(self) -> pa.ListArray | None:
        if "headers" not in self._messages.schema.names:
            return None
        headers = self._messages.column("headers")
        return None if headers.null_count == len(headers) else headers

    def _parse_header(self, content: bytes) -> int | str:
        try:
            return self._code(parse_frame(content, indexed=self._indexed)[0])
        except Undecodable as error:
            return f"header {self._header}: {error}"

    def _read_prefixes(self, unread: npt.NDArray[np.bool_]) -> None:
        """Read the frames in front of values: equal heads of the usual form once."""
        size = HEAD_OF_ID.size + self._indexed
        heads = pc.binary_slice(self._values, 0, size).dictionary_encode()
        code_of_head = np.full(len(heads.dictionary) + 1, -1, np.int64)
        for place, head in enumerate(heads.dictionary.to_pylist()):
            # A zero is short for the list of one zero, the first type: nearly all have it.
            if len(head) == size and head[0] == MAGIC_OF_ID and not (self._indexed and head[-1]):
                schema_id = HEAD_OF_ID.unpack_from(head)[1]
                code_of_head[place] = self._code(
                    SchemaName(schema_id, (0,) if self._indexed else ())
                )
        codes = code_of_head[heads.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
        usual = unread & (codes >= 0)
        self._codes[usual], self._sizes[usual] = codes[usual], size
        rows = np.flatnonzero(unread & (codes < 0))
        for row, raw in zip(
            rows.tolist(), self._values.take(pa.array(rows)).to_pylist(), strict=True
        ):
            try:
                name, self._sizes[row] = parse_frame(raw, indexed=self._indexed)
                self._codes[row] = self._code(name)
            except Undecodable as error:
                self._bad[row] = str(error)

    def _payloads(self) -> pa.Array:
        sizes, counts = np.unique(self._sizes, return_counts=True)
        payloads = self._values
        for place, size in enumerate(sizes[np.argsort(-counts, kind="stable")].tolist()):
            # Arrow fails without an end where values are shorter than the start.
            part = pc.binary_slice(self._values, size, LONGEST) if size else self._values
            payloads = pc.if_else(pa.array(self._sizes == size), part, payloads) if place else part
        return payloads


def _true_places(truths: pa.BooleanArray) -> npt.NDArray[np.int64]:
    return np.flatnonzero(truths.to_numpy(zero_copy_only=False).astype(bool))


def parse_frame(raw: bytes, *, indexed: bool) -> tuple[SchemaName, int]:
    """Return the schema that a frame names, and the size of the frame in bytes."""
    if not raw:
        raise Undecodable(EMPTY_PAYLOAD)
    schema_id: SchemaId
    if raw[0] == MAGIC_OF_ID:
        size = HEAD_OF_ID.size
        if len(raw) < size:
            raise Undecodable(f"{len(raw)} bytes: shorter than magic and schema id")
        schema_id = HEAD_OF_ID.unpack_from(raw)[1]
    elif raw[0] == MAGIC_OF_GUID:
        size = SIZE_OF_GUID
        if len(raw) < size:
            raise Undecodable(f"{len(raw)} bytes: shorter than magic and GUID")
        schema_id = str(UUID(bytes=raw[1:size]))
    else:
        raise Undecodable(f"magic byte {raw[0]}, not {MAGIC_OF_ID} or {MAGIC_OF_GUID}")
    if not indexed:
        return SchemaName(schema_id), size
    indexes, end = _read_indexes(raw, size)
    return SchemaName(schema_id, indexes), end


def _read_indexes(raw: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes and where they end: zigzag varints, their count first."""
    count, end = _varint(raw, start)
    if count == 0:
        return (0,), end
    if not 0 < count <= MOST_INDEXES:
        raise Undecodable(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, end = _varint(raw, end)
        indexes.append(index)
    return tuple(indexes), end


def _varint(raw: bytes, start: int) -> tuple[int, int]:
    value = 0
    for position, byte in enumerate(raw[start : start + 10]):
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), start + position + 1
    raise Undecodable(f"truncated header at byte {min(start, len(raw))}")
