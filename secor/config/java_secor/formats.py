"""Classes that wrote files, and codecs, as ``[output]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from secor.config.java_secor.draft import Draft, Fate
from secor.config.output import CODECS, TYPED_FORMATS

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


def writer_of(draft: Draft) -> Writer:
    """Return what takes the place of the class that wrote Java Secor's files."""
    name = draft.value(FACTORY).rpartition(".")[2] or "SequenceFileReaderWriterFactory"
    return WRITERS.get(name, Writer("sequencefile", keys="messagepack"))


def convert(draft: Draft) -> None:
    """Convert what is about the format of files."""
    writer = writer_of(draft)
    name = draft.value(FACTORY)
    if name and name.rpartition(".")[2] not in WRITERS:
        draft.unsupported(FACTORY, f"it is none of Java Secor's own; {writer.format} instead")
    note = ""
    if writer.keys == "legacy":
        note = 'keys = "messagepack" would lose nothing, for readers that can be changed.'
    draft.set("output.format", writer.format, *(() if FACTORY in draft.fates else (FACTORY,)))
    if writer.keys:
        draft.set("output.keys", writer.keys, FACTORY, note=note)
    _codec(draft, writer)
    _text(draft, writer, flexible="FlexibleDelimited" in name)
    _schemas(draft)
    extension = "names end as the format says (.seq, .txt.gz, .parquet ...)"
    draft.unsupported("secor.file.extension", extension)


def _codec(draft: Draft, writer: Writer) -> None:
    text = draft.value(CODEC).rpartition(".")[2]
    note = ""
    if not text:
        codec = "none"
        if writer.format == "sequencefile":
            codec, note = "default", "Without a codec Java Secor's SequenceFiles are zlib's, too."
    else:
        codec = _CODECS.get(text, "")
        if writer.format == "avro" and codec in ("gzip", "default"):
            codec = "deflate"
        if writer.format == "orc" and codec == "default":
            codec = "gzip"
    offered = CODECS[writer.format]
    if codec not in offered:
        draft.unsupported(
            CODEC, f"{writer.format} offers {', '.join(offered)}; {offered[0]} is used"
        )
        draft.set("output.codec", offered[0], note=f"Java Secor had {text}.")
        return
    draft.set("output.codec", codec, CODEC, note=note)


def _text(draft: Draft, writer: Writer, *, flexible: bool) -> None:
    if writer.format == "text":
        draft.set(
            "output.null_values", "empty", note="Java Secor writes an empty line for no value."
        )
    delimiter = draft.given.text(_WRITES)
    if flexible and delimiter not in ("", "\\"):
        draft.set("output.delimiter", delimiter, _WRITES)
    elif flexible:
        draft.unsupported(_WRITES, "messages without anything between them cannot be read back")
        draft.todo("choose output.delimiter: Java Secor's text had nothing between messages")
    why = "only FlexibleDelimitedFileReaderWriterFactory looks at it"
    draft.fates.update({} if flexible else _blank(draft, why))
    draft.unneeded("files tell how they are read", _READS)


def _blank(draft: Draft, why: str) -> dict[str, tuple[Fate, str]]:
    return {name: (Fate.UNNEEDED, why) for name in (_WRITES, _READS) if name in draft.given}


def _schemas(draft: Draft) -> None:
    typed = writer_of(draft).format in TYPED_FORMATS
    for name, topic, _ in list(draft.family("secor.orc.message.schema")):
        if writer_of(draft).format == "orc":
            draft.unsupported(name, "write the fields as an Avro schema: output.schema_file")
            draft.todo(
                f"declare the fields of {'the topics' if topic == '*' else topic} in a file"
                " (output.schema_file; secor schema infer writes one), or their types follow"
                " from the messages"
            )
        draft.unneeded("no ORC files are written", name)
    provider = "secor.orc.schema.provider"
    if typed and not draft.value(provider).endswith("DefaultORCSchemaProvider"):
        draft.unsupported(provider, "schemas are files: output.schema_file")
    draft.unneeded("schemas are files: output.schema_file", provider)
