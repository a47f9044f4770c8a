"""A restore, put together from its configuration."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from secor.adapters.kafka import KafkaReader
from secor.adapters.kafka.source import KafkaSource
from secor.adapters.kafka.topic_admin import TopicAdmin, TopicSettings
from secor.adapters.kafka.topics import topic_pattern
from secor.adapters.kafka.transactions import KafkaTransactions
from secor.archive.kept_topics import KeptTopic, KeptTopics
from secor.archive.objects import Archive
from secor.config.restore import RestoreConfig
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError
from secor.core.model import Chunk, OffsetRange, TopicPartition
from secor.core.naming import topic_root
from secor.core.ports import ObjectStore
from secor.formats import format_of_key
from secor.parsing.plugins import identity_of, load_plugin
from secor.parsing.user_classes import import_class
from secor.restore.control import JobControl
from secor.restore.model import JobSpec, SourcePartition
from secor.restore.offsets import check_partitions, offsets_topic, partition_of
from secor.restore.ports import RestoreSource
from secor.restore.routing import Routing
from secor.restore.sources.aiven import AivenLayout
from secor.restore.sources.archive import ArchiveSource
from secor.restore.sources.confluent import ConfluentLayout
from secor.restore.sources.foreign import ForeignLayout, ForeignSource
from secor.restore.sources.json_lines import JsonLinesSource
from secor.restore.sources.lenses import LensesLayout
from secor.restore.writer.model import WriterLimits
from secor.restore.writer.writer import TransactionalWriter
from secor.wiring.clients import brokers_options, store_of

SEEN_WITHIN = 10
"""Seconds that a new topic may take until every broker knows it."""
SESSION = 6.0
"""Seconds until the group gives the partitions of a daemon that died to another: the least that
brokers allow by default.  Who is late is fenced, so that this is about time alone."""
OFFSETS_SETTINGS = {"cleanup.policy": "compact"}


class LockedLog:
    """A ``TargetLog`` for any number of threads over one reader, which is for one."""

    def __init__(self, reader: KafkaReader) -> None:
        self._reader = reader
        self._lock = threading.Lock()

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return the topic's partitions."""
        with self._lock:
            return self._reader.partitions(topic)

    def cluster_id(self) -> str:
        """Return the cluster's id."""
        with self._lock:
            return self._reader.cluster_id()

    def offset_at(self, topic_partition: TopicPartition, timestamp: int) -> int | None:
        """Return the first offset of a time in milliseconds or later; None where there is none."""
        with self._lock:
            return self._reader.offset_at(topic_partition, timestamp)

    def end(self, topic_partition: TopicPartition, *, committed: bool) -> int:
        """Return where the log ends."""
        with self._lock:
            return self._reader.end(topic_partition, committed=committed)

    def start(self, topic_partition: TopicPartition) -> int:
        """Return where the log begins."""
        with self._lock:
            return self._reader.log_range(topic_partition).start

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        """Give committed messages, from the log's start if ``start`` is below it."""
        with self._lock:
            begin = max(start, self._reader.log_range(topic_partition).start)
            if begin < end:
                yield from self._reader.read(topic_partition, begin, end)


@dataclass(frozen=True, slots=True)
class Job:
    """A job's parts, connected to the target and the archive."""

    config: RestoreConfig
    spec: JobSpec
    source: RestoreSource
    requests: KafkaTransactions
    log: LockedLog
    admin: TopicAdmin
    clock: SystemClock
    kept_topic: Callable[[str], KeptTopic | None]
    """Returns what the backup has kept of a topic's settings.  Raises ``CorruptFile``."""

    @property
    def name(self) -> str:
        """The job's name."""
        return self.config.group.name

    def make_writer(self, transactional_id: str) -> TransactionalWriter:
        """Return a writer that is not initialised yet."""
        writing = self.config.writing
        limits = WriterLimits(
            transaction_timeout=writing.transaction_timeout,
            request_timeout=writing.request_timeout,
            batch_bytes=writing.batch_bytes,
            codec=writing.codec,
        )
        return TransactionalWriter(
            self.requests, transactional_id, clock=self.clock, rng=random.Random(), limits=limits
        )

    def offsets_partitions(self) -> int:
        """Return how many partitions the offsets topic has; 0 when there is none."""
        return len(self.log.partitions(offsets_topic(self.name)))

    def offsets_settings(self) -> TopicSettings:
        """Return what the offsets topic is made with."""
        return TopicSettings(self.config.writing.offsets_partitions, OFFSETS_SETTINGS)

    def ensure_offsets_topic(self) -> int:
        """Make the offsets topic if there is none; return its partitions."""
        topic = offsets_topic(self.name)
        if not self.offsets_partitions():
            self.admin.create(topic, self.offsets_settings(), self.config.target.replication_factor)
        count = self.offsets_partitions()
        for _ in range(SEEN_WITHIN):
            # A topic that was made just now is not known to every broker at once.
            if count:
                break
            self.clock.sleep(1.0)
            count = self.offsets_partitions()
        check_partitions(topic, count)
        return count

    def control(self, partitions: int) -> JobControl:
        """Return what reads and changes the job's record."""
        where = TopicPartition(offsets_topic(self.name), partitions - 1)
        return JobControl(self.name, where, self.log, self.make_writer, self.clock)

    def sources_by_partition(self, partitions: int) -> dict[TopicPartition, list[SourcePartition]]:
        """Return the job's source partitions by partition of the offsets topic."""
        topic = offsets_topic(self.name)
        listed: dict[TopicPartition, list[SourcePartition]] = {}
        for source in self.sources():
            number = partition_of(self.name, source, partitions)
            listed.setdefault(TopicPartition(topic, number), []).append(source)
        return listed

    def sources(self) -> list[SourcePartition]:
        """Return the source partitions that the configuration names."""
        wanted = self.config.source.partitions
        return [it for it in self.source.partitions() if not wanted or it.partition in wanted]

    def routing(self) -> Routing:
        """Return the router over the target's topics as they are now."""
        source, target = self.config.source, self.config.target
        topics = {target.topic.format(topic=it.topic) for it in self.sources()}
        if offsets_topic(self.name) in topics:
            raise ConfigurationError(
                f"target.topic names the job's own offsets topic {offsets_topic(self.name)}: a"
                " job may write to any topic but this one"
            )
        ranges: dict[tuple[str, int], list[OffsetRange]] = {}
        for it in source.ranges:
            end = it.end if it.end is not None else 2**62
            ranges.setdefault((it.topic, it.partition), []).append(OffsetRange(it.start, end))
        return Routing(
            template=target.topic,
            partitions={topic: len(self.log.partitions(topic)) for topic in topics},
            partitioning=target.partitioning,
            ranges=ranges,
            since=None if source.since is None else int(source.since.timestamp() * 1000),
            until=None if source.until is None else int(source.until.timestamp() * 1000),
            row_filter=_plugin(source.filter, "keep"),
            transform=_plugin(source.transform, "transform"),
            provenance=self.config.writing.provenance,
        )

    def membership(self) -> KafkaSource:
        """Join the group that shares the offsets topic's partitions out."""
        topic = offsets_topic(self.name)
        return KafkaSource(
            brokers_options(self.config.kafka),
            group=topic,
            topics=[topic],
            release_wait=self.config.writing.transaction_timeout,
            session_timeout=SESSION,
            heartbeat_interval=SESSION / 4,
        )


def spec_of(config: RestoreConfig) -> JobSpec:
    """Return what decides which records are written where.

    Of plug-ins the bytes of their modules count, as under another name they may be others.
    Raises ``ConfigurationError`` where one cannot be imported.
    """
    target = config.target
    plugins = {
        name: _identity(path)
        for name, path in (("filter", config.source.filter), ("transform", config.source.transform))
        if path is not None
    }
    return JobSpec(
        config.group.name,
        {
            **({"plugins": plugins} if plugins else {}),
            "source": config.source.model_dump(
                mode="json", exclude={"lossy", "holes", "delimiter"}
            ),
            "topic": target.topic,
            "partitioning": target.partitioning,
            "provenance": config.writing.provenance,
        },
    )


@contextmanager
def open_job(config: RestoreConfig) -> Iterator[Job]:
    """Connect to the archive and the target.  Raises ``SecorError``."""
    options = brokers_options(config.kafka)
    with ExitStack() as opened:
        store = store_of(config.store, connections=8)
        source = source_of(config, store)
        requests = KafkaTransactions(options)
        opened.callback(requests.close)
        reader = KafkaReader(options)
        opened.callback(reader.close)
        admin = TopicAdmin(options)
        opened.callback(admin.close)
        log = LockedLog(reader)
        kept = partial(_kept_topic, store, config)
        yield Job(config, spec_of(config), source, requests, log, admin, SystemClock(), kept)


def _kept_topic(store: ObjectStore, config: RestoreConfig, topic: str) -> KeptTopic | None:
    source = config.source
    if source.kind != "archive" or not config.target.archived_settings:
        return None
    return KeptTopics(store, topic_root(source.prefix, topic, hashed=source.hash_prefix)).newest()


def source_of(config: RestoreConfig, store: ObjectStore) -> RestoreSource:
    """Return the source that the configuration names."""
    source = config.source
    archive = Archive(
        store,
        source.prefix,
        hashed=source.hash_prefix,
        formats=partial(format_of_key, delimiter=source.delimiter.encode()),
    )

    pattern = re.compile(topic_pattern(source.topics_pattern or ".*", source.topics_exclude))

    def wanted(topic: str) -> bool:
        return topic in source.topics if source.topics else bool(pattern.match(topic))

    if source.kind == "json-lines":
        assert source.directory is not None
        return JsonLinesSource(source.name, source.directory, wanted)

    layouts: dict[str, ForeignLayout] = {
        "confluent-s3": ConfluentLayout(source.delimiter.encode()),
        "aiven-s3": AivenLayout(),
        "lenses-s3": LensesLayout(),
    }
    if source.kind in layouts:
        layout = layouts[source.kind]
        return ForeignSource(source.name, store, source.prefix, layout, wanted, lossy=source.lossy)

    def topics() -> list[str]:
        return list(source.topics) or [it for it in archive.topics() if wanted(it)]

    return ArchiveSource(
        source.name,
        lambda _topic: archive,
        topics,
        lossy=source.lossy,
        holes=source.holes,
        generations=source.generations or None,
    )


def _identity(path: str) -> str:
    import_class("plug-in", path)
    return identity_of(path, {})


def _plugin(name: str | None, method: str) -> Callable[..., Any] | None:
    return None if name is None else getattr(load_plugin(name, method, {}), method)
