"""Formats of decoded fields by the real daemon, read by others and compared with what was sent."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka import KafkaProducer
from pyarrow import orc

from secor.config.load import load
from secor.sandbox import Sandbox
from secor.wiring.clients import open_store
from tests.integration.daemons import (
    Start,
    committed,
    create_topic,
    run_secor,
    wait_until,
    write_config,
)

GROUP = "typed"
PARTITIONS = 2
GOOD = 600
TOPICS = ("typed-parquet", "typed-lines", "typed-orc")
DAY = 1_700_000_000  # 2023-11-14T22:13:20
DAMAGED = [b'{"time": 17', b"\xff", b'{"number": 1}', b'{"time": 0}']
MISFIT = b'{"time": %d, "number": "many"}' % DAY
SETTINGS = """
[parser]
time_field = "time"
max_bad_ratio = "none"
[[topics]]
match = "typed-parquet"
output.format = "parquet"
output.row_group_rows = 40
output.metadata_columns = ["_topic", "_partition", "_offset", "_key"]
[[topics]]
match = "typed-lines"
output.format = "jsonlines"
[[topics]]
match = "typed-orc"
output.format = "orc"
output.metadata_columns = ["_offset"]
"""


def source(number: int) -> dict[str, Any]:
    """Return a message: over two days, some fields now and then, one of two kinds of number."""
    item: dict[str, Any] = {
        "time": DAY + 60 * number,
        "number": number,
        "share": number / 4,
        "user": {"name": f"n{number % 7}", "tags": [str(number)] * (number % 3)},
    }
    return item | ({"late": True} if number >= GOOD - 10 else {})


def produce(sandbox: Sandbox, topic: str, values: list[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=sandbox.kafka)
    for number, value in enumerate(values):
        producer.send(topic, key=b"k%d" % number, value=value, partition=number % PARTITIONS)
    producer.flush()
    producer.close()


def configured(folder: Path, sandbox: Sandbox) -> Path:
    return write_config(
        folder,
        sandbox,
        group=GROUP,
        topic=TOPICS[0],
        ledger="zookeeper",
        settings={
            "group": {"kind": "partition"},
            "kafka": {"topics": TOPICS},
            "policy": {"max_messages": 250},
        },
        more=SETTINGS,
    )


def objects(config: Path, topic: str, extension: str) -> dict[str, bytes]:
    """Return the topic's objects by their keys below its directory."""
    found = {}
    before = f"{GROUP}/{topic}/"
    with open_store(load(config, {})) as store:
        for stored in store.list(before):
            if stored.key.startswith(f"{before}_schema/"):
                continue
            assert stored.key.endswith(extension), stored.key
            with store.open(stored.key) as file:
                found[stored.key.removeprefix(before)] = file.read()
    return found


def whole(item: Any) -> Any:
    """Return what was sent without the nulls that columns add."""
    if isinstance(item, dict):
        return {name: whole(inner) for name, inner in item.items() if inner is not None}
    return item


def check(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Every message is there once, unchanged, in the directory of its day."""
    found = [whole(row) for listed in rows.values() for row in listed]
    assert sorted(found, key=lambda row: row["number"]) == [source(n) for n in range(GOOD)]
    assert {key.split("/")[0] for key in rows} == {"dt=2023-11-14", "dt=2023-11-15"}
    for key, listed in rows.items():
        first = (
            DAY - DAY % 86_400 if key.startswith("dt=2023-11-14") else DAY - DAY % 86_400 + 86_400
        )
        assert all(first <= row["time"] < first + 86_400 for row in listed)


def rows_of(tables: dict[str, pa.Table]) -> dict[str, list[dict[str, Any]]]:
    return {
        key: [
            {name: value for name, value in row.items() if not name.startswith("_")}
            for row in table.to_pylist()
        ]
        for key, table in tables.items()
    }


@pytest.mark.timeout(900)
def test_typed_objects_are_what_was_sent_and_what_is_damaged_is_in_quarantine(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    config = configured(tmp_path, sandbox)
    good = [json.dumps(source(number)).encode() for number in range(GOOD)]
    for topic in TOPICS:
        create_topic(sandbox, topic, PARTITIONS)
        produce(sandbox, topic, good)
    schema = tmp_path / "orc.json"
    done = run_secor("schema", "infer", str(config), "typed-orc", "-o", str(schema))
    assert done.returncode == 0, done.stderr
    config.write_text(config.read_text() + f'output.schema_file = "{schema}"\n')
    for topic in TOPICS:
        produce(sandbox, topic, [*DAMAGED, *([MISFIT] if topic == "typed-orc" else [])])

    total = GOOD + len(DAMAGED)
    daemon = start(config, tmp_path / "log")
    expected = {TOPICS[0]: total, TOPICS[1]: total, TOPICS[2]: total + 1}
    wait_until(
        lambda: {topic: committed(config, topic, PARTITIONS) for topic in TOPICS} == expected,
        "everything committed",
    )
    assert daemon.total("secor_quarantined_total") == len(TOPICS) * len(DAMAGED) + 1

    parquet = objects(config, "typed-parquet", ".parquet")
    tables = {key: pq.read_table(io.BytesIO(data)) for key, data in parquet.items()}
    check(rows_of(tables))
    for table in tables.values():
        assert set(table["_topic"].to_pylist()) == {"typed-parquet"}
        for row in table.select(["_partition", "_key", "number"]).to_pylist():
            assert row["_partition"] == row["number"] % PARTITIONS
            assert row["_key"] == b"k%d" % row["number"]
    lines = objects(config, "typed-lines", ".json.gz")
    check(
        {
            key: [json.loads(line) for line in gzip.decompress(data).splitlines()]
            for key, data in lines.items()
        }
    )
    stripes = objects(config, "typed-orc", ".orc")
    files = {key: orc.ORCFile(io.BytesIO(data)).read() for key, data in stripes.items()}
    check(rows_of(files))
    assert len({file.schema for file in files.values()}) == 1

    for topic in TOPICS:
        shown = run_secor("quarantine", "cat", str(config), topic)
        assert shown.returncode == 0, shown.stderr
        reasons = [json.loads(line)["reason"] for line in shown.stdout.splitlines()]
        stages = sorted(reason.partition(":")[0] for reason in reasons)
        bad = ["decode", "decode", *(["schema"] if topic == "typed-orc" else []), "time", "time"]
        assert stages == bad
    verified = run_secor("verify", str(config))
    assert verified.returncode == 0, verified.stdout + verified.stderr
