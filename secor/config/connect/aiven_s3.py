"""Aiven's S3 sink as a partition group.

Source: ``S3ConfigFragment``, ``FileNameFragment`` and ``OutputFormatFragment`` of
cloud-storage-connectors-for-apache-kafka 3.4, and its page on names of files.
"""

from __future__ import annotations

from secor.config.connect.aiven_names import convert_names
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
    say_whose_types,
)
from secor.config.connect.transforms import convert_transforms
from secor.config.output import CODECS
from secor.config.translation.draft import Draft
from secor.config.translation.properties import Occurrence, Properties

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
    SinkSetting("file.max.records", "none: 0 limits nothing", NOT_NEEDED),
    SinkSetting("aws.s3.prefix.template", "none: the sink reads aws.s3.prefix", NOT_SUPPORTED),
    SinkSetting("file.prefix.template", "none: it is about Aiven's source", NOT_NEEDED),
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

_COMPRESSION = "file.compression.type"
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
    say_whose_types(draft, kind)
    convert_names(draft)
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
            # Where both are given the sink takes the new name, and so the old one is not looked at.
            if not draft.value(name):
                first = draft.properties.occurrences[old][0]
                draft.properties.occurrences[name] = [Occurrence(first.place, first.values)]


def _output(draft: Draft) -> str:
    kind = _format(draft)
    name = _COMPRESSION
    compression = draft.value(name).lower() or "gzip"
    codecs = CODECS[kind]
    if kind == "avro":
        _avro_codec(draft, compression)
    elif compression in codecs:
        note = "" if draft.value(name) else "the sink's default"
        draft.set("output.codec", compression, name, note=note)
    else:
        draft.unsupported(f"{kind} offers {', '.join(codecs)}: {codecs[0]} is used", name)
    draft.unneeded(f"{kind} does not look at it", "avro.codec")
    return kind


def _avro_codec(draft: Draft, compression: str) -> None:
    """Compress blocks within files: the sink compresses whole files, and blocks by another
    setting.
    """
    within = {"null": "none", "deflate": "deflate", "snappy": "snappy"}
    given = draft.value("avro.codec").lower() or ("null" if compression == "none" else "deflate")
    if given in within:
        draft.set("output.codec", within[given], "avro.codec")
    else:
        draft.unsupported(f"avro offers {', '.join(within)}: deflate is used", "avro.codec")
    if compression == "none":
        draft.unneeded("files are not compressed as a whole", _COMPRESSION)
    else:
        why = "files of Avro are compressed within, by output.codec, not as a whole"
        draft.unsupported(why, _COMPRESSION)
        draft.todo(f"readers find files of Avro that are not in {compression} as a whole")


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
    if kind == "jsonlines":
        draft.set("output.json_types", "connect", note="As Connect's converter has it.")
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
