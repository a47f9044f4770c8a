"""The dashboard's queries in a real Prometheus that scrapes real daemons."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from secor.sandbox import Sandbox
from secor.service.monitoring.last_run import BACKFILL, COMPACT, EXPIRE, FINALIZE
from tests.integration.daemons import Daemon, Start, create_topic, daemons, wait_until, write_config
from tests.monitoring.dashboard import Query, queries
from tests.monitoring.server import Prometheus

BACKUP, PARTITION, TABLE = GROUPS = ("shown-backup", "shown-partition", "shown-table")
PARSER = """
[parser]
time_field = "time"
max_bad_ratio = "none"
[[parser.transforms]]
kind = "filter"
field = "bot"
exists = true
negated = true
"""
TABLES = """
[catalog.properties]
type = "sql"
uri = "sqlite:///{folder}/catalog.db"
warehouse = "s3://{bucket}/shown-warehouse"
[[tables]]
table = "logs.shown"
auto_create = true
"""
RESTORE = "shown-restore"
JOB = """
[group]
name = "shown-restore"
kind = "restore"
[kafka]
bootstrap_servers = ["{kafka}"]
[store.s3]
bucket = "{s3.bucket}"
endpoint_url = "{s3.endpoint_url}"
region = "{s3.region}"
path_style = true
access_key = "{s3.access_key}"
secret_key = "{s3.secret_key}"
[source]
prefix = "shown-backup"
topics = ["shown-backup"]
lossy = true
[target]
topic = "restored-{{topic}}"
[writing]
follow = true
look_again = "1s"
interval = "200ms"
[metrics]
port = 0
[logs]
format = "json"
"""
VALUES = (b'{"time": 1700000000}', b'{"time": 1700000000, "bot": 1}', b"{")
ABSENT_WHILE_WELL = {
    "secor_adopted_objects_total",
    "secor_superseded_total",
    "secor_restarts_total",
    "secor_retries_total",
    "secor_partition_stopped",
    "secor_fetch_restarts_total",
    "secor_text_losses_total",
    "secor_undeclared_values_total",
    "secor_other_events_total",
    "secor_infinite_values_total",
    "secor_erased_total",
    "secor_future_timestamps_total",
    "secor_table_conflicts_total",
    "secor_table_unknown_total",
    "secor_table_stopped",
    "secor_staged_oldest_timestamp_seconds",
    "secor_restore_failing",
    "secor_restore_errors_total",
    *(it.name for it in (*FINALIZE, *COMPACT, *BACKFILL, *EXPIRE)),
}
QUERIES = queries()


@pytest.fixture(scope="module")
def prometheus(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that has scraped a group of each kind, and a restore, at work for a while."""
    folder = tmp_path_factory.mktemp("dashboard")
    with ExitStack() as opened:
        start = opened.enter_context(daemons())
        targets = []
        for group in GROUPS:
            create_topic(sandbox, group, 2)
            config = written(group, folder, sandbox)
            targets.append((group, start(config, folder / f"{group}.log")))
        for group, daemon in targets:
            wait_until(partial(serves, daemon), f"{group} to serve metrics")
        targets.append((RESTORE, start_restore(sandbox, folder, start, targets[0][1])))
        running = opened.enter_context(Prometheus(folder / "prometheus"))
        running.scrape(
            *((f"127.0.0.1:{daemon.port()}", {"group": group}) for group, daemon in targets)
        )
        keep_busy(sandbox, running)
        yield running


def start_restore(sandbox: Sandbox, folder: Path, start: Start, backup: Daemon) -> Daemon:
    """Restore what the backup group has archived, and go on as it archives more."""
    producer = KafkaProducer(bootstrap_servers=sandbox.kafka)
    for number in range(60):
        producer.send(BACKUP, VALUES[0], partition=number % 2)
    producer.close()
    wait_until(lambda: backup.total("secor_uploaded_objects_total") > 1, "an archive")
    job = folder / f"{RESTORE}.toml"
    job.write_text(JOB.format(kafka=sandbox.kafka, s3=sandbox.s3))
    daemon = start(job, folder / f"{RESTORE}.log", ("restore", "run"))
    wait_until(partial(serves, daemon), f"{RESTORE} to serve metrics")
    return daemon


def written(group: str, folder: Path, sandbox: Sandbox) -> Path:
    """Write the configuration of one of the groups."""
    settings: dict[str, dict[str, object]] = {
        "group": {"name": group, "kind": group.removeprefix("shown-")},
        "output": {"prefix": group, "format": "jsonlines" if group == PARTITION else "text"},
    }
    more = PARSER if group == PARTITION else ""
    if group == TABLE:
        settings["output"] = {"prefix": group}
        settings["parser"] = {"max_bad_ratio": "none"}
        settings["commit"] = {"interval": "1s", "timeout": "2s"}
        more = TABLES.format(folder=folder, bucket=sandbox.s3.bucket)
    return write_config(
        folder, sandbox, group=group, topic=group, ledger="kafka", settings=settings, more=more
    )


def serves(daemon: Daemon) -> bool:
    return daemon.port() is not None


def keep_busy(sandbox: Sandbox, running: Prometheus) -> None:
    """Send messages until Prometheus has seen uploads of all groups, and then some more."""
    groups_with = {
        "secor_batch_age_seconds_count": len(GROUPS),
        "secor_uploaded_objects_total": len(GROUPS),
        "secor_table_rows_total": 1,
        "secor_restore_transaction_duration_seconds_count": 1,
    }
    rates = {
        f"count(sum by (group) (rate({name}[1m])) > 0)": float(count)
        for name, count in groups_with.items()
    }
    producer = KafkaProducer(bootstrap_servers=sandbox.kafka)
    numbers = itertools.count()

    def busy() -> bool:
        for group in GROUPS:
            for number in itertools.islice(numbers, 30):
                producer.send(group, VALUES[number % len(VALUES)], partition=number % 2)
        producer.flush()
        time.sleep(0.2)
        # Only a cycle in which every partition answered in time tells how far a table is valid.
        if not running.query("secor_table_valid_through_timestamp_seconds"):
            return False
        return all(values(running.query(rate)) == [count] for rate, count in rates.items())

    wait_until(busy, "rates of uploads of all groups")
    producer.close()


def values(result: list[dict[str, Any]]) -> list[float]:
    return [float(one["value"][1]) for one in result]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.panel}: {query.legend}")
def test_prometheus_answers_every_query(prometheus: Prometheus, query: Query) -> None:
    found = prometheus.query(query.filled({}))
    if not ABSENT_WHILE_WELL & {name for name, _ in query.selected()}:
        assert found, query.expression
        assert all(math.isfinite(value) for value in values(found)), query.expression
    told = {label for one in found for label in one["metric"]}
    assert not found or query.told() <= told


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.panel}: {query.legend}")
def test_variables_choose(prometheus: Prometheus, query: Query) -> None:
    one = prometheus.query(query.filled({"group": BACKUP}))
    assert {found["metric"].get("group", BACKUP) for found in one} <= {BACKUP}
    for variable in query.variables() & {"group", "topic", "instance"}:
        none = prometheus.query(query.filled({variable: "no-such-thing"}))
        assert values(none) in ([], [0.0]), f"{variable} does not choose in {query.expression}"


def test_groups_and_topics_can_be_chosen_among(prometheus: Prometheus) -> None:
    for label, metric in (("group", "secor_assigned_partitions"), ("topic", "secor_lag_offsets")):
        found = prometheus.query(f"count by ({label}) ({metric})")
        assert {one["metric"][label] for one in found} == set(GROUPS)
