"""Aiven's S3 sink as a partition group.

Source: ``S3ConfigFragment``, ``FileNameFragment`` and ``OutputFormatFragment`` of
cloud-storage-connectors-for-apache-kafka 3.4, and its page on names of files.
"""

from __future__ import annotations

import re

from secor.config.connect.connector_file import FLUSH_INTERVAL
from secor.config.connect.converters import (
    BYTES,
    STRING,
    convert_errors,
    convert_values,
    rest_of_converter,
)
from secor.config.connect.kafka import CONSUMER, convert_group, convert_kafka
from secor.config.connect.s3 import convert_bucket, convert_credentials, convert_encryption
from secor.config.connect.settings import (
    CONNECT_SETTINGS,
    NOT_NEEDED,
    NOT_SUPPORTED,
    STRAY,
    SinkSetting,
    default_outcome,
    finish_connector,
)
from secor.config.connect.transforms import convert_transforms
from secor.config.output import CODECS
from secor.config.translation.draft import Draft
from secor.config.translation.properties import Occurrence, Properties
from secor.core.errors import ConfigurationError
from secor.parsing.layout import Layout
from secor.parsing.zones import Zone

CLASSES = frozenset(
    {
        "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        "AivenKafkaConnectS3SinkConnector",
        "AivenKafkaConnectS3Sink",
    }
)

SETTINGS = (
    SinkSetting("aws.s3.backoff.*", "none: what fails is tried again without end", NOT_NEEDED),
    SinkSetting("aws.s3.part.size.bytes", "none: large objects are put in parts", NOT_NEEDED),
    SinkSetting("aws.s3.fetch.*", "none: it is about Aiven's source", NOT_NEEDED),
    SinkSetting("kafka.retry.backoff.ms", "none: what fails is tried again", NOT_NEEDED),
    SinkSetting("file.name.prefix", "none: the sink does not read it", NOT_SUPPORTED),
    SinkSetting("format.class", "none: the sink does not read it", NOT_NEEDED),
    SinkSetting("schema.registry.url", "none: only converters read it", NOT_NEEDED),
)

OLD_NAMES = {
    "aws_access_key_id": "aws.access.key.id",
    "aws_secret_access_key": "aws.secret.access.key",
    "aws_s3_bucket": "aws.s3.bucket.name",
    "aws_s3_endpoint": "aws.s3.endpoint",
    "aws_s3_region": "aws.s3.region",
    "aws_s3_prefix": "aws.s3.prefix",
    "output_compression": "file.compression.type",
    "output_fields": "format.output.fields",
}
"""Names before version 2.6, which still count."""

_TEMPLATE = "file.name.template"
_DEFAULT_TEMPLATE = "{{topic}}-{{partition}}-{{start_offset}}"
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*(?::\s*([^}]*?)\s*)?\}\}")
_TIMES = {"yyyy": "%Y", "YYYY": "%Y", "MM": "%m", "dd": "%d", "HH": "%H"}
_FORMATS = {
    "csv": "text",
    "jsonl": "jsonlines",
    "json": "jsonlines",
    "parquet": "parquet",
    "avro": "avro",
}
_COLUMNS = {
    "key": "_key",
    "offset": "_offset",
    "timestamp": "_timestamp",
    "headers": "_headers",
}
_FIELDS = "format.output.fields"


def convert(properties: Properties, source: str) -> tuple[str, Draft]:
    """Return the TOML file, and what became of each setting.  Raises ``ConfigurationError``."""
    draft = Draft(properties)
    _read_old_names(draft)
    convert_group(draft)
    convert_kafka(draft, CONSUMER)
    convert_bucket(draft, "aws.s3.bucket.name", "aws.s3.region", "aws.s3.endpoint")
    convert_credentials(draft)
    convert_encryption(draft, "aws.s3.sse.algorithm")
    kind = _output(draft)
    _values(draft, kind)
    _names(draft)
    convert_transforms(draft, fields=kind != "text")
    convert_errors(draft)
    draft.copy_number("policy.max_messages", "file.max.records", zero=False)
    if draft.value(FLUSH_INTERVAL):
        draft.copy_number("policy.max_age", FLUSH_INTERVAL, "ms")
    else:
        note = "The worker's offset.flush.interval.ms, by default; a longer one: larger objects."
        draft.set("policy.max_age", "60s", note=note)
    rows = (*SETTINGS, *CONNECT_SETTINGS, *STRAY)
    return finish_connector(
        draft, "Aiven's S3 sink", source, lambda name: default_outcome(draft, name, rows)
    )


def _read_old_names(draft: Draft) -> None:
    for old, name in OLD_NAMES.items():
        if draft.value(old):
            draft.unneeded(f"it is read as {name}", old)
            if not draft.value(name):
                first = draft.properties.occurrences[old][0]
                draft.properties.occurrences[name] = [Occurrence(first.place, first.values)]


def _output(draft: Draft) -> str:
    kind = _format(draft)
    compression = draft.value("file.compression.type").lower() or "gzip"
    if kind == "avro":
        compression = {"gzip": "deflate"}.get(compression, compression)
    codecs = CODECS[kind]
    if compression in codecs:
        note = "" if draft.value("file.compression.type") else "the sink's default"
        draft.set("output.codec", compression, "file.compression.type", note=note)
    else:
        why = f"{kind} offers {', '.join(codecs)}: {codecs[0]} is used"
        draft.unsupported(why, "file.compression.type")
    return kind


def _format(draft: Draft) -> str:
    name = "format.output.type"
    given = draft.value(name).lower() or "csv"
    kind = _FORMATS.get(given, "jsonlines")
    fields = [part.strip() for part in draft.value(_FIELDS).split(",") if part.strip()] or ["value"]
    others = [field for field in fields if field != "value"]
    if given == "json" or given not in _FORMATS:
        draft.unsupported("objects have a JSON value a line, not one array", name)
        draft.set("output.format", kind)
    else:
        note = "" if draft.value(name) else "the sink's default: csv"
        draft.set("output.format", kind, name, note=note)
    encoding = "format.output.fields.value.encoding"
    if kind == "text":
        _plain(draft, others, encoding)
        return kind
    draft.unneeded("it is about csv", encoding)
    columns = [_COLUMNS[field] for field in others if field in _COLUMNS]
    if columns:
        draft.set("output.metadata_columns", columns, _FIELDS)
        draft.todo(f"readers of {', '.join(others)} read the columns {', '.join(columns)}")
    draft.unneeded("values are stored", _FIELDS)
    envelope = "format.output.envelope"
    if draft.flag(envelope, default=True):
        why = "fields of the value are at the top of each row, not within value"
        draft.unsupported(why, envelope)
        draft.todo("readers find fields at the top of each row: the sink has them within value")
    draft.unneeded("values have no envelope", envelope)
    return kind


def _plain(draft: Draft, others: list[str], encoding: str) -> None:
    """Store the values alone, as they are."""
    if others:
        why = "text has values only: jsonlines or parquet have output.metadata_columns"
        draft.unsupported(why, _FIELDS)
    draft.unneeded("values are stored", _FIELDS)
    if draft.value(encoding) == "none":
        draft.unneeded("values are stored as they are", encoding)
    else:
        why = "values are stored as they are, a line each, not in base64"
        draft.unsupported(why, encoding)
        draft.todo("readers find values as they are: the sink's are in base64")
    draft.unneeded("csv has none", "format.output.envelope")


def _values(draft: Draft, kind: str) -> None:
    if kind == "text":
        draft.set("parser.decoder", "none", "value.converter")
        if draft.value("value.converter") not in ("", BYTES, STRING):
            draft.unsupported("values are stored as they are in Kafka", "value.converter")
        rest_of_converter(draft)
    elif draft.value("value.converter") in (STRING, BYTES):
        draft.set("parser.decoder", "json")
        why = "values are read as JSON (the sink writes text in quotes); if they are none: text"
        draft.unsupported(why, "value.converter")
        rest_of_converter(draft)
    else:
        convert_values(draft)


def _names(draft: Draft) -> None:
    """Set prefix and layout by the directories of the template; names are Secor's."""
    template = draft.value(_TEMPLATE) or _DEFAULT_TEMPLATE
    prefix = "" if draft.value(_TEMPLATE) else draft.value("aws.s3.prefix")
    *directories, _ = (prefix + template).split("/")
    own = [item for item in ("aws.s3.prefix", _TEMPLATE) if draft.value(item)]
    before: list[str] = []
    while directories and "{{" not in directories[0]:
        before.append(directories.pop(0))
    has_topic = bool(directories) and _VARIABLE.fullmatch(directories[0]) is not None
    has_topic = has_topic and "topic" in directories[0]
    layout = "partition={kafka_partition}"
    try:
        rest = "/".join(_piece(item) for item in directories[has_topic:] if item)
        Layout(rest or layout)
        layout = rest or layout
    except ConfigurationError as error:
        draft.unsupported(f"write parser.layout by hand: {error}", _TEMPLATE)
    draft.set("output.prefix", "/".join(item for item in before if item), *own)
    draft.set("parser.layout", layout, *own)
    draft.todo(
        f"objects go to {'/'.join([*before, 'TOPIC', layout])}/ under names of Secor's own"
        " (docs/formats.md); the sink's names are"
        f" {prefix + template}: readers that list single names need the new ones"
    )
    draft.unneeded("file.name.template has the whole name", "aws.s3.prefix")
    _times(draft, timed="{time:" in layout)


def _piece(text: str) -> str:
    def placeholder(match: re.Match[str]) -> str:
        name, argument = match[1], match[2] or ""
        unit = argument.removeprefix("unit=")
        if name == "timestamp" and unit in _TIMES:
            return f"{{time:{_TIMES[unit]}}}"
        if name == "topic":
            return "{topic}"
        if name == "partition" and argument != "padding=true":
            return "{kafka_partition}"
        raise ConfigurationError(f"no layout writes {match[0]}")

    return _VARIABLE.sub(placeholder, text).replace("}{time:", "")


def _times(draft: Draft, *, timed: bool) -> None:
    for before in ("file.name.timestamp.", "timestamp."):
        zone, source = f"{before}timezone", f"{before}source"
        given = draft.value(zone)
        try:
            if timed and given not in ("", "UTC"):
                Zone(given)
                draft.set("parser.time_zone", given, zone)
        except ConfigurationError as error:
            draft.unsupported(f"set parser.time_zone: {error}", zone)
        draft.unneeded("directories have no times, or UTC's", zone)
        draft.unneeded("directories follow Kafka's timestamp", source)
    if timed:
        draft.todo(
            "directories follow Kafka's timestamp, not the worker's clock: a message that waited"
            " goes into an earlier directory than the connector's"
        )
