"""A topic full of messages in seconds: whole record batches, sent as they are.

A producer client spends more on one message than the daemon that is measured does; so a few
batches are encoded once, and sent again and again: the broker gives them their offsets.
Source of the request: Kafka's protocol guide, "Produce API", version 3.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import cramjam
import lz4.frame
import zstandard
from crc32c import crc32c
from kafka.admin import KafkaAdminClient, NewTopic

from secor.core.errors import Unavailable

BATCH_MESSAGES = 500
DISTINCT_BATCHES = 100
DAY_OF_MILLISECONDS = 86_400_000
"""User ids are below it, so that a case may read them as times of one day."""

HEADERS = ((b"traceparent", 32), (b"tenant", 8), (b"content-type", 16), (b"request-id", 24))
"""Names of headers, and the bytes of their values."""

TIMEOUT = 60.0
FIRST_TIMESTAMP = 1_790_000_000_000
_PRODUCE, _VERSION, _ALL_REPLICAS = 0, 3, -1
_NOT_YET = (3, 6)
"""Errors of a topic just created: the broker does not know yet that it leads it."""


@dataclass(frozen=True, slots=True)
class Filled:
    """What a topic got: ``value_bytes`` are those of the values alone, uncompressed,
    ``encoded_bytes`` those of the batches.
    """

    topic: str
    partitions: int
    messages: int
    value_bytes: int
    encoded_bytes: int


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A whole batch of format v2 with base offset 0."""

    data: bytes
    messages: int
    value_bytes: int


def values(count: int, seed: int) -> list[bytes]:
    """Return ``count`` JSON objects of about 200 bytes; the seed decides their content."""
    chance = random.Random(seed)
    agents = ("Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "okhttp/4.12.0")
    return [
        json.dumps(
            {
                "timestamp": FIRST_TIMESTAMP + 13 * (seed * count + index),
                "user_id": chance.randrange(DAY_OF_MILLISECONDS),
                "session": f"{chance.getrandbits(96):024x}",
                "url": f"https://example.com/items/{chance.randrange(10**6)}",
                "agent": chance.choice(agents),
                "elapsed": chance.random(),
                "country": chance.choice(("NL", "DE", "FR")),
            },
            separators=(",", ":"),
        ).encode()
        for index in range(count)
    ]


def encode_batch(
    payloads: Sequence[bytes], headers: int = 0, *, codec: str = "lz4"
) -> EncodedBatch:
    """Return the payloads as values without key, in a batch that a Java client would send.

    Each message has so many ``headers``, as tracing and routing add them.
    """
    records = bytearray()
    for index, payload in enumerate(payloads):
        body = b"\0%b%b\1%b%b" % (_varint(index), _varint(index), _varint(len(payload)), payload)
        body += _varint(headers) + b"".join(_headers(index, headers))
        records += _varint(len(body)) + body
    compressed = COMPRESSORS[codec](bytes(records))
    last = len(payloads) - 1
    checked = (
        struct.pack(
            ">hiqqqhii",
            *(
                list(COMPRESSORS).index(codec),
                last,
                FIRST_TIMESTAMP,
                FIRST_TIMESTAMP + last,
                -1,
                -1,
                -1,
                len(payloads),
            ),
        )
        + compressed
    )
    head = struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked))
    return EncodedBatch(head + checked, len(payloads), sum(map(len, payloads)))


def _gzip(records: bytes) -> bytes:
    member = zlib.compressobj(wbits=31)
    return member.compress(records) + member.flush()


def _snappy(records: bytes) -> bytes:
    pieces = [b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)]
    for begin in range(0, len(records), 32 << 10):
        block = bytes(cramjam.snappy.compress_raw(records[begin : begin + (32 << 10)]))
        pieces += [struct.pack(">i", len(block)), block]
    return b"".join(pieces)


def _zstd(records: bytes) -> bytes:
    frame = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return frame.compress(records) + frame.flush()


COMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": _gzip,
    "snappy": _snappy,
    # Independent blocks of 64 KiB, no content size.
    "lz4": partial(lz4.frame.compress, block_linked=False, store_size=False),
    "zstd": _zstd,
}
"""By Kafka's names, in the order of its numbers, with the settings of its Java client."""


def _headers(index: int, count: int) -> Iterator[bytes]:
    for which in range(count):
        name, length = HEADERS[which % len(HEADERS)]
        value = f"{index * 0x9E3779B97F4A7C15 % (1 << 128):032x}"[:length].encode()
        yield _varint(len(name)) + name + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    number <<= 1  # zigzag; ours are not negative
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def batches(messages: int, headers: int = 0) -> Iterator[EncodedBatch]:
    """Give batches of ``messages`` in all: a hundred distinct ones, over and over."""
    known: list[EncodedBatch] = []
    whole, rest = divmod(messages, BATCH_MESSAGES)
    for index in range(whole):
        if index < DISTINCT_BATCHES:
            known.append(encode_batch(values(BATCH_MESSAGES, seed=index), headers))
        yield known[index % DISTINCT_BATCHES]
    if rest:
        yield encode_batch(values(rest, seed=whole), headers)


class Producer:
    """A connection to the broker that leads all partitions, as the sandbox's does."""

    def __init__(self, address: str) -> None:
        """Connect to ``address`` (``host:port``)."""
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT)
        self._answers = self._socket.makefile("rb")

    def send(self, topic: str, partition: int, batch: bytes) -> None:
        """Append the batch and wait until the broker has it.  Raises ``Unavailable``."""
        deadline = time.monotonic() + TIMEOUT
        while error := self._try(topic, partition, batch):
            if error not in _NOT_YET or time.monotonic() > deadline:
                raise Unavailable(f"the broker refuses {topic}/{partition}: error {error}")
            time.sleep(0.1)

    def _try(self, topic: str, partition: int, batch: bytes) -> int:
        name = topic.encode()
        request = struct.pack(">hhih5s", _PRODUCE, _VERSION, 0, 5, b"bench")
        request += struct.pack(">hhi", -1, _ALL_REPLICAS, int(TIMEOUT * 1000))
        request += struct.pack(f">ih{len(name)}siii", 1, len(name), name, 1, partition, len(batch))
        self._socket.sendall(struct.pack(">i", len(request) + len(batch)) + request + batch)
        (size,) = struct.unpack(">i", self._answers.read(4))
        answer = self._answers.read(size)
        # Correlation id, one topic with its name, one partition with its number and error.
        (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name) + 4 + 4)
        return int(error)

    def close(self) -> None:
        """End the connection."""
        self._answers.close()
        self._socket.close()


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic that keeps everything: the messages bear timestamps of any time."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        configs = {"retention.ms": "-1"}
        admin.create_topics(
            [NewTopic(topic, partitions, 1, topic_configs=configs)]  # replicas: one broker
        )


def fill(bootstrap: str, topic: str, *, partitions: int, messages: int, headers: int = 0) -> Filled:
    """Create ``topic`` and append ``messages``, evenly over the partitions, batch by batch."""
    create_topic(bootstrap, topic, partitions)
    values_, encoded = 0, 0
    with closing(Producer(bootstrap)) as producer:
        for index, batch in enumerate(batches(messages, headers)):
            producer.send(topic, index % partitions, batch.data)
            values_ += batch.value_bytes
            encoded += len(batch.data)
    return Filled(topic, partitions, messages, values_, encoded)
