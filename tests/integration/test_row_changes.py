"""Rows that are changed, on real servers and with a real Spark that is killed as it merges."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kafka import KafkaProducer

from secor.config.load import load
from secor.sandbox import Sandbox
from secor.wiring.table_catalogs import open_tables
from tests.integration.daemons import (
    Daemon,
    create_topic,
    daemons,
    run_secor,
    secor,
    wait_until,
    write_config,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PARTITIONS = 2
KEYS = 40
MERGING = 400.0
"""Seconds that Spark may take to start and to merge, on a machine that does other things too."""
TABLES = """
[[tables]]
table = "shop.%s"
mode = "upsert"
key = ["id"]
auto_create = true
evolve = true

[[tables]]
table = "shop.%s_log"
auto_create = true
"""
SPARK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.master": "local[2]",
    "spark.driver.memory": "640m",
    "spark.sql.shuffle.partitions": "2",
}

Rows = dict[int, dict[str, object]]


class Committer(Daemon):
    """``secor tables run`` as a process."""

    def __init__(self, config: Path, log: Path) -> None:
        """Start it."""
        self.log = log
        with log.open("ab") as file:
            command = secor("tables", "run", str(config))
            self.process = subprocess.Popen(command, stdout=file, stderr=file)


@pytest.fixture
def config(sandbox: Sandbox, tmp_path: Path) -> Path:
    topic = "changed_rows"
    create_topic(sandbox, topic, PARTITIONS)
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path / 'catalog.db'}",
        "warehouse": f"s3://{sandbox.s3.bucket}/{topic}-warehouse",
    }
    properties = "\n".join(f"{key} = {json.dumps(value)}" for key, value in catalog.items())
    return write_config(
        tmp_path,
        sandbox,
        group=topic,
        topic=topic,
        ledger="zookeeper",
        settings={
            "group": {"name": topic, "kind": "table"},
            "parser": {"decoder": "json"},
            "policy": {"max_messages": 100, "max_age": "1s"},
            "commit": {"interval": "1s", "timeout": "4s", "coordinator": "alone"},
            "erase": {"secret": "a secret of sixteen and more"},
        },
        more=f"[catalog.properties]\n{properties}\n[spark]\nsettings = {{"
        + ", ".join(f'"{key}" = "{value}"' for key, value in SPARK.items())
        + "}\n"
        + TABLES % (topic, topic),
    )


@pytest.fixture
def worker(config: Path, tmp_path: Path) -> Iterator[Daemon]:
    with daemons() as start:
        yield start(config, tmp_path / "worker")


def produce(sandbox: Sandbox, rng: random.Random, count: int, state: Rows) -> None:
    """Send changes of some keys, each key in its partition; ``state`` is what comes of them."""
    producer = KafkaProducer(bootstrap_servers=sandbox.kafka)
    for _ in range(count):
        row_id = rng.randrange(KEYS)
        key, partition = json.dumps({"id": row_id}).encode(), row_id % PARTITIONS
        if rng.random() < 0.2:
            state.pop(row_id, None)
            value = None
        else:
            row: dict[str, object] = {"id": row_id, "version": rng.randrange(1 << 40)}
            if len(state) > KEYS // 2:
                row["note"] = f"n{row['version']}"  # a column that appears on the way
            state[row_id] = row
            value = json.dumps(row).encode()
        producer.send("changed_rows", value, key, partition=partition)
    producer.flush()
    producer.close()


def read(config: Path, table: str) -> Rows:
    catalog, _ = open_tables(load(config, {}))
    if table not in catalog.list_tables("shop"):
        return {}
    rows = catalog.library.load_table(table).scan().to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: {key: it for key, it in row.items() if it is not None} for row in rows}


def snapshots(config: Path, table: str) -> int:
    """Return how many there are, those that are only staged among them."""
    catalog, _ = open_tables(load(config, {}))
    if table not in catalog.list_tables("shop"):
        return 0
    return len(catalog.load_table(table).snapshots)


def wait_for_snapshot(config: Path, table: str) -> None:
    """Wait until one more is there, of whichever kind."""
    before = snapshots(config, table)
    wait_until(lambda: snapshots(config, table) > before, "a snapshot", MERGING)


def end_spark(committer: Committer) -> None:
    """Kill the JVM alone: the process ends, so that its service starts it again."""
    for child in psutil.Process(committer.process.pid).children():
        if child.name() == "java":
            child.kill()
    assert committer.wait() == 4, committer.log.read_text()[-2000:]
    assert "spark_ended" in committer.log.read_text()


def assert_verified(config: Path, table: str, state: Rows) -> None:
    """See that ``secor verify`` finds the rows that somebody else has changed, and no others."""
    lost, changed, erased = sorted(state)[:3]
    values = config.parent / "values.txt"
    values.write_text(f"{erased}\n999\n")
    options = ("--column", "id", "--values", str(values))
    done = run_secor("tables", "erase", str(config), table, *options, patience=MERGING)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{table}: 1 row deleted, by id" in done.stdout
    catalog, _ = open_tables(load(config, {}))
    present = catalog.library.load_table(table)
    present.delete(f"id == {lost}")
    rows = present.scan(row_filter=f"id == {changed}").to_arrow()
    at = rows.schema.get_field_index("version")
    present.overwrite(rows.set_column(at, rows.schema.field(at), [[-1]]), f"id == {changed}")
    verified = run_secor("verify", str(config), "--json", patience=MERGING)
    assert verified.returncode == 5, verified.stdout + verified.stderr
    report = json.loads(verified.stdout)
    [compared] = report["states"]
    assert (compared["rows"], compared["missing"], compared["different"]) == (len(state) - 2, 1, 1)
    assert compared["erased"] == 1
    assert (compared["twice"], compared["extra"], report["findings"]) == (0, 0, [])
    assert report["compared"] == compared["messages"] == 900


def test_a_table_has_the_last_state_of_each_key_whoever_is_killed(
    sandbox: Sandbox, config: Path, worker: Daemon, tmp_path: Path
) -> None:
    """Killed with a snapshot staged or published; and once Spark is, but not Secor."""
    table, rng, state = "shop.changed_rows", random.Random(1), Rows()
    produce(sandbox, rng, 300, state)
    running: list[Committer] = []
    try:
        for number in range(2):
            running.append(Committer(config, tmp_path / f"committer-{number}"))
            wait_for_snapshot(config, table)
            if number:
                end_spark(running[-1])
            else:
                running[-1].send(signal.SIGKILL)
            produce(sandbox, rng, 300, state)
        running.append(Committer(config, tmp_path / "committer-last"))
        wait_until(lambda: read(config, table) == state, "the last state", MERGING)
        running[-1].send(signal.SIGTERM)
        assert running[-1].wait() == 0
    finally:
        for committer in running:
            committer.kill()
    assert worker.process.poll() is None
    assert_verified(config, table, state)
    status = run_secor("tables", "status", str(config), "--json")
    assert status.returncode == 0, status.stdout + status.stderr
    assert {it["state"] for it in json.loads(status.stdout)["tables"]} == {"ok"}
