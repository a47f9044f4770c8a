"""The frames of a chunk's messages, read by columns: where payloads begin, and their schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.parsing.decoders.columns import Undecodable
from secor.parsing.decoders.framing import RegistryFraming, SchemaName

LONGEST = (1 << 31) - 1
"""Bytes of a value: what offsets of 32 bits reach."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a chunk's messages.

    ``codes`` has for each row an index into ``names``, -1 where the message has no frame, and
    ``bad`` says why; ``payloads`` are what is behind the frames.
    """

    names: Sequence[SchemaName]
    codes: npt.NDArray[np.int64]
    payloads: pa.Array
    bad: Mapping[int, str]


def read_frames(
    messages: pa.RecordBatch, framing: RegistryFraming, *, column: str = "value"
) -> Frames:
    """Read the frames of all messages, or of their keys."""
    return _FrameReader(messages, framing, column).read()


def unframed(
    messages: pa.RecordBatch, framing: RegistryFraming
) -> tuple[pa.RecordBatch, Mapping[int, str]]:
    """Return the messages with their payloads for values, null where a frame is bad, and why."""
    frames = read_frames(messages, framing)
    return with_payloads(messages, frames.payloads, frames.bad), frames.bad


def with_payloads(
    messages: pa.RecordBatch, payloads: pa.Array, bad: Mapping[int, str]
) -> pa.RecordBatch:
    """Return messages with these values, null in ``bad`` rows."""
    if bad:
        # Null, not left out: rows keep their places, by which offsets and reasons are found.
        good = np.ones(len(payloads), dtype=bool)
        good[list(bad)] = False
        payloads = pc.if_else(pa.array(good), payloads, pa.scalar(None, payloads.type))
    place = messages.schema.get_field_index("value")
    return messages.set_column(place, messages.schema.field(place), payloads)


class _FrameReader:
    """The frames of one chunk while they are read: those of the usual size by columns."""

    def __init__(self, messages: pa.RecordBatch, framing: RegistryFraming, column: str) -> None:
        self._messages = messages
        self._values = messages.column(column)
        self._framing = framing
        self._headers = framing.headers(column)
        self._names: dict[SchemaName, int] = {}
        self._codes = np.full(len(self._values), -1, np.int64)
        self._sizes = np.zeros(len(self._values), np.int64)
        self._decompressed: dict[int, bytes] = {}
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
        if not self._headers or "headers" not in self._messages.schema.names:
            return
        headers = self._messages.column("headers")
        if headers.null_count == len(headers):
            return
        entries = headers.flatten()
        named = pc.is_in(entries.field("key"), pa.array(self._headers))
        places = np.flatnonzero(named.to_numpy(zero_copy_only=False))
        rows = pc.list_parent_indices(headers).take(pa.array(places))
        chosen = entries.take(pa.array(places)).to_pylist()
        known: dict[tuple[str, bytes], SchemaName | str] = {}
        for row, entry in zip(rows.to_pylist(), chosen, strict=True):
            content = entry["value"] or b""
            schema = known.get((entry["key"], content))
            if schema is None:
                # A chunk has few schemas and many messages.
                schema = known[entry["key"], content] = self._parse_header(entry["key"], content)
            # Also if the header is bad: the value then has no frame in front, and its first bytes
            # mean nothing.
            unread[row] = False
            self._take(row, schema)

    def _parse_header(self, header: str, content: bytes) -> SchemaName | str:
        try:
            return self._framing.parse_header(header, content)
        except Undecodable as error:
            return f"header {header}: {error}"

    def _take(self, row: int, schema: SchemaName | str) -> None:
        """Take the schema that a header names, or the reason why it names none."""
        # A header before may have been good: deserialisers take the last one.
        self._codes[row] = -1
        self._bad.pop(row, None)
        try:
            if isinstance(schema, str):
                raise Undecodable(schema)
            if self._framing.has_rest:
                schema, self._sizes[row], _ = self._framing.parse_rest(
                    schema, self._values[row].as_py() or b""
                )
            self._codes[row] = self._code(schema)
        except Undecodable as error:
            self._bad[row] = str(error)

    def _read_prefixes(self, unread: npt.NDArray[np.bool_]) -> None:
        """Read the frames in front of values: equal heads of the usual size once."""
        first = self._values[int(np.argmax(unread))].as_py()
        size = self._framing.usual_size(first)
        heads = pc.if_else(pa.array(unread), pc.binary_slice(self._values, 0, size), None)
        heads = heads.dictionary_encode()
        code_of_head = np.full(len(heads.dictionary) + 1, -1, np.int64)
        for place, head in enumerate(heads.dictionary.to_pylist()):
            try:
                frame = self._framing.parse(head)
            except Undecodable:
                continue  # or of another size
            if frame.size == len(head) and frame.payload is None:
                code_of_head[place] = self._code(frame.schema)
        codes = code_of_head[heads.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
        usual = unread & (codes >= 0)
        self._codes[usual], self._sizes[usual] = codes[usual], size
        rows = np.flatnonzero(unread & (codes < 0))
        values = self._values.take(pa.array(rows)).to_pylist()
        for row, raw in zip(rows.tolist(), values, strict=True):
            try:
                schema, self._sizes[row], payload = self._framing.parse(raw)
                self._codes[row] = self._code(schema)
                if payload is not None:
                    self._decompressed[row] = payload
            except Undecodable as error:
                self._bad[row] = str(error)

    def _payloads(self) -> pa.Array:
        sizes, counts = np.unique(self._sizes, return_counts=True)
        payloads = self._values
        for place, size in enumerate(sizes[np.argsort(-counts, kind="stable")].tolist()):
            # Arrow fails without an end where values are shorter than the start.
            part = pc.binary_slice(self._values, size, LONGEST) if size else self._values
            payloads = pc.if_else(pa.array(self._sizes == size), part, payloads) if place else part
        if not self._decompressed:
            return payloads
        mask = np.zeros(len(payloads), dtype=bool)
        mask[list(self._decompressed)] = True
        return pc.replace_with_mask(
            payloads, pa.array(mask), pa.array(self._decompressed.values(), payloads.type)
        )
