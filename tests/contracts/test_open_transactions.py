"""Open transactions of a real broker: where their logs end, and who holds them open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.record.default_records import DefaultRecordBatchBuilder

from secor.adapters.kafka import KafkaReader
from secor.adapters.kafka.transactions import KafkaTransactions
from secor.core.model import OpenTransaction, TopicPartition
from secor.core.transactions import IdentityAnswer, ProducerIdentity
from secor.sandbox.kafka import NODE_ID
from tests.contracts.kafka_group import Broker, Receiver
from tests.integration.daemons import wait_until

if TYPE_CHECKING:
    from secor.sandbox import Sandbox

COUNT = 500
PATIENCE = 30.0


@pytest.fixture(scope="module")
def broker(sandbox: Sandbox) -> Broker:
    return Broker(sandbox.kafka)


@pytest.fixture
def reader(broker: Broker) -> Iterator[KafkaReader]:
    with closing(KafkaReader(broker.options)) as reader:
        yield reader


@contextmanager
def without_verification(broker: Broker) -> Iterator[None]:
    """Let the broker take parts of transactions that their coordinator does not know of.

    That is what brokers before 3.6 did, and what leaves transactions hanging.
    """
    name = "transaction.partition.verification.enable"

    def change(value: str) -> None:
        with broker.admin() as admin:
            resource = ConfigResource(
                ConfigResourceType.BROKER, str(NODE_ID), configs={name: value}
            )
            admin.alter_configs([resource])

    change("false")
    try:
        yield
    finally:
        change("true")


def identity_of(requests: KafkaTransactions, name: str) -> ProducerIdentity:
    """Return an identity; the first coordinator of a cluster takes a while to begin."""
    answers: list[ProducerIdentity] = []

    def asked() -> bool:
        answer = requests.init_producer_id(name, 60.0, wait=PATIENCE)
        if isinstance(answer, IdentityAnswer) and answer.identity is not None:
            answers.append(answer.identity)
        return bool(answers)

    wait_until(asked, f"an identity for {name}")
    return answers[0]


def leave_hanging(broker: Broker, where: TopicPartition, name: str) -> None:
    """Send a message of a transaction that its coordinator never hears of."""
    with closing(KafkaTransactions(broker.options, version=1)) as requests:
        identity = identity_of(requests, name)
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=1,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=0,
            batch_size=1 << 20,
        )
        builder.append(0, int(time.time() * 1000), None, b"left behind", [])
        answer = requests.produce(name, where, bytes(builder.build()), wait=PATIENCE)()
        assert answer.code == 0, answer


def test_both_ends_of_a_log_and_the_transaction_between_them(
    broker: Broker, reader: KafkaReader
) -> None:
    topic, name = broker.topic(), broker.name("writer")
    where = TopicPartition(topic, 0)
    broker.produce(topic, [b"before"])
    sent, began = [b"%d" % number for number in range(COUNT)], time.time()
    with broker.open_transaction(topic, sent, name) as producer:
        log_range = reader.log_range(where)
        assert (log_range.end, log_range.last, log_range.withheld) == (1, 1 + COUNT, COUNT)
        assert reader.ends([where]) == {where: 1}
        assert reader.high_watermarks([where]) == {where: 1 + COUNT}
        transaction = reader.open_transactions([where])[where]
        with broker.admin() as admin:
            described = admin.describe_transactions([name])[name]
        assert transaction.producer_id == described.producer_id
        assert transaction.since == described.transaction_start_time_ms / 1000
        assert (transaction.transactional_id, transaction.start_offset) == (name, 1)
        assert transaction.since == pytest.approx(began, abs=PATIENCE)
        assert not transaction.hanging
        values = [
            value
            for chunk in reader.read_uncommitted(where, 1, 1 + COUNT)
            for value in chunk.records.column("value").to_pylist()
        ]
        assert values == sent
        producer.abort_transaction()
    wait_until(lambda: reader.log_range(where).end == 2 + COUNT, "the marker")
    assert reader.log_range(where).withheld == 0
    assert reader.open_transactions([where]) == {}


def test_reading_may_begin_between_both_ends_and_waits_there(broker: Broker) -> None:
    """Java Secor and Kafka's own tools commit beyond the last stable offset."""
    topic = broker.topic()
    where = TopicPartition(topic, 0)
    sent = [b"%d" % number for number in range(10)]
    with (
        broker.open_transaction(topic, sent, broker.name("writer")) as producer,
        closing(broker.source(broker.name("group"), [topic])) as source,
    ):
        assert source.log_range(where).last == len(sent)
        got = Receiver(source, begin=6)
        got.until(lambda: source.withheld(where) is not None)
        got.for_a_while(1.0)
        assert (got.failures, got.values[where], source.known_end(where)) == ([], [], 0)
        producer.commit_transaction()
        got.until(lambda: got.reached.get(where) == len(sent) + 1)
        assert (got.failures, got.values[where]) == ([], sent[6:])
        assert source.withheld(where) is None


def test_a_transaction_that_its_coordinator_does_not_have_is_hanging(
    broker: Broker, reader: KafkaReader
) -> None:
    topic, name = broker.topic(), broker.name("gone")
    where = TopicPartition(topic, 0)
    with without_verification(broker):
        leave_hanging(broker, where, name)
    transaction = reader.open_transactions([where])[where]
    assert isinstance(transaction, OpenTransaction)
    assert (transaction.transactional_id, transaction.start_offset) == (name, 0)
    assert transaction.hanging
    assert str(transaction).startswith(f"a hanging transaction (transactional id {name!r}")
    assert reader.log_range(where).withheld == 1
