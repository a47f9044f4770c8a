"""``python -m tools.bench.producers CLIENT KAFKA TOPIC CODEC MESSAGES PARTITIONS``.

Writes the messages of ``archive`` with another client, in transactions, and prints the seconds
that it took.  They are made before the clock starts, so that only the client is measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress

from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import TopicAlreadyExistsError

from tools.bench.fill import BATCH_MESSAGES, FIRST_TIMESTAMP, create_topic, values

IN_A_TRANSACTION = 100_000
_PATIENCE = 60.0


def transactions(messages: int) -> Iterator[range]:
    """Give the numbers of each transaction's messages."""
    for start in range(0, messages, IN_A_TRANSACTION):
        yield range(start, min(start + IN_A_TRANSACTION, messages))


def with_kafka_python(
    kafka: str, topic: str, codec: str, messages: int, partitions: int, block: list[bytes]
) -> float:
    """Write with ``KafkaProducer``; return seconds."""
    producer = KafkaProducer(
        bootstrap_servers=kafka,
        transactional_id=topic,
        compression_type=None if codec == "none" else codec,
        batch_size=1_000_000,
        max_request_size=1_048_576,
        linger_ms=50,
    )
    producer.init_transactions()
    began = time.monotonic()
    for numbers in transactions(messages):
        producer.begin_transaction()
        for number in numbers:
            producer.send(
                topic,
                value=block[number % len(block)],
                partition=number // BATCH_MESSAGES % partitions,
                timestamp_ms=FIRST_TIMESTAMP + number,
            )
        producer.flush()
        producer.commit_transaction()
    seconds = time.monotonic() - began
    producer.close()
    return seconds


def with_librdkafka(
    kafka: str, topic: str, codec: str, messages: int, partitions: int, block: list[bytes]
) -> float:
    """Write with confluent-kafka; return seconds."""
    producer = Producer(
        {
            "bootstrap.servers": kafka,
            "transactional.id": topic,
            "compression.type": codec,
            "batch.size": 1_000_000,
            "linger.ms": 50,
            "queue.buffering.max.messages": 2 * IN_A_TRANSACTION,
        }
    )
    producer.init_transactions(_PATIENCE)
    began = time.monotonic()
    for numbers in transactions(messages):
        producer.begin_transaction()
        for number in numbers:
            producer.produce(
                topic,
                value=block[number % len(block)],
                partition=number // BATCH_MESSAGES % partitions,
                timestamp=FIRST_TIMESTAMP + number,
            )
        producer.commit_transaction(_PATIENCE)
    return time.monotonic() - began


def main() -> None:
    """Write, and print how long it took."""
    client, kafka, topic, codec, messages, partitions = sys.argv[1:]
    with suppress(TopicAlreadyExistsError):
        create_topic(kafka, topic, int(partitions))
    block = [value for seed in range(20) for value in values(BATCH_MESSAGES, seed)]
    write = with_kafka_python if client == "kafka-python" else with_librdkafka
    print(write(kafka, topic, codec, int(messages), int(partitions), block))


if __name__ == "__main__":
    main()
