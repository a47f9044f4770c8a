"""The control channel as a topic of one partition, read from its end.

A thread of its own owns the clients, so that neither ``send`` nor ``receive`` waits for a
broker.  Nothing that happens to the topic is an error: what is not announced is found by the
next cycle.
"""

from __future__ import annotations

import io
import logging
import struct
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import fastavro
import kafka
from kafka import KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient

from secor.adapters.kafka import insides
from secor.core.foreign_avro import SchemaLook
from secor.core.model import TopicPartition
from secor.core.retry import RepeatedErrors
from secor.tables.control import ControlEvent, EventKind, PartitionAnswer

LARGEST = 1 << 20
"""Bytes of an event: more is none of ours."""

SCHEMA: Any = fastavro.parse_schema(
    {
        "type": "record",
        "name": "ControlEvent",
        "namespace": "secor.tables",
        "fields": [
            {"name": "kind", "type": "string"},
            {"name": "group", "type": "string"},
            {"name": "commit", "type": "string"},
            {"name": "epoch", "type": "long"},
            {"name": "sender", "type": "string", "default": ""},
            {
                "name": "answers",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Answer",
                        "fields": [
                            {"name": "topic", "type": "string"},
                            {"name": "partition", "type": "int"},
                            {"name": "next_offset", "type": "long"},
                            {"name": "timestamp", "type": ["null", "long"], "default": None},
                        ],
                    },
                },
                "default": [],
            },
            {"name": "manifest", "type": ["null", "string"], "default": None},
            {"name": "table", "type": ["null", "string"], "default": None},
            {"name": "snapshot", "type": ["null", "long"], "default": None},
            {"name": "valid_through", "type": ["null", "long"], "default": None},
        ],
    }
)

_UNREADABLE = (
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    StopIteration,
    struct.error,
    zlib.error,
    fastavro.schema.SchemaParseException,
    fastavro.schema.UnknownType,
    fastavro.read.SchemaResolutionError,
)
"""What the library raises for bytes that are no file of its own."""


def encode(event: ControlEvent) -> bytes:
    """Return the bytes of an event."""
    answers = [
        {
            "topic": answer.topic_partition.topic,
            "partition": answer.topic_partition.partition,
            "next_offset": answer.next_offset,
            "timestamp": answer.timestamp,
        }
        for answer in event.answers
    ]
    record = {
        "kind": str(event.kind),
        "group": event.group,
        "commit": event.commit,
        "epoch": event.epoch,
        "sender": event.sender,
        "answers": answers,
        "manifest": event.manifest,
        "table": event.table,
        "snapshot": event.snapshot,
        "valid_through": event.valid_through,
    }
    file = io.BytesIO()
    fastavro.writer(file, SCHEMA, [record])
    return file.getvalue()


def decode(value: bytes | None) -> ControlEvent | None:
    """Return the event, None for what is none or is of a kind that this version does not know."""
    if value is None or len(value) > LARGEST:
        return None
    try:
        reader = fastavro.reader(io.BytesIO(value), reader_schema=SCHEMA)
        if reader.codec != "null":
            return None  # a few bytes may unpack to gigabytes
        if "logicalType" in reader.metadata["avro.schema"]:
            return None  # no event has one, and a decimal of many digits takes long
        if SchemaLook(reader.writer_schema).recursive:
            return None
        record = next(iter(reader))
        return _event(record) if isinstance(record, dict) else None
    except _UNREADABLE:
        return None


def _event(record: Mapping[str, Any]) -> ControlEvent:
    answers = tuple(
        PartitionAnswer(
            TopicPartition(answer["topic"], answer["partition"]),
            answer["next_offset"],
            answer["timestamp"],
        )
        for answer in record["answers"]
    )
    return ControlEvent(
        kind=EventKind(record["kind"]),
        group=record["group"],
        commit=record["commit"],
        epoch=record["epoch"],
        sender=record["sender"],
        answers=answers,
        manifest=record["manifest"],
        table=record["table"],
        snapshot=record["snapshot"],
        valid_through=record["valid_through"],
    )


_log = logging.getLogger(__name__)

WAITING = 10_000
"""Events that may wait in either direction; older ones give way."""

POLL_MS = 200
RETRY = 5.0
SEND_MS = 5_000
"""Longest wait for a topic that is gone: it is made again after that."""
CLOSE = 5.0
"""Seconds for what was announced last to reach a broker."""
RETENTION_MS = 24 * 3600 * 1000

Count = Callable[[str, str], None]
"""Called with a direction (``sent``, ``received``) and a kind; ``unknown`` for what is none."""


class ControlTopic:
    """A ``ControlChannel``; ``options`` are kafka-python's."""

    def __init__(self, options: Mapping[str, Any], topic: str, group: str, count: Count) -> None:
        """Begin at the topic's present end, as soon as a broker answers."""
        self._options = dict(options)
        self._topic = topic
        self._group = group
        self._count = count
        self._outgoing: deque[ControlEvent] = deque(maxlen=WAITING)
        self._incoming: deque[ControlEvent] = deque(maxlen=WAITING)
        self._closing = threading.Event()
        self._repeated = RepeatedErrors(time.monotonic)
        self.ready = threading.Event()
        """Set while the topic is being read."""
        self._thread = threading.Thread(target=self._run, name="control-topic", daemon=True)
        self._thread.start()

    def send(self, event: ControlEvent) -> None:
        """Announce it; see ``ControlChannel``."""
        self._outgoing.append(event)

    def receive(self) -> Sequence[ControlEvent]:
        """Return what came since the last call; see ``ControlChannel``."""
        arrived = []
        while self._incoming:
            arrived.append(self._incoming.popleft())
        return arrived

    def close(self) -> None:
        """End the thread and its connections."""
        self._closing.set()
        self._thread.join(timeout=10.0)

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._serve()
            except (kafka_errors.KafkaError, OSError, ValueError) as error:
                begins = self._repeated.failed(self._topic, type(error).__name__)
                _log.log(
                    logging.WARNING if begins else logging.DEBUG,
                    "the control topic %s cannot be used now: %s; what is staged is committed"
                    " all the same, after commit.timeout",
                    self._topic,
                    error,
                )
            finally:
                self.ready.clear()
            self._closing.wait(RETRY)

    def _serve(self) -> None:
        self._create()
        # Without a group: every process hears every event.
        consumer = KafkaConsumer(
            **self._options,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            allow_auto_create_topics=False,
            isolation_level="read_committed",
        )
        with closing(consumer):
            producer = KafkaProducer(
                **self._options, acks="all", linger_ms=5, retries=3, max_block_ms=SEND_MS
            )
            try:
                self._exchange(consumer, producer)
            finally:
                close_producer(producer)

    def _create(self) -> None:
        admin = KafkaAdminClient(**self._options)
        try:
            if self._topic in admin.list_topics():
                return
            admin.create_topics(
                {
                    self._topic: {
                        "num_partitions": 1,
                        # The brokers' own default.
                        "replication_factor": -1,
                        "configs": {"retention.ms": str(RETENTION_MS), "cleanup.policy": "delete"},
                    }
                }
            )
        except kafka_errors.TopicAlreadyExistsError:
            return  # somebody was faster
        finally:
            admin.close()

    def _exchange(self, consumer: Any, producer: Any) -> None:
        partition = kafka.TopicPartition(self._topic, 0)
        consumer.assign([partition])
        consumer.seek_to_end(partition)
        consumer.position(partition)  # now, and not at the first poll: events may come before
        self.ready.set()
        ended = self._repeated.ended(self._topic)
        if ended is not None:
            _log.info(
                "the control topic %s is used again: %d errors in %.0f s",
                self._topic,
                ended.times,
                ended.seconds,
            )
        while not self._closing.is_set():
            for records in consumer.poll(timeout_ms=POLL_MS).values():
                for record in records:
                    self._take(record.value)
            while self._outgoing:
                event = self._outgoing.popleft()
                producer.send(self._topic, encode(event), partition=0)
                self._count("sent", event.kind)

    def _take(self, value: bytes | None) -> None:
        event = decode(value)
        if event is None:
            self._count("received", "unknown")
        elif event.group == self._group:
            self._count("received", event.kind)
            self._incoming.append(event)


def close_producer(producer: Any) -> None:
    """Close it, with its thread and connections, also where no broker takes what it was given."""
    try:
        producer.close(timeout=CLOSE)
    except kafka_errors.KafkaTimeoutError:
        insides.give_up_sending(producer)
        producer.close(timeout=CLOSE)
