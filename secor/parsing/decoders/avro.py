"""The Avro decoder: records in the Confluent wire format or bare, one a message."""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import fastavro._read_py
import numpy as np
import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.parsing.decoders.avro_types import SchemaPlanner, bare
from secor.parsing.decoders.by_registry import RegistryRows, RowReader, SchemaReaders
from secor.parsing.decoders.columns import (
    MAX_DEPTH,
    Undecodable,
    brief,
    build_declared,
    depth_of,
    rowwise,
)
from secor.parsing.decoders.connect_names import Column
from secor.parsing.decoders.frames import unframed
from secor.parsing.decoders.framing import MessageType, framing_of
from secor.parsing.registry import RegisteredSchema, SchemaRegistry
from secor.parsing.rows import Decoded, Rows


class AvroDecoder:
    """Records by the schema of a registry, or of a file, or both.

    - ``registry`` alone: the Confluent wire format (a zero byte, the schema's id in 4 bytes,
      the record), each message as its own schema has it.
    - ``registry`` and ``schema_file``: likewise, and then resolved to the file's schema
      (aliases, defaults, promotions).
    - ``schema_file`` alone: bare records; with ``framing="confluent"`` the five bytes are
      skipped and the file's schema counts.

    Everything (of schemas that go together, see ``decode_apart``): records are structs, maps maps,
    enums text, logical types Arrow's; unions of several types are their JSON text (metadata
    ``MIXED``), as are schemas within themselves.
    With paths: timestamps and times are the integers written, dates ISO text, decimals text.
    Bad: wrong magic, unknown ids, schemas that are no Avro record, truncated, bytes after
    the record.  ``errors.Unavailable`` when the registry does not answer.
    """

    def __init__(
        self,
        registry: SchemaRegistry | None = None,
        schema_file: str | Path | None = None,
        framing: str | None = None,
        use_id: str | None = None,
        *,
        of_keys: bool = False,
    ) -> None:
        """``of_keys``: the schemas, of whatever type, are those of one field ``key``."""
        if registry is None and schema_file is None:
            raise ConfigurationError("avro: a registry or a schema file is needed")
        self._framing = framing_of("avro", registry, framing, use_id=use_id)
        self._of_keys = of_keys
        self._own = None
        if schema_file is not None:
            self._own = self._whole(_from_file(Path(schema_file), of_keys=of_keys))
        self._by_registry: RegistryRows | None = None
        if registry is not None and self._framing is not None:
            readers = SchemaReaders(registry, "AVRO", self._codec)
            self._by_registry = RegistryRows(readers, self._framing)
        self.identity = ":".join(
            [
                "avro-4",
                registry.url if registry else "-",
                _hash(self._own) if self._own is not None else "-",
                self._framing.name if self._framing else "none",
                *(["keys"] if of_keys else []),
            ]
        )
        self._fixed = None if self._own is None else _codec_of_file(self._own, schema_file)

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        if self._by_registry is not None:
            return self._by_registry.decode(messages, paths)
        codec = self._fixed
        assert codec is not None
        framed_badly: Mapping[int, str] = {}
        if self._framing is not None:
            messages, framed_badly = unframed(messages, self._framing)
        objects, bad = rowwise(messages, codec.read)
        bad.update(framed_badly)
        return build_declared(objects, codec.type, bad, paths)

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """See ``rows.DividingDecoder``: by what the schemas in the frames are like."""
        if self._by_registry is not None:
            return self._by_registry.decode_apart(messages, paths)
        return [(np.arange(messages.num_rows), self.decode(messages, paths))]

    def _codec(self, registered: RegisteredSchema, _message_type: MessageType) -> RowReader:
        named = [json.loads(text) for text in registered.references.values()]
        return _Codec(self._whole(json.loads(registered.text)), self._own, named)

    def _whole(self, schema: Any) -> Any:
        """Return the schema of records: a record of one field is written as its field alone."""
        if not self._of_keys:
            return schema
        return {"type": "record", "name": _KEY, "fields": [{"name": "key", "type": schema}]}


_KEY = "key_of_a_message"
"""The name of the record around a key's schema; no schema of a person should have it."""


class _Codec:
    """Reads by one schema, and resolves to another if there is one."""

    def __init__(self, writer: Any, reader: Any, references: Sequence[Any]) -> None:
        self._writer = _parse(writer, references)
        self._reader = None if reader is None else _parse(reader, [])
        # With a schema of their own, all rows have its type, whichever schema wrote them.
        shown = writer if reader is None else reader
        named = references if reader is None else []
        self.column, recursive = _plan(shown, named)
        self._full = self.column.convert
        # The compiled reader overflows the C stack on data that nests without end.
        self._loops = _plan(writer, references)[1] or recursive
        self._read = (
            fastavro._read_py.schemaless_reader if self._loops else fastavro.schemaless_reader
        )

    @property
    def type(self) -> pa.StructType:
        """The type of the rows."""
        return self.column.type

    def read(self, raw: bytes, _wanted: frozenset[str] | None = None) -> Any:
        """Read one record, to the last byte, for its Arrow type."""
        stream = io.BytesIO(raw)
        try:
            record = self._read(stream, self._writer, self._reader)
        except RecursionError as error:
            raise Undecodable(f"nested deeper than {MAX_DEPTH}") from error
        except UNREADABLE as error:
            place = f"at or before byte {stream.tell()} of the record"
            why = _STREAM.sub("", brief(error))
            raise Undecodable(f"invalid Avro {place}: {why}") from error
        if self._loops and depth_of(record) > MAX_DEPTH:
            raise Undecodable(f"nested deeper than {MAX_DEPTH}")
        # Bytes that are left over mean another schema: what was read would be wrong, though it
        # could be read.
        if stream.tell() != len(raw):
            raise Undecodable(f"bytes after the record's end, at its byte {stream.tell()}")
        return self._full(record) if self._full else record


_STREAM = re.compile(r" from <[^>]*>")
"""Where the library's stream is in memory, which no reason may depend on."""

UNREADABLE = (
    EOFError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    MemoryError,
    StopIteration,
    struct.error,
    fastavro.schema.SchemaParseException,
    fastavro.read.SchemaResolutionError,
)
"""What the library raises on bytes that are not of the schema."""


def _plan(schema: Any, references: Sequence[Any]) -> tuple[Column, bool]:
    planner = SchemaPlanner()
    try:
        for item in references:
            planner.column(item)
        column = planner.column(schema)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(f"Avro schema: {brief(error)}") from error
    if not pa.types.is_struct(column.type):
        raise ConfigurationError("Avro schema: the top level must be a record")
    return column, planner.recursive


def _parse(schema: Any, references: Sequence[Any]) -> Any:
    named: dict[str, Any] = {}
    try:
        # Nothing with half of a surrogate pair: a default or a symbol could be taken for bytes.
        json.dumps([schema, *references], ensure_ascii=False).encode()
        for item in references:
            fastavro.parse_schema(bare(item), named_schemas=named)
        return fastavro.parse_schema(bare(schema), named_schemas=named)
    except (
        fastavro.schema.SchemaParseException,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ConfigurationError(f"Avro schema: {type(error).__name__}: {brief(error)}") from error


def _codec_of_file(schema: Any, path: str | Path | None) -> _Codec:
    try:
        return _Codec(schema, None, [])
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}; it is that of {path}") from error


def _from_file(path: Path, *, of_keys: bool) -> Any:
    try:
        schema = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"Avro schema file {path}: {error}") from error
    if not isinstance(schema, dict) and not of_keys:
        raise ConfigurationError(f"Avro schema file {path}: the top level must be a record")
    return schema


def _hash(schema: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()[:16]
