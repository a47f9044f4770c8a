"""Markers of transactions that a broker has lost, on a real one: Kafka's own consumer judges."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import NewTopic

from secor.adapters.kafka.transactions import KafkaTransactions
from secor.core.clock import SystemClock
from secor.core.model import TopicPartition
from secor.core.transactions import BrokerCode
from secor.restore.offsets import record
from secor.restore.writer.model import WriterLimits
from secor.restore.writer.writer import TransactionalWriter
from secor.wire.encoding import BatchProducer, encode_batch
from tests.integration.wiped_broker import WipedBroker

TARGET = TopicPartition("clicks", 1)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WipedBroker]:
    # A leader then takes a batch of a transaction that its coordinator knows nothing of: that is
    # how a log looks whose marker was lost.
    broker = WipedBroker(tmp_path / "broker", {"transaction.partition.verification.enable": False})
    [made] = broker.admin.create_topics([NewTopic("clicks", 2)]).values()
    made.result()
    yield broker
    broker.end()


@pytest.mark.parametrize("version", [1, 2])
def test_a_writer_ends_what_a_lost_marker_left_open(broker: WipedBroker, version: int) -> None:
    options = {"bootstrap_servers": broker.address}
    requests = KafkaTransactions(options, version=version)
    for commit in (False, True):
        name = f"id-{commit}"
        leave_open(options, name, b"before")
        writer = writer_of(requests, name)
        writer.initialise()
        [first] = writer.open_transactions([TARGET, TopicPartition("clicks", 0)]).values()
        assert first == end_of(broker) - 1
        writer.end_lost([TARGET], commit=commit)
        # The markers may come a moment after the answer.
        for _ in range(100):
            if not writer.open_transactions([TARGET]):
                break
        assert writer.open_transactions([TARGET]) == {}
        writer.begin()
        writer.write(TARGET, message(b"after"))
        writer.commit()
    assert consumed(broker) == [b"after", b"before", b"after"]


def leave_open(options: dict[str, str], name: str, value: bytes) -> None:
    requests = KafkaTransactions(options, version=1)
    # The broker makes the topic of its coordinator when it is first asked.
    while (identity := requests.init_producer_id(name, 60.0, wait=30.0).identity) is None:
        time.sleep(0.1)
    producer = BatchProducer(identity.producer_id, identity.epoch, 0, transactional=True)
    batch = encode_batch(message(value), codec=0, producer=producer)
    assert requests.produce(name, TARGET, batch, wait=30.0)().code is BrokerCode.NONE
    requests.close()


def message(value: bytes) -> pa.RecordBatch:
    return record(b"key", value, 1_767_225_600_000)


def writer_of(requests: KafkaTransactions, name: str) -> TransactionalWriter:
    return TransactionalWriter(
        requests, name, clock=SystemClock(), rng=random.Random(1), limits=WriterLimits()
    )


def end_of(broker: WipedBroker) -> int:
    with consumer_of(broker, "read_uncommitted") as consumer:
        _, end = consumer.get_watermark_offsets(Position(*_place()), timeout=30.0)
    return int(end)


def consumed(broker: WipedBroker) -> list[bytes | None]:
    values = []
    with consumer_of(broker, "read_committed") as consumer:
        consumer.assign([Position(*_place(), 0)])
        while (message := consumer.poll(30.0)) is not None and message.error() is None:
            values.append(message.value())
    return values


def consumer_of(broker: WipedBroker, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "judge",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )


def _place() -> tuple[str, int]:
    return TARGET.topic, TARGET.partition
