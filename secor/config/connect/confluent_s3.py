"""Confluent's S3 sink as a partition group.

Source: ``S3SinkConnectorConfig`` and ``StorageSinkConnectorConfig`` of
kafka-connect-storage-cloud and -common, July 2026.
"""

from __future__ import annotations

from secor.config.connect.converters import (
    BYTES,
    STRING,
    convert_errors,
    convert_values,
    rest_of_converter,
)
from secor.config.connect.kafka import CONSUMER, convert_group, convert_kafka
from secor.config.connect.partitioners import convert_partitioner
from secor.config.connect.s3 import (
    convert_bucket,
    convert_credentials,
    convert_encryption,
    convert_proxy,
)
from secor.config.connect.settings import (
    CONNECT_SETTINGS,
    NOT_NEEDED,
    NOT_SUPPORTED,
    STRAY,
    SinkSetting,
    default_outcome,
    finish_connector,
    say_whose_types,
)
from secor.config.connect.transforms import convert_transforms
from secor.config.translation.draft import Draft
from secor.config.translation.properties import Properties
from secor.core.naming import ConnectName

CLASSES = frozenset(
    {"io.confluent.connect.s3.S3SinkConnector", "S3SinkConnector", "S3Sink", "S3_SINK"}
)

_FORMAT = "format.class"
_FORMATS = {
    "JsonFormat": "jsonlines",
    "AvroFormat": "avro",
    "ParquetFormat": "parquet",
    "ByteArrayFormat": "text",
}
_COMPRESSION = "s3.compression.type"
_CODECS = {
    "avro": ("avro.codec", "null", {"null": "none", "deflate": "deflate", "snappy": "snappy"}),
    "parquet": (
        "parquet.codec",
        "snappy",
        {
            **{item: item for item in ("none", "gzip", "snappy", "lz4", "zstd")},
            "uncompressed": "none",
            "lz4_raw": "lz4",
        },
    ),
    "jsonlines": (_COMPRESSION, "none", {"none": "none", "gzip": "gzip"}),
    "text": (_COMPRESSION, "none", {"none": "none", "gzip": "gzip"}),
}
"""Of each format: the setting of its codec, the sink's default, and what codecs are here."""

SETTINGS = (
    SinkSetting("s3.part.size", "none: large objects are put in parts", NOT_NEEDED),
    SinkSetting("s3.part.retries", "none: what fails is tried again without end", NOT_NEEDED),
    SinkSetting("s3.retry.*", "none: what fails is tried again without end", NOT_NEEDED),
    SinkSetting("s3.http.send.*", "none: it is about Java's client", NOT_NEEDED),
    SinkSetting("s3.elastic.buffer.*", "none: batches wait on the local disk", NOT_NEEDED),
    SinkSetting("s3.send.digest", "none: every put has a checksum (CRC32C)", NOT_NEEDED),
    SinkSetting("s3.compression.level", "none: gzip has one level", NOT_NEEDED),
    SinkSetting(
        "s3.wan.mode",
        "none: set `store.s3.endpoint_url` to the accelerated address",
        NOT_SUPPORTED,
    ),
    SinkSetting(
        "s3.object.tagging",
        "none: range and number of records are in each object's metadata; constant tags are"
        " `store.s3.tags`",
        NOT_SUPPORTED,
    ),
    SinkSetting("s3.object.tagging.*", "`store.s3.tags`, written by hand", NOT_SUPPORTED),
    SinkSetting("s3.object.behavior.*", "none: tags go with the put", NOT_NEEDED),
    SinkSetting(
        "s3.schema.partition.affix.type", "none: one directory has all schemas", NOT_SUPPORTED
    ),
    SinkSetting("storage.class", "none: it is S3", NOT_NEEDED),
    SinkSetting("schema.compatibility", "none: a schema that is kept grows", NOT_NEEDED),
    SinkSetting("schema.generator.class", "none: it is Hive's", NOT_NEEDED),
    SinkSetting("schemas.cache.*", "none: schemas are kept in memory", NOT_NEEDED),
    SinkSetting("schemas.enable", "none: only converters read it", NOT_NEEDED),
    SinkSetting("connect.meta.data", "none: files have no names of Connect's types", NOT_NEEDED),
    SinkSetting("enhanced.avro.schema.support", "none: enums are text", NOT_NEEDED),
    SinkSetting("allow.optional.map.keys", "none: keys of maps are never null", NOT_NEEDED),
    SinkSetting("avro.converter.*", "none: only converters read it", NOT_NEEDED),
    SinkSetting("file.name.template", "none: the sink does not read it", NOT_NEEDED),
    SinkSetting("max.files.scan.limit", "none: nothing is looked for before a put", NOT_NEEDED),
    SinkSetting("max.write.duration.ms", "none: uploads do not hold up reading", NOT_NEEDED),
    SinkSetting("shutdown.timeout.ms", "none: a stop waits for its uploads", NOT_NEEDED),
    SinkSetting("enable.conditional.writes", "none: every put is put-if-absent", NOT_NEEDED),
    SinkSetting("rotate.file.on.partition.change", "none: directories fill together", NOT_NEEDED),
    SinkSetting("partitioner.max.open.files", "`policy.max_files`, of a batch", NOT_NEEDED),
    SinkSetting("report.null.values.to.dlq", "`parser.dead_letter_topic` gets them", NOT_NEEDED),
    SinkSetting(
        "tombstone.encoded.partition", "none: messages without a value have no file", NOT_SUPPORTED
    ),
    SinkSetting("headers.format.class", "none: see store.kafka.headers", NOT_NEEDED),
    SinkSetting("keys.format.class", "none: see store.kafka.keys", NOT_NEEDED),
    SinkSetting(
        "hive.*",
        "`finalize.glue` or `finalize.command` add partitions: docs/finalize.md",
        NOT_SUPPORTED,
    ),
    SinkSetting("json.decimal.format", "`output.json_types`, of JSON lines"),
    SinkSetting("partition.duration.ms", "none: directories are as fine as `parser.layout`"),
)


def convert(properties: Properties, source: str) -> tuple[str, Draft]:
    """Return the TOML file, and what became of each setting.  Raises ``ConfigurationError``."""
    draft = Draft(properties)
    convert_group(draft)
    convert_kafka(draft, CONSUMER)
    convert_bucket(draft, "s3.bucket.name", "s3.region", "store.url")
    convert_credentials(draft)
    convert_encryption(draft, "s3.ssea.name")
    convert_proxy(draft)
    draft.copy("store.s3.acl", "s3.acl.canned")
    kind = _output(draft)
    _values(draft, kind)
    say_whose_types(draft, kind)
    convert_partitioner(draft)
    convert_transforms(draft, fields=kind != "text")
    convert_errors(draft)
    _policy(draft)
    rows = (*SETTINGS, *CONNECT_SETTINGS, *STRAY)
    return finish_connector(
        draft, "Confluent's S3 sink", source, lambda name: default_outcome(draft, name, rows)
    )


def _output(draft: Draft) -> str:
    directory = draft.value("topics.dir").strip("/")
    note = "" if directory else "the sink's default"
    draft.set("output.prefix", directory or "topics", "topics.dir", note=note)
    if draft.value("directory.delim") not in ("", "/"):
        draft.unsupported("directories are separated by /", "directory.delim")
    draft.unneeded("it is /", "directory.delim")
    own = draft.value(_FORMAT).rpartition(".")[2]
    kind = _FORMATS.get(own, "jsonlines")
    if own and own not in _FORMATS:
        draft.unsupported(f"it is none of Confluent's: {kind} instead", _FORMAT)
        draft.set("output.format", kind)
    else:
        note = "" if own else "the sink has no default: name output.format"
        draft.set("output.format", kind, _FORMAT, note=note)
    _names(draft, kind)
    _codec(draft, kind)
    if kind == "jsonlines":
        numeric = draft.value("json.decimal.format").upper() == "NUMERIC"
        types = "connect-numeric" if numeric else "connect"
        draft.set(
            "output.json_types", types, "json.decimal.format", note="As Connect's converter has it."
        )
    if kind == "text":
        _separator(draft)
    draft.unneeded("only ByteArrayFormat looks at it", "format.bytearray.separator")
    draft.unneeded("only ByteArrayFormat looks at it", "format.bytearray.extension")
    columns = []
    for name, column in (("store.kafka.keys", "_key"), ("store.kafka.headers", "_headers")):
        if not draft.flag(name):
            draft.unneeded("it is the default", name)
        elif kind == "text":
            why = "text has values only: a backup group with sequencefile or parquet has all"
            draft.unsupported(why, name)
        else:
            columns.append((column, name))
    if columns:
        names = [name for _, name in columns]
        draft.set("output.metadata_columns", [column for column, _ in columns], *names)
        draft.todo("keys and headers are columns of the objects, not files next to them")
    return kind


def _names(draft: Draft, kind: str) -> None:
    """Name objects as the sink does."""
    delimiter = draft.value("file.delim") or "+"
    width = draft.number("filename.offset.zero.pad.width")
    # The sink pads to ten digits by default; a width of 0 means none, as 1 does.
    width = 10 if width is None else max(width, 1)
    extension = ""
    if kind == "text":
        extension = draft.value("format.bytearray.extension") or ".bin"
        extension += ".gz" if draft.value(_COMPRESSION).lower() == "gzip" else ""
    template = f"{{topic}}{delimiter}{{partition}}{delimiter}{{offset:0{width}}}{extension}"
    names = ["file.delim", "filename.offset.zero.pad.width"]
    names += ["format.bytearray.extension"] if extension else []
    given = [name for name in names if draft.value(name)]
    try:
        # What cannot be read back as a name of the sink must not be written either: verify and a
        # restore find the offsets of a connector's objects in their names alone.
        own = ConnectName.of_template(template) == (ConnectName(), "")
    except ValueError:
        why = "+, - or _ are between topic, partition and offset, and names are as by default"
        draft.unsupported(why, *given)
        own, given = True, []
    if own:
        draft.set("output.naming", "confluent", *given, note="Names as the sink's.")
    else:
        draft.set("output.naming", template, *given, note="Names as the sink's.")


def _codec(draft: Draft, kind: str) -> None:
    name, default, codecs = _CODECS[kind]
    given = draft.value(name).lower() or default
    if given in codecs:
        note = "" if draft.value(name) else "the sink's default"
        draft.set("output.codec", codecs[given], name, note=note)
    else:
        draft.unsupported(f"{kind} offers {', '.join(codecs)}: its default is used", name)
    for other, *_ in _CODECS.values():
        draft.unneeded(f"{kind} does not look at it", other)


def _separator(draft: Draft) -> None:
    separator = draft.properties.text("format.bytearray.separator")
    if separator:
        draft.set("output.delimiter", separator, "format.bytearray.separator")


def _values(draft: Draft, kind: str) -> None:
    converter = draft.value("value.converter")
    if kind == "text":
        draft.set("parser.decoder", "none", "value.converter")
        if converter not in ("", BYTES):
            draft.unsupported("values are stored as they are in Kafka", "value.converter")
        rest_of_converter(draft)
    elif kind == "jsonlines" and converter in (STRING, BYTES):
        draft.set("parser.decoder", "json")
        why = "the sink writes values as JSON text in quotes; here values are JSON, a line each"
        draft.unsupported(f"{why} (if they are none: output.format = text)", "value.converter")
        rest_of_converter(draft)
    else:
        convert_values(draft)
    policy = draft.value("behavior.on.null.values").lower()
    if kind == "text":
        draft.set("output.null_values", "skip", "behavior.on.null.values")
    elif policy in ("ignore", "write"):
        why = "messages without a value go into quarantine, and count for parser.max_bad_ratio"
        draft.unsupported(why, "behavior.on.null.values")
    draft.unneeded("they go into quarantine", "behavior.on.null.values")


def _policy(draft: Draft) -> None:
    size = draft.number("flush.size")
    if size is not None and size > 0:
        note = "Of a batch: all its directories together. The sink counts each file."
        draft.set("policy.max_messages", size, "flush.size", note=note)
        # A usual value of the sink's examples is 3: a put for every three messages.
        if size < 1000:
            draft.todo(f"raise policy.max_messages: {size} messages make very small objects")
    else:
        draft.unneeded("it limits nothing", "flush.size")
    names = ("rotate.interval.ms", "rotate.schedule.interval.ms")
    given = {name: draft.number(name) or 0 for name in names}
    limits = {name: item for name, item in given.items() if item > 0}
    if limits:
        # The sink closes a file when the first of its limits is reached, and so do we.
        name = min(limits, key=lambda item: limits[item])
        draft.set("policy.max_age", f"{limits[name]}ms", name)
        draft.unneeded(f"{name} is the shorter one", *(item for item in limits if item != name))
    else:
        # Without a limit of age a quiet partition would keep its last messages for ever.
        note = "The sink closes files by flush.size alone; here by age, too."
        draft.set("policy.max_age", "10m", note=note)
    draft.unneeded("it limits nothing", *names)
