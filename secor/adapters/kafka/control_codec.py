"""Events of the control topic as bytes: each is an Avro file of one record, with its schema.

A reader takes what it knows from the sender's schema: fields that it does not know are left
out, fields that the sender does not know have their defaults.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import fastavro

from secor.core.foreign_avro import SchemaLook
from secor.core.model import TopicPartition
from secor.tables.control import Answer, Event, Kind

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


def encode(event: Event) -> bytes:
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


def decode(value: bytes | None) -> Event | None:
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


def _event(record: Mapping[str, Any]) -> Event:
    answers = tuple(
        Answer(
            TopicPartition(answer["topic"], answer["partition"]),
            answer["next_offset"],
            answer["timestamp"],
        )
        for answer in record["answers"]
    )
    return Event(
        kind=Kind(record["kind"]),
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
