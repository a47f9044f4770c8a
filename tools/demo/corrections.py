"""A table with one row for each flight, which later messages correct: upserts, merged by Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from kafka import KafkaProducer

from secor.config.load import load
from secor.core.errors import SecorError, Unavailable
from secor.sandbox import Sandbox
from secor.sandbox.first_steps import Settings, configuration
from secor.wiring.table_catalogs import open_tables
from secor.wiring.table_group import TableGroup, open_table_group
from tools.demo.backup import SecorProcess, surroundings
from tools.demo.flights import make_topic, table
from tools.demo.mending import spark_environment
from tools.demo.screen import Screen

FILES = frozenset({"board.toml", "board.log"})

TOPIC, TABLE = "board", "demo.board"
MONTH, DAY = 12, 31
_COLUMNS = ("carrier", "flight", "origin", "dest", "sched_dep_time", "dep_delay")
_WITHIN = 300.0
_LOOK_EVERY = 0.25

Rows = dict[tuple[str, int, str], tuple[Any, ...]]
"""What is known of each flight, by carrier, number and origin."""


def write_configuration(folder: Path, sandbox: Sandbox) -> Path:
    """Write ``board.toml``; its table is in the catalog of the other tables."""
    settings: Settings = {
        "group": {"name": "demo_board", "kind": "table"},
        "kafka": {"topics": [TOPIC]},
        "policy": {"max_age": "1s"},
        "output": {"prefix": "board"},
        "catalog.properties": {
            "type": "sql",
            "uri": f"sqlite:///{(folder / 'catalog.db').resolve()}",
            "warehouse": f"s3://{sandbox.s3.bucket}/warehouse",
        },
        "commit": {"coordinator": "alone"},
        "spark.settings": {'"spark.master"': "local[2]", '"spark.sql.shuffle.partitions"': "2"},
        "logs": {"format": "json"},
    }
    about = "Written by the demonstration; config/table-upsert.toml explains what is special."
    text = configuration(sandbox, folder / "local", settings, about=about)
    path = folder / "board.toml"
    path.write_text(
        f"""{text}
[[tables]]
table = "{TABLE}"
mode = "upsert"
key = ["carrier", "flight", "origin"]
operation_field = "state"
deletes = ["cancelled"]
auto_create = true
evolve = true
"""
    )
    return path


def of_the_day() -> list[dict[str, Any]]:
    """Return what became of the flights of one day; those that were cancelled have no delay."""
    known = table("flights")
    day = known[(known["month"] == MONTH) & (known["day"] == DAY)]
    rows: list[dict[str, Any]] = day[list(_COLUMNS)].to_dict("records")
    return rows


def messages(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the board as it is in the morning, and then a message for whatever changes."""
    morning = [{**row, "dep_delay": None, "state": "planned"} for row in rows]
    news = [
        {**row, "dep_delay": None, "state": "cancelled"}
        if row["dep_delay"] != row["dep_delay"]  # there is none
        else {**row, "state": "left"}
        for row in rows
    ]
    return [*morning, *news]


class BoardScene:
    """Tells how messages correct rows, and compares the table with the flights."""

    def __init__(self, screen: Screen, folder: Path, sandbox: Sandbox) -> None:
        self._screen = screen
        self._folder = folder
        self._sandbox = sandbox

    def run(self) -> None:
        """Produce plans and news, stage them, let Spark merge, compare."""
        self._screen.step("Correcting rows: one row for each flight, whatever messages it has")
        began = time.monotonic()
        path = write_configuration(self._folder, self._sandbox)
        rows = of_the_day()
        sent = messages(rows)
        produce(self._sandbox.kafka, sent)
        self._screen.say(
            f"{len(rows)} flights are planned for {DAY} December, and then leave or are cancelled:"
            f" {len(sent):,} messages"
        )
        self._stage(path)
        environment = spark_environment(self._folder)
        self._screen.command("tables", "commit", "--now", str(path), environment=environment)
        left = expected(rows)
        if read(path) != left:
            raise SecorError("the table does not have the last state of each flight")
        self._screen.say(
            f"{len(left)} rows: one for each flight that left, with its delay, and none for the"
            f" {len(rows) - len(left)} that were cancelled ({time.monotonic() - began:.0f} s, most"
            " of them for Spark to start)"
        )

    def _stage(self, path: Path) -> None:
        with open_table_group(load(path, surroundings())) as group:
            process = SecorProcess(path)
            try:
                deadline = time.monotonic() + _WITHIN
                while not _all_staged(group):
                    process.check()
                    if time.monotonic() > deadline:
                        raise Unavailable(f"not everything is staged; see {process.log}")
                    time.sleep(_LOOK_EVERY)
                process.stop()
            finally:
                process.end()


def _all_staged(group: TableGroup) -> bool:
    partitions = sorted(group.topics.partitions())
    ends = group.topics.ends(partitions)
    return bool(ends) and all(
        (group.ledger.read(it).committed or 0) >= ends.get(it, 1) for it in partitions
    )


def produce(bootstrap: str, values: list[dict[str, Any]]) -> None:
    """Produce messages, all of a flight into one partition."""
    make_topic(bootstrap, TOPIC)
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=50)
    try:
        for value in values:
            key = msgspec.json.encode([value["carrier"], value["flight"], value["origin"]])
            producer.send(TOPIC, key=key, value=msgspec.json.encode(value))
        producer.flush()
    finally:
        producer.close()


def read(path: Path) -> Rows:
    """Read the table with the Iceberg library."""
    catalog, _ = open_tables(load(path, surroundings()))
    found = catalog.library.load_table(TABLE).scan(selected_fields=_COLUMNS).to_arrow().to_pylist()
    rows = {_key(row): _values(row) for row in found}
    if len(rows) != len(found):
        raise SecorError("a flight has several rows")
    return rows


def expected(rows: list[dict[str, Any]]) -> Rows:
    """Return what the table must have: flights that left."""
    return {_key(row): _values(row) for row in rows if row["dep_delay"] == row["dep_delay"]}


def _key(row: Mapping[str, Any]) -> tuple[str, int, str]:
    return row["carrier"], row["flight"], row["origin"]


def _values(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _COLUMNS)
