"""Messages for a restore, and a reader that knows nothing of Secor to compare them with.

Both are librdkafka's: neither encoder, decoder nor transactions are those under test.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Timestamp in milliseconds, key, value, headers."""

_A_ROUND = 500
_PATIENCE = 60.0
_OLDEST, _NEWEST = 1_600_000_000_000, 1_750_000_000_000


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """A topic of the run and the format in which it is archived."""

    name: str
    partitions: int
    format: str


ARCHIVED = (
    ArchivedTopic("soak-sequence", 4, "sequencefile"),
    ArchivedTopic("soak-parquet", 3, "parquet"),
)


def write(kafka: str, topic: ArchivedTopic, messages: int, rng: random.Random) -> None:
    """Write messages of every shape in transactions, some of which are aborted: gaps.

    Raises ``KafkaException``.
    """
    producer = Producer(
        {
            "bootstrap.servers": kafka,
            "transactional.id": f"writer-{topic.name}",
            "compression.type": "lz4",
            "queue.buffering.max.messages": 10 * _A_ROUND,
        }
    )
    producer.init_transactions(_PATIENCE)
    written = 0
    while written < messages:
        producer.begin_transaction()
        for _ in range(_A_ROUND):
            _send(producer, topic, rng)
        producer.flush(_PATIENCE)
        if rng.random() < 0.1:
            producer.abort_transaction(_PATIENCE)
        else:
            producer.commit_transaction(_PATIENCE)
            written += _A_ROUND


def _send(producer: Producer, topic: ArchivedTopic, rng: random.Random) -> None:
    keys = [None, b"", b"\xff\x00", b"key-%d" % rng.randrange(1000)]
    value = rng.choice([None, b"", rng.randbytes(rng.randrange(300)), b'{"number": 1}' * 20])
    headers: list[tuple[str, bytes | None]] = [
        (rng.choice(["n", "", "né"]), rng.choice([None, b"", b"\xfe"]))
        for _ in range(rng.choice([0, 0, 0, 1, 2, 5]))
    ]
    if rng.random() < 0.0005:
        value = rng.randbytes(300_000)
    producer.produce(
        topic.name,
        value=value,
        key=rng.choice(keys),
        headers=headers,
        partition=rng.randrange(topic.partitions),
        timestamp=rng.randrange(_OLDEST, _NEWEST),
    )


def compare(kafka: str, topic: str, copy: str, partitions: int) -> tuple[int, list[str]]:
    """Compare the committed messages of two topics, partition by partition, in order.

    Returns how many were equal, and a sentence for each partition that differs.
    """
    equal, faults = 0, []
    for partition in range(partitions):
        originals = committed(kafka, topic, partition)
        copies = committed(kafka, copy, partition)
        for original in originals:
            restored = next(copies, None)
            if restored != original:
                what = "ends early" if restored is None else f"has {_brief(restored)}"
                faults.append(f"{copy}/{partition} {what} instead of {_brief(original)}")
                break
            equal += 1
        else:
            extra = next(copies, None)
            if extra is not None:
                faults.append(f"{copy}/{partition} goes on with {_brief(extra)}")
    return equal, faults


def _brief(row: Row) -> str:
    return repr(row)[:200]


def committed(kafka: str, topic: str, partition: int) -> Iterator[Row]:
    """Give what a read-committed consumer sees, from the beginning to the end."""
    return (row for _, row in committed_with_offsets(kafka, topic, partition))


def committed_with_offsets(kafka: str, topic: str, partition: int) -> Iterator[tuple[int, Row]]:
    """Give what a read-committed consumer sees, each with its offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "soak-compare",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    with closing(consumer):
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(_PATIENCE)
            assert message is not None, f"{topic}/{partition}: nothing came for {_PATIENCE:.0f} s"
            fault = message.error()
            if fault is None:
                yield message.offset(), _row(message)
            elif fault.code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise AssertionError(f"{topic}/{partition}: {fault}")


def _row(message: Message) -> Row:
    headers = tuple((name, value) for name, value in message.headers() or [])
    return message.timestamp()[1], message.key(), message.value(), headers
