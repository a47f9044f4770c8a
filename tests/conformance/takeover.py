"""One takeover: a connector stores a topic, Secor goes on, then the connector again."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import boto3
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from secor.core.errors import NotFound, Unavailable
from secor.sandbox import Sandbox
from tests.conformance.iceberg_sink import reason_of
from tests.conformance.servers import ConnectWorker
from tests.conformance.sink_messages import body_of, messages
from tests.conformance.sink_rows import Row, rows_of
from tests.conformance.sink_tables import spark_table_of, table_of
from tests.conformance.takeover_cases import CASES, CONFLUENT, SINKS, SinkCase
from tests.conformance.takeover_twice import stored_messages, wrong_findings
from tests.integration.daemons import Daemon, run_secor

Say = Callable[[str], None]

PARTITIONS = 2
PART = 240
"""Messages of each of the three parts: the connector's, Secor's, the connector's again."""

PATIENCE = 120.0
_SECRETS = ("SECOR_STORE__S3__ACCESS_KEY", "SECOR_STORE__S3__SECRET_KEY")


@dataclass
class Outcome:
    """What was wrong of a case, and the keys that each part stored."""

    case: SinkCase
    faults: list[str] = field(default_factory=list)
    keys: dict[str, list[str]] = field(default_factory=dict)

    def expect(self, right: object, text: str) -> None:
        """Note a fault unless something is right."""
        if not right:
            self.faults.append(text)


class TakeOver:
    """The steps of docs/from-kafka-connect.md, for one connector."""

    def __init__(
        self, case: SinkCase, worker: ConnectWorker, sandbox: Sandbox, folder: Path
    ) -> None:
        self.outcome = Outcome(case)
        self._case = case
        self._worker = worker
        self._sandbox = sandbox
        self._folder = folder
        self._topic = case.name
        self._config = folder / f"{case.name}.toml"
        self._sent = 0
        self._producer = Producer({"bootstrap.servers": sandbox.kafka, "log_level": 0})
        s3 = sandbox.s3
        self._s3: Any = boto3.client(
            "s3",
            endpoint_url=s3.endpoint_url,
            aws_access_key_id=s3.access_key,
            aws_secret_access_key=s3.secret_key,
            region_name=s3.region,
        )
        os.environ.update(zip(_SECRETS, (s3.access_key, s3.secret_key), strict=True))

    def run(self) -> Outcome:
        """Do them all.  Raises ``Unavailable`` for a connector that fails."""
        admin = AdminClient({"bootstrap.servers": self._sandbox.kafka, "log_level": 0})
        admin.create_topics([NewTopic(self._topic, PARTITIONS, 1, config={"retention.ms": "-1"})])[
            self._topic
        ].result()
        self._send()
        if self._case.again is not None:
            self._kill_worker()
        self._post_connector(self._case.again or {})
        self._until(lambda: sum(self._committed()) >= PART // 2, "the connector commits")
        self._stop_connector()
        first = self._keep("the connector")
        self._import()
        self._verify("what the connector stored")
        if self._case.again is not None:
            first = self._delete_uncommitted()
        self._send()
        self._secor()
        self._keep("Secor", first)
        self._verify("both parts")
        self._compare()
        if not self.outcome.faults and self._case.again is None:
            self._hand_back()
        return self.outcome

    def _post_connector(self, more: Mapping[str, str]) -> None:
        settings = self._case.settings(self._sandbox, self._topic) | dict(more)
        self._worker.ask("POST", "/connectors", {"name": self._case.name, "config": settings})

    def _kill_worker(self) -> None:
        """Let the connector upload, and end its worker before it has committed."""
        self._worker.stop()
        self._worker.flush_interval = 60_000 if self._case.sink == CONFLUENT else 5_000
        self._worker.start()
        self._post_connector({})
        enough = 5 if self._case.sink == CONFLUENT else 1  # Aiven's uploads all, and commits then
        self._until(lambda: len(self._keys()) >= enough, "the connector uploads", pause=0.01)
        self._worker.kill()
        self._worker.flush_interval = 1_000
        self._worker.start()

    def _delete_uncommitted(self) -> set[str]:
        """Delete what `secor verify` calls not committed, as docs/from-kafka-connect.md says."""
        for finding in self._findings():
            if finding["text"] == "not committed":
                self._s3.delete_object(Bucket=self._sandbox.s3.bucket, Key=finding["key"])
        self.outcome.keys.clear()
        return self._keep("the connector")

    def _hand_back(self) -> None:
        before = self._keys()
        exported = run_secor("offsets", "show", str(self._config))
        self.outcome.expect(exported.returncode == 0, f"offsets show: {exported.stdout}")
        self._send()
        self._worker.ask("PUT", f"/connectors/{self._case.name}/resume")
        self._until(lambda: sum(self._committed()) >= self._sent - PART // 2, "it goes on")
        self._stop_connector()
        self._keep("the connector again", before)
        self._verify("all three parts")
        self._compare(at_least=sum(self._committed()))

    def _send(self) -> None:
        numbers = range(self._sent, self._sent + PART)
        for number, at, value in messages(numbers, schemas=self._case.schemas):
            partition = number // 7 % PARTITIONS
            key = str(number).encode()
            self._producer.produce(self._topic, value, key, partition=partition, timestamp=at)
        assert self._producer.flush(60) == 0
        self._sent += PART

    def _committed(self) -> list[int]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._sandbox.kafka,
                "group.id": f"connect-{self._case.name}",
                "log_level": 0,
            }
        )
        try:
            places = [Place(self._topic, number) for number in range(PARTITIONS)]
            return [max(place.offset, 0) for place in consumer.committed(places, 30)]
        except KafkaException:
            return [0]  # the group's coordinator is not there yet; whoever waits asks again
        finally:
            consumer.close()

    def _until(self, reached: Callable[[], bool], what: str, pause: float = 0.3) -> None:
        deadline = time.monotonic() + PATIENCE
        while not reached():
            self._refuse_failed()
            if time.monotonic() > deadline:
                raise Unavailable(f"{self._case.name}: not in {PATIENCE:.0f} s: {what}")
            time.sleep(pause)

    def _refuse_failed(self) -> None:
        try:
            tasks = self._worker.ask("GET", f"/connectors/{self._case.name}/status")["tasks"]
        except (NotFound, OSError, http.client.HTTPException):
            return
        for task in tasks:
            if task["state"] == "FAILED":
                raise Unavailable(f"{self._case.name}: {reason_of(task['trace'])}")

    def _stop_connector(self) -> None:
        self._worker.ask("PUT", f"/connectors/{self._case.name}/stop")
        group = f"connect-{self._case.name}"
        admin = AdminClient({"bootstrap.servers": self._sandbox.kafka, "log_level": 0})
        self._until(
            lambda: not admin.describe_consumer_groups([group])[group].result().members,
            "the group is empty",
        )

    def _import(self) -> None:
        address = f"http://{self._worker.address}/connectors/{self._case.name}"
        imported = run_secor("config", "import", address, "-o", str(self._config))
        left = set(re.findall(r"^  ([\w.]+) \(", _section(imported.stderr, "not supported"), re.M))
        left |= set(re.findall(r"^  ([\w.]+) \(", _section(imported.stderr, "unknown"), re.M))
        self.outcome.expect(
            left == self._case.left, f"config import leaves {sorted(left)}: {imported.stderr}"
        )
        self.outcome.expect(
            imported.returncode in (0, 5) and self._config.is_file(), imported.stderr
        )
        if self._case.typed:
            self._take_schema_over()
        # What is written by hand: a folder, small batches, as the connector's, and no fixed port.
        local = f'\n[local]\ndirectory = "{self._folder / "local"}"\n\n[metrics]\nport = 0\n'
        self._config.write_text(self._config.read_text() + local + '\n[logs]\nformat = "json"\n')
        checked = run_secor("config", "check", str(self._config))
        self.outcome.expect(checked.returncode == 0, f"config check: {checked.stderr}")

    def _take_schema_over(self) -> None:
        schema = self._folder / f"{self._case.name}.avsc"
        taken = run_secor("schema", "stored", str(self._config), self._topic, "-o", str(schema))
        self.outcome.expect(taken.returncode == 0, f"schema stored: {taken.stderr}")
        text = self._config.read_text()
        self._config.write_text(
            text.replace("\n[output]\n", f'\n[output]\nschema_file = "{schema}"\n')
        )

    def _secor(self) -> None:
        daemon = Daemon(self._config, self._folder / f"{self._case.name}.log")
        try:
            self._until(lambda: sum(self._committed()) >= self._sent - 20, "Secor stores the rest")
            # What is left is stored on the way out.
            self.outcome.expect(daemon.stop() == 0, f"secor run: {daemon.text()[-2000:]}")
        except Unavailable as error:
            self.outcome.faults.append(f"{error}: {daemon.text()[-2000:]}")
        finally:
            daemon.kill()
        self.outcome.expect(sum(self._committed()) == self._sent, "not everything is committed")

    def _findings(self) -> list[dict[str, Any]]:
        verified = run_secor("verify", str(self._config), "--json")
        reports = json.loads(verified.stdout)["partitions"]
        return [
            {**finding, "partition": report["partition"]}
            for report in reports
            for finding in report["findings"]
        ]

    def _verify(self, what: str) -> None:
        """See that `secor verify` finds nothing, or the very messages that are stored twice."""
        if self._case.again is not None:
            committed = self._committed()
            stored = stored_messages(self._download(self._keys()), self._offsets())
            faults = list(wrong_findings(self._findings(), stored, committed))
            self.outcome.faults += [f"verify of {what}: {fault}" for fault in faults]
            return
        verified = run_secor("verify", str(self._config))
        self.outcome.expect(
            verified.returncode == 0, f"verify of {what}: {verified.stdout}{verified.stderr}"
        )

    def _keys(self) -> set[str]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._sandbox.s3.bucket)
        return {
            item["Key"]
            for page in pages
            for item in page.get("Contents", ())
            if f"/{self._topic}" in f"/{item['Key']}"
        }

    def _keep(self, who: str, before: set[str] = frozenset()) -> set[str]:  # type: ignore[assignment]
        keys = self._keys()
        self.outcome.keys[who] = sorted(keys - before)
        return keys

    def _offsets(self) -> dict[int, tuple[int, int]]:
        """Return partition and offset of each message, as Kafka's own consumer reads them."""
        consumer = Consumer({"bootstrap.servers": self._sandbox.kafka, "group.id": "reader"})
        consumer.assign([Place(self._topic, number, 0) for number in range(PARTITIONS)])
        offsets: dict[int, tuple[int, int]] = {}
        try:
            while len(offsets) < self._sent:
                for message in consumer.consume(500, 10):
                    number = int(message.key() or b"")
                    offsets[number] = (int(message.partition() or 0), int(message.offset() or 0))
        finally:
            consumer.close()
        return offsets

    def _download(self, keys: Collection[str]) -> dict[str, Path]:
        """Bring objects into the directory that readers take for a table; return them by key."""
        place = self._folder / "objects" / self._case.name
        paths = {key: place / key for key in keys if "/_" not in f"/{key}"}
        for key, path in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._s3.download_file(self._sandbox.s3.bucket, key, str(path))
        return paths

    def _compare(self, at_least: int | None = None) -> None:
        """See that each message is there, once if no worker was killed, and looks alike whoever
        has stored it.
        """
        place = self._folder / "objects" / self._case.name
        shutil.rmtree(place, ignore_errors=True)
        parts = {
            who: [row for path in self._download(keys).values() for row in rows_of(path)]
            for who, keys in self.outcome.keys.items()
        }
        numbers = Counter(row.number for rows in parts.values() for row in rows)
        doubled = sorted(number for number, count in numbers.items() if count > 1)
        if self._case.again is None:
            self.outcome.expect(not doubled, f"more than once: {doubled[:10]}")
        else:
            self.outcome.expect(doubled, "the worker was killed too late: nothing is there twice")
        stored = self._sent if at_least is None else at_least
        self.outcome.expect(
            len(numbers) == stored, f"{len(numbers)} of {stored} messages are there"
        )
        self._compare_rows(parts)
        roots = {
            key.split(f"/{self._topic}", 1)[0]
            for keys in self.outcome.keys.values()
            for key in keys
        }
        for root in roots:
            if root.rpartition("/")[2].startswith("_"):
                continue  # Secor's own: no data
            self._read_as_table(place / root / self._topic, stored, numbers.total())

    def _read_as_table(self, folder: Path, messages: int, rows: int) -> None:
        """See that engines find every message in the directory as one table, and how often."""
        for engine, table in (("Spark", spark_table_of(folder)), ("DuckDB", table_of(folder))):
            if table is None:
                continue
            right = (table.messages, table.rows) == (messages, rows)
            self.outcome.expect(right, f"{engine} has {table}, not {messages} in {rows} rows")
            right = not table.by_directory or sum(table.by_directory.values()) == rows
            self.outcome.expect(right, f"{engine} by directory: {table}")

    def _compare_rows(self, parts: Mapping[str, list[Row]]) -> None:
        theirs: dict[int, Row] = {}
        for row in parts["the connector"]:
            theirs.setdefault(body_of(row.number, schemas=self._case.schemas), row)
        different: dict[str, str] = {}
        for row in parts["Secor"]:
            other = theirs[body_of(row.number, schemas=self._case.schemas)]
            for text in other.differences(row):
                different.setdefault(text.partition(":")[0], text)
        self.outcome.faults += different.values()


def run(folder: Path, plugin: Path, only: str, say: Say) -> list[Outcome]:
    """Run the cases of the connector in a folder of jars.  Raises ``SecorError``."""
    cases = [case for case in CASES if _has_class(plugin, case.sink) and only in case.name]
    if not cases:
        raise NotFound(
            f"{plugin}: no case for a connector in its jars: {', '.join(SINKS)} are known"
        )
    outcomes = []
    with Sandbox.up(folder / "servers", services=("kafka", "s3")) as sandbox:
        worker = ConnectWorker.for_posted(folder, sandbox.kafka, plugin, say)
        (folder / "logs").mkdir(exist_ok=True)
        try:
            worker.start()
            for case in cases:
                outcome = TakeOver(case, worker, sandbox, folder).run()
                counts = ", ".join(f"{len(keys)} by {who}" for who, keys in outcome.keys.items())
                say(f"{case.name}: objects: {counts}: {'wrong' if outcome.faults else 'right'}")
                for fault in outcome.faults:
                    say(f"  {fault}")
                outcomes.append(outcome)
        finally:
            worker.stop()
    return outcomes


def _has_class(plugin: Path, name: str) -> bool:
    entry = f"{name.replace('.', '/')}.class"
    return any(entry in ZipFile(jar).namelist() for jar in plugin.rglob("*.jar"))


def _section(text: str, name: str) -> str:
    """Return the lines of a section of the import's report."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("  "):
            inside = line.startswith(f"{name} (")
        elif inside:
            lines.append(line)
    return "\n".join(lines)
