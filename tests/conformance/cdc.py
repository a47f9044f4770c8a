"""One comparison of changes: PostgreSQL through Debezium, Kafka and a table group, and back."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
from confluent_kafka import Consumer

from secor.core.errors import Unavailable
from secor.java.bundles import APICURIO_CONVERTER
from secor.sandbox import Sandbox
from secor.sandbox.catalogs import USER, PostgreSqlServer
from secor.sandbox.state import free_port
from tests.conformance.comparing import Comparison, compare
from tests.conformance.group import Options, converter, write_group
from tests.conformance.registry import ApicurioRegistry
from tests.conformance.servers import SLOT, ConnectWorker, debezium_settings, source_database
from tests.conformance.tables import read_hudi, read_iceberg
from tests.conformance.workload import SOURCES, SourceTable, Workload, source_rows
from tests.integration.daemons import Daemon, run_secor, secor
from tests.programs import spark_35
from tests.soak.row_changes import with_spark_35

Say = Callable[[str], None]

WITHIN = 1200.0
"""Seconds that the tables may take to have everything, after the last change."""

STOPPED_FOR = 60.0
"""Seconds after which a topic partition that is stopped is taken for one that stays so."""

_BEFORE_SNAPSHOT = 60
_EXAMPLE = 160
"""Characters of a reason in a report."""


@dataclass
class Scene:
    """Everything that runs."""

    folder: Path
    options: Options
    sandbox: Sandbox
    cursor: Any
    connect: ConnectWorker
    config: Path
    environment: dict[str, str]
    last_position: str = ""
    """The end of the last change in PostgreSQL's log."""

    stopped: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Topic partitions and tables that are stopped: since when, and why."""

    def read(self, name: str) -> Any:
        """Return the rows of a table as a reader has them."""
        read = read_hudi if self.options.table == "hudi" else read_iceberg
        return read(self.sandbox, name)

    def mark(self) -> None:
        """Note the end of the changes."""
        self.cursor.execute("SELECT pg_current_wal_lsn()")
        self.last_position = self.cursor.fetchone()[0]
        # The connector confirms what lies behind a change only with the next one.
        self.cursor.execute("SELECT pg_logical_emit_message(true, 'conformance', 'end')")

    def snapshot_is_over(self) -> bool:
        """Tell whether the connector reads changes.

        One that ends before begins with another snapshot, and nothing says which rows of the first
        one were deleted meanwhile.
        """
        self.cursor.execute(
            "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND active", (SLOT,)
        )
        return bool(self.cursor.fetchone()[0])

    def position_is_confirmed(self) -> bool:
        """Tell whether the connector has sent everything to Kafka."""
        self.cursor.execute(
            "SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE slot_name = %s",
            (self.last_position, SLOT),
        )
        return bool(self.cursor.fetchone()[0])

    def is_committed(self) -> bool:
        """Tell whether the tables have everything that does not stay stopped, as the product says.

        ``stopped`` has what was stopped, with the reason, and since when.
        """
        finished = run_secor("tables", "status", str(self.config), "--json")
        if not finished.stdout:
            raise Unavailable(finished.stderr[-3000:])
        status = json.loads(finished.stdout)
        log = (self.folder / "run.log").read_text()
        seen = {**logged_stops(log), **{it: str(why) for it, why in status["stopped"].items()}}
        states = {table["table"]: table for table in status["tables"]}
        seen |= {
            name: f"{table['state']}: {table['why']}"
            for name, table in states.items()
            if table["state"] in ("stopped", "failed")
        }
        now = time.monotonic()
        for place, why in seen.items():
            since, _ = self.stopped.get(place, (now, why))
            self.stopped[place] = (since, why)
        waiting = {place for place, count in status["unstaged"].items() if count}
        waiting |= {name for name, table in states.items() if table["staged"]["files"]}
        for place in self.stopped.keys() - (waiting & seen.keys()):
            del self.stopped[place]
        return all(
            place in self.stopped and now - self.stopped[place][0] > STOPPED_FOR
            for place in waiting
        )


def logged_stops(log: str) -> dict[str, str]:
    """Return why topic partitions are stopped, as a daemon's log says: status does not know all."""
    stops: dict[str, str] = {}
    for line in log.splitlines():
        event = json.loads(line) if line.startswith("{") and line.endswith("}") else {}
        place = f"{event.get('topic')}/{event.get('partition')}"
        if event.get("event") == "stopped":
            stops[place] = event["error"]
        elif event.get("event") in ("running", "committed"):
            stops.pop(place, None)
    return stops


@dataclass
class Processes:
    """The connector, the daemon and the committer: each can be killed and starts again."""

    scene: Scene
    worker: Daemon | None = None
    committer: subprocess.Popen[bytes] | None = None

    NAMES = ("connector", "daemon", "committer")

    def start(self) -> None:
        """Start what does not run."""
        self.scene.connect.start()
        if self.worker is None:
            self.worker = Daemon(self.scene.config, self.scene.folder / "run.log")
        if self.committer is None:
            self.committer = _committer(self.scene)

    def kill(self, name: str) -> None:
        """End one of them at once, and start it again."""
        if name == "connector":
            self.scene.connect.kill()
        elif name == "daemon" and self.worker is not None:
            self.worker.kill()
            self.worker = None
        elif name == "committer" and self.committer is not None:
            self.committer.kill()
            self.committer.wait()
            self.committer = None
        self.start()

    def check(self) -> None:
        """Raise ``Unavailable`` if one has ended by itself."""
        self.scene.connect.serves()  # raises if the connector has failed
        named = {"tables-run": self.committer}
        if self.worker is not None:
            named["run"] = self.worker.process
        for name, process in named.items():
            if process is not None and process.poll() is not None:
                log = (self.scene.folder / f"{name}.log").read_text()[-3000:]
                raise Unavailable(f"'secor {name}' ended with {process.returncode}: {log}")

    def stop(self) -> None:
        """End all of them."""
        self.scene.connect.stop()
        if self.worker is not None:
            self.worker.kill()
        if self.committer is not None:
            _end(self.committer)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The comparisons, and what is in no table for a reason that the product gives."""

    comparisons: list[Comparison]
    stopped: dict[str, str]
    quarantined: dict[str, int]
    """Messages by reason."""

    @property
    def equal(self) -> bool:
        """Every table is equal to its source, and nothing else is left."""
        left = self.stopped or self.quarantined
        return not left and all(comparison.equal for comparison in self.comparisons)

    def lines(self) -> list[str]:
        """Return the report."""
        lines = [line for comparison in self.comparisons for line in comparison.lines()]
        lines += [f"stopped: {place}: {why}" for place, why in self.stopped.items()]
        return lines + [
            f"quarantine: {count} messages: {reason}" for reason, count in self.quarantined.items()
        ]


def run(folder: Path, options: Options, say: Say) -> Outcome:
    """Start everything, make changes, and compare each table with its source.

    Raises ``Unavailable``.
    """
    with opened(folder, options, say) as scene, ExitStack() as stack:
        workload = Workload(scene.cursor, options.seed)
        workload.create()
        workload.steps(_BEFORE_SNAPSHOT)
        say("starting Kafka Connect with Debezium, and the group")
        processes = Processes(scene)
        stack.callback(processes.stop)
        processes.start()
        say(f"changing rows {options.length}")
        _change_rows(workload, options, processes, say)
        scene.mark()
        say(", ".join(f"{count} {kind}" for kind, count in sorted(workload.done.items())))
        _wait(scene.position_is_confirmed, processes, "Kafka has all changes")
        say("Kafka has all changes")
        save_messages(scene)
        _wait(scene.is_committed, processes, "the tables have all changes")
        stopped = {place: why for place, (_, why) in scene.stopped.items()}
        say("the tables have all changes" + (" but those that are stopped" if stopped else ""))
        comparisons = [_compare(scene, source) for source in SOURCES.values()]
        return Outcome(comparisons, stopped, quarantined(scene))


def _change_rows(workload: Workload, options: Options, processes: Processes, say: Say) -> None:
    """Make changes, with an incremental snapshot and a busy row in the middle of them.

    Where that is asked for, kill each process once, too.
    """
    names = random.Random(options.seed).sample(Processes.NAMES, len(Processes.NAMES))
    names = names if options.kill else []
    parts = len(names) + 2

    def change_some(part: int) -> None:
        if options.changes is None:
            workload.run(options.seconds / parts, options.rate)
            return
        before, after = (options.changes * number // parts for number in (part, part + 1))
        workload.run_counted(after - before, options.rate)

    change_some(0)
    # A signal that is written before is part of the first snapshot, and tells nothing.
    _wait(processes.scene.snapshot_is_over, processes, "the connector reads changes")
    say("asking for an incremental snapshot")
    workload.ask_for_snapshot()
    workload.change_one_row_often()
    for part, name in enumerate(names, 1):
        change_some(part)
        say(f"killing the {name}")
        processes.kill(name)
    change_some(parts - 1)


def quarantined(scene: Scene) -> dict[str, int]:
    """Return how many messages are in quarantine, by reason; write them beside the logs."""
    finished = run_secor("quarantine", "cat", str(scene.config))
    (scene.folder / "quarantine.jsonl").write_text(finished.stdout + finished.stderr)
    messages = [json.loads(line) for line in finished.stdout.splitlines()]
    reasons = Counter(f"{it['topic']}: {it['reason'][:_EXAMPLE]}" for it in messages)
    return dict(reasons.most_common())


def save_messages(scene: Scene) -> None:
    """Write what the connector has sent beside the logs, as Kafka's own client reads it."""
    consumer = Consumer(
        {
            "bootstrap.servers": scene.sandbox.kafka,
            "group.id": "conformance",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    topics = {
        name: topic
        for name, topic in consumer.list_topics().topics.items()
        if not name.startswith("__consumer")
    }
    unread = sum(len(topic.partitions) for topic in topics.values())
    consumer.subscribe(list(topics))
    with (scene.folder / "messages.jsonl").open("w") as file:
        while unread and (message := consumer.poll(30.0)) is not None:
            if message.error() is not None:
                unread -= 1
                continue
            place = f"{message.topic()}/{message.partition()}:{message.offset()}"
            texts = [repr(part) for part in (message.key(), message.value(), message.headers())]
            file.write(json.dumps([place, *texts]) + "\n")
    consumer.close()


@contextmanager
def opened(folder: Path, options: Options, say: Say) -> Iterator[Scene]:
    """Start the servers and connect to the database; nothing is written yet."""
    with ExitStack() as stack:
        say("starting Kafka, the store and PostgreSQL")
        services = ("kafka", "zookeeper", "s3")
        sandbox = stack.enter_context(Sandbox.up(folder / "servers", services=services))
        database = source_database(folder, free_port())
        stack.callback(database.stop)
        database.start()
        registry = None
        if options.format == "avro":
            server = ApicurioRegistry(
                folder=folder / "registry",
                log=folder / "logs" / "registry.log",
                port=free_port(),
                progress=say,
            )
            stack.callback(server.stop)
            server.start()
            registry = server.url
        connection = _connect(database)
        stack.callback(connection.close)
        connect = ConnectWorker(
            folder=folder / "connect",
            log=folder / "logs" / "connect.log",
            port=free_port(),
            kafka=sandbox.kafka,
            converter=converter(options.format, registry),
            connector=debezium_settings(database),
            plugins=() if registry is None else [APICURIO_CONVERTER],
            progress=say,
        )
        environment = {"SPARK_LOCAL_IP": "127.0.0.1"}
        if options.table == "hudi":
            environment |= with_spark_35(spark_35(say))
        config = write_group(folder, sandbox, options, registry)
        yield Scene(folder, options, sandbox, connection.cursor(), connect, config, environment)


def _connect(database: PostgreSqlServer) -> Any:
    connection = psycopg2.connect(
        host="127.0.0.1", port=database.port, user=USER, dbname="postgres"
    )
    connection.autocommit = True
    return connection


def _committer(scene: Scene) -> subprocess.Popen[bytes]:
    with (scene.folder / "tables-run.log").open("ab") as log:
        return subprocess.Popen(
            secor("tables", "run", str(scene.config)),
            stdout=log,
            stderr=log,
            env={**os.environ, **scene.environment},
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(reached: Callable[[], bool], processes: Processes, what: str) -> None:
    deadline = time.monotonic() + WITHIN
    while not reached():
        if time.monotonic() > deadline:
            raise Unavailable(f"not within {WITHIN:.0f} s: {what}")
        processes.check()
        time.sleep(3.0)


def _compare(scene: Scene, source: SourceTable) -> Comparison:
    source = scene.options.stored(source)
    return compare(source, source_rows(scene.cursor, source), scene.read(source.name))
