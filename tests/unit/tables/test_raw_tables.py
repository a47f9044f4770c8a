"""Tables of raw messages: the value as bytes, and key, headers and timestamp as columns."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from secor.config.load import validate
from secor.core.errors import SchemaGrew
from secor.core.model import SCHEMA, Chunk, TopicPartition
from secor.tables.catalog import NewTable
from secor.wiring.plans import growing_plans
from tests.fakes.observer import SilentObserver
from tests.fakes.store import FakeStore
from tests.unit.tables.worker_world import TIMESTAMP, Keyed, WorkerWorld

RAW = {"table": "db.raw", "auto_create": True, "partition_by": ["day(_timestamp)"]}
NONE: dict[str, Any] = {"parser": {"decoder": "none"}}
EVERYTHING = ["_topic", "_kafka_partition", "_offset", "_timestamp", "_key", "_headers"]


def with_headers(chunk: Chunk, headers: list[Any]) -> Chunk:
    """Return the messages with these headers."""
    place = chunk.records.schema.get_field_index("headers")
    column = pa.array(headers, SCHEMA.field("headers").type)
    records = chunk.records.set_column(place, SCHEMA.field("headers"), column)
    return Chunk(chunk.topic_partition, records, chunk.next_offset)


def raw_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **table: Any) -> WorkerWorld:
    """Return a world whose messages have two headers, one, and none."""
    from tests.unit.tables import worker_world

    settings = {**NONE, "rows": {"metadata_columns": EVERYTHING}}
    world = WorkerWorld(tmp_path, [{**RAW, **table}], settings)
    plain = worker_world.chunk_of
    headers = [[{"key": "a", "value": b"\x00"}, {"key": "a", "value": None}], [], None]
    monkeypatch.setattr(
        worker_world,
        "chunk_of",
        lambda *given: with_headers(plain(*given), headers[: len(given[0])]),
    )
    return world


NO_LIST: list[Any] = []
"""How the Iceberg library for Python reads a list that is null."""

ORIGIN = {
    "_topic": "flights",
    "_kafka_partition": 0,
    "_timestamp": dt.datetime.fromtimestamp(TIMESTAMP / 1000, dt.UTC),
}


@pytest.mark.parametrize("data_format", ["parquet", "orc", "avro"])
def test_a_raw_table_has_messages_as_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_format: str
) -> None:
    world = raw_table(tmp_path, monkeypatch, properties={"write.format.default": data_format})
    world.write(Keyed(b"\xffk", b'{"not": parsed'), Keyed(None, b""), Keyed(b"", None))
    assert world.reasons() == []
    if data_format == "avro":  # which the library for Python does not read
        return
    assert sorted(world.rows("db.raw"), key=lambda row: int(row["_offset"])) == [
        {
            "value": b'{"not": parsed',
            "_offset": 0,
            "_key": b"\xffk",
            "_headers": [{"key": "a", "value": b"\x00"}, {"key": "a", "value": None}],
            **ORIGIN,
        },
        {"value": b"", "_offset": 1, "_key": None, "_headers": [], **ORIGIN},
        {"value": None, "_offset": 2, "_key": b"", "_headers": NO_LIST, **ORIGIN},
    ]


def test_a_first_message_without_key_and_value_is_a_row(tmp_path: Path) -> None:
    settings = {"parser": {"decoder": "none", "key": {"decoder": "text", "field": "id"}}}
    world = WorkerWorld(tmp_path, [{"table": "db.raw", "auto_create": True}], settings)
    world.write(Keyed(None, None), Keyed(b"k", b"v"))
    assert world.reasons() == []
    assert world.rows("db.raw") == [{"value": None, "id": None}, {"value": b"v", "id": "k"}]


def test_any_table_may_have_key_and_headers(tmp_path: Path) -> None:
    table = {"table": "db.flights", "evolve": True}
    world = WorkerWorld(tmp_path, [table], {"rows": {"metadata_columns": ["_key", "_headers"]}})
    world.catalog.create_table("db.flights", NewTable(pa.schema([pa.field("id", pa.int64())])))
    world.write(Keyed(b"k", {"id": 2, "_key": "a field of this name is no column"}))
    assert world.rows() == [{"id": 2, "_key": b"k", "_headers": NO_LIST}]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"tables": [{**RAW, "field": "kind"}]}, "tables.0.field"),
        ({"tables": [{**RAW, "table": "db.{fields.kind}"}]}, "tables.0.table"),
        ({"tables": [{**RAW, "mode": "cdc", "key": ["id"]}]}, "tables.0.mode"),
        (
            {"parser": {"decoder": "none", "transforms": [{"kind": "drop", "field": "id"}]}},
            "parser.transforms.0.field",
        ),
    ],
)
def test_settings_that_need_fields_are_refused_where_nothing_is_read(
    changes: dict[str, Any], key: str
) -> None:
    tree = {
        "group": {"name": "g", "kind": "table"},
        "kafka": {"bootstrap_servers": ["localhost:1"], "topics": ["flights"]},
        "store": {"kind": "local", "local": {"directory": "d"}},
        "commit": {"coordinator": "alone"},
        "tables": [RAW],
        **NONE,
        **changes,
    }
    _, faults = validate(tree)
    assert any(fault.startswith(key) for fault in map(str, faults)), faults


def read_by_others(name: str, content: bytes) -> list[dict[str, Any]]:
    """Return the rows of a file as the formats' own libraries read them."""
    if name == "parquet":
        return list(pq.read_table(io.BytesIO(content)).to_pylist())
    if name == "orc":
        return list(orc.read_table(io.BytesIO(content)).to_pylist())
    if name == "avro":
        return [dict(row) for row in fastavro.reader(io.BytesIO(content)) if isinstance(row, dict)]
    rows = [json.loads(line) for line in content.splitlines()]
    return [{name: base64.b64decode(text) for name, text in row.items()} for row in rows]


@pytest.mark.parametrize("name", ["parquet", "orc", "avro", "jsonlines"])
def test_partitioned_output_has_raw_values(tmp_path: Path, name: str) -> None:
    config, faults = validate(
        {
            "group": {"name": "g", "kind": "partition"},
            "kafka": {"bootstrap_servers": ["localhost:1"], "topics": ["flights"]},
            "store": {"kind": "local", "local": {"directory": str(tmp_path)}},
            "output": {
                "format": name,
                "codec": "none",
                "metadata_columns": ["_key"],
            },
            "parser": {"decoder": "none", "key": {"decoder": "bytes", "field": "same"}},
        }
    )
    assert config is not None, faults
    columns: dict[str, list[Any]] = {name: [None] for name in SCHEMA.names}
    columns |= {"offset": [0], "timestamp": [TIMESTAMP], "key": [b"k"], "value": [b"\xff"]}
    chunk = Chunk(
        TopicPartition("flights", 0), pa.RecordBatch.from_pydict(columns, schema=SCHEMA), 1
    )
    plans = growing_plans(config, FakeStore(), SilentObserver(), lambda *_: None)
    with suppress(SchemaGrew):  # the first message shows the columns
        plans("flights", None).parser.split(chunk)
    plan = plans("flights", None)
    [part] = plan.parser.split(chunk)
    assert part.output_partition == "dt=2026-01-01"
    sink = io.BytesIO()
    writer = plan.log_format.create(sink, b"seed")
    writer.append(part.records)
    writer.close()
    expected = {"_key": b"k", "value": b"\xff", "same": b"k"}
    [row] = read_by_others(name, sink.getvalue())
    row.pop("_extra", None)  # the column of kept schemas for what no field takes
    assert row == expected
