"""Messages of a fuzzed topic: Kafka's record batches by Kafka's client, and files of the corpus."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from secor.core.model import Chunk, LogRange, TopicPartition
from secor.wire import decode_chunks
from tests.fakes.source import FakeLog

TOPIC_PARTITION = TopicPartition("flights", 0)

PLAIN_TIME = 1_795_234_906_000
"""2026-11-21T04:21:46Z, in milliseconds."""


@dataclass(frozen=True)
class Message:
    """One message; ``timestamp`` in milliseconds, ``-1`` for none, header names as bytes.

    A ``plain`` one is such that every path must store it as data, whatever is around it.  ``late``
    is the stage behind the parser, append or close, in which a library fails for the message.
    """

    value: bytes | None
    key: bytes | None = None
    timestamp: int = PLAIN_TIME
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    plain: bool = False
    late: str = ""

    @property
    def fields(self) -> dict[str, Any] | None:
        """The fields of a JSON object; None for anything else."""
        try:
            fields = json.loads(self.value or b"")
        except (ValueError, RecursionError):
            return None
        return fields if isinstance(fields, dict) else None

    def dump(self) -> dict[str, Any]:
        """Return what ``parse`` reads: what is as usual is left out."""
        dumped: dict[str, Any] = {"value": _text(self.value)}
        if self.key is not None:
            dumped["key"] = _text(self.key)
        if self.timestamp != PLAIN_TIME:
            dumped["timestamp"] = self.timestamp
        if self.headers:
            dumped["headers"] = [[_text(name), _text(value)] for name, value in self.headers]
        if self.plain:
            dumped["plain"] = True
        if self.late:
            dumped["late"] = self.late
        return dumped

    @staticmethod
    def parse(dumped: dict[str, Any]) -> Message:
        """Read a message of the corpus."""
        return Message(
            _bytes(dumped["value"]),
            _bytes(dumped.get("key")),
            dumped.get("timestamp", PLAIN_TIME),
            tuple(
                (_bytes(name) or b"", _bytes(value)) for name, value in dumped.get("headers", ())
            ),
            dumped.get("plain", False),
            dumped.get("late", ""),
        )


def _text(content: bytes | None) -> object:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"hex": content.hex()}


def _bytes(dumped: object) -> bytes | None:
    if dumped is None:
        return None
    return bytes.fromhex(dumped["hex"]) if isinstance(dumped, dict) else str(dumped).encode()


class _Name(str):
    """A name of a header in any bytes: Kafka's client asks a text for its UTF-8."""

    __slots__ = ("raw",)
    raw: bytes

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return self.raw


def _named(raw: bytes) -> _Name:
    name = _Name()
    name.raw = raw
    return name


def record_batch(message: Message, offset: int) -> bytes:
    """Return one message as the record batch that Kafka's client makes of it."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
    headers = [(_named(name), value) for name, value in message.headers]
    builder.append(0, message.timestamp, message.key, message.value, headers)
    batch = bytearray(builder.build())
    struct.pack_into(">q", batch, 0, offset)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


def chunk_of(messages: Sequence[Message]) -> Chunk:
    """Return messages as the wire's decoder gives them."""
    batches = [record_batch(message, offset) for offset, message in enumerate(messages)]
    chunks = list(decode_chunks(TOPIC_PARTITION, batches, 0))
    records = pa.concat_batches([chunk.records for chunk in chunks])
    return Chunk(TOPIC_PARTITION, records, len(messages))


class MessageLog(FakeLog):
    """A log that has the messages of a chunk."""

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__(TOPIC_PARTITION)
        self.chunk = chunk_of(messages)
        self.produce(len(messages))

    @property
    def range(self) -> LogRange:
        """Its offsets."""
        return LogRange(self.start, self.end)

    def read(self, position: int, most: int) -> Chunk:
        """Return the next messages."""
        return self.chunk.since(position).until(position + most)
