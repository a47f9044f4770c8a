"""What people write themselves: lines of a topic as gzip objects in S3, committed afterwards.

Nothing here keeps a message from being stored twice.  Arguments: the settings of ``peers``.
"""

import gzip
import json
import sys
import time
from typing import Any

import boto3
from confluent_kafka import Consumer, TopicPartition

MOST_BYTES = 32 << 20


def main(settings: dict[str, Any]) -> None:
    """Store so many messages of a topic, then end; end, too, where nothing comes any more."""
    store = boto3.client("s3", **settings["s3"])
    consumer = Consumer({**settings["kafka"], "enable.auto.commit": False})
    consumer.subscribe([settings["topic"]])
    buffers: dict[int, bytearray] = {}
    firsts: dict[int, int] = {}
    nexts: dict[int, int] = {}
    stored, came = 0, time.monotonic()

    def put(partition: int) -> None:
        key = f"{settings['prefix']}/{partition}/{firsts.pop(partition):020d}.txt.gz"
        body = gzip.compress(buffers.pop(partition), compresslevel=1)
        store.put_object(Bucket=settings["bucket"], Key=key, Body=body)
        offset = TopicPartition(settings["topic"], partition, nexts[partition])
        consumer.commit(offsets=[offset], asynchronous=False)

    while stored < settings["messages"] and time.monotonic() < came + settings["idle"]:
        for message in consumer.consume(10_000, timeout=0.5):
            if message.error():
                continue
            partition, came = message.partition(), time.monotonic()
            firsts.setdefault(partition, message.offset())
            buffer = buffers.setdefault(partition, bytearray())
            buffer += message.value() + b"\n"
            nexts[partition] = message.offset() + 1
            stored += 1
            if len(buffer) >= MOST_BYTES:
                put(partition)
    for partition in list(buffers):
        put(partition)
    consumer.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
