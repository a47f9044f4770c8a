"""Copies of messages against a real broker."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from secor.adapters.kafka import KafkaReader
from secor.adapters.kafka.dead_letter_producer import DeadLetters
from secor.core.errors import Unavailable
from secor.core.model import TopicPartition
from tests.contracts.kafka_group import Broker
from tests.fakes.archive import messages

if TYPE_CHECKING:
    from secor.sandbox import Sandbox

SOURCE = TopicPartition("clicks", 3)


def odd_messages() -> pa.RecordBatch:
    plain = messages(range(4))
    rows = plain.to_pylist()
    rows[0] |= {"key": None, "value": None, "headers": []}
    rows[1] |= {"headers": [{"key": "h", "value": None}, {"key": "", "value": b""}]}
    rows[2] |= {"key": b"", "value": b""}
    rows[3] |= {"value": b"x" * 950_000}
    return pa.RecordBatch.from_pylist(rows, plain.schema)


def test_what_brokers_deliver_they_take_again(sandbox: Sandbox) -> None:
    broker = Broker(sandbox.kafka)
    topic = broker.topic("dead-letters")
    assert DeadLetters(broker.options).send(topic, SOURCE, [odd_messages()]) == 4
    where = TopicPartition(topic, 0)
    with closing(KafkaReader(broker.options)) as reader:
        chunks = list(reader.read(where, 0, reader.log_range(where).end))
    rows = [row for chunk in chunks for row in chunk.records.to_pylist()]
    expected = odd_messages().to_pylist()
    assert len(rows) == 4
    for number, (row, sent) in enumerate(zip(rows, expected, strict=True)):
        headers = list(row["headers"])
        source = headers.pop()
        assert (row["key"], row["value"]) == (sent["key"], sent["value"])
        assert row["timestamp"] == sent["timestamp"]
        assert headers == sent["headers"]
        assert source == {"key": "secor-source", "value": b"clicks/3/%d" % number}


def test_a_message_that_is_too_large_keeps_no_other_back(sandbox: Sandbox) -> None:
    broker = Broker(sandbox.kafka)
    topic = broker.topic("dead-letters")
    rows = messages(range(3)).to_pylist()
    rows[1] |= {"value": b"x" * (5 << 20)}
    batch = pa.RecordBatch.from_pylist(rows, messages([0]).schema)
    with pytest.raises(Unavailable, match="MessageSizeTooLargeError"):
        DeadLetters(broker.options).send(topic, SOURCE, [batch])
    where = TopicPartition(topic, 0)
    with closing(KafkaReader(broker.options)) as reader:
        assert reader.log_range(where).end == 2


def test_a_topic_that_does_not_exist_is_told_and_not_made(sandbox: Sandbox) -> None:
    broker = Broker(sandbox.kafka)
    topic = broker.name("nowhere")
    with pytest.raises(Unavailable, match=f"{topic} does not exist"):
        DeadLetters(broker.options).send(topic, SOURCE, [messages(range(1))])
    with closing(KafkaReader(broker.options)) as reader:
        assert topic not in reader.topics()
