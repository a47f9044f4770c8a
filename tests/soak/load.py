"""Producers that keep writing, whatever happens to the broker."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import InvalidPartitionsError, KafkaError, TopicAlreadyExistsError

PATTERN = "soak-.*"
LATE = "soak-late"
"""This topic appears in the middle of the run."""

COMPACTED_TOPIC = "soak-compacted"
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1500",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
}

Value = Callable[[random.Random, str, int], bytes | None]
"""Makes a topic's message of a number."""

_TICK = 0.25
_GIVE_UP = 20_000
_STUCK = 45.0
_TRANSACTION_TIMEOUT = 10_000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the run and how it is written: ``messages`` at most in a tick."""

    name: str
    partitions: int
    messages: int
    codec: str | None
    keys: int | None = None
    transactional: bool = False


TOPICS = (
    Topic("soak-plain", 3, 120, "lz4"),
    Topic("soak-lines", 2, 80, "gzip"),
    Topic("soak-transactions", 3, 80, None, transactional=True),
    Topic(COMPACTED_TOPIC, 3, 60, "zstd", keys=50),
    Topic(LATE, 2, 40, "lz4"),
)


def create(kafka: str, topic: Topic) -> None:
    """Create a topic."""
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    configs = COMPACTED if topic.keys else {}
    with suppress(TopicAlreadyExistsError):  # by an earlier try, whose answer was lost
        admin.create_topics(
            [NewTopic(topic.name, topic.partitions, replication_factor=1, topic_configs=configs)]
        )
    admin.close()


def plain_value(rng: random.Random, topic: str, number: int) -> bytes | None:
    """Return a message of any shape; each names its topic and its number."""
    shape = rng.random()
    if shape < 0.001:
        return rng.randbytes(200_000).replace(b"\n", b" ")
    if shape < 0.1:
        return None if shape < 0.05 else b""
    return b'{"number": %d, "topic": "%s"}' % (number, topic.encode())


class Load:
    """One writer a topic, each in a thread of its own.

    kafka-python's producer waits without end for transactions that a restarted broker forgot:
    who makes no step for long is left behind, and another takes over.
    """

    def __init__(self, kafka: str, seed: int, value: Value) -> None:
        self._kafka = kafka
        self._seed = seed
        self._value = value
        self.writers: list[Writer] = []

    def begin(self, topic: Topic) -> None:
        """Create a topic and write to it from now on."""
        create(self._kafka, topic)
        self._start(topic)

    def check(self) -> list[str]:
        """Replace writers that hang; return the names of their topics."""
        hanging = [one for one in self.writers if one.hangs(_STUCK)]
        for writer in hanging:
            writer.stop.set()
            self._start(writer.topic)
        return [writer.topic.name for writer in hanging]

    def end(self) -> list[str]:
        """Let every writer finish what it has begun; return who does not."""
        for writer in self.writers:
            writer.stop.set()
        deadline = time.monotonic() + _GIVE_UP / 1000
        for writer in self.writers:
            writer.thread.join(max(0.0, deadline - time.monotonic()))
        return [writer.topic.name for writer in self.writers if writer.thread.is_alive()]

    def widen(self, name: str) -> None:
        """Add a partition to a topic; another writer, who knows of it, takes over."""
        writer = next(it for it in self.writers if it.topic.name == name and not it.stop.is_set())
        wider = replace(writer.topic, partitions=writer.topic.partitions + 1)
        admin = KafkaAdminClient(bootstrap_servers=self._kafka)
        with suppress(InvalidPartitionsError):  # by an earlier try, whose answer was lost
            admin.create_partitions({name: wider.partitions})
        admin.close()
        writer.stop.set()
        self._start(wider)

    def _start(self, topic: Topic) -> None:
        rng = random.Random(f"{self._seed}-{topic.name}-{len(self.writers)}")
        self.writers.append(Writer(self._kafka, topic, rng, self._value))

    def numbered(self, topic: str) -> int:
        """Return how many keys have been written to a topic, at most; at least 1."""
        return (
            max([one.numbered for one in self.writers if one.topic.name == topic], default=0) or 1
        )

    @property
    def written(self) -> int:
        """Messages that the broker took; some of them in transactions that were aborted."""
        return sum(writer.written for writer in self.writers)


class Writer:
    """Writes messages of every shape; a producer that fails is replaced."""

    def __init__(self, kafka: str, topic: Topic, rng: random.Random, value: Value) -> None:
        self.topic = topic
        self.written = 0
        self.aborted = 0
        self.replaced = 0
        self.failure: BaseException | None = None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name=topic.name, daemon=True)
        self._kafka = kafka
        self._value = value
        self._rng = rng
        self._number = 0
        self._producer: Any = None
        self._step = time.monotonic()
        self.thread.start()

    @property
    def numbered(self) -> int:
        """The number of the next message."""
        return self._number

    def hangs(self, seconds: float) -> bool:
        """Tell whether it has made no step for so long though it should."""
        waits = time.monotonic() - self._step > seconds
        return waits and not self.stop.is_set() and self.thread.is_alive()

    def _run(self) -> None:
        try:
            while not self.stop.wait(_TICK):
                self._step = time.monotonic()
                self._try(self._round)
            self._close()
        except BaseException as error:
            self.failure = error
            raise

    def _try(self, write: Callable[[], object]) -> None:
        try:
            write()
        except KafkaError:
            self.replaced += 1
            self._close()

    def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.close(timeout=5)
            except KafkaError:
                self.replaced += 1

    def _round(self) -> None:
        if self._producer is None:
            self._producer = self._open()
        if not self.topic.transactional:
            self._write(self._rng.randrange(self.topic.messages))
            return
        self._producer.begin_transaction()
        self._write(self._rng.randrange(self.topic.messages))
        if self._rng.random() < 0.05:
            self.stop.wait(self._rng.uniform(2, 6))  # the position must wait for it, too
        if self._rng.random() < 0.25:
            self._producer.abort_transaction()
            self.aborted += 1
        else:
            self._producer.commit_transaction()

    def _open(self) -> Any:
        settings: dict[str, Any] = {
            "bootstrap_servers": self._kafka,
            "compression_type": self.topic.codec,
            "linger_ms": 20,
            "max_block_ms": _GIVE_UP,
            "delivery_timeout_ms": _GIVE_UP,
            "request_timeout_ms": 5000,
            "reconnect_backoff_max_ms": 1000,
            "metadata_max_age_ms": 5000,
            "allow_auto_create_topics": False,
        }
        if self.topic.transactional:
            settings["transactional_id"] = self.topic.name
            settings["transaction_timeout_ms"] = _TRANSACTION_TIMEOUT
        producer = KafkaProducer(**settings)
        if self.topic.transactional:
            producer.init_transactions()
        return producer

    def _write(self, messages: int) -> None:
        """Send; what fails is raised here, for a producer may fail for good and say nothing."""
        sent = []
        for _ in range(messages):
            key, value, headers = self._message()
            partition = min(self._rng.randrange(self.topic.partitions * 2), self._last)
            sent.append(
                self._producer.send(
                    self.topic.name, key=key, value=value, headers=headers, partition=partition
                )
            )
            self._number += 1
        self._producer.flush(_GIVE_UP / 1000)
        for one in sent:
            one.get(timeout=1)
            self.written += 1

    @property
    def _last(self) -> int:
        """The last partition gets more than the others: a flood beside a trickle."""
        return self.topic.partitions - 1

    def _message(self) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]:
        rng, number = self._rng, self._number
        key = b"key-%d" % (rng.randrange(self.topic.keys) if self.topic.keys else number)
        value = self._value(rng, self.topic.name, number)
        shape = rng.random()
        headers: list[tuple[str, bytes]] = []
        if shape > 0.9:
            headers = [("n", b"%d" % number), ("n", b"")]
        keyed = self.topic.keys or value is None or shape < 0.8
        return (key if keyed else None), value, headers
