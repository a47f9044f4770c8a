"""Import of Java Secor's writer classes and codecs, as ``[output]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from secor.config.output import CODECS, TYPED_FORMATS
from secor.config.translation.draft import Draft, PropertyOutcome

FACTORY = "secor.file.reader.writer.factory"
CODEC = "secor.compression.codec"
_WRITES, _READS = "secor.file.writer.Delimiter", "secor.file.reader.Delimiter"


@dataclass(frozen=True, slots=True)
class Writer:
    """A format of ours; ``decoder`` is what it needs, for decoded fields."""

    format: str
    keys: str = ""
    decoder: str = ""


WRITERS: Mapping[str, Writer] = MappingProxyType(
    {
        "SequenceFileReaderWriterFactory": Writer("sequencefile", keys="legacy"),
        "MessagePackSequenceFileReaderWriterFactory": Writer("sequencefile", keys="messagepack"),
        "DelimitedTextFileReaderWriterFactory": Writer("text"),
        "FlexibleDelimitedFileReaderWriterFactory": Writer("text"),
        "JsonORCFileReaderWriterFactory": Writer("orc", decoder="json"),
        "OrcProtoReaderWriterFactory": Writer("orc", decoder="protobuf"),
        "AvroFileReaderWriterFactory": Writer("avro", decoder="avro"),
        "AvroParquetFileReaderWriterFactory": Writer("parquet", decoder="avro"),
        "ProtobufParquetFileReaderWriterFactory": Writer("parquet", decoder="protobuf"),
        "ThriftParquetFileReaderWriterFactory": Writer("parquet", decoder="thrift"),
    }
)
"""By the name of Java Secor's class."""

_CODECS = {
    "GzipCodec": "gzip",
    "DefaultCodec": "default",
    "DeflateCodec": "default",
    "SnappyCodec": "snappy",
    "Lz4Codec": "lz4",
    "BZip2Codec": "bzip2",
    "ZStandardCodec": "zstd",
    "UncompressedCodec": "none",
}
_RENAMED = {("avro", "gzip"): "deflate", ("avro", "default"): "deflate", ("orc", "default"): "gzip"}
"""Codecs that a format calls otherwise."""


def writer_of(draft: Draft) -> Writer:
    """Return what takes the place of the class that wrote Java Secor's files."""
    name = draft.value(FACTORY).rpartition(".")[2] or "SequenceFileReaderWriterFactory"
    return WRITERS.get(name, Writer("sequencefile", keys="messagepack"))


def convert(draft: Draft) -> None:
    """Convert what is about the format of files."""
    writer = writer_of(draft)
    name = draft.value(FACTORY).rpartition(".")[2]
    names: tuple[str, ...] = (FACTORY,)
    if name and name not in WRITERS:
        why = f"it is none of Java Secor's own; {writer.format} instead"
        draft.unsupported(why, FACTORY)
        names = ()
    draft.set("output.format", writer.format, *names)
    if writer.keys:
        note = 'keys = "messagepack" would lose nothing, for readers that can be changed.'
        note = note if writer.keys == "legacy" else ""
        draft.set("output.keys", writer.keys, *names, note=note)
    _codec(draft, writer)
    _text(draft, writer, flexible="FlexibleDelimited" in name)
    _schemas(draft, writer)


def _codec(draft: Draft, writer: Writer) -> None:
    name = draft.value(CODEC).rpartition(".")[2]
    codec, note = _CODECS.get(name, "" if name else "none"), ""
    if not name and writer.format == "sequencefile":
        codec, note = "default", "Without a codec Java Secor's SequenceFiles are zlib's, too."
    codec = _RENAMED.get((writer.format, codec), codec)
    offered = CODECS[writer.format]
    if codec in offered:
        draft.set("output.codec", codec, CODEC, note=note)
        return
    why = f"{writer.format} offers {', '.join(offered)}; {offered[0]} is used"
    draft.unsupported(why, CODEC)
    draft.set("output.codec", offered[0], note=f"Java Secor had {name}.")


def _text(draft: Draft, writer: Writer, *, flexible: bool) -> None:
    if writer.format == "text":
        note = "Java Secor writes an empty line for no value."
        draft.set("output.null_values", "empty", note=note)
    delimiter = draft.properties.text(_WRITES)
    if not flexible:
        why = "only FlexibleDelimitedFileReaderWriterFactory looks at it"
        given = [name for name in (_WRITES, _READS) if name in draft.properties]
        draft.outcomes.update(dict.fromkeys(given, (PropertyOutcome.UNNEEDED, why)))
    elif delimiter not in ("", "\\"):
        draft.set("output.delimiter", delimiter, _WRITES)
    else:
        why = "messages without anything between them cannot be read back"
        draft.unsupported(why, _WRITES)
        draft.todo("choose output.delimiter: Java Secor's text had nothing between messages")


def _schemas(draft: Draft, writer: Writer) -> None:
    for name, topic, _ in draft.of_topics("secor.orc.message.schema"):
        if writer.format != "orc":
            draft.unneeded("no ORC files are written", name)
            continue
        draft.unsupported("write the fields as an Avro schema: output.schema_file", name)
        draft.todo(
            f"declare the fields of {'the topics' if topic == '*' else topic} in a file"
            " (output.schema_file; secor schema infer writes one), or their types follow"
            " from the messages"
        )
    provider = "secor.orc.schema.provider"
    default = draft.value(provider).endswith("DefaultORCSchemaProvider")
    if writer.format in TYPED_FORMATS and not default:
        draft.unsupported("schemas are files: output.schema_file", provider)
