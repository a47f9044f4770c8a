"""Translation of Java Secor's properties into a configuration file of this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from types import MappingProxyType

from secor.config.java_secor import formats, kafka, parsers, policies, store
from secor.config.translation.draft import Draft, PropertyOutcome
from secor.config.translation.properties import Properties
from secor.config.translation.report import finish

UNSUPPORTED: Mapping[str, str] = MappingProxyType(
    {
        "Java classes cannot be used: give the credentials": """
            kafka.new.consumer.sasl.client.callback.handler.class
            kafka.new.consumer.sasl.login.callback.handler.class
            kafka.new.consumer.sasl.login.class""",
        "names end as the format says (.seq, .txt.gz, .parquet ...)": "secor.file.extension",
        "metrics are scraped by Prometheus; secor progress --json for others": """
            tsdb.hostport statsd.hostport""",
    }
)
"""Names by the reason."""

UNNEEDED: Mapping[str, str] = MappingProxyType(
    {
        "the client fetches whole batches, within kafka.queue_bytes and limits.memory": """
            kafka.fetch.max.bytes kafka.fetch.message.max.bytes kafka.fetch.min.bytes
            kafka.fetch.wait.max.ms kafka.socket.receive.buffer.bytes kafka.consumer.timeout.ms
            kafka.new.consumer.max.poll.records kafka.new.consumer.poll.timeout.seconds
            kafka.new.consumer.request.timeout.ms""",
        "partitions are shared out by the brokers' group protocol": """
            kafka.partition.assignment.strategy kafka.rebalance.backoff.ms
            kafka.rebalance.max.retries zookeeper.sync.time.ms""",
        "there is one client": """
            kafka.client.className kafka.message.iterator.className
            kafka.message.timestamp.className""",
        "OpenSSL chooses what is safe": """
            kafka.new.consumer.ssl.enabled.protocols kafka.new.consumer.ssl.protocol
            kafka.new.consumer.ssl.provider""",
        "the security protocol has no TLS": """
            kafka.new.consumer.ssl.key.password kafka.new.consumer.ssl.keystore.location
            kafka.new.consumer.ssl.truststore.location""",
        "the security protocol has no SASL": """
            kafka.new.consumer.sasl.jaas.config kafka.new.consumer.sasl.mechanism""",
        "read_committed is always used": "kafka.new.consumer.isolation.level",
        "the old consumer does not look at it": "kafka.new.consumer.topic.list",
        "Java Secor's offsets in ZooKeeper are continued": "kafka.dual.commit.enabled",
        "offsets are where they are here by default": "kafka.zookeeper.path",
        "10 s is the default here; a shorter session expires in a pause": """
            zookeeper.session.timeout.ms""",
        "locks have the group in their path, next to the offsets": "secor.zookeeper.path",
        "one protocol agrees on every upload, with an intent in the ledger": """
            secor.upload.last.seen.offset secor.upload.secor.upload.last.seen.offset""",
        "there is one uploader": "secor.upload.class",
        "secor.kafka.upload_at_minute_mark.topic_filter is empty, so no topic has a mark": """
            secor.upload.minute_mark""",
        "more throughput is one more process": "secor.consumer.threads",
        "open files are bounded by limits.open_files": "secor.max.file.count",
        "messages have no size that must be known before": "secor.max.message.size.bytes",
        "nothing is transformed unless parser.transforms says so": """
            secor.message.transformer.class""",
        "local files are a cache, emptied at start": "secor.local.log.delete.age.hours",
        "files say how they are read": "secor.file.reader.Delimiter",
        "schemas are files: output.schema_file": "secor.orc.schema.provider",
        "row groups are counted in rows: output.row_group_rows": """
            parquet.block.size parquet.page.size""",
        "the format takes care of it": "parquet.enable.dictionary parquet.validation",
        "messages name their schema themselves": """
            avro.schema.subject.override.global avro.schema.subject.suffix""",
        "s3 is the default": "cloud.service",
        "boto3 uploads": "secor.upload.manager.class",
        "it is the name of a library's way to the bucket": "secor.s3.filesystem",
        "no hash is the default": "secor.s3.prefix.md5hash",
        "secor.s3.alter.path.date is empty": "secor.s3.alternative.path",
        "the store is another": "secor.s3.bucket secor.s3.path",
        "the store is another one": """
            secor.azure.account.key secor.azure.account.name secor.azure.container.name
            secor.azure.endpoints.protocol secor.azure.path
            secor.gs.bucket secor.gs.credentials.path secor.gs.path
            secor.swift.container secor.swift.containers.for.each.topic secor.swift.path
            swift.api.key swift.auth.url swift.password swift.port swift.public swift.region
            swift.tenant swift.use.get.auth swift.username""",
        "the store has its own: connect_timeout, request_timeout; limits.upload_threads": """
            secor.gs.connect.timeout.ms secor.gs.read.timeout.ms secor.gs.tasks.ratelimit.pr.second
            secor.gs.threadpool.fixed.size secor.gs.upload.direct""",
        "all periods are looked at": "secor.finalizer.lookback.periods",
        "nothing is finalized in the backup group": "partitioner.finalizer.delay.seconds",
        "Qubole is not asked; tables get partitions by finalize.command or finalize.glue": """
            qubole.api.token secor.enable.qubole secor.qubole.timeout.ms
            hive.table.prefix hive.table.name.* secor.hive.prefix secor.hive.table.name.*""",
        "it is for statistics, or for tests": """
            secor.topic_partition.forget.seconds secor.kafka.perf_topic_prefix""",
        "metrics are scraped by Prometheus: config/METRICS.md": """
            monitoring.blacklist.topics monitoring.interval.seconds monitoring.prefix
            statsd.dogstatsd.constant.tags statsd.dogstatsd.tags.enabled
            statsd.prefixWithConsumerGroup secor.monitoring.metrics.collector.class
            secor.monitoring.metrics.collector.micrometer.cache.size
            secor.monitoring.metrics.collector.micrometer.jmx.enabled
            secor.monitoring.metrics.collector.micrometer.prometheus.enabled
            secor.monitoring.metrics.collector.micrometer.statsd.enabled""",
        "it is about the Java machine": "config log4j.configuration",
        "nothing looks at it with these settings": """
            avro.schema.subject.override.topic.*
            aws.access.key aws.client.pathstyleaccess aws.endpoint aws.region aws.role
            aws.secret.key aws.session.token aws.sse.customer.key aws.sse.kms.key aws.sse.type
            aws.proxy.http.host aws.proxy.http.port aws.proxy.isEnabled
            kafka.consumer.auto.offset.reset kafka.new.consumer.auto.offset.reset
            kafka.new.consumer.max.poll.interval.ms
            kafka.new.consumer.partition.assignment.strategy.class
            kafka.new.consumer.sasl.kerberos.service.name kafka.new.consumer.security.protocol
            kafka.new.consumer.ssl.keystore.password kafka.new.consumer.ssl.keystore.type
            kafka.new.consumer.ssl.truststore.password kafka.new.consumer.ssl.truststore.type
            kafka.offsets.storage kafka.seed.broker.host kafka.seed.broker.port kafka.useTimestamp
            message.split.field.name message.timestamp.id message.timestamp.input.pattern
            message.timestamp.name message.timestamp.name.separator message.timestamp.required
            message.timestamp.skew.max.ms message.timestamp.type ostrich.port
            partitioner.granularity.date.format partitioner.granularity.date.prefix
            partitioner.granularity.field.prefix partitioner.granularity.hour
            partitioner.granularity.hour.format partitioner.granularity.hour.prefix
            partitioner.granularity.min.format partitioner.granularity.minute
            partitioner.granularity.minute.format partitioner.granularity.minute.prefix
            schema.registry.url secor.avro.message.schema.* secor.compression.codec
            secor.consumer.max_bad_messages secor.file.age.youngest
            secor.file.reader.writer.factory secor.file.writer.Delimiter secor.generation
            secor.kafka.group secor.kafka.topic_blacklist secor.kafka.topic_filter
            secor.kafka.upload_at_minute_mark.topic_filter secor.local.path
            secor.max.file.age.policy secor.max.file.age.seconds secor.max.file.size.bytes
            secor.max.file.timestamp.range.millis secor.max.input.payload.size.bytes
            secor.message.parser.class secor.offsets.per.partition secor.offsets.prefix
            secor.orc.message.schema.* secor.parser.timezone secor.partition.output_dt_format
            secor.protobuf.message.class.* secor.s3.alter.path.date secor.thrift.message.class.*
            secor.thrift.protocol.class secor.topic.message.format.* secor.upload.deterministic
            secor.upload.on.shutdown zookeeper.quorum""",
    }
)
"""Names by the reason; ``.*`` is any topic."""


def _table() -> Iterator[tuple[str, tuple[PropertyOutcome, str]]]:
    tables = ((PropertyOutcome.UNSUPPORTED, UNSUPPORTED), (PropertyOutcome.UNNEEDED, UNNEEDED))
    for outcome, reasons in tables:
        for why, names in reasons.items():
            yield from ((name, (outcome, why)) for name in names.split())


DEFAULTS: Mapping[str, tuple[PropertyOutcome, str]] = MappingProxyType(dict(_table()))
"""What is reported of each property that no converter has mapped or explained."""


def default_outcome(name: str) -> tuple[PropertyOutcome, str]:
    """Return what to report of a property that no converter has mapped or explained."""
    for pattern, outcome in DEFAULTS.items():
        if fnmatchcase(name, pattern):
            return outcome
    near = get_close_matches(name, sorted(DEFAULTS), n=1, cutoff=0.7)
    return PropertyOutcome.UNKNOWN, f"did you mean {near[0]}?" if near else ""


_ABOUT = (
    "# Made by secor config import of {source}, which was Java Secor's.",
    "# Behind each value are the properties that it came from; what is not here has the",
    "# default that docs/configuration.md explains.",
)

_CONVERTERS = (kafka.convert, store.convert, formats.convert, parsers.convert, policies.convert)


def convert(properties: Properties, source: str) -> tuple[str, Draft]:
    """Return the TOML file, and what became of each property.

    ``source`` names where the properties came from.  Raises ``ConfigurationError`` with
    everything that makes a valid configuration impossible, by the properties' names.
    """
    draft = Draft(properties)
    for converter in _CONVERTERS:
        converter(draft)
    return finish(draft, "\n".join(_ABOUT).format(source=source), source, default_outcome)
