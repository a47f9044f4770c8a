"""A schema that is kept with the objects and grows, from the command line over real servers."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from kafka import KafkaProducer

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

Messages = Mapping[int, Sequence[dict[str, Any]]]
"""By partition."""

TOPIC = "growing"
PARTITIONS = 2
DAY = 1_700_000_000  # 2023-11-14T22:13:20
SETTINGS = """
[parser]
time_field = "time"
max_bad_ratio = "none"
"""


def messages(first: int, count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"time": DAY + 60 * at, "number": at, **more} for at in range(first, first + count)]


def produce(sandbox: Sandbox, by_partition: Messages) -> None:
    producer = KafkaProducer(bootstrap_servers=sandbox.kafka)
    for partition, items in by_partition.items():
        for item in items:
            producer.send(TOPIC, value=json.dumps(item).encode(), partition=partition)
    producer.flush()
    producer.close()


def told(*arguments: str) -> str:
    done = run_secor(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fetched(config: Path, folder: Path) -> list[Path]:
    """Copy the topic's directory; return the files that Hive, Spark and Arrow look at."""
    found = []
    with open_store(load(config, {})) as store:
        for stored in store.list(f"{TOPIC}/{TOPIC}/"):
            if "/_" in stored.key:
                continue
            path = folder / stored.key.removeprefix(f"{TOPIC}/{TOPIC}/")
            path.parent.mkdir(parents=True, exist_ok=True)
            with store.open(stored.key) as file:
                path.write_bytes(file.read())
            found.append(path)
    return found


def without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None and name != "dt"}


def by_number(row: Mapping[str, Any]) -> float:
    return float(row["number"])


def test_fields_that_appear_later_have_columns_and_nothing_is_lost_or_there_twice(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    config = write_config(
        tmp_path,
        sandbox,
        group=TOPIC,
        topic=TOPIC,
        ledger="zookeeper",
        settings={
            "group": {"kind": "partition"},
            "output": {"format": "parquet", "metadata_columns": ["_offset"]},
            "policy": {"max_messages": 100, "max_age": "1s"},
        },
        more=SETTINGS,
    )
    create_topic(sandbox, TOPIC, PARTITIONS)
    first: Messages = {0: messages(0, 250), 1: messages(250, 250)}
    produce(sandbox, first)
    daemon = start(config, tmp_path / "first")
    wait_until(lambda: committed(config, TOPIC, PARTITIONS) >= 200, "some are committed")
    second: Messages = {
        0: messages(500, 200, user={"name": "Ann", "tags": ["x"]}),
        1: [*messages(700, 100), *messages(800, 100, share=0.5)],
    }
    produce(sandbox, second)
    wait_until(lambda: '"schema_grew"' in daemon.text(), "a first version of the schema")
    daemon.send(signal.SIGKILL)
    daemon.wait()
    daemon = start(config, tmp_path / "second")
    wait_until(lambda: committed(config, TOPIC, PARTITIONS) == 900, "what was there before")
    halves = [{"time": DAY, "number": at + 0.5} for at in range(1000, 1050)]
    conflicts = [{"time": DAY, "number": "many", "never": 1}, {"time": DAY, "user": "Ann"}]
    third: Messages = {0: [*halves, *conflicts], 1: messages(1050, 20, late=True)}
    produce(sandbox, third)
    total = sum(len(items) for part in (first, second, third) for items in part.values())
    wait_until(lambda: committed(config, TOPIC, PARTITIONS) == total, "everything is committed")
    assert daemon.total("secor_quarantined_total") == len(conflicts)

    fields = json.loads(told("schema", "show", str(config), TOPIC))["fields"]
    kinds = {field["name"]: field["type"] for field in fields}
    assert kinds.keys() == {"time", "number", "user", "share", "late"}
    assert (kinds["time"], kinds["number"], kinds["late"]) == ("int64", "double", "bool")
    files = fetched(config, tmp_path / "stored")
    widest = max((pq.read_schema(path) for path in files), key=lambda schema: len(schema.names))
    table = ds.dataset(tmp_path / "stored", schema=widest, format="parquet").to_table()
    rows = sorted(map(without_nulls, table.to_pylist()), key=by_number)
    sent = [item for part in (first, second, third) for items in part.values() for item in items]
    good = [item for item in sent if item not in conflicts]
    assert [{**row, "_offset": 0} for row in rows] == [
        {"_offset": 0, **item} for item in sorted(good, key=by_number)
    ]
    told("verify", str(config))
    reasons = [
        json.loads(line)["reason"]
        for line in told("quarantine", "cat", str(config), TOPIC).splitlines()
    ]
    assert [reason.partition(":")[0] for reason in reasons] == ["schema", "schema"]
