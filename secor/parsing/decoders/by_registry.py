"""Decoding of framed messages by the schemas of a registry, each by its own schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from secor.core.errors import ConfigurationError, NotFound
from secor.parsing.decoders.avro_types import wider
from secor.parsing.decoders.columns import NULL_PAYLOAD, Undecodable, brief, build_declared
from secor.parsing.decoders.frames import Frames, read_frames
from secor.parsing.decoders.framing import MessageType, RegistryFraming, SchemaName
from secor.parsing.registry import ANY_KIND, RegisteredSchema, SchemaRegistry
from secor.parsing.rows import Decoded, Rows

MOST_READERS = 10_000
"""Schemas that are kept ready; a topic has a few, a hostile one could bring any number."""

Reader = TypeVar("Reader")


class RowReader(Protocol):
    """Reads the payloads of one schema."""

    @property
    def type(self) -> pa.StructType:
        """The type of the rows."""

    def read(self, payload: bytes, wanted: frozenset[str] | None) -> Any:
        """Return a payload as an object for the type; raises ``Undecodable``.

        Of ``wanted`` fields, if any are named, the others are not needed.
        """


class SchemaReaders(Generic[Reader]):
    """Readers made from the schemas of a registry, each once."""

    def __init__(
        self,
        registry: SchemaRegistry,
        kind: str,
        make: Callable[[RegisteredSchema, MessageType], Reader],
    ) -> None:
        """``kind`` is the registry's word for the schemas; ``make`` may raise
        ``ConfigurationError`` or ``ValueError`` for one that cannot be used.
        """
        self._registry = registry
        self._kind = kind
        self._make = make
        self._readers: dict[SchemaName, Reader | str] = {}

    def prefetch(self, names: Sequence[SchemaName]) -> None:
        """Ask for the schemas that are new, all at once; see ``SchemaRegistry.prefetch``."""
        new = [name.schema_id for name in names if name not in self._readers]
        # All before any row is read: a registry that does not answer stops the chunk, and no
        # message of it goes into quarantine.
        self._registry.prefetch(dict.fromkeys(new))

    def reader(self, name: SchemaName) -> Reader:
        """Return the reader of a schema; Undecodable if there is none."""
        reader = self._readers.get(name)
        if reader is None:
            try:
                registered = self._registry.schema(name.schema_id)
            except NotFound as error:
                raise Undecodable(f"{name} is not in the registry") from error
            if len(self._readers) >= MOST_READERS:
                self._readers.clear()
            # Also why there is none: a schema that cannot be used is not planned again for each
            # message.
            reader = self._readers[name] = self._made(name, registered)
        if isinstance(reader, str):
            raise Undecodable(reader)
        return reader

    def readers(self, names: Sequence[SchemaName]) -> list[Reader | str]:
        """Return the reader of each schema, or why there is none."""
        readers: list[Reader | str] = []
        for name in names:
            try:
                readers.append(self.reader(name))
            except Undecodable as error:
                readers.append(str(error))
        return readers

    def _made(self, name: SchemaName, registered: RegisteredSchema) -> Reader | str:
        if registered.kind not in (self._kind, ANY_KIND):
            return f"{name} is of type {registered.kind}, not {self._kind}"
        try:
            return self._make(registered, name.message_type)
        except (ConfigurationError, ValueError) as error:
            return f"{name}: {brief(error)}"


class RegistryRows:
    """Rows of framed messages, by readers of single payloads."""

    def __init__(self, readers: SchemaReaders[RowReader], framing: RegistryFraming) -> None:
        self._readers = readers
        self._framing = framing

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``; the messages' schemas must go together."""
        frames = read_frames(messages, self._framing)
        [(_, decoded)] = self._decode_groups(frames, paths)
        return decoded

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """See ``rows.DividingDecoder``: by what the schemas in the frames are like."""
        frames = read_frames(messages, self._framing)
        self._readers.prefetch(frames.names)
        return self._decode_groups(frames, paths)

    def _decode_groups(
        self, frames: Frames, paths: tuple[str, ...] | None
    ) -> list[tuple[Rows, Decoded]]:
        framed = _FramedRows(frames, self._readers.readers(frames.names))
        return [(rows, framed.decode(kind, rows, paths)) for kind, rows in framed.groups()]


class _FramedRows:
    """The frames of a chunk with the readers of their schemas, or why there is none."""

    def __init__(self, frames: Frames, readers: Sequence[RowReader | str]) -> None:
        self._frames = frames
        self._readers = readers

    def groups(self) -> Sequence[tuple[pa.StructType, Rows]]:
        """Return the rows with compatible schemas, with the type of all of them.

        What has no schema is bad wherever it is.
        """
        kinds: list[pa.DataType] = []
        groups = [self._group(reader, kinds) for reader in self._readers]
        group_of_row = np.array([*groups, 0], np.int64)[self._frames.codes]
        return [
            (kinds[group] if kinds else pa.struct([]), np.flatnonzero(group_of_row == group))
            for group in (np.unique(group_of_row).tolist() or [0])
        ]

    def _group(self, reader: RowReader | str, kinds: list[pa.DataType]) -> int:
        """Return the first of ``kinds`` that a reader's type goes with, or add it."""
        if isinstance(reader, str):
            return 0
        for place, known in enumerate(kinds):
            both = wider(known, reader.type)
            if both is not None:
                kinds[place] = both
                return place
        kinds.append(reader.type)
        return len(kinds) - 1

    def decode(self, kind: pa.StructType, rows: Rows, paths: tuple[str, ...] | None) -> Decoded:
        """Decode some rows as one type."""
        every = len(rows) == len(self._frames.codes)
        payloads = self._frames.payloads
        payloads = payloads if every else payloads.take(pa.array(rows))
        codes = self._frames.codes[rows].tolist()
        wanted = frozenset(path.partition(".")[0] for path in paths) if paths is not None else None
        objects: list[Any] = []
        bad: dict[int, str] = {}
        for place, (code, payload) in enumerate(zip(codes, payloads.to_pylist(), strict=True)):
            try:
                objects.append(self._read(int(rows[place]), code, payload, wanted))
            except Undecodable as error:
                objects.append(None)
                bad[place] = str(error)
        decoded = build_declared(objects, kind, bad, paths)
        reasons = decoded.bad.items()
        return Decoded(
            decoded.rows, {place: self._with_schema(codes[place], why) for place, why in reasons}
        )

    def _read(
        self, row: int, code: int, payload: bytes | None, wanted: frozenset[str] | None
    ) -> Any:
        if payload is None:
            raise Undecodable(NULL_PAYLOAD)
        if code < 0:
            raise Undecodable(self._frames.bad[row])
        reader = self._readers[code]
        if isinstance(reader, str):
            raise Undecodable(reader)
        return reader.read(payload, wanted)

    def _with_schema(self, code: int, reason: str) -> str:
        """Return a reason that says which schema the message has."""
        return reason if code < 0 else with_schema(self._frames.names[code], reason)


def with_schema(name: SchemaName, reason: str) -> str:
    """Return a reason that says which schema the message has."""
    return reason if str(name) in reason else f"{reason} ({name})"
