"""The Avro decoder: records in the Confluent wire format or bare, one a message."""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro
import fastavro._read_py
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.errors import ConfigurationError, NotFound
from secor.parsing.decoders.avro_types import Column, Planner, bare, wider
from secor.parsing.decoders.columns import (
    MAX_DEPTH,
    Undecodable,
    brief,
    build_declared,
    depth_of,
    rowwise,
)
from secor.parsing.registry import SchemaRegistry
from secor.parsing.rows import Decoded, Rows

HEADER = struct.Struct(">bi")
MAGIC = 0

Item = tuple["_Codec", Any]


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
    ) -> None:
        if registry is None and schema_file is None:
            raise ConfigurationError("avro: a registry or a schema file is needed")
        if framing not in (None, "confluent", "none"):
            raise ConfigurationError(f"avro framing {framing!r}: must be 'confluent' or 'none'")
        if registry is not None and framing == "none":
            raise ConfigurationError("avro: a registry needs framing 'confluent'")
        self._registry = registry
        self._own = None if schema_file is None else _from_file(Path(schema_file))
        self._framed = registry is not None or framing == "confluent"
        self._codecs: dict[int, _Codec | str] = {}
        self.identity = ":".join(
            [
                "avro-2",
                registry.url if registry else "-",
                _hash(self._own) if self._own is not None else "-",
                "confluent" if self._framed else "none",
            ]
        )
        self._fixed = None if self._own is None else _codec_of_file(self._own, schema_file)

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        items, bad = rowwise(messages, self._decode)
        objects = [None if item is None else item[0].full(item[1]) for item in items]
        kind = _together(list(dict.fromkeys(item[0] for item in items if item is not None)))
        return build_declared(objects, kind, bad, paths)

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """See ``rows.DividingDecoder``: by what the schemas in the headers are like."""
        heads = pc.binary_slice(messages.column("value"), 0, HEADER.size).dictionary_encode()
        if self._registry is not None:
            self._prefetch(self._registry, heads.dictionary.to_pylist())
        groups = self._apart(heads)
        if len(groups) == 1:
            return [(groups[0], self.decode(messages, paths))]
        return [(rows, self.decode(messages.take(pa.array(rows)), paths)) for rows in groups]

    def _prefetch(self, registry: SchemaRegistry, heads: Sequence[bytes]) -> None:
        ids = []
        for head in heads:
            with suppress(Undecodable):
                ids.append(_schema_id(head))
        registry.prefetch(it for it in ids if it not in self._codecs)

    def _apart(self, heads: pa.DictionaryArray) -> Sequence[Rows]:
        every: Rows = np.arange(len(heads))
        if self._registry is None or self._own is not None or not len(every):
            return [every]
        kinds: list[pa.DataType] = []
        groups = [self._group(head, kinds) for head in heads.dictionary.to_pylist()]
        codes = heads.indices.fill_null(len(groups)).to_numpy()
        group_of_row = np.array([*groups, 0], dtype=np.int64)[codes]
        return [np.flatnonzero(group_of_row == group) for group in np.unique(group_of_row)]

    def _group(self, head: bytes, kinds: list[pa.DataType]) -> int:
        """Return the first of ``kinds`` that a header's schema goes with, or add it.

        What has no schema is bad wherever it is.
        """
        try:
            kind = self._codec(_schema_id(head)).column.type
        except Undecodable:
            return 0
        for at, known in enumerate(kinds):
            both = wider(known, kind)
            if both is not None:
                kinds[at] = both
                return at
        kinds.append(kind)
        return len(kinds) - 1

    def _decode(self, raw: bytes) -> Item:
        if not self._framed:
            assert self._fixed is not None
            return self._fixed, self._fixed.read(raw, 0)
        schema_id = _schema_id(raw)
        codec = self._fixed if self._registry is None else self._codec(schema_id)
        assert codec is not None
        return codec, codec.read(raw, HEADER.size)

    def _codec(self, schema_id: int) -> _Codec:
        codec = self._codecs.get(schema_id)
        if codec is None:
            codec = self._fetch(schema_id)
            if isinstance(codec, _Codec):
                self._codecs[schema_id] = codec
        if isinstance(codec, str):
            raise Undecodable(codec)
        return codec

    def _fetch(self, schema_id: int) -> _Codec | str:
        assert self._registry is not None
        try:
            registered = self._registry.schema(schema_id)
        except NotFound:
            return f"schema id {schema_id} is not in the registry"
        if registered.kind != "AVRO":
            return f"schema id {schema_id} is of type {registered.kind}, not AVRO"
        try:
            named = [json.loads(text) for text in registered.references.values()]
            return _Codec(json.loads(registered.text), self._own, named)
        except (ConfigurationError, ValueError) as error:
            return f"schema id {schema_id}: {brief(error)}"


class _Codec:
    """Reads by one schema, and resolves to another if there is one."""

    def __init__(self, writer: Any, reader: Any, references: Sequence[Any]) -> None:
        self._writer = _parse(writer, references)
        self._reader = None if reader is None else _parse(reader, [])
        shown = writer if reader is None else reader
        named = references if reader is None else []
        self.column, recursive = _plan(shown, named)
        self._full = self.column.convert
        # The compiled reader overflows the C stack on data that nests without end.
        self._loops = _plan(writer, references)[1] or recursive
        self._read = (
            fastavro._read_py.schemaless_reader if self._loops else fastavro.schemaless_reader
        )

    def read(self, raw: bytes, start: int) -> Any:
        """Read one record from byte ``start`` to the end."""
        stream = io.BytesIO(raw)
        stream.seek(start)
        try:
            record = self._read(stream, self._writer, self._reader)
        except RecursionError as error:
            raise Undecodable(f"nested deeper than {MAX_DEPTH}") from error
        except UNREADABLE as error:
            place = f"at or before byte {stream.tell()}"
            why = _STREAM.sub("", brief(error))
            raise Undecodable(f"invalid Avro {place}: {why}") from error
        if self._loops and depth_of(record) > MAX_DEPTH:
            raise Undecodable(f"nested deeper than {MAX_DEPTH}")
        if stream.tell() != len(raw):
            raise Undecodable(f"bytes after the record's end, at byte {stream.tell()}")
        return record

    def full(self, record: Any) -> Any:
        """Return the record for its Arrow type."""
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


def _schema_id(raw: bytes) -> int:
    if len(raw) < HEADER.size:
        raise Undecodable(f"{len(raw)} bytes: shorter than magic and schema id")
    magic, schema_id = HEADER.unpack_from(raw)
    if magic != MAGIC:
        raise Undecodable(f"magic byte {magic & 0xFF}, not 0")
    return int(schema_id)


def _together(codecs: Sequence[_Codec]) -> pa.DataType:
    """Return the one type of several schemas, which ``_apart`` has put together."""
    kind: pa.DataType | None = pa.struct([])
    for codec in codecs:
        kind = wider(kind, codec.column.type)
        assert kind is not None, "schemas that go apart: ask decode_apart()"
    return kind


def _plan(schema: Any, references: Sequence[Any]) -> tuple[Column, bool]:
    planner = Planner()
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


def _from_file(path: Path) -> Any:
    try:
        schema = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"Avro schema file {path}: {error}") from error
    if not isinstance(schema, dict):
        raise ConfigurationError(f"Avro schema file {path}: the top level must be a record")
    return schema


def _hash(schema: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()[:16]
