"""Copies of quarantined messages for a topic of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
from kafka import KafkaProducer
from kafka import errors as kafka_errors

from secor.core.errors import Unavailable
from secor.core.model import TopicPartition

SOURCE_HEADER = "secor-source"
"""The last header of a copy: ``topic/partition/offset``."""


class DeadLetters:
    """Produces messages and waits until the brokers have them.

    Called from the threads that upload.  The connection is made with the first message.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        timeout: float = 30.0,
        producer: Callable[..., Any] = KafkaProducer,
    ) -> None:
        """``options`` are kafka-python's; ``timeout`` in seconds is for one batch."""
        self._options = {**options, "acks": "all", "max_block_ms": int(timeout * 1000)}
        self._timeout = timeout
        self._make = producer

    def send(self, topic: str, source: TopicPartition, batches: Iterable[pa.RecordBatch]) -> int:
        """Produce the messages to ``topic``; return how many.

        Raises ``Unavailable``: some of them may be there, and may not.
        """
        sent: list[Any] = []
        try:
            producer = self._make(**self._options)
            try:
                for batch in batches:
                    sent += [self._one(producer, topic, source, row) for row in batch.to_pylist()]
                for future in sent:
                    future.get(self._timeout)
            finally:
                producer.close(timeout=self._timeout)
        except kafka_errors.KafkaError as error:
            raise Unavailable(
                f"{topic}: messages of {source} could not be produced: {error}; does the topic"
                " exist, and may the user write to it?"
            ) from error
        return len(sent)

    @staticmethod
    def _one(producer: Any, topic: str, source: TopicPartition, row: Mapping[str, Any]) -> Any:
        return producer.send(
            topic,
            key=row["key"],
            value=row["value"],
            headers=_headers(row, source),
            timestamp_ms=row["timestamp"],
        )


def _headers(row: Mapping[str, Any], source: TopicPartition) -> list[tuple[str, bytes | None]]:
    own = [(header["key"], header["value"]) for header in row["headers"] or ()]
    return [*own, (SOURCE_HEADER, f"{source}/{row['offset']}".encode())]
