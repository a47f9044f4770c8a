"""One comparison of changes: a database through Debezium, Kafka and a table group, and back."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer

from secor.core.errors import Unavailable
from secor.java.bundles import APICURIO_CONVERTER
from secor.sandbox import Sandbox
from secor.sandbox.state import free_port
from tests.conformance.comparing import Comparison, compare
from tests.conformance.databases import Database
from tests.conformance.group import Options, converter, write_group
from tests.conformance.registry import ApicurioRegistry
from tests.conformance.servers import PREFIX, ConnectWorker
from tests.conformance.source_tables import EMPTIED, FORMER, RETYPED, STEPS
from tests.conformance.storing import StoringGroup
from tests.conformance.tables import delete_rows, make_text_of
from tests.conformance.workload import Workload, source_rows
from tests.integration.daemons import create_topic
from tests.programs import spark_35
from tests.soak.row_changes import with_spark_35

Say = Callable[[str], None]

WITHIN = 1200.0
"""Seconds that the tables may take to have everything, after the last change."""

_BEFORE_SNAPSHOT = 60


@dataclass
class Scene:
    """Everything that runs."""

    folder: Path
    options: Options
    sandbox: Sandbox
    database: Database
    connect: ConnectWorker
    groups: list[StoringGroup]

    def is_committed(self) -> bool:
        """Tell whether all tables have everything that does not stay stopped."""
        # All are asked each time: each notes how long it is stopped.
        committed = [group.is_committed() for group in self.groups]
        return all(committed)


@dataclass
class Processes:
    """The connector, the daemons and the committers: each can be killed and starts again."""

    scene: Scene

    NAMES = ("connector", "daemon", "committer")

    def start(self) -> None:
        """Start what does not run."""
        self.scene.connect.start()
        for group in self.scene.groups:
            group.start()

    def kill(self, name: str) -> None:
        """End the connector, all daemons or all committers at once, and start them again."""
        if name == "connector":
            self.scene.connect.kill()
        for group in self.scene.groups:
            if name == "daemon":
                group.kill_daemon()
            elif name == "committer":
                group.kill_committer()
        self.start()

    def check(self) -> None:
        """Raise ``Unavailable`` if one has ended by itself."""
        self.scene.connect.serves()  # raises if the connector has failed
        for group in self.scene.groups:
            group.check()

    def stop(self) -> None:
        """End all of them."""
        self.scene.connect.stop()
        for group in self.scene.groups:
            group.stop()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The comparisons, and what is in no table for a reason that the product gives."""

    comparisons: list[Comparison]
    stopped: dict[str, str]
    quarantined: dict[str, int]
    """Messages by reason."""

    found: list[str] = field(default_factory=list)
    """What ``secor verify --source`` finds."""

    table: str = ""
    """The kind of table, before each line of the report."""

    @property
    def equal(self) -> bool:
        """Every table is equal to its source, and nothing else is left."""
        left = self.stopped or self.quarantined or self.found
        return not left and all(comparison.equal for comparison in self.comparisons)

    def lines(self) -> list[str]:
        """Return the report."""
        lines = [line for comparison in self.comparisons for line in comparison.lines()]
        lines += [f"stopped: {place}: {why}" for place, why in self.stopped.items()]
        lines += [
            f"quarantine: {count} messages: {reason}" for reason, count in self.quarantined.items()
        ]
        lines += [f"secor verify --source: {line}" for line in self.found]
        return [f"{self.table} {line}" for line in lines]


def run(folder: Path, options: Options, say: Say) -> list[Outcome]:
    """Start everything, make changes, and compare each table with its source: one for each kind.

    Raises ``Unavailable``.
    """
    with opened(folder, options, say) as scene, ExitStack() as stack:
        workload = Workload(scene.database.cursor, options.seed, options.sources)
        workload.create()
        workload.steps(_BEFORE_SNAPSHOT)
        say("starting Kafka Connect with Debezium, and the group")
        processes = Processes(scene)
        stack.callback(processes.stop)
        processes.start()
        say(f"changing rows {options.length}")
        _change_rows(workload, options, processes, say)
        scene.database.mark()
        say(", ".join(f"{count} {kind}" for kind, count in sorted(workload.done.items())))
        _wait(lambda: scene.database.is_read(scene.connect), processes, "Kafka has all changes")
        say("Kafka has all changes")
        save_messages(scene)
        _wait(scene.is_committed, processes, "the tables have all changes")
        stopped = any(group.stopped for group in scene.groups)
        say("the tables have all changes" + (" but those that are stopped" if stopped else ""))
        return [_outcome(scene, group) for group in scene.groups]


def _change_rows(workload: Workload, options: Options, processes: Processes, say: Say) -> None:
    """Make changes, with a snapshot, a busy row and altered columns in the middle of them.

    Where that is asked for, kill each process once, too.
    """
    names = random.Random(options.seed).sample(Processes.NAMES, len(Processes.NAMES))
    names = names if options.kill else []
    parts = len(names) + 4

    def change_some(part: int) -> None:
        if options.changes is None:
            workload.run(options.seconds / parts, options.rate)
            return
        before, after = (options.changes * number // parts for number in (part, part + 1))
        workload.run_counted(after - before, options.rate)

    change_some(0)
    # A signal that is written before is part of the first snapshot, and tells nothing.
    _wait(processes.scene.database.snapshot_is_over, processes, "the connector reads changes")
    say("asking for an incremental snapshot")
    workload.ask_for_snapshot()
    workload.change_one_row_often()
    change_some(1)
    say("emptying tables")
    workload.empty()
    say("adding columns")
    workload.alter(0)
    change_some(2)
    for part, name in enumerate(names, 3):
        change_some(part)
        say(f"killing the {name}")
        processes.kill(name)
    say("changing the types of columns")
    workload.alter(1)
    change_some(parts - 1)
    groups = [group for group in processes.scene.groups if group.table != "hudi"]
    if groups and RETYPED in workload.sources:
        _stop_and_go_on(workload, groups, processes, say)


def _stop_and_go_on(
    workload: Workload, groups: Sequence[StoringGroup], processes: Processes, say: Say
) -> None:
    """Change a type as no table can follow, and empty a table: their topics stop until a person
    does what the documentation says.
    """
    topics = [f"{PREFIX}.public.{name}/" for name in (RETYPED, EMPTIED)]

    def stopped() -> list[bool]:
        for group in groups:
            group.is_committed()  # looks
        return [
            any(place.startswith(topic) for place in group.stopped)
            for group in groups
            for topic in topics
        ]

    workload.alter(STEPS - 1)
    workload.truncate(EMPTIED)
    say("changing a type as no table can follow, and emptying a table")
    _wait(lambda: all(stopped()), processes, "the topics stop")
    for group in groups:
        make_text_of(processes.scene.sandbox, group.table, RETYPED, "n", FORMER)
    _wait(
        lambda: not any(group.staged_files(EMPTIED) for group in groups),
        processes,
        "nothing is staged from before the table was emptied",
    )
    for group in groups:
        delete_rows(processes.scene.sandbox, group.table, EMPTIED)
        group.reconfigure('truncate = "stop"', 'truncate = "ignore"')
    say("the topics have stopped; one table has another column, the other one no rows")
    _wait(lambda: not any(stopped()), processes, "the topics go on")
    say("the topics go on")


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
        say("starting Kafka, the store and the database")
        services = ("kafka", "zookeeper", "s3")
        sandbox = stack.enter_context(Sandbox.up(folder / "servers", services=services))
        database = options.source(folder)
        stack.callback(database.server.stop)
        database.server.start()
        # Debezium would make it of several partitions, like the others.
        create_topic(sandbox, f"{PREFIX}.public.{EMPTIED}", 1)
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
        connection = database.connect()
        stack.callback(connection.close)
        connect = ConnectWorker(
            folder=folder / "connect",
            log=folder / "logs" / "connect.log",
            port=free_port(),
            kafka=sandbox.kafka,
            converter=converter(options.format, registry),
            connector=database.connector(sandbox.kafka),
            plugin=database.plugin,
            plugins=() if registry is None else [APICURIO_CONVERTER],
            progress=say,
        )
        groups = [
            StoringGroup(
                table,
                folder / table,
                write_group(folder / table, sandbox, options, table, registry),
                sandbox,
                _spark(table, say),
            )
            for table in options.tables
        ]
        yield Scene(folder, options, sandbox, database, connect, groups)


def _spark(table: str, say: Say) -> dict[str, str]:
    local = {"SPARK_LOCAL_IP": "127.0.0.1"}
    return {**local, **with_spark_35(spark_35(say))} if table == "hudi" else local


def _wait(reached: Callable[[], bool], processes: Processes, what: str) -> None:
    deadline = time.monotonic() + WITHIN
    while True:
        began = time.monotonic()
        if reached():
            return
        now = time.monotonic()
        if now > deadline:
            raise Unavailable(f"not within {WITHIN:.0f} s: {what}")
        processes.check()
        # Looking takes commands of their own, which shall not keep the processes from working.
        time.sleep(3.0 + 3 * (now - began))


def _outcome(scene: Scene, group: StoringGroup) -> Outcome:
    comparisons = []
    for table in scene.options.stored_in(group.table):
        source = scene.options.stored(table.altered(), group.table)
        rows = source_rows(scene.database.cursor, source)
        comparisons.append(compare(source, rows, group.read(source.topic)))
    stopped = {place: why for place, (_, why) in group.stopped.items()}
    ignored = set(scene.database.unlike)
    if scene.options.format == "json":
        ignored |= scene.database.without_schema.keys()
    named = {
        it.topic: it.name for it in scene.options.stored_in(group.table) if it.topic != it.name
    }
    found = group.verified(scene.database.url, sorted(ignored), named)
    return Outcome(comparisons, stopped, group.quarantined(), found, group.table)
