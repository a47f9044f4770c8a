"""A table group on real servers: killed at any moment, each row is in its table once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import duckdb
import pyarrow as pa
import pytest
from kafka import KafkaProducer
from kazoo.client import KazooClient

from secor.config.load import load
from secor.sandbox import Sandbox
from secor.wiring.table_catalogs import open_tables
from tests.integration.daemons import (
    Daemon,
    Start,
    create_topic,
    daemons,
    run_secor,
    secor,
    wait_until,
    write_config,
)

PARTITIONS = 3
TABLES = """
[[tables]]
table = "logs.{topic}"
auto_create = true
evolve = true

[[tables]]
table = "logs.late_%s"
field = "late"
equals = true
auto_create = true
"""
CHANNELS = [("zookeeper", "kafka"), ("kafka", "none")]

RUN = ("tables", "run")


@pytest.fixture
def start() -> Iterator[Start]:
    with daemons() as starting:
        yield starting


def config_of(
    folder: Path, sandbox: Sandbox, topic: str, ledger: str, control: str, **more: object
) -> Path:
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{folder / 'catalog.db'}",
        "warehouse": f"s3://{sandbox.s3.bucket}/{topic}-warehouse",
    }
    return write_config(
        folder,
        sandbox,
        group=topic,
        topic=topic,
        ledger=ledger,
        settings={
            "group": {"name": topic, "kind": "table"},
            "parser": {"decoder": "json"},
            "policy": {"max_messages": 200, "max_age": "20s"},
            "rows": {"metadata_columns": ["_topic", "_kafka_partition", "_offset", "_timestamp"]},
            "commit": {"interval": "2s", "timeout": "4s", "control": control, **more},
        },
        more="\n".join(
            ["[catalog.properties]", *(f"{key} = {json.dumps(it)}" for key, it in catalog.items())]
        )
        + TABLES % topic,
    )


def produce_rows(sandbox: Sandbox, topic: str, numbers: range) -> None:
    producer = KafkaProducer(bootstrap_servers=sandbox.kafka)
    for number in numbers:
        value: dict[str, object] = {"id": number, "late": number % 3 == 0}
        if number >= 600:
            value["note"] = f"n{number}"  # a column that appears half way
        partition = number % PARTITIONS
        producer.send(topic, json.dumps(value).encode(), partition=partition)
    producer.flush()
    producer.close()


def read(config: Path, table: str) -> pa.Table | None:
    """Return a table as the Iceberg library reads it; None before it is made."""
    catalog, _ = open_tables(load(config, {}))
    if table not in catalog.list_tables("logs"):
        return None
    return catalog.library.load_table(table).scan().to_arrow()


def ids(config: Path, table: str) -> list[int]:
    rows = read(config, table)
    return [] if rows is None else sorted(rows.column("id").to_pylist())


def all_there(config: Path, topic: str, count: int) -> bool:
    late = len(range(0, count, 3))
    return (
        len(ids(config, f"logs.{topic}")) >= count
        and len(ids(config, f"logs.late_{topic}")) >= late
    )


def assert_once(config: Path, topic: str, count: int) -> None:
    assert ids(config, f"logs.{topic}") == list(range(count))
    assert ids(config, f"logs.late_{topic}") == list(range(0, count, 3))
    rows = read(config, f"logs.{topic}")
    assert rows is not None
    with duckdb.connect() as connection:  # an engine that is not ours
        query = (
            "SELECT count(*), count(DISTINCT (_kafka_partition, _offset)), max(_offset) FROM rows"
        )
        (total, distinct, greatest) = connection.execute(query).fetchall()[0]
    assert (total, distinct, greatest) == (count, count, (count - 1) // PARTITIONS)
    verified = run_secor("verify", str(config))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "each is there once" in verified.stdout


@pytest.mark.parametrize(("ledger", "control"), CHANNELS)
def test_killed_at_any_moment_each_row_is_there_once(
    sandbox: Sandbox, tmp_path: Path, start: Start, ledger: str, control: str
) -> None:
    """Workers and coordinators are killed at random, before the very first commit too."""
    topic = f"killed_tables_{ledger}"
    rng = random.Random(7)
    create_topic(sandbox, topic, PARTITIONS)
    config = config_of(tmp_path, sandbox, topic, ledger, control)
    produced = 0
    running = [start(config, tmp_path / f"log-{number}") for number in range(2)]
    for round_number in range(2):
        produce_rows(sandbox, topic, range(produced, produced + 400))
        produced += 400
        time.sleep(rng.uniform(1.0, 4.0))
        victim = running.pop(rng.randrange(2))
        victim.send(signal.SIGKILL)
        running.append(start(config, tmp_path / f"log-again-{round_number}"))
    wait_until(lambda: all_there(config, topic, produced), "all rows in both tables")
    for daemon in running:
        assert daemon.stop() == 0, daemon.text()[-2000:]
    assert_once(config, topic, produced)


def test_a_coordinator_alone_and_the_commands(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "alone_tables"
    create_topic(sandbox, topic, PARTITIONS)
    config = config_of(tmp_path, sandbox, topic, "zookeeper", "kafka", coordinator="alone")
    produce_rows(sandbox, topic, range(900))
    tried = run_secor("parser", "try", str(config), "--from-topic", topic, "--json")
    assert tried.returncode == 0, tried.stderr
    assert not (tmp_path / "catalog.db").exists()
    worker = start(config, tmp_path / "worker")
    wait_until(lambda: '"event": "committed"' in worker.text(), "something is staged")
    asked = run_secor("tables", "commit", str(config))
    assert asked.returncode == 0, asked.stdout + asked.stderr
    wait_until(lambda: _commit(config, topic), "all rows by secor tables commit")
    assert_once(config, topic, 900)
    assert_as_tried(config, f"logs.{topic}", tried.stdout)
    status = run_secor("tables", "status", str(config), "--json")
    assert status.returncode == 0, status.stderr
    seen = json.loads(status.stdout)
    assert seen["staged"]["batches"] == 0
    assert Counter(table["state"] for table in seen["tables"]) == {"ok": 2}
    shown = run_secor("tables", "show", str(config), f"logs.{topic}")
    assert shown.returncode == 0
    assert "next offset" in shown.stdout
    explained = run_secor("tables", "explain", str(config), f"logs.{topic}", "--json")
    assert explained.returncode == 0, explained.stderr
    [made] = json.loads(explained.stdout)["columns"][0]["steps"]
    assert (made["path"], made["step"], made["first"]["topic"]) == ("id", "made", topic)
    assert made["seen"].endswith(" numbers")
    again = run_secor("tables", "replay", str(config), f"logs.{topic}")
    assert again.returncode == 2
    assert "was not rolled back" in again.stderr
    expired = run_secor("tables", "expire", str(config), "--dry-run", "--older-than", "0")
    assert expired.returncode == 0, expired.stderr
    assert "nothing has expired" in expired.stdout
    nothing = run_secor("tables", "accept", str(config), f"logs.{topic}", "--dry-run")
    assert nothing.returncode == 0
    assert "nothing is to be settled" in nothing.stdout
    take_turns(sandbox, config, topic, [start(config, tmp_path / name, RUN) for name in "ab"])


def assert_as_tried(config: Path, table: str, shown: str) -> None:
    """The rows and columns that ``secor parser try`` showed are those of the table."""
    rows = read(config, table)
    assert rows is not None
    lines = [json.loads(line) for line in shown.splitlines()]
    tried = [
        {name: it for name, it in row["values"].items() if name != "_timestamp"}
        for line in lines
        for row in line.get("rows", ())
        if row["table"] == table
    ]
    stored = [
        {name: it for name, it in row.items() if name != "_timestamp" and it is not None}
        for row in rows.to_pylist()
    ]
    assert sorted(tried, key=lambda row: int(row["id"])) == sorted(
        stored, key=lambda row: row["id"]
    )
    [columns] = [line["columns"] for line in lines if line.get("table") == table]
    schema = open_tables(load(config, {}))[0].library.load_table(table).schema()
    shown_columns = {it["name"]: it["type"] for it in columns}
    assert shown_columns == {it.name: str(it.field_type) for it in schema.fields}


def take_turns(sandbox: Sandbox, config: Path, topic: str, both: list[Daemon]) -> None:
    """Of two that coordinate alone one leads, the other shows it.

    One that sleeps beyond its session is followed and, woken, stands by; one that ends is
    followed at once.
    """
    wait_until(lambda: sum(has_logged(it, "coordinating") for it in both) == 1, "one leads")
    wait_until(lambda: sum(has_logged(it, "stands_by") for it in both) == 1, "one stands by")
    first, second = sorted(both, key=lambda it: has_logged(it, "stands_by"))
    assert not has_logged(second, "coordinating")
    name = coordination(first)["instance"]
    wait_until(lambda: coordination(second)["coordinator"] == name, "it hears who leads")
    assert (coordination(first)["here"], coordination(second)["here"]) == (True, False)
    assert coordination(second)["state"] == "standby"
    first.send(signal.SIGSTOP)
    produce_rows(sandbox, topic, range(900, 960))
    wait_until(lambda: all_there(config, topic, 960), "the successor's commit")
    assert coordination(second)["here"]
    first.send(signal.SIGCONT)
    wait_until(lambda: has_logged(first, "stands_by"), "the one that was woken stands by")
    assert has_logged(first, "not_coordinating")
    second.send(signal.SIGTERM)
    wait_until(lambda: first.text().count('"event": "coordinating"') == 2, "it leads again")
    assert second.wait() == 0
    produce_rows(sandbox, topic, range(960, 990))
    wait_until(lambda: all_there(config, topic, 990), "its commit")
    assert ids(config, f"logs.{topic}") == list(range(990))
    first.send(signal.SIGTERM)
    assert first.wait() == 0


def has_logged(daemon: Daemon, event: str) -> bool:
    return f'"event": "{event}"' in daemon.text()


def coordination(daemon: Daemon) -> dict[str, Any]:
    """Return what its status page shows of who coordinates."""
    with urlopen(f"http://127.0.0.1:{daemon.port()}/status.json", timeout=30.0) as answer:
        shown = json.load(answer)
    return {**shown["coordination"], "instance": shown["instance"]}


def _commit(config: Path, topic: str) -> bool:
    done = run_secor("tables", "commit", str(config))
    assert done.returncode == 0, done.stdout + done.stderr
    return all_there(config, topic, 900)


def test_replays_that_are_killed_and_entries_that_are_lost_double_no_row(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "replayed_tables"
    create_topic(sandbox, topic, PARTITIONS)
    config = config_of(tmp_path, sandbox, topic, "zookeeper", "kafka")
    wide = config.read_text()
    narrow = wide.replace('table = "logs.{topic}"\n', 'table = "logs.{topic}"\nfield = "late"\n')
    config.write_text(narrow.replace('field = "late"\n', 'field = "late"\nequals = true\n', 1))
    daemon = start(config, tmp_path / "log")
    produce_rows(sandbox, topic, range(300))
    late = list(range(0, 300, 3))
    wait_until(lambda: ids(config, f"logs.{topic}") == late, "the rows that fit")
    config.write_text(wide)
    dry = run_secor("quarantine", "replay", "--dry-run", "--json", str(config))
    assert json.loads(dry.stdout)["placed"] == 200, dry.stdout + dry.stderr
    for seconds in (2.0, 3.0):
        killed = subprocess.Popen(secor("quarantine", "replay", str(config)))
        time.sleep(seconds)
        killed.kill()
        killed.wait()
    for _ in range(2):
        replayed = run_secor("quarantine", "replay", str(config))
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    wait_until(lambda: ids(config, f"logs.{topic}") == list(range(300)), "the replayed rows")
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0
    lose_entries(sandbox, topic)
    produce_rows(sandbox, topic, range(300, 330))
    refused = start(config, tmp_path / "refused")
    wait_until(lambda: refused.text().count('"reason": "ledger_lost"') >= PARTITIONS, "the stops")
    refused.send(signal.SIGTERM)
    refused.wait()
    rebuilt = run_secor("offsets", "recover", "--yes", str(config))
    assert rebuilt.stdout.count("committed is 100") == PARTITIONS, rebuilt.stdout + rebuilt.stderr
    again = start(config, tmp_path / "again")
    wait_until(lambda: all_there(config, topic, 330), "the rows after the lost entries")
    again.send(signal.SIGTERM)
    assert again.wait() == 0
    assert_once(config, topic, 330)


def lose_entries(sandbox: Sandbox, group: str) -> None:
    client = KazooClient(sandbox.zookeeper)
    client.start()
    client.delete(f"/consumers/{group}/offsets", recursive=True)
    client.stop()
    client.close()
