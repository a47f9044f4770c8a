"""Copies of quarantined messages for a topic of their own."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
from kafka import errors as kafka_errors

from secor.adapters.kafka.client import Client, to_client
from secor.adapters.kafka.failures import is_fatal
from secor.adapters.kafka.insides import DefaultRecordBatchBuilder, ProduceRequest, murmur2
from secor.core.errors import Unavailable
from secor.core.model import TopicPartition
from secor.core.text import error_text

SOURCE_HEADER = "secor-source"
"""The last header of a copy: ``topic/partition/offset``."""

BATCH_BYTES = 900 << 10
"""Bytes of a batch, below what brokers take by default; a larger message has one of its own."""

_RETRY = 0.2
_LATEST = 12
_ALL_REPLICAS = -1

Message = tuple[int | None, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Timestamp in milliseconds, key, value, headers."""


class DeadLetters:
    """Produces messages and waits until the brokers have them.

    The client's producer refuses messages without key and value, and headers without a value,
    which brokers deliver; so requests are made here.  Called from the threads that upload.
    Each ``send`` connects anew.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        timeout: float = 30.0,
        connect: Callable[..., Any] = Client,
    ) -> None:
        """``options`` are kafka-python's; ``timeout`` in seconds is for one batch."""
        self._options = options
        self._timeout = timeout
        self._connect = connect

    def send(self, topic: str, source: TopicPartition, batches: Iterable[pa.RecordBatch]) -> int:
        """Produce the messages to ``topic``; return how many.

        Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``: some of them may be
        there, and may not.
        """
        client = self._connect(self._options, timeout=self._timeout, topics=[topic], group_id=None)
        try:
            sent = 0
            for batch in batches:
                messages = [_message(row, source) for row in batch.to_pylist()]
                client.call(
                    _produce_all,
                    client,
                    topic,
                    messages,
                    source.partition,
                    self._timeout,
                    timeout=(2 + len(messages)) * self._timeout,
                    what=f"{topic}: copies of messages of {source}",
                )
                sent += len(messages)
        finally:
            client.close()
        return sent


def record_batches(messages: Iterable[Message]) -> list[bytes]:
    """Return the messages in batches of format v2, each with all that it was given."""
    made: list[bytes] = []
    builder, count = _builder(), 0
    for message in messages:
        # The builder refuses what has no room, but never its first message.
        if builder.append(count, *message) is None:
            made.append(bytes(builder.build()))
            builder, count = _builder(), 0
            builder.append(count, *message)
        count += 1
    return [*made, bytes(builder.build())] if count else made


def _builder() -> Any:
    """Begin a batch without codec and producer id."""
    # No producer id: a batch that is sent twice is there twice, which copies may be.
    return DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=BATCH_BYTES,
    )


async def _produce_all(
    client: Client, topic: str, messages: list[Message], source: int, timeout: float
) -> None:
    """Send each message to the partition of its key, or of its source."""
    count = len(client.cluster.partitions_for_topic(topic) or ())
    if not count:
        raise Unavailable(f"the dead-letter topic {topic} does not exist, or may not be described")
    parts: dict[int, list[Message]] = defaultdict(list)
    for message in messages:
        key = message[1]
        # As Java's producer places keys: copies of a key come into the partition where its own
        # messages would.
        number = source if key is None else murmur2(key) & 0x7FFFFFFF
        parts[number % count].append(message)
    refused: list[str] = []
    for partition, part in parts.items():
        for records in record_batches(part):
            try:
                await _produce(client, TopicPartition(topic, partition), records, timeout)
            except kafka_errors.KafkaError as error:
                if is_fatal(error):
                    raise
                # One that is too large keeps none of the others back.
                refused.append(error_text(error))
    if refused:
        raise Unavailable(f"{topic}: {len(refused)} batches of messages were refused: {refused[0]}")


async def _produce(client: Client, where: TopicPartition, records: bytes, timeout: float) -> None:
    """Send one batch until it is there; a lost answer may leave it there twice."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            leader = client.cluster.leader_for_partition(to_client(where))
            if leader in (None, -1):
                raise kafka_errors.LeaderNotAvailableError(f"{where} has no leader")
            sent = client.manager.send(_request(where, records, timeout), node_id=leader)
            answer = await client.manager.wait_for(sent, timeout * 1000)
            code = answer.responses[0].partition_responses[0].error_code
            if code:
                raise kafka_errors.for_code(code)
        except kafka_errors.RetriableError:
            if time.monotonic() >= deadline:
                raise
            # The leader may have changed: without new metadata the same broker would be asked until
            # the time is over.
            client.cluster.request_update()
            await client.net.sleep(_RETRY)
        else:
            return


def _request(where: TopicPartition, records: bytes, timeout: float) -> Any:
    topic = ProduceRequest.TopicProduceData
    part = topic.PartitionProduceData(index=where.partition, records=records)
    return ProduceRequest(
        transactional_id=None,
        acks=_ALL_REPLICAS,
        timeout_ms=int(timeout * 1000),
        topic_data=[topic(name=where.topic, partition_data=[part])],
        min_version=3,
        max_version=_LATEST,
    )


def _message(row: Mapping[str, Any], source: TopicPartition) -> Message:
    headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
    headers.append((SOURCE_HEADER, f"{source}/{row['offset']}".encode()))
    return row["timestamp"], row["key"], row["value"], headers
