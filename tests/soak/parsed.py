"""The partition group's side of a run: what is written, and where each message must be.

``place`` says it from the message alone, with Python's own JSON, and the audit reads the
objects with the libraries of their formats: neither shares anything with the daemons.
"""

from __future__ import annotations

import gzip
import io
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow.parquet as pq

from secor.core.model import Chunk, TopicPartition
from secor.core.naming import SUSPECTS_DIRECTORY
from secor.formats import make_format

QUARANTINE = "_quarantine"

_MIDDAY = 1_795_262_400
"""2026-11-21, 12:00 UTC."""
_HOUR = 3600
_TOLD = 20

FIELDS = {
    "number": "long",
    "topic": "string",
    "kind": "string",
    "at": "long",
    "note": ["null", "string"],
}
SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
}
"""What ``output.schema_file`` declares."""

OUTPUT = """
format = "parquet"
metadata_columns = ["_offset"]
schema_file = "{schema}"
"""
TOPICS = """
[parser]
time_field = "at"
time_format = "s"
layout = "dt={time:%Y-%m-%d}/hr={time:%H}"
max_bad_ratio = "none"
[[parser.transforms]]
kind = "filter"
field = "kind"
equals = "debug"
negated = true
[[topics]]
match = "soak-lines"
output.format = "jsonlines"
output.metadata_columns = ["_offset"]
"""


def value(rng: random.Random, topic: str, number: int) -> bytes | None:
    """Return a message: good, late for its hour, for the filter, or damaged in some way."""
    fields: dict[str, Any] = {"number": number, "topic": topic, "kind": "sale", "at": _MIDDAY}
    fields["at"] += number % _HOUR
    shape = rng.random()
    if shape < 0.1:
        fields["at"] -= rng.choice((24, 1)) * _HOUR
    elif shape < 0.25:
        fields["kind"] = "debug"
    elif shape < 0.28:
        fields |= rng.choice(({"at": "soon"}, {"at": None}, {"number": "many"}, {"kind": None}))
    elif shape < 0.281:
        fields["note"] = rng.randbytes(100_000).hex()
    raw = json.dumps(fields).encode()
    if shape > 0.98:
        return rng.choice((None, b"", raw[:-1], raw.replace(b"number", b"\xff\xfe")))
    return raw


def place(value: bytes | None) -> str | None:
    """Return the directory below the topic's, ``QUARANTINE``, or None for what is left out."""
    try:
        fields = json.loads(value or b"")
    except ValueError:
        return QUARANTINE
    return place_of(fields)


def place_of(fields: Mapping[str, Any]) -> str | None:
    """As ``place``, of a message that could be read."""
    if fields.get("kind") == "debug":
        return None
    fits = type(fields.get("number")) is int and type(fields.get("kind")) is str
    if type(fields.get("at")) is not int or not fits:
        return QUARANTINE
    return f"{datetime.fromtimestamp(fields['at'], UTC):dt=%Y-%m-%d/hr=%H}"


Row = tuple[int, Any]
"""An offset, and the message: its bytes in quarantine, else its fields."""


def declared(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of the schema; null is as if it were not there."""
    return {name: fields[name] for name in FIELDS if fields.get(name) is not None}


def rows(key: str, content: bytes) -> Iterator[Row]:
    """Read an object."""
    if key.endswith(".parquet"):
        for row in pq.read_table(io.BytesIO(content)).to_pylist():
            yield row["_offset"], declared(row)
    elif key.endswith(".json.gz"):
        for line in gzip.decompress(content).splitlines():
            row = json.loads(line)
            yield row["_offset"], declared(row)
    else:
        for batch in make_format("sequencefile").read(io.BytesIO(content), key):
            offsets, values = batch.column("offset"), batch.column("value")
            yield from zip(offsets.to_pylist(), values.to_pylist(), strict=True)


@dataclass
class Placement:
    """Compares what lies in the store with the log: each offset once, and where it belongs."""

    prefix: str
    violated: Callable[[str], None]
    held: dict[tuple[TopicPartition, int], tuple[str, Any]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def stored(self, key: str, content: bytes) -> None:
        """Take an object of ``<prefix>/[_quarantine/]<topic>/…``.

        What is kept over which messages a killed process had open holds none of them.
        """
        if key.startswith(f"{self.prefix}/{SUSPECTS_DIRECTORY}/"):
            return
        topic, directory, partition = self._split(key)
        for offset, message in rows(key, content):
            here = TopicPartition(topic, partition), offset
            if here in self.held:
                self._tell(f"{here[0]} {offset} is in {self.held[here][0]} and in {key}")
            quarantined = directory == QUARANTINE
            belongs = place(message) if quarantined else place_of(message)
            if belongs != directory:
                self._tell(f"{here[0]} {offset} is in {key}, it belongs into {belongs}")
            self.held[here] = key, message
            self.counts["quarantined" if quarantined else "placed"] += 1

    def _tell(self, text: str) -> None:
        self.counts["violations"] += 1
        if self.counts["violations"] <= _TOLD:
            self.violated(text)

    def _split(self, key: str) -> tuple[str, str, int]:
        """Return topic, directory and Kafka partition."""
        parts = key.removeprefix(f"{self.prefix}/").split("/")
        partition = int(parts[-1].split("_")[1])
        if parts[0] == QUARANTINE:
            return parts[1], QUARANTINE, partition
        return parts[0], "/".join(parts[1:-1]), partition

    def logged(self, owner: TopicPartition, chunks: Iterable[Chunk], *, whole: bool) -> None:
        """Take all messages of a log; ``whole`` says that none were compacted away."""
        seen = set()
        for chunk in chunks:
            for message in chunk.records.select(["offset", "value"]).to_pylist():
                seen.add(message["offset"])
                self._compare(owner, message["offset"], message["value"])
        for gone in {offset for tp, offset in self.held if tp == owner} - seen:
            self.counts["since compacted away"] += 1
            if whole:
                key = self.held[owner, gone][0]
                self._tell(f"{owner} {gone} is in {key} and not in the log")

    def _compare(self, owner: TopicPartition, offset: int, raw: bytes | None) -> None:
        belongs = place(raw)
        key, message = self.held.get((owner, offset), (None, None))
        if belongs is None:
            self.counts["filtered"] += 1
            if key is not None:
                self._tell(f"{owner} {offset} is in {key}, it should be left out")
        elif key is None:
            self._tell(f"{owner} {offset} is lost, it belongs into {belongs}")
        elif message != (raw if belongs == QUARANTINE else declared(json.loads(raw or b""))):
            self._tell(f"{owner} {offset} is in {key} as {message!r}, the log has {raw!r}")
