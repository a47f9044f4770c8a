"""Tables whose rows are changed by key, beside the others of a run: staged, written by Spark.

Two groups read one topic: one merges into an Iceberg table of a REST catalog, the other writes a
Hudi table.  Daemons, committers and the catalog are killed, and committers stalled while another
takes over.  At the end each table must have the last state of each key, computed from the topic
with Python's own JSON; and ``secor verify`` must say the same.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from secor.sandbox import Sandbox
from secor.sandbox.catalogs import IcebergRestServer
from secor.sandbox.sandbox import quiet
from secor.sandbox.state import free_port
from tests.integration.daemons import secor
from tests.programs import spark_35
from tests.soak.changed_group import ChangedGroup
from tests.soak.changed_tables import HudiTable, KeyTwice, ReadTable, RestTable, Rows, expected_rows
from tests.soak.load import Topic, create
from tests.soak.story import Story
from tests.soak.tables import Values

PREFIX = "rows"
"""Of all objects of these groups and their tables; nothing but rows is compared there."""
TOPIC = Topic("changed-rows", 2, 40, "lz4")
KEYS = 300
WITHIN = 400.0
"""Seconds after the faults in which Spark must have written everything."""
ROOT = Path(__file__).parents[2]
_COMMAND = 600.0
_CATALOG_OUT_EVERY = (60.0, 180.0)

_OF_ALL = """
[parser]
decoder = "json"
[commit]
interval = "5s"
timeout = "5s"
coordinator = "alone"
keep_manifests = "100s"
[spark.settings]
"spark.master" = "local[2]"
"spark.driver.memory" = "768m"
"spark.sql.shuffle.partitions" = "2"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""
_ICEBERG = """
[catalog.properties]
type = "rest"
uri = "{catalog}"
[[tables]]
table = "rows.flights"
mode = "upsert"
key = ["id"]
auto_create = true
evolve = true
properties = {{"write.merge.mode" = "merge-on-read"}}
"""
_HUDI = """
[hudi]
warehouse = "s3://{bucket}/rows/hudi-tables"
[[tables]]
table = "rows.flights"
format = "hudi"
mode = "upsert"
key = ["id"]
auto_create = true
evolve = true
properties = {{"hoodie.bucket.index.num.buckets" = "2"}}
"""


def is_of_changed_rows(key: str) -> bool:
    """Tell whether an object belongs to these groups or their tables."""
    return key.startswith(f"{PREFIX}/")


@dataclass(frozen=True, slots=True)
class _Table:
    group: ChangedGroup
    read: ReadTable
    environment: Mapping[str, str]


class ChangedRows:
    """The groups, the writer of their topic and their catalog; ``step`` is called all the time."""

    def __init__(
        self,
        opened: ExitStack,
        folder: Path,
        sandbox: Sandbox,
        texts: Mapping[str, str],
        values: Values,
        story: Story,
        seed: int,
    ) -> None:
        """``texts``: by group, its configuration but for what is special here."""
        self._sandbox, self._values, self._story = sandbox, values, story
        self._rng = random.Random(f"rows {seed}")
        self._producer: KafkaProducer | None = None
        self._written = 0
        self._twice: dict[str, str] = {}
        self._rest = rest_server(folder, sandbox)
        opened.callback(self._rest.stop)
        self._rest.start()
        self._catalog_out, self._catalog_back = self._rng.uniform(*_CATALOG_OUT_EVERY), 0.0
        create(sandbox.kafka, TOPIC)
        bucket = sandbox.s3.bucket
        own: dict[str, tuple[str, ReadTable, dict[str, str]]] = {
            "iceberg": (
                _ICEBERG.format(catalog=self._rest.uri),
                RestTable(sandbox, self._rest.uri, "rows.flights"),
                {"SPARK_LOCAL_IP": "127.0.0.1"},
            ),
            "hudi": (
                _HUDI.format(bucket=bucket),
                HudiTable(sandbox, f"{bucket}/rows/hudi-tables/rows/flights"),
                with_spark_35(spark_35(story.say)),
            ),
        }
        self._tables: dict[str, _Table] = {}
        for name, (text, read, environment) in own.items():
            config = folder / f"rows-{name}.toml"
            config.write_text(texts[name] + _OF_ALL + text)
            rng = random.Random(f"rows {name} {seed}")
            group = ChangedGroup(name, config, folder / "logs", story, rng, environment)
            opened.callback(group.kill)
            self._tables[name] = _Table(group, read, environment)

    def step(self) -> None:
        """Write some messages, do some mischief, start who is not there."""
        with suppress(KafkaError):
            self._write()
        self._take_catalog_out()
        for table in self._tables.values():
            table.group.step()

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
            elif self._values.notes and row is not None:
                row["note"] = f"n{self._written}"  # a column that appears on the way
            key, value = json.dumps({"id": row_id}).encode(), row and json.dumps(row).encode()
            self._producer.send(TOPIC.name, value, key, partition=row_id % TOPIC.partitions)

    def _take_catalog_out(self) -> None:
        now = self._story.now()
        if self._catalog_back and now >= self._catalog_back:
            self._bring_catalog_back()
        elif not self._catalog_back and now >= self._catalog_out:
            seconds = self._rng.uniform(2.0, 15.0)
            self._story.say(f"SIGKILL: the catalog of changed rows, down for {seconds:.0f} s")
            self._rest.kill()
            self._catalog_back = now + seconds

    def _bring_catalog_back(self) -> None:
        if self._catalog_back:
            self._rest.start()
            self._catalog_back = 0.0
            self._catalog_out = self._story.now() + self._rng.uniform(*_CATALOG_OUT_EVERY)

    def finish(self) -> str:
        """Wait for the last commits, compare row for row, and end; return what was compared."""
        self._bring_catalog_back()
        if self._producer is not None:
            with suppress(KafkaError):
                self._producer.flush(20)
            self._producer.close(timeout=5)
        expected = expected_rows(self._tables["iceberg"].group.config, TOPIC.name)
        lines = [self._finish(name, table, expected) for name, table in self._tables.items()]
        return "\n".join(lines)

    def _finish(self, name: str, table: _Table, expected: Mapping[int, Mapping[str, Any]]) -> str:
        try:
            table.group.settle()
            began, rows = self._story.now(), None
            while rows != expected and self._story.now() - began < WITHIN:
                for other in self._tables.values():
                    other.group.check()
                time.sleep(2.0)
                rows = self._read(name, table)
            if rows == expected:
                self._twice.pop(name, None)
                waited = self._story.now() - began
                self._story.say(f"{name}: all changed rows are there after {waited:.1f} s")
            elif name in self._twice:
                self._story.violated(f"{name}: a key is twice in its table: {self._twice[name]}")
            else:
                self._tell_differences(name, rows or {}, expected)
        finally:
            table.group.kill()
        return self._verify(name, table, len(expected))

    def _read(self, name: str, table: _Table) -> Rows | None:
        """Read it; files that a committer left may be there until it notices."""
        self._twice.pop(name, None)
        try:
            return table.read()
        except KeyTwice as error:
            self._twice[name] = str(error)
            return None

    def _tell_differences(
        self, name: str, rows: Mapping[int, object], expected: Mapping[int, object]
    ) -> None:
        keys = sorted(rows.keys() | expected)
        wrong = [row_id for row_id in keys if rows.get(row_id) != expected.get(row_id)]
        for row_id in wrong[:5]:
            there, wanted = rows.get(row_id), expected.get(row_id)
            self._story.violated(f"{name}: row {row_id} is {there}, by the topic {wanted}")
        self._story.violated(f"{name}: {len(wrong)} changed rows are not as the topic says")

    def _verify(self, name: str, table: _Table, keys: int) -> str:
        answer = _run(("verify", "--json", str(table.group.config)), table.environment)
        try:
            [state] = json.loads(answer.stdout)["states"]
        except (ValueError, KeyError):
            self._story.violated(f"{name}: secor verify: {answer.stderr[-2000:]}")
            return f"{name}: not verified"
        if answer.returncode or state["rows"] != keys:
            self._story.violated(f"{name}: secor verify: {answer.stdout}")
        return (
            f"{name}: {state['messages']:,} changes of {state['keys']:,} keys are"
            f" {state['rows']:,} rows, row for row; {table.group.summary()}"
        )


def _run(
    command: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        secor(*command),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_COMMAND,
        check=False,
    )


def with_spark_35(packages: Path) -> dict[str, str]:
    """Return the environment of a process that runs Spark 3.5, as Hudi needs it."""
    return {
        "PYTHONPATH": f"{packages}{os.pathsep}{ROOT}",
        "SPARK_HOME": str(packages / "pyspark"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def rest_server(folder: Path, sandbox: Sandbox) -> IcebergRestServer:
    """Return a REST catalog whose tables are in the sandbox's bucket, not started."""
    access = sandbox.s3
    return IcebergRestServer(
        folder=folder / "rest",
        log=folder / "rest.log",
        port=free_port(),
        progress=quiet,
        properties={
            "warehouse": f"s3://{access.bucket}/{PREFIX}/warehouse",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": access.endpoint_url,
            "s3.access-key-id": access.access_key,
            "s3.secret-access-key": access.secret_key,
            "s3.path-style-access": "true",
            "client.region": access.region,
        },
    )
