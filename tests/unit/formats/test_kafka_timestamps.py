"""Timestamps of Kafka that no calendar has, in objects of backup and partition groups."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest

from secor.archive.kept_schemas import KeptSchema
from secor.batch.plan import TopicPlan
from secor.config.load import validate
from secor.config.output import TYPED_FORMATS
from secor.core.model import QUARANTINE, Chunk, OffsetRange, TopicPartition
from secor.core.object_info import ObjectInfo
from secor.wiring.plans import plan_for
from tests.unit.formats.test_typed_plans import KEPT
from tests.unit.parsing.parsing_cases import json_chunk, places, reasons

FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999
"""Of the years 1 to 9999, in milliseconds."""

MICROSECONDS, NANOSECONDS = 1_763_694_245_123_456, 1_763_694_245_123_456_789
GREATEST = (1 << 63) - 1
ANY = [None, 0, -5, FIRST, LAST, FIRST - 1, LAST + 1, MICROSECONDS, NANOSECONDS, GREATEST]
OF_A_CALENDAR = ANY[:5]
OF_ORC = ANY[:2]
"""Not -5, which has a fraction of a second."""


def plan(
    kind: str = "partition",
    parser: dict[str, Any] | None = None,
    kept: KeptSchema = KEPT,
    **output: Any,
) -> TopicPlan:
    tree = {
        "group": {"name": "g", "kind": kind},
        "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["clicks"]},
        "store": {"kind": "local", "local": {"directory": "/nowhere"}},
        "output": output,
        **({} if parser is None else {"parser": parser}),
    }
    made, faults = validate(tree)
    assert made is not None, faults
    return plan_for(made, "clicks", kept=kept if kind == "partition" else None)


def messages(timestamps: list[int | None]) -> Chunk:
    chunk = json_chunk([{"at": 1, "n": number} for number in range(len(timestamps))])
    at = chunk.records.schema.get_field_index("timestamp")
    column = pa.array(timestamps, pa.int64())
    records = chunk.records.set_column(at, chunk.records.schema.field(at), column)
    return Chunk(chunk.topic_partition, records, chunk.next_offset)


def read_back(chosen: TopicPlan, chunk: Chunk) -> tuple[list[int | None], dict[int, str]]:
    """Return the timestamps in a file of what is not in quarantine, and why others are there."""
    parts = list(chosen.parser.split(chunk))
    sink = io.BytesIO()
    writer = chosen.log_format.create(sink, b"seed")
    for part in parts:
        if part.stream != QUARANTINE:
            writer.append(part.records)
    writer.close()
    sink.seek(0)
    stored = pa.Table.from_batches(list(chosen.log_format.read(sink, "file")))
    why = reasons(parts) if any(part.stream == QUARANTINE for part in parts) else {}
    return stored.column("timestamp").to_pylist(), why


@pytest.mark.parametrize("name", TYPED_FORMATS)
def test_a_column_of_timestamps_has_those_that_its_readers_read(name: str) -> None:
    chosen = plan(
        parser={"decoder": "json", "layout": "all"}, format=name, metadata_columns=["_timestamp"]
    )
    stored, why = read_back(chosen, messages(ANY))
    expected = OF_ORC if name == "orc" else OF_A_CALENDAR
    assert stored == expected
    assert len(why) == len(ANY) - len(expected)
    if name == "orc":
        assert why[2].startswith("time: Kafka's timestamp is a time before 1970 with a fraction")
    assert why[8].startswith(f"time: Kafka's timestamp {NANOSECONDS} is no time in milliseconds")


@pytest.mark.parametrize("name", TYPED_FORMATS)
def test_without_that_column_any_timestamp_is_stored(name: str) -> None:
    chosen = plan(
        parser={"decoder": "json", "layout": "all"}, format=name, metadata_columns=["_offset"]
    )
    assert len(read_back(chosen, messages(ANY))[0]) == len(ANY)


@pytest.mark.parametrize("name", ["sequencefile", "parquet"])
def test_a_backup_has_every_timestamp_as_it_came(name: str) -> None:
    assert read_back(plan("backup", format=name), messages(ANY)) == (ANY, {})


def test_a_layout_by_kafkas_timestamp_quarantines_what_is_no_day() -> None:
    chosen = plan(parser={"decoder": "none"}, format="sequencefile")
    parts = list(chosen.parser.split(messages(ANY)))
    assert places(parts) == {
        "dt=1969-12-31": [2],
        "dt=0001-01-01": [3],
        "dt=9999-12-31": [4],
        "quarantine:": [0, 1, 5, 6, 7, 8, 9],
    }
    why = reasons(parts)
    assert why[0] == "time: Kafka's timestamp is missing"
    assert why[1].startswith("time: Kafka's timestamp is 1970-01-01T00:00:00Z: no time was set")
    assert why[7].startswith(f"time: Kafka's timestamp '{MICROSECONDS}' is no time")


def test_the_metadata_of_objects_has_any_timestamp() -> None:
    info = ObjectInfo(
        TopicPartition("clicks", 0), OffsetRange(0, 2), 0, 2, 1, "f", "id", -(1 << 63), GREATEST
    )
    assert ObjectInfo.of(info.metadata(), "key") == info
