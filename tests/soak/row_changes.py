"""A table whose rows are changed by key, beside the others of a run: staged, and merged by Spark.

A group of its own, with one daemon and one committer, which are killed at random.  What the
table must have is computed from the topic, with Python's own JSON; the rows are read by the
Iceberg library, and then ``secor verify`` must say the same.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from secor.config.load import load
from secor.core.errors import SecorError
from secor.sandbox import Sandbox
from secor.wiring.clients import open_reader
from tests.integration.daemons import run_secor
from tests.soak.fleet import COORDINATOR, DAEMON, Kind, Member
from tests.soak.load import Topic, create
from tests.soak.story import Story
from tests.soak.tables import WAREHOUSE, Tables

PREFIX = "rows"
"""Of the group's objects, and the namespace of its table; nothing but rows is compared there."""
TOPIC = Topic("changed-rows", 2, 40, "lz4")
TABLE = f"{PREFIX}.flights"
KEYS = 300
WITHIN = 600.0
"""Seconds after the faults in which Spark must have merged everything."""
_COMMAND = 900.0
_AGAIN_AFTER = 2.0

TEXT = """
[spark.settings]
"spark.master" = "local[2]"
"spark.driver.memory" = "640m"
"spark.sql.shuffle.partitions" = "2"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1"
[[tables]]
table = "{table}"
mode = "upsert"
key = ["id"]
auto_create = true
evolve = true
properties = {{"write.merge.mode" = "merge-on-read"}}
"""

Rows = dict[int, Mapping[str, Any]]


def is_of_changed_rows(key: str) -> bool:
    """Tell whether an object belongs to this group or its table."""
    return key.startswith((f"{PREFIX}/", f"{WAREHOUSE}/{PREFIX}/"))


class ChangedRows:
    """The group, its writer, and who kills its processes; ``step`` is called all the time."""

    def __init__(
        self, folder: Path, sandbox: Sandbox, tables: Tables, text: str, story: Story, seed: int
    ) -> None:
        """``text`` is the configuration but for the topic and what is special here."""
        self._sandbox, self._tables, self._story = sandbox, tables, story
        self._rng = random.Random(f"rows {seed}")
        self._logs = folder / "logs"
        self._logs.mkdir(parents=True, exist_ok=True)
        self.config = folder / "rows.toml"
        self.config.write_text(text + TEXT.format(table=TABLE))
        self._members: dict[Kind, Member] = {}
        self._next_kill = {DAEMON: 20.0, COORDINATOR: 60.0}
        self._producer: KafkaProducer | None = None
        self._written = self._killed = 0
        create(sandbox.kafka, TOPIC)
        tables.server.catalog.create_namespace(PREFIX)

    def step(self) -> None:
        """Write some messages, kill somebody when it is time, start who is not there."""
        with suppress(KafkaError):
            self._write()
        for kind, at in self._next_kill.items():
            if self._story.now() >= at:
                self._next_kill[kind] = self._story.now() + self._rng.uniform(20.0, 75.0)
                self._kill(kind)
        self._check()

    def _write(self) -> None:
        if self._producer is None:
            self._producer = KafkaProducer(
                bootstrap_servers=self._sandbox.kafka, acks="all", max_block_ms=500
            )
        for _ in range(self._rng.randrange(TOPIC.messages)):
            self._written += 1
            row_id = self._rng.randrange(KEYS)
            row: dict[str, Any] | None = {"id": row_id, "number": self._written}
            if self._rng.random() < 0.2:
                row = None
            elif self._tables.values.notes and row is not None:
                row["note"] = f"n{self._written}"  # a column that appears on the way
            key, value = json.dumps({"id": row_id}).encode(), row and json.dumps(row).encode()
            self._producer.send(TOPIC.name, value, key, partition=row_id % TOPIC.partitions)

    def _kill(self, kind: Kind) -> None:
        member = self._members.get(kind)
        if member is not None and member.alive:
            self._killed += 1
            self._story.say(f"SIGKILL: {member.name} of changed rows")
            member.kill()

    def _check(self) -> None:
        for kind in (DAEMON, COORDINATOR):
            member = self._members.get(kind)
            if member is not None and not member.alive:
                code = member.process.returncode
                if code not in (-signal.SIGKILL, 4):  # 4: a server was out as it started
                    self._story.violated(f"{member.name} ended with {code}: {member.log}")
                if self._story.now() - member.began < _AGAIN_AFTER:
                    continue
            if member is None or not member.alive:
                name = "daemon" if kind is DAEMON else "committer"
                number = len(list(self._logs.glob("rows-*")))
                log = self._logs / f"rows-{number:03d}-{name}.log"
                self._members[kind] = Member(name, kind, self.config, log, self._story.now())

    def finish(self) -> str:
        """Wait for the last merge, compare row for row, and end; return what was compared."""
        try:
            if self._producer is not None:
                with suppress(KafkaError):
                    self._producer.flush(20)
                self._producer.close(timeout=5)
            expected, began = self._expected(), self._story.now()
            rows: Rows | None = None
            while rows != expected and self._story.now() - began < WITHIN:
                self._check()
                time.sleep(2.0)
                rows = self._read()
            if rows != expected:
                self._tell_differences(rows or {}, expected)
            else:
                seconds = self._story.now() - began
                self._story.say(f"the changed rows are all merged after {seconds:.1f} s")
            return self._verify(len(expected))
        finally:
            self.kill()

    def kill(self) -> None:
        """Leave nothing running."""
        for member in self._members.values():
            if member.alive:
                member.kill()

    def _expected(self) -> Rows:
        """Return the last state of each key, as the topic tells it."""
        rows: Rows = {}
        with open_reader(load(self.config, {})) as reader:
            for partition in reader.partitions(TOPIC.name):
                for chunk in reader.read(partition, 0, reader.log_range(partition).end):
                    for message in chunk.records.select(["key", "value"]).to_pylist():
                        row_id = json.loads(message["key"])["id"]
                        rows.pop(row_id, None)
                        if message["value"] is not None:
                            rows[row_id] = json.loads(message["value"])
        return rows

    def _read(self) -> Rows | None:
        """Return the table's rows without their nulls; None where it cannot be read."""
        try:
            catalog = self._tables.server.catalog
            if not catalog.table_exists(TABLE):
                return None
            found = catalog.load_table(TABLE).scan().to_arrow().to_pylist()
        except OSError:
            return None
        rows = {row["id"]: {k: v for k, v in row.items() if v is not None} for row in found}
        if len(rows) != len(found):
            self._story.violated(f"{TABLE} has a key twice")
        return {
            row_id: {k: v for k, v in row.items() if not k.startswith("_")}
            for row_id, row in rows.items()
        }

    def _tell_differences(self, rows: Rows, expected: Rows) -> None:
        wrong = [it for it in sorted(rows.keys() | expected) if rows.get(it) != expected.get(it)]
        for row_id in wrong[:5]:
            there, wanted = rows.get(row_id), expected.get(row_id)
            self._story.violated(f"{TABLE}: {row_id} is {there}, by the topic {wanted}")
        self._story.violated(f"{TABLE}: {len(wrong)} rows are not as the topic says")

    def _verify(self, keys: int) -> str:
        try:
            answer = run_secor("verify", "--json", str(self.config), patience=_COMMAND)
            [state] = json.loads(answer.stdout)["states"]
        except (ValueError, KeyError, SecorError):
            self._story.violated(f"secor verify of changed rows: {answer.stderr[-2000:]}")
            return "changed rows not verified"
        if answer.returncode or state["rows"] != keys:
            self._story.violated(f"secor verify of changed rows: {answer.stdout}")
        return (
            f"{state['messages']:,} changes of {state['keys']:,} keys are {state['rows']:,} rows,"
            f" row for row, after {self._killed} kills"
        )
