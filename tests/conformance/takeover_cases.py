"""Settings of S3 sinks that are taken over, a connector each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from secor.sandbox import Sandbox
from tests.conformance.servers import JSON_CONVERTER

CONFLUENT = "io.confluent.connect.s3.S3SinkConnector"
AIVEN = "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector"
SINKS = (CONFLUENT, AIVEN)

_FORMAT = "io.confluent.connect.s3.format"
_PARTITIONER = "io.confluent.connect.storage.partitioner"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclass(frozen=True, slots=True)
class SinkCase:
    """A connector by its class and what is particular of its settings.

    ``schemas``: messages are of Connect's JSON converter with schemas.  ``left``: settings that
    the import must name as not supported, and no others.
    """

    name: str
    sink: str
    schemas: bool
    more: Mapping[str, str]
    left: frozenset[str] = frozenset()
    values: bool = field(default=True)
    """True if objects hold decoded values."""
    again: Mapping[str, str] | None = None
    """Settings after the worker was killed between an upload and its commit; None: it is not."""

    @property
    def typed(self) -> bool:
        """True if objects have a schema."""
        return "parquet" in self.name or "avro" in self.name

    def settings(self, sandbox: Sandbox, topic: str) -> dict[str, str]:
        """Return the connector's settings."""
        s3 = sandbox.s3
        converter = (
            {"value.converter": JSON_CONVERTER} if self.values else {"value.converter": _BYTES}
        )
        if self.values:
            converter["value.converter.schemas.enable"] = str(self.schemas).lower()
        common = {
            "connector.class": self.sink,
            "tasks.max": "1",
            "topics": topic,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            **converter,
            "consumer.override.bootstrap.servers": sandbox.kafka,
            "consumer.override.auto.offset.reset": "earliest",
            "aws.access.key.id": s3.access_key,
            "aws.secret.access.key": s3.secret_key,
        }
        own = _confluent(s3.bucket, s3.region, s3.endpoint_url)
        if self.sink == AIVEN:
            own = _aiven(s3.bucket, s3.region, s3.endpoint_url)
        return {**common, **own, **self.more}


def _confluent(bucket: str, region: str, endpoint: str) -> dict[str, str]:
    return {
        "s3.bucket.name": bucket,
        "s3.region": region,
        "store.url": endpoint,
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "flush.size": "40",
        "s3.part.size": "5242880",  # a buffer for each open file: 25 MB by default
        "timezone": "UTC",
        "locale": "en",
    }


def _aiven(bucket: str, region: str, endpoint: str) -> dict[str, str]:
    return {
        "aws.s3.bucket.name": bucket,
        "aws.s3.region": region,
        "aws.s3.endpoint": endpoint,
        "format.output.fields": "value",
        "format.output.fields.value.encoding": "none",
    }


def _format(kind: str) -> str:
    return f"{_FORMAT}.{kind.lower()}.{kind}Format"


CASES: Sequence[SinkCase] = (
    SinkCase(
        "confluent-json-plain-daily",
        CONFLUENT,
        False,
        MappingProxyType(
            {
                "format.class": _format("Json"),
                "s3.compression.type": "gzip",
                "partitioner.class": f"{_PARTITIONER}.TimeBasedPartitioner",
                "path.format": "'year'=YYYY/'month'=MM/'day'=dd",
                "partition.duration.ms": "86400000",
                "timestamp.extractor": "Record",
                "rotate.schedule.interval.ms": "3000",
            }
        ),
    ),
    SinkCase(
        "confluent-json-schemas-field",
        CONFLUENT,
        True,
        MappingProxyType(
            {
                "format.class": _format("Json"),
                "partitioner.class": f"{_PARTITIONER}.FieldPartitioner",
                "partition.field.name": "region",
                "rotate.schedule.interval.ms": "3000",
            }
        ),
    ),
    SinkCase(
        "confluent-json-numeric",
        CONFLUENT,
        True,
        MappingProxyType({"format.class": _format("Json"), "json.decimal.format": "NUMERIC"}),
    ),
    SinkCase(
        "confluent-parquet",
        CONFLUENT,
        True,
        MappingProxyType({"format.class": _format("Parquet")}),
    ),
    SinkCase(
        "confluent-avro-hourly",
        CONFLUENT,
        True,
        MappingProxyType(
            {
                "format.class": _format("Avro"),
                "avro.codec": "snappy",
                "partitioner.class": f"{_PARTITIONER}.HourlyPartitioner",
                "timestamp.extractor": "RecordField",
                "timestamp.field": "at",
                "rotate.schedule.interval.ms": "3000",
            }
        ),
    ),
    SinkCase(
        "confluent-bytes",
        CONFLUENT,
        False,
        MappingProxyType({"format.class": f"{_FORMAT}.bytearray.ByteArrayFormat"}),
        values=False,
    ),
    SinkCase(
        "confluent-killed-parquet",
        CONFLUENT,
        True,
        MappingProxyType({"format.class": _format("Parquet")}),
        again=MappingProxyType({"flush.size": "25"}),
    ),
    SinkCase(
        "confluent-killed-json-field",
        CONFLUENT,
        True,
        MappingProxyType(
            {
                "format.class": _format("Json"),
                "partitioner.class": f"{_PARTITIONER}.FieldPartitioner",
                "partition.field.name": "region",
                "flush.size": "15",
            }
        ),
        again=MappingProxyType({"flush.size": "11"}),
    ),
    SinkCase(
        "aiven-jsonl",
        AIVEN,
        False,
        MappingProxyType(
            {
                "format.output.type": "jsonl",
                "format.output.envelope": "false",
                "file.compression.type": "gzip",
                "file.name.template": "lake/{{topic}}/day={{timestamp:unit=yyyy}}"
                "{{timestamp:unit=MM}}{{timestamp:unit=dd}}/"
                "{{topic}}-{{partition}}-{{start_offset}}.gz",
                "file.name.timestamp.source": "event",
            }
        ),
    ),
    SinkCase(
        "aiven-killed-jsonl",
        AIVEN,
        False,
        MappingProxyType(
            {
                "format.output.type": "jsonl",
                "format.output.envelope": "false",
                "file.compression.type": "none",
                "file.max.records": "20",
                "file.name.template": "lake/{{topic}}/p={{partition}}/"
                "{{topic}}-{{partition}}-{{start_offset}}",
            }
        ),
        again=MappingProxyType({"file.max.records": "13"}),
    ),
    SinkCase(
        "aiven-parquet",
        AIVEN,
        True,
        MappingProxyType(
            {
                "format.output.type": "parquet",
                "format.output.envelope": "false",
                "file.compression.type": "snappy",
                "file.name.template": "lake/{{topic}}/p={{partition}}/"
                "{{topic}}-{{partition:padding=true}}-{{start_offset:padding=true}}.parquet",
            }
        ),
    ),
    SinkCase(
        "aiven-avro",
        AIVEN,
        True,
        MappingProxyType(
            {
                "format.output.type": "avro",
                "format.output.envelope": "false",
                "file.compression.type": "none",
                "file.name.template": "lake/{{topic}}/p={{partition}}/"
                "{{topic}}-{{partition}}-{{start_offset}}.avro",
            }
        ),
    ),
)
