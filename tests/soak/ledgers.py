"""Producers that number their messages and note the fate of each; and what a topic must hold.

They are librdkafka's: neither encoder nor transactions are those under test.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.soak.restored import Row, committed

_TICK = 0.2
_PATIENCE = 20.0
_METADATA = 5.0
"""Seconds after which the producer knows of a new partition: it asks every second."""
_ALL_TIMES = "300000"

Partition = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class NumberedTopic:
    """A topic, and how it is written; ``keys`` where it is compacted."""

    name: str
    partitions: int
    messages: int
    keys: int | None = None
    transactional: bool = False

    @property
    def settings(self) -> dict[str, str]:
        """What it is made with."""
        if not self.keys:
            return {"retention.ms": "604800000"}
        return {
            "cleanup.policy": "compact",
            "segment.ms": "3000",
            "min.cleanable.dirty.ratio": "0.01",
        }


NUMBERED = (
    NumberedTopic("soak.plain", 2, 120),
    NumberedTopic("soak_transactions", 3, 120, transactional=True),
    NumberedTopic("soak-compacted", 2, 80, keys=40),
)


@dataclass(slots=True)
class Noted:
    """A message: ``there`` once the broker has said so, ``possible`` while nobody knows."""

    timestamp: int
    there: bool = False
    possible: bool = True
    offset: int = -1


@dataclass(slots=True)
class Ledger:
    """All messages by partition and number; threads may share it."""

    noted: dict[Partition, dict[int, Noted]] = field(default_factory=dict)
    numbers: dict[Partition, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, partition: Partition, *, possible: bool) -> tuple[int, Noted]:
        """Note a message that is about to be sent."""
        with self.lock:
            number = self.numbers.get(partition, 0)
            self.numbers[partition] = number + 1
            message = Noted(int(time.time() * 1000), possible=possible)
            self.noted.setdefault(partition, {})[number] = message
        return number, message

    def archived_up_to(self, ends: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the highest number below each offset; without partitions of which none is."""
        return {
            partition: max(numbers)
            for partition, end in ends.items()
            if (
                numbers := [
                    number
                    for number, message in self.noted.get(partition, {}).items()
                    if message.there and 0 <= message.offset < end
                ]
            )
        }

    def keep(self, partition: Partition, numbers: Iterable[int]) -> None:
        """Forget the messages that are lost."""
        noted = self.noted.get(partition, {})
        self.noted[partition] = {number: noted[number] for number in numbers}
        for message in self.noted[partition].values():
            message.there, message.possible, message.offset = True, True, -1


def content(topic: NumberedTopic, partition: int, number: int) -> tuple[bytes, bytes, str]:
    """Return key, value and a header's value, which follow from the number."""
    rng = random.Random(f"{topic.name}/{partition}/{number}")
    key = b"key-%d" % rng.randrange(topic.keys or 1000)
    value = f"{topic.name}/{partition}/{number}/".encode() + rng.randbytes(rng.randrange(200))
    return key, value, f"{number:x}"


def number_of(value: bytes | None) -> int:
    """Return the number of a message."""
    assert value is not None
    return int(value.split(b"/", 3)[2])


def expected_row(topic: NumberedTopic, partition: int, number: int, timestamp: int) -> Row:
    """Return what a reader must find."""
    key, value, header = content(topic, partition, number)
    return timestamp, key, value, (("number", header.encode()),)


class NumberedWriter:
    """One producer in a thread of its own, until it is told to stop or the broker is gone."""

    def __init__(self, kafka: str, topic: NumberedTopic, ledger: Ledger, seed: str) -> None:
        self.topic = topic
        self.partitions = topic.partitions
        self.failure: BaseException | None = None
        self._kafka = kafka
        self._ledger = ledger
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=topic.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; what is on its way stays in doubt."""
        self._stop.set()
        self._thread.join()

    def widen(self) -> None:
        """Add a partition to the topic, and write to it from now on."""
        admin = AdminClient({"bootstrap.servers": self._kafka})
        wanted = NewPartitions(self.topic.name, self.partitions + 1)
        admin.create_partitions([wanted])[self.topic.name].result(_PATIENCE)
        time.sleep(_METADATA)
        self.partitions += 1

    def _run(self) -> None:
        try:
            producer = self._open()
            while not self._stop.wait(_TICK):
                self._transaction(producer) if self.topic.transactional else self._send(producer)
            producer.purge()
        except KafkaException:
            if not self._stop.wait(_PATIENCE):
                raise  # Nobody has killed the broker.
        except BaseException as error:
            self.failure = error
            raise

    def _open(self) -> Producer:
        settings: dict[str, str | int | float | bool | None] = {
            "bootstrap.servers": self._kafka,
            "log_level": 0,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "message.timeout.ms": _ALL_TIMES,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        if self.topic.transactional:
            settings |= {"transactional.id": self.topic.name, "message.timeout.ms": "30000"}
        producer = Producer(settings)
        if self.topic.transactional:
            producer.init_transactions(_PATIENCE)
        return producer

    def _send(self, producer: Producer) -> list[Noted]:
        sent = []
        for _ in range(self._rng.randrange(self.topic.messages)):
            partition = self._rng.randrange(self.partitions)
            place = self.topic.name, partition
            number, message = self._ledger.next(place, possible=not self.topic.transactional)
            key, value, header = content(self.topic, partition, number)
            producer.produce(
                self.topic.name,
                key=key,
                value=value,
                headers=[("number", header)],
                partition=partition,
                timestamp=message.timestamp,
                on_delivery=_noting(message, is_final=not self.topic.transactional),
            )
            sent.append(message)
        producer.poll(0)
        return sent

    def _transaction(self, producer: Producer) -> None:
        producer.begin_transaction()
        sent = self._send(producer)
        if self._rng.random() < 0.1:
            self._stop.wait(self._rng.uniform(0.5, 2))
        producer.flush(_PATIENCE)
        if self._rng.random() < 0.2:
            producer.abort_transaction(_PATIENCE)
            return
        for message in sent:
            message.possible = True
        producer.commit_transaction(_PATIENCE)
        for message in sent:
            message.there = True


def _noting(message: Noted, *, is_final: bool) -> Callable[[object, Message], None]:
    def delivered(error: object, answer: Message) -> None:
        if error is None:
            message.offset = answer.offset() or 0
            message.there = message.there or is_final

    return delivered


def judge(
    kafka: str, topic: NumberedTopic, partition: int, ledger: Ledger, least: int | None
) -> tuple[list[int], list[str]]:
    """Read a partition; return the numbers that are there, and what is wrong with them.

    ``least`` is the highest number that must be there, with all before.  Of a compacted topic a
    message may be missing if there is a later one with its key.
    """
    faults: list[str] = []
    found: list[int] = []
    noted = ledger.noted.get((topic.name, partition), {})
    where = f"{topic.name}/{partition}"
    for row in committed(kafka, topic.name, partition):
        number = number_of(row[2])
        message = noted.get(number)
        if found and number <= found[-1]:
            faults.append(f"{where}: number {number} comes after {found[-1]}")
        if message is None or not message.possible:
            faults.append(f"{where}: number {number} was lost before or never committed")
        elif row != expected_row(topic, partition, number, message.timestamp):
            faults.append(f"{where}: number {number} is changed: {row!r:.200}")
        found.append(number)
    last = max([*found[-1:], *([] if least is None else [least])], default=-1)
    missing = {
        number for number, message in noted.items() if message.there and number <= last
    }.difference(found)
    if topic.keys:
        missing -= _superseded(topic, partition, found, missing)
    if missing:
        faults.append(f"{where}: {len(missing)} are missing, such as number {min(missing)}")
    return found, faults


def _superseded(
    topic: NumberedTopic, partition: int, found: Sequence[int], missing: Iterable[int]
) -> set[int]:
    newest: dict[bytes, int] = {}
    for number in found:
        newest[content(topic, partition, number)[0]] = number
    return {
        number
        for number in missing
        if newest.get(content(topic, partition, number)[0], -1) > number
    }


def make_topics(kafka: str) -> None:
    """Make the topics of the run."""
    from confluent_kafka.admin import NewTopic

    admin = AdminClient({"bootstrap.servers": kafka})
    wanted = [
        NewTopic(topic.name, topic.partitions, replication_factor=1, config=topic.settings)
        for topic in NUMBERED
    ]
    for made in admin.create_topics(wanted).values():
        made.result(_PATIENCE)


def purge_quietly(producers: Iterable[NumberedWriter]) -> list[str]:
    """Stop all; return what ended any of them by itself."""
    faults = []
    for writer in producers:
        with suppress(KafkaException):
            writer.stop()
        if writer.failure is not None:
            faults.append(f"writer of {writer.topic.name}: {writer.failure!r}")
    return faults
