"""A restore, put together from its configuration."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from secor.adapters.kafka import KafkaReader
from secor.adapters.kafka.group_admin import GroupAdmin
from secor.adapters.kafka.removing import Cleaner
from secor.adapters.kafka.source import KafkaSource
from secor.adapters.kafka.topic_admin import TopicAdmin, TopicDefinition
from secor.adapters.kafka.transactions import KafkaIdempotence, KafkaTransactions
from secor.archive.kept_topics import KeptTopic
from secor.config.restore import RestoreConfig
from secor.config.servers import Brokers
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError
from secor.core.model import Chunk, TopicPartition
from secor.restore.control import JobControl
from secor.restore.model import JobSpec, SourcePartition
from secor.restore.offsets import StoredOffset, check_partitions, offsets_topic, partition_of
from secor.restore.ports import RestoreSource
from secor.restore.routing import Routing, first_millisecond
from secor.restore.schema_ids import SchemaIds
from secor.restore.writer.model import WriterLimits
from secor.restore.writer.writer import TransactionalWriter
from secor.wiring.clients import brokers_options, reach_store
from secor.wiring.first_contact import kafka_server, report_while_slow
from secor.wiring.restore_sources import (
    described_topics,
    kept_topic,
    plugin_method,
    ranges_of,
    source_of,
    spec_of,
    wanted_topics,
)


@contextmanager
def open_cluster_groups(brokers: Brokers, cluster: str) -> Iterator[GroupAdmin]:
    """Give the consumer groups of a cluster; ``cluster`` is its name in messages to a person."""
    with closing(GroupAdmin(brokers_options(brokers), cluster=cluster)) as groups:
        yield groups


@contextmanager
def open_cluster_reader(brokers: Brokers) -> Iterator[KafkaReader]:
    """Give a reader of a cluster's topics, outside of any group."""
    with closing(KafkaReader(brokers_options(brokers))) as reader:
        yield reader


def cleaner_of(brokers: Brokers) -> Cleaner:
    """Return what removes, later, all that is not in a cluster now."""
    return Cleaner(brokers_options(brokers))


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

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str | None]:
        """Return the ids of topics by name; None where the brokers have no ids."""
        if not topics:
            return {}
        with self._lock:
            return self._reader.group_topic_ids(topics, None, None)

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
            return self._reader.start(topic_partition)

    def counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the partitions of topics by name, in one question; 0 where there is none."""
        wanted = [*topics]
        if not wanted:
            return {}
        with self._lock:
            known = Counter(
                place.topic for place in self._reader.group_partitions(wanted, None, None)
            )
        return {topic: known[topic] for topic in wanted}

    def held(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return how many offsets logs hold, also of open transactions; one question a leader."""
        wanted = list(topic_partitions)
        if not wanted:
            return {}
        with self._lock:
            ends, starts = self._reader.high_watermarks(wanted), self._reader.starts(wanted)
        # What no leader answered is asked alone, which waits for one, or says what is wrong.
        for place in wanted:
            if place not in ends or place not in starts:
                ends[place], starts[place] = self.end(place, committed=False), self.start(place)
        return {place: ends[place] - starts[place] for place in wanted}

    def know_leaders(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Ask for the leaders of many partitions at once, about to be asked about one by one.

        Otherwise each topic waits half a second for metadata of its own.
        """
        wanted = list(topic_partitions)
        if wanted:
            with self._lock:
                self._reader.ends(wanted)

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        """Give committed messages, from the log's start if ``start`` is below it."""
        with self._lock:
            # The lock is held until all is read out: a caller that asks this log for something else
            # inside its loop waits for itself for ever.
            begin = max(start, self._reader.start(topic_partition))
            if begin < end:
                yield from self._reader.read(topic_partition, begin, end)


CONNECTIONS = 64
"""To the store, kept open: every source partition is read by a thread of its own."""

SEEN_WITHIN = 10
"""Seconds that a new topic may take until every broker knows it."""
SESSION = 6.0
"""Seconds until the group gives the partitions of a daemon that died to another: the least that
brokers allow by default.  A late one is fenced, so this is about time alone."""
OFFSETS_SETTINGS = {"cleanup.policy": "compact"}
SHARED_SETTINGS = TopicDefinition(1, OFFSETS_SETTINGS)
COPY_LIMITS = WriterLimits(
    transaction_timeout=2.0, request_timeout=2.0, initialise_timeout=2.0, transactional=False
)


@dataclass(frozen=True, slots=True)
class Job:
    """A job's parts, connected to the target and the archive."""

    config: RestoreConfig
    spec: JobSpec
    source: RestoreSource
    requests: KafkaTransactions | KafkaIdempotence
    log: LockedLog
    admin: TopicAdmin
    clock: SystemClock
    kept_topic: Callable[[str], KeptTopic | None]
    """Returns what the backup has kept of a topic's settings.  Raises ``CorruptFile``."""
    copy_requests: KafkaIdempotence | None = None
    """Writes the copies of offsets; None where there are none."""
    described_topics: Callable[[], Sequence[str]] = tuple
    """Returns the job's topics with kept settings, also those without messages."""
    schema_ids: SchemaIds | None = None
    """What becomes of the ids of schemas in messages; None where they stay."""

    @property
    def transactional(self) -> bool:
        """True if messages are written in transactions, each of them once."""
        return self.config.writing.exactly_once == "required"

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
            transactional=self.transactional,
        )
        return TransactionalWriter(
            self.requests, transactional_id, clock=self.clock, rng=random.Random(), limits=limits
        )

    def make_copy_writer(self) -> TransactionalWriter:
        """Return a writer of copies of offsets, which gives up early."""
        assert self.copy_requests is not None
        return TransactionalWriter(
            self.copy_requests,
            f"copies of {self.name}",
            clock=self.clock,
            rng=random.Random(),
            limits=COPY_LIMITS,
        )

    def target_name(self, topic: str) -> str:
        """Return the target's topic for an archived one."""
        return self.config.target.topic.replace("{topic}", topic)

    @property
    def own_topics(self) -> frozenset[str]:
        """The topics of the job's offsets and their copies."""
        shared = self.config.writing.shared_offsets_topic
        return frozenset({offsets_topic(self.name), *([shared] if shared else [])})

    def offsets_partitions(self) -> int:
        """Return how many partitions the offsets topic has; 0 when there is none."""
        return len(self.log.partitions(offsets_topic(self.name)))

    def offsets_settings(self) -> TopicDefinition:
        """Return what the offsets topic is made with."""
        return TopicDefinition(self.config.writing.offsets_partitions, OFFSETS_SETTINGS)

    def ensure_offsets_topic(self) -> int:
        """Make the offsets topic if there is none; return its partitions."""
        topic = offsets_topic(self.name)
        count = len(self._ensure_topic(topic, self.offsets_settings()))
        check_partitions(topic, count)
        return count

    def ensure_shared_topic(self) -> list[TopicPartition]:
        """Make the topic of copies if it is wanted and missing; return its partitions."""
        topic = self.config.writing.shared_offsets_topic
        return [] if topic is None else self._ensure_topic(topic, SHARED_SETTINGS)

    def _ensure_topic(self, topic: str, settings: TopicDefinition) -> list[TopicPartition]:
        partitions = self.log.partitions(topic)
        if partitions:
            return partitions
        self.admin.create({topic: settings}, self.config.target.replication_factor)
        for _ in range(SEEN_WITHIN):
            # A topic that was made just now is not known to every broker at once.
            partitions = self.log.partitions(topic)
            if partitions:
                break
            self.clock.sleep(1.0)
        return partitions

    def control(self, partitions: int) -> JobControl:
        """Return what reads and changes the job's record."""
        # The last partition has the job's record alone; the offsets are in those before it.
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
        return self._chosen(self.source.partitions())

    def vanished(
        self, sources: Collection[SourcePartition], offsets: Mapping[SourcePartition, StoredOffset]
    ) -> dict[SourcePartition, int]:
        """Return the offsets of source partitions that the archive had, and not any more.

        ``sources`` are those that it has, ``offsets`` all that the job has committed.
        """
        gone = self._chosen(sorted(offsets.keys() - set(sources)))
        return {source: offsets[source].next_offset for source in gone}

    def _chosen(self, sources: Iterable[SourcePartition]) -> list[SourcePartition]:
        source = self.config.source
        wanted, numbers = wanted_topics(source), source.partitions
        return [
            candidate
            for candidate in sources
            if wanted(candidate.topic) and (not numbers or candidate.partition in numbers)
        ]

    def routing(self) -> Routing:
        """Return the router over the target's topics as they are now."""
        source, target = self.config.source, self.config.target
        topics = {self.target_name(archived_source.topic) for archived_source in self.sources()}
        # Messages written there would be between the job's offsets, and be compacted with them.
        own = self.own_topics & topics
        if own:
            raise ConfigurationError(
                f"target.topic names {', '.join(own)}, where the job's offsets are: a job"
                " may write to any topic but this one"
            )
        return Routing(
            template=target.topic,
            partitions=self.log.counts(sorted(topics)),
            partitioning=target.partitioning,
            mapping=target.mapping,
            ranges=ranges_of(source),
            since=None if source.since is None else first_millisecond(source.since),
            until=None if source.until is None else first_millisecond(source.until),
            row_filter=plugin_method(source.filter, "keep"),
            transform=plugin_method(source.transform, "transform"),
            provenance=self.config.writing.provenance,
            schema_ids=self.schema_ids,
        )

    def with_schema_ids(self, ids: SchemaIds) -> Job:
        """Return the job that writes other ids, which is another spec: they must not be mixed."""
        new = {str(old): number for old, number in sorted(ids.new.items())}
        settings = {**self.spec.settings, "schema_ids": new}
        return replace(self, spec=replace(self.spec, settings=settings), schema_ids=ids)

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


@contextmanager
def open_job(config: RestoreConfig) -> Iterator[Job]:
    """Connect to the archive and the target.  Raises ``SecorError``."""
    options = brokers_options(config.kafka)
    with ExitStack() as opened:
        store = reach_store(config.store, connections=CONNECTIONS)
        source = source_of(config, store)
        transactional = config.writing.exactly_once == "required"
        with report_while_slow(kafka_server(config.kafka)):
            requests = KafkaTransactions(options) if transactional else KafkaIdempotence(options)
        opened.callback(requests.close)
        copy_requests = None
        if config.writing.shared_offsets_topic is not None:
            copy_requests = KafkaIdempotence(options)
            opened.callback(copy_requests.close)
        reader = KafkaReader(options)
        opened.callback(reader.close)
        admin = TopicAdmin(options)
        opened.callback(admin.close)
        log = LockedLog(reader)
        yield Job(
            config,
            spec_of(config),
            source,
            requests,
            log,
            admin,
            SystemClock(),
            partial(kept_topic, store, config),
            copy_requests,
            partial(described_topics, store, config),
        )
