"""Parser classes and the settings of timestamps, as ``[group]`` kind and ``[parser]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from secor.config.java_secor.decoders import decoder_settings, named_group
from secor.config.java_secor.draft import Draft
from secor.config.java_secor.formats import writer_of
from secor.config.java_secor.layouts import dated, offset_layout

CLASS = "secor.message.parser.class"
USE_KAFKA = "kafka.useTimestamp"
FIELD, SEPARATOR = "message.timestamp.name", "message.timestamp.name.separator"
PATTERN = "message.timestamp.input.pattern"


@dataclass(frozen=True, slots=True)
class Parser:
    """``time`` is the time's format, ``pattern`` for the property's own, empty for Kafka's."""

    decoder: str
    time: str = ""
    layout: str = "dated"
    may_use_kafka: bool = False


def _timed(decoder: str, time: str = "auto") -> Parser:
    return Parser(decoder, time, may_use_kafka=True)


PARSERS: Mapping[str, Parser] = MappingProxyType(
    {
        "JsonMessageParser": _timed("json"),
        "Iso8601MessageParser": _timed("json", "iso8601"),
        "DateMessageParser": Parser("json", "pattern", "day"),
        "PatternDateMessageParser": Parser("json", "pattern", "pattern"),
        "RegexMessageParser": _timed("regex"),
        "MessagePackParser": _timed("messagepack"),
        "ThriftMessageParser": _timed("thrift"),
        "ProtobufMessageParser": _timed("protobuf"),
        "AvroMessageParser": _timed("avro"),
        "ClasspathAvroMessageParser": _timed("avro"),
        "AvroIso8601MessageParser": _timed("avro", "iso8601"),
        "SplitByFieldMessageParser": Parser("json", "auto", "split"),
        "AvroSplitByFieldMessageParser": Parser("avro", "auto", "named split"),
        "OffsetMessageParser": Parser("none", layout="offset"),
        "DailyOffsetMessageParser": Parser("none", layout="dated offset"),
        "PartitionedMessageParser": Parser("none"),
        "KafkaTimestampParser": Parser("none"),
    }
)
"""By the name of Java Secor's class."""

_OF_TIMES = (
    FIELD,
    SEPARATOR,
    PATTERN,
    "message.timestamp.id",
    "message.timestamp.type",
    "message.timestamp.required",
    "message.timestamp.skew.max.ms",
    "message.split.field.name",
    USE_KAFKA,
    "secor.parser.timezone",
)


def is_backup(draft: Draft) -> bool:
    """Tell whether messages go where their offset says, whole."""
    plain = draft.value("secor.offsets.prefix") in ("", "offset=")
    return _class(draft) == "OffsetMessageParser" and plain and not writer_of(draft).decoder


def convert(draft: Draft) -> None:
    """Convert what is about parsing and directories."""
    if is_backup(draft):
        draft.set("group.kind", "backup", CLASS)
        if size := draft.number("secor.offsets.per.partition"):
            draft.set("output.offsets_per_partition", size, "secor.offsets.per.partition")
        draft.unneeded("offset= is what it is here, too", "secor.offsets.prefix")
        _not_parsed(draft, "nothing is parsed in the backup group")
        return
    draft.set("group.kind", "partition", CLASS)
    parser = PARSERS.get(_class(draft))
    if parser is None:
        _own_class(draft)
    else:
        _parser(draft, parser)
    if bad := draft.number("secor.consumer.max_bad_messages"):
        note = "Java Secor's count decays with each good message; here it is of bad_window."
        draft.set("parser.max_bad_messages", bad, "secor.consumer.max_bad_messages", note=note)


def _class(draft: Draft) -> str:
    return draft.value(CLASS).rpartition(".")[2]


def _own_class(draft: Draft) -> None:
    if not draft.value(CLASS):
        draft.fault(
            CLASS, "is empty: say which, com.pinterest.secor.parser.OffsetMessageParser is a backup"
        )
        return
    name = re.sub(r"\W", "", _class(draft))
    draft.set("parser.plugin", f"ours.parsers:{name}", note="To be written: docs/parsing.md.")
    draft.fates.pop(CLASS, None)
    draft.unsupported(
        CLASS, "it is none of Java Secor's own: write it as parser.plugin (docs/parsing.md)"
    )
    draft.todo(
        f"write parser.plugin in the place of {draft.value(CLASS)}, or use a decoder and a layout"
    )
    _not_parsed(draft, "a parser of your own reads them: give its plug-in parser.plugin_settings")


def _not_parsed(draft: Draft, why: str) -> None:
    names = [name for name in draft.given if name.startswith("partitioner.granularity.")]
    draft.unneeded(
        why, *_OF_TIMES, *names, "secor.consumer.max_bad_messages", "schema.registry.url"
    )
    families = (
        "protobuf.message.class",
        "topic.message.format",
        "thrift.message.class",
        "avro.message.schema",
    )
    for family in families:
        draft.unneeded(why, *(name for name, _, _ in draft.family(f"secor.{family}")))
    draft.unneeded(why, "secor.thrift.protocol.class", "secor.partition.output_dt_format")


def _parser(draft: Draft, parser: Parser) -> None:
    uses_kafka = parser.may_use_kafka and draft.flag(USE_KAFKA)
    decoder = writer_of(draft).decoder or ("none" if uses_kafka else parser.decoder)
    draft.set("parser.decoder", decoder, CLASS)
    decoder_settings(draft, decoder)
    if parser.time and not uses_kafka:
        _time(draft, parser, decoder)
    else:
        names = (FIELD, SEPARATOR, PATTERN, "message.timestamp.id", "message.timestamp.type")
        draft.unneeded("the time is that of Kafka's record", *names)
    draft.unneeded("leaving parser.time_field out says the same", USE_KAFKA)
    _layout(draft, parser)
    zone = draft.value("secor.parser.timezone")
    if zone:
        draft.set("parser.time_zone", zone, "secor.parser.timezone")
    draft.unneeded("a message without a time goes into quarantine", "message.timestamp.required")
    draft.unsupported(
        "message.timestamp.skew.max.ms", "nothing is compared with the clock: see docs/parsing.md"
    )
    _not_parsed(draft, "the parser that is used does not look at it")


def _time(draft: Draft, parser: Parser, decoder: str) -> None:
    if decoder == "thrift":
        draft.set(
            "parser.time_field", draft.value("message.timestamp.id") or "1", "message.timestamp.id"
        )
        draft.unneeded("the type is read from the data", "message.timestamp.type")
    elif decoder == "regex":
        _, group = named_group(draft.value(PATTERN))
        draft.set("parser.time_field", group, PATTERN)
    else:
        _time_field(draft)
    if parser.time == "pattern":
        if not draft.value(PATTERN):
            draft.fault(PATTERN, "is empty, and the parser needs the pattern of its dates")
        note = "The whole text has to fit; Java Secor leaves aside what follows the pattern."
        draft.set("parser.time_format", draft.value(PATTERN) or "iso8601", PATTERN, note=note)
    elif parser.time != "auto":
        draft.set("parser.time_format", parser.time, CLASS)


def _time_field(draft: Draft) -> None:
    name, separator = draft.value(FIELD) or "timestamp", draft.value(SEPARATOR)
    path = name.replace(separator, ".") if separator else name
    if "." in name and separator != ".":
        draft.todo(
            f"look at parser.time_field: {name} has a dot, and dots lead into structures here"
        )
    draft.set("parser.time_field", path, FIELD, SEPARATOR)


def _layout(draft: Draft, parser: Parser) -> None:
    split = draft.value("message.split.field.name").removeprefix("$.")
    if parser.layout in ("split", "named split") and not split:
        draft.fault("message.split.field.name", "is empty, and the parser splits by that field")
    shown = f"{{.{split}}}" if split in ("time", "offset", "topic") else f"{{{split}}}"
    times, names = dated(draft, parser.layout)
    if parser.layout == "offset":
        times, names = offset_layout(draft)
    elif parser.layout == "dated offset":
        offsets, more = offset_layout(draft, prefix="offset=")
        times, names = f"{times}/{offsets}", (*names, *more)
    elif parser.layout == "split":
        times, names = f"{shown}/{times}", ("message.split.field.name", *names)
    elif parser.layout == "named split":
        own = "partitioner.granularity.field.prefix"
        prefix = draft.value(own) if own in draft.given else f"{split}="
        times = f"{prefix}{shown}/{times}"
        names = ("message.split.field.name", own, *names)
    draft.set("parser.layout", times, *names)
