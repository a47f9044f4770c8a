"""Times before 1970 with a fraction of a second, which readers of ORC take for others.

``tests/spark/test_rows_are_found.py`` shows what Spark reads.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from secor.archive.kept_schemas import KeptSchema
from secor.formats.typed.orc import refused_times
from secor.tables.catalog import NewTable
from tests.unit.formats.test_kafka_timestamps import plan
from tests.unit.parsing.parsing_cases import json_chunk, places, reasons
from tests.unit.tables.worker_world import WorkerWorld

WHY = "time before 1970 with a fraction of a second, which readers of ORC"

EARLY = ["1969-12-31T23:59:59.5", "1900-01-01T00:00:00.000001", "1969-12-31T23:59:59.999999"]
FINE = ["1969-12-31T23:59:59", "1900-01-01T00:00:00", "1970-01-01T00:00:00.000001", None]


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize(("unit", "second"), [("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_times_are_refused_at_any_level(unit: str, second: int, zone: str | None) -> None:
    kind = pa.timestamp(unit, zone)
    bad, good = -second // 2, -second
    rows = pa.array(
        [
            {"a": good, "s": {"b": good, "l": [good, 1]}, "m": [("k", good)]},
            {"a": bad, "s": None, "m": None},
            {"a": None, "s": {"b": bad, "l": None}, "m": None},
            {"a": 1, "s": {"b": None, "l": [good, bad]}, "m": None},
            None,
            {"a": 1, "s": {"b": 1, "l": []}, "m": [("j", 1), ("k", bad)]},
        ],
        pa.struct(
            [
                pa.field("a", kind),
                pa.field("s", pa.struct([("b", kind), ("l", pa.list_(kind))])),
                pa.field("m", pa.map_(pa.string(), kind)),
            ]
        ),
    )
    refused = refused_times(rows)
    assert {row: why.partition(":")[0] for row, why in refused.items()} == {
        1: "a",
        2: "s",
        3: "s",
        5: "m",
    }


def test_a_table_of_orc_files_puts_them_into_quarantine(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    columns = pa.schema([("at", pa.timestamp("us")), ("list", pa.list_(pa.timestamp("us", "UTC")))])
    world.catalog.create_table(
        "db.flights", NewTable(columns, properties={"write.format.default": "orc"})
    )
    listed = [{"list": [f"{it}Z" if it else None]} for it in (*FINE, *EARLY)]
    world.write(*({"at": it} for it in (*FINE, *EARLY)), *listed)
    assert len(world.rows()) == 2 * len(FINE)
    assert len(world.reasons()) == 2 * len(EARLY)
    assert all(WHY in why for why in world.reasons())


def test_a_table_of_parquet_files_takes_them(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    world.catalog.create_table("db.flights", NewTable(pa.schema([("at", pa.timestamp("us"))])))
    world.write(*({"at": it} for it in EARLY))
    assert (len(world.rows()), world.reasons()) == (len(EARLY), [])


@pytest.mark.parametrize(("name", "refused"), [("orc", len(EARLY)), ("parquet", 0), ("avro", 0)])
def test_objects_of_orc_have_none_of_them(name: str, refused: int) -> None:
    fields = [{"name": "at", "type": "timestamp(us)"}]
    kept = KeptSchema.parse(json.dumps({"fields": fields}), "kept", 1)
    parser = {"decoder": "json", "layout": "all"}
    chosen = plan(parser=parser, kept=kept, format=name)
    parts = list(chosen.parser.split(json_chunk([{"at": it} for it in (*FINE, *EARLY)])))
    in_quarantine = places(parts).get("quarantine:", [])
    assert in_quarantine == list(range(len(FINE), len(FINE) + refused))
    if refused:
        assert all(WHY in why for why in reasons(parts).values())


def test_files_have_no_row_index_by_which_java_would_pass_over_texts(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    columns = pa.schema([("text", pa.string())])
    world.catalog.create_table(
        "db.flights", NewTable(columns, properties={"write.format.default": "orc"})
    )
    (manifest,) = world.write({"text": "\uff21"}, {"text": "\U0001f600"})
    for file in manifest.tables[0].files:
        assert orc.ORCFile(file.path.removeprefix("file://")).row_index_stride == 0
