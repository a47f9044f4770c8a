"""The SequenceFile format: its settings, writer, reader and identity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Literal

import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.core.ports import Sink
from secor.formats.sequencefile.block_writer import BlockBody
from secor.formats.sequencefile.codecs import CODECS
from secor.formats.sequencefile.header import BYTES_WRITABLE, Header, sync_of
from secor.formats.sequencefile.layouts import LAYOUTS
from secor.formats.sequencefile.output import Output
from secor.formats.sequencefile.reader import read_file, read_split
from secor.formats.sequencefile.record_writer import RecordBody
from secor.formats.sequencefile.writer import Body, SequenceFileWriter

KeyLayout = Literal["messagepack", "legacy"]
CodecName = Literal["none", "gzip", "default", "snappy", "lz4", "bzip2", "zstd"]

_VERSION = 1
"""Goes up when the same records and settings would give other bytes."""


class SequenceFileFormat:
    """Messages as records of a SequenceFile (see ``ports.LogFormat``).

    ``keys`` is ``messagepack`` (lossless; a null timestamp type reads back as 0, null headers
    as none) or ``legacy`` (offset and value only).  ``codec`` ``none`` writes plain records,
    any other one BLOCK mode; ``zstd`` needs native Hadoop where the JVM reads it.
    Reading takes both settings from the file.
    """

    def __init__(self, keys: KeyLayout = "messagepack", codec: CodecName = "none") -> None:
        if keys not in LAYOUTS:
            raise ConfigurationError(f"SequenceFile keys {keys!r}: use one of {', '.join(LAYOUTS)}")
        if codec != "none" and codec not in CODECS:
            raise ConfigurationError(
                f"SequenceFile codec {codec!r}: use one of none, {', '.join(CODECS)}"
            )
        self._layout = LAYOUTS[keys]
        self._codec = None if codec == "none" else CODECS[codec]

    @property
    def extension(self) -> str:
        """``.seq`` with every codec: tools take the codec from the header, and would expand
        a file of another extension (``.gz``) as a whole.
        """
        return ".seq"

    @property
    def identity(self) -> str:
        """All settings that change the bytes, and the writer's version."""
        codec = self._codec.identity if self._codec else "none"
        return f"sequencefile/{_VERSION} keys={self._layout.name} codec={codec}"

    def create(self, sink: Sink, seed: bytes) -> SequenceFileWriter:
        """Begin a file; its sync marker is a hash of ``seed``."""
        sync = sync_of(seed)
        output = Output(sink)
        codec = self._codec
        header = Header(
            key_class=self._layout.java_class,
            value_class=BYTES_WRITABLE,
            codec=codec.java_class if codec else None,
            block=codec is not None,
            sync=sync,
        )
        output.add(header.encode())
        body: Body
        if codec is None:
            body = RecordBody(output, self._layout, sync)
        else:
            body = BlockBody(output, self._layout, sync, codec)
        return SequenceFileWriter(output, body)

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the file's records in ``SCHEMA``.  Raises ``CorruptFile`` naming ``name``."""
        return read_file(file, name)

    def read_split(
        self, file: BinaryIO, start: int, end: int, name: str
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records that belong to the bytes ``[start, end)``, as Hadoop splits files.

        These are the records from the first sync marker in the range on, up to the first one
        at or after ``end``; the header's end counts as a marker.  ``file`` must be seekable.
        Splits that cover a file give each record exactly once.  Raises ``CorruptFile``.
        """
        return read_split(file, start, end, name)
