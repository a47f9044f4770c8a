"""What the tests of Kafka need: topics, messages, and a receiver of a source's events."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

from secor.adapters.kafka import KafkaSource
from secor.core.model import TopicPartition
from secor.core.ports import Assigned, Event, Fetched, ReadFailure, Revoked

PATIENCE = 120.0
"""Seconds to wait for what must come; on an idle machine it takes one."""
_NUMBERS = itertools.count()


class Broker:
    """A running broker, as the tests use it."""

    def __init__(self, address: str) -> None:
        self.options: dict[str, Any] = {"bootstrap_servers": [address]}

    @contextmanager
    def admin(self) -> Iterator[Any]:
        client = KafkaAdminClient(**self.options)
        try:
            yield client
        finally:
            client.close()

    @contextmanager
    def producer(self, **settings: Any) -> Iterator[Any]:
        client = KafkaProducer(**self.options, **settings)
        try:
            yield client
        finally:
            client.close()

    def name(self, prefix: str) -> str:
        """Return a name that no other test has."""
        return f"{prefix}-{time.time_ns()}-{next(_NUMBERS)}"

    def topic(self, prefix: str = "topic", *, partitions: int = 1, name: str | None = None) -> str:
        topic = name or self.name(prefix)
        with self.admin() as admin:
            admin.create_topics([NewTopic(topic, partitions, 1)])
        return topic

    def delete(self, topic: str) -> None:
        with self.admin() as admin:
            admin.delete_topics([topic])

    def produce(self, topic: str, values: Sequence[bytes], *, partition: int = 0, **s: Any) -> None:
        with self.producer(**s) as producer:
            for value in values:
                producer.send(topic, value, partition=partition)
            producer.flush()

    def transaction(self, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        with self.producer(transactional_id=self.name("transactions")) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for value in values:
                producer.send(topic, value, partition=0)
            producer.flush()
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()

    @contextmanager
    def open_transaction(self, topic: str, values: Sequence[bytes], name: str) -> Iterator[Any]:
        """Give the producer of a transaction that goes on; the broker would wait ten minutes."""
        with self.producer(transactional_id=name, transaction_timeout_ms=600_000) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for value in values:
                producer.send(topic, value, partition=0)
            producer.flush()
            yield producer

    def forget(self, topic: str, below: int) -> None:
        """Move the log's start."""
        with self.admin() as admin:
            admin.delete_records({KafkaTopicPartition(topic, 0): below})

    def expel(self, group: str) -> None:
        """Take all members out of the group, as the end of their sessions would."""
        with self.admin() as admin:
            found = admin.describe_groups([group])
            members = [
                SimpleNamespace(member_id=member["member_id"], group_instance_id=None, reason=None)
                for member in _members(found, group)
            ]
            assert members
            admin.remove_group_members(group, members)

    def commit(self, group: str, where: TopicPartition, offset: int, metadata: str) -> None:
        """Commit as any other program would."""
        consumer = KafkaConsumer(**self.options, group_id=group, enable_auto_commit=False)
        key = KafkaTopicPartition(where.topic, where.partition)
        try:
            consumer.assign([key])
            consumer.commit({key: OffsetAndMetadata(offset, metadata, -1)})
        finally:
            consumer.close()

    def source(self, group: str, topics: Sequence[str] = (), **settings: Any) -> KafkaSource:
        defaults: dict[str, Any] = {
            "heartbeat_interval": 0.3,
            "session_timeout": 6.0,
            "metadata_max_age": 0.5,
        }
        return KafkaSource(self.options, group=group, topics=topics, **{**defaults, **settings})


def _members(found: Any, group: str) -> list[Any]:
    described = found[group] if isinstance(found, dict) else found[0]
    members: list[Any] = described["members"]
    return members


class Receiver:
    """Takes a source's events; starts what is assigned at ``begin`` (None: by hand)."""

    def __init__(self, source: KafkaSource, begin: int | None = 0) -> None:
        self.source = source
        self.begin = begin
        self.owned: set[TopicPartition] = set()
        self.events: list[Event] = []
        self.failures: list[ReadFailure] = []
        self.values: dict[TopicPartition, list[bytes | None]] = defaultdict(list)
        self.offsets: dict[TopicPartition, list[int]] = defaultdict(list)
        self.reached: dict[TopicPartition, int] = {}

    def step(self, timeout: float = 0.05) -> None:
        for event in self.source.poll(timeout):
            self.events.append(event)
            self._handle(event)

    def until(self, done: Callable[[], bool], patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not done():
            assert time.monotonic() < deadline, f"waited {patience} s; events: {self.events[-9:]}"
            self.step()

    def for_a_while(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.step()

    def start(self, topic_partition: TopicPartition, offset: int) -> None:
        self.values.pop(topic_partition, None)
        self.offsets.pop(topic_partition, None)
        self.reached.pop(topic_partition, None)
        self.source.start(topic_partition, offset)

    def _handle(self, event: Event) -> None:
        match event:
            case Assigned(partitions):
                self.owned |= partitions
                if self.begin is not None:
                    for topic_partition in partitions:
                        self.start(topic_partition, self.begin)
            case Revoked(partitions):
                assert partitions <= self.owned
                self.owned -= partitions
            case ReadFailure():
                self.failures.append(event)
            case Fetched(topic_partition):
                assert topic_partition in self.owned
                for chunk in event.chunks():
                    records = chunk.records
                    self.values[topic_partition] += records.column("value").to_pylist()
                    self.offsets[topic_partition] += records.column("offset").to_pylist()
                    self.reached[topic_partition] = chunk.next_offset


def together(receivers: Sequence[Receiver], done: Callable[[], bool]) -> float:
    """Let all receive until ``done``; return the seconds it took."""
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < PATIENCE, [r.events[-5:] for r in receivers]
        for receiver in receivers:
            receiver.step(0.01)
    return time.monotonic() - began
