"""Import of Java Secor's parser classes and timestamp settings: the group's kind, ``[parser]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from secor.config.java_secor.decoders import decoder_settings, named_group
from secor.config.java_secor.formats import writer_of
from secor.config.translation.draft import Draft

_GRANULARITY = "partitioner.granularity."
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>.)")
_DIRECTIVES = {
    "yyyy": "%Y",
    "y": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "DDD": "%j",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
}
_BETWEEN = re.compile(r"[-_.]*")

Template = tuple[str, tuple[str, ...]]
"""A template, and the properties that it came from."""


def time_layout(draft: Draft, kind: str) -> Template:
    """Return the directories of a time: day, and hour and minute where they are asked for."""
    if kind == "pattern":
        name = "secor.partition.output_dt_format"
        return _template(draft, name, "yyyy-MM-dd"), (name,)
    parts = [_part(draft, "date.prefix", "dt=", "date.format", "yyyy-MM-dd")]
    switches: tuple[str, ...] = (f"{_GRANULARITY}hour", f"{_GRANULARITY}minute")
    if kind == "day":
        draft.unneeded("DateMessageParser knows days only", *switches)
        switches = ()
    hours, minutes = map(draft.flag, switches) if switches else (False, False)
    if hours or minutes:
        parts.append(_part(draft, "hour.prefix", "hr=", "hour.format", "HH"))
    if minutes:
        # Java Secor asks for min.format, though its own file has minute.format.
        parts.append(_part(draft, "minute.prefix", "min=", "min.format", "mm"))
    names = (*switches, *(name for _, used in parts for name in used))
    others = {*draft.properties} - {*names, f"{_GRANULARITY}field.prefix"}
    draft.unneeded(
        "its directory is not made, or Java Secor does not look at it",
        *(name for name in others if name.startswith(_GRANULARITY)),
    )
    return "/".join(template for template, _ in parts), names


def offset_layout(draft: Draft, prefix: str = "") -> Template:
    """Return the directories of ranges of offsets; ``prefix`` takes the property's place."""
    size, given = "secor.offsets.per.partition", "secor.offsets.prefix"
    names: tuple[str, ...] = (size, given)
    if prefix:
        draft.unneeded("DailyOffsetMessageParser does not look at it", given)
        names = (size,)
    prefix = prefix or draft.value(given) or "offset="
    return f"{prefix}{{offset:{draft.number(size) or 10_000_000}}}", names


def _part(draft: Draft, prefix: str, default: str, pattern: str, default_pattern: str) -> Template:
    prefix, pattern = _GRANULARITY + prefix, _GRANULARITY + pattern
    begin = draft.value(prefix) if prefix in draft.properties else default
    return begin + _template(draft, pattern, default_pattern), (prefix, pattern)


def _template(draft: Draft, name: str, default: str) -> str:
    pattern = draft.value(name) or default
    template = template_of(pattern)
    if template is None:
        draft.fault(name, f"{pattern!r} cannot be written as a layout: use {default}, by -D")
    return template or ""


def template_of(pattern: str) -> str | None:
    """Return a pattern of Java's ``SimpleDateFormat`` as a template; None if it has no like."""
    result, directives = "", ""
    for token in _TOKEN.finditer(pattern):
        if token["letters"]:
            directive = _DIRECTIVES.get(token["letters"])
            if directive is None:
                return None
            directives += directive
            continue
        quoted = token["quoted"]
        text = token["other"] if quoted is None else quoted.replace("''", "'") or "'"
        if directives and _BETWEEN.fullmatch(text):
            directives += text
        else:
            result, directives = result + _time_of_directives(directives) + text, ""
    return result + _time_of_directives(directives)


def _time_of_directives(directives: str) -> str:
    return f"{{time:{directives}}}" if directives else ""


CLASS = "secor.message.parser.class"
USE_KAFKA = "kafka.useTimestamp"
FIELD, SEPARATOR = "message.timestamp.name", "message.timestamp.name.separator"
PATTERN = "message.timestamp.input.pattern"
_ID, _TYPE = "message.timestamp.id", "message.timestamp.type"
_SPLIT, _SKEW = "message.split.field.name", "message.timestamp.skew.max.ms"
_ZONE, _BAD = "secor.parser.timezone", "secor.consumer.max_bad_messages"


@dataclass(frozen=True, slots=True)
class JavaParser:
    """``time`` is the time's format, ``pattern`` for the property's own, empty for Kafka's."""

    decoder: str
    time: str = ""
    layout: str = "dated"
    may_use_kafka: bool = False


def _timed(decoder: str, time: str = "auto") -> JavaParser:
    return JavaParser(decoder, time, may_use_kafka=True)


PARSERS: Mapping[str, JavaParser] = MappingProxyType(
    {
        "JsonMessageParser": _timed("json"),
        "Iso8601MessageParser": _timed("json", "iso8601"),
        "DateMessageParser": JavaParser("json", "pattern", "day"),
        "PatternDateMessageParser": JavaParser("json", "pattern", "pattern"),
        "RegexMessageParser": _timed("regex"),
        "MessagePackParser": _timed("messagepack"),
        "ThriftMessageParser": _timed("thrift"),
        "ProtobufMessageParser": _timed("protobuf"),
        "AvroMessageParser": _timed("avro"),
        "ClasspathAvroMessageParser": _timed("avro"),
        "AvroIso8601MessageParser": _timed("avro", "iso8601"),
        "SplitByFieldMessageParser": JavaParser("json", "auto", "split"),
        "AvroSplitByFieldMessageParser": JavaParser("avro", "auto", "named split"),
        "OffsetMessageParser": JavaParser("none", layout="offset"),
        "DailyOffsetMessageParser": JavaParser("none", layout="dated offset"),
        "PartitionedMessageParser": JavaParser("none"),
        "KafkaTimestampParser": JavaParser("none"),
    }
)
"""By the name of Java Secor's class."""

_OF_PARSERS = (
    *(FIELD, SEPARATOR, PATTERN, _ID, _TYPE, _SPLIT, _SKEW, _ZONE, _BAD, USE_KAFKA),
    "message.timestamp.required",
    "schema.registry.url",
    "secor.thrift.protocol.class",
    "secor.partition.output_dt_format",
)
_FAMILIES = (
    "partitioner.granularity.",
    "secor.protobuf.message.class.",
    "secor.topic.message.format.",
    "secor.thrift.message.class.",
    "secor.avro.message.schema.",
)


def is_backup(draft: Draft) -> bool:
    """Return whether messages go where their offset says, whole."""
    plain = draft.value("secor.offsets.prefix") in ("", "offset=")
    return _class(draft) == "OffsetMessageParser" and plain and not writer_of(draft).decoder


def convert(draft: Draft) -> None:
    """Convert what is about parsing and directories."""
    if is_backup(draft):
        draft.set("group.kind", "backup", CLASS)
        size = "secor.offsets.per.partition"
        draft.copy_number("output.offsets_per_partition", size, zero=False)
        draft.unneeded("offset= is what it is here, too", "secor.offsets.prefix")
        _not_parsed(draft, "nothing is parsed in the backup group")
        return
    draft.set("group.kind", "partition", CLASS)
    parser = PARSERS.get(_class(draft))
    if parser is not None:
        _parser(draft, parser)
    elif draft.value(CLASS):
        _own_class(draft)
    else:
        draft.fault(
            CLASS, "is empty: say which, com.pinterest.secor.parser.OffsetMessageParser is a backup"
        )
    note = "Java Secor's count decays with each good message; here it is of bad_window."
    draft.copy_number("parser.max_bad_messages", _BAD, note=note, zero=False)


def _class(draft: Draft) -> str:
    return draft.value(CLASS).rpartition(".")[2]


def _own_class(draft: Draft) -> None:
    name = re.sub(r"\W", "", _class(draft))
    draft.set("parser.plugin", f"ours.parsers:{name}", note="To be written: docs/parsing.md.")
    why = "it is none of Java Secor's own: write it as parser.plugin (docs/parsing.md)"
    draft.unsupported(why, CLASS)
    draft.todo(
        f"write parser.plugin in the place of {draft.value(CLASS)}, or use a decoder and a layout"
    )
    _not_parsed(draft, "a parser of your own reads them: give its plug-in parser.plugin_settings")


def _not_parsed(draft: Draft, why: str) -> None:
    families = (name for name in draft.properties if name.startswith(_FAMILIES))
    draft.unneeded(why, *_OF_PARSERS, *families)


def _parser(draft: Draft, parser: JavaParser) -> None:
    uses_kafka = parser.may_use_kafka and draft.flag(USE_KAFKA)
    decoder = writer_of(draft).decoder or ("none" if uses_kafka else parser.decoder)
    draft.set("parser.decoder", decoder, CLASS)
    decoder_settings(draft, decoder)
    if parser.time and not uses_kafka:
        _time(draft, parser, decoder)
    else:
        names = (FIELD, SEPARATOR, PATTERN, _ID, _TYPE)
        draft.unneeded("the time is that of Kafka's record", *names)
    draft.unneeded("leaving parser.time_field out says the same", USE_KAFKA)
    _layout(draft, parser)
    draft.copy("parser.time_zone", _ZONE)
    draft.unneeded("a message without a time goes into quarantine", "message.timestamp.required")
    draft.unsupported("nothing is compared with the clock: see docs/parsing.md", _SKEW)
    _not_parsed(draft, "the parser that is used does not look at it")


def _time(draft: Draft, parser: JavaParser, decoder: str) -> None:
    if decoder == "thrift":
        draft.set("parser.time_field", draft.value(_ID) or "1", _ID)
        draft.unneeded("the type is read from the data", _TYPE)
    elif decoder == "regex":
        draft.set("parser.time_field", named_group(draft.value(PATTERN))[1], PATTERN)
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


def _layout(draft: Draft, parser: JavaParser) -> None:
    field = draft.value(_SPLIT).removeprefix("$.")
    if parser.layout in ("split", "named split") and not field:
        draft.fault(_SPLIT, "is empty, and the parser splits by that field")
    placeholder = f"{{.{field}}}" if field in ("time", "offset", "topic") else f"{{{field}}}"
    layout, names = time_layout(draft, parser.layout)
    if parser.layout == "offset":
        layout, names = offset_layout(draft)
    elif parser.layout == "dated offset":
        offsets, more = offset_layout(draft, prefix="offset=")
        layout, names = f"{layout}/{offsets}", (*names, *more)
    elif parser.layout == "split":
        layout, names = f"{placeholder}/{layout}", (_SPLIT, *names)
    elif parser.layout == "named split":
        own = "partitioner.granularity.field.prefix"
        prefix = draft.value(own) if own in draft.properties else f"{field}="
        layout, names = f"{prefix}{placeholder}/{layout}", (_SPLIT, own, *names)
    draft.set("parser.layout", layout, *names)
