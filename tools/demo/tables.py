"""Two Iceberg tables of the flights, a coordinator that is killed, and SQL over both tables."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from secor.config.load import load
from secor.core.errors import SecorError, Unavailable
from secor.core.model import TopicPartition
from secor.sandbox import Sandbox
from secor.sandbox.first_steps import Settings, configuration
from secor.tables.catalog import Catalog
from secor.tables.commit.commit_history import CommitObject
from secor.tables.commit.group_record import find_commit
from secor.tables.overview import look_at
from secor.wiring.table_catalogs import open_tables
from secor.wiring.table_group import TableGroup, open_table_group
from tools.demo import flights
from tools.demo.backup import SecorProcess, surroundings
from tools.demo.screen import Screen

SCHEMA = "table_schema.json"
FILES = frozenset(
    {"table.toml", SCHEMA, "catalog.db", "catalog.db-journal", "table-1.log", "table-2.log"}
)

ALL, LATE = "demo.flights", "demo.late_flights"

MORE_THAN_AN_HOUR = "(6[1-9]|[7-9][0-9]|[1-9][0-9]{2,})([.]0)?"

_MANY = 10_000
_LOOK_EVERY = 0.25
_WITHIN = 300.0

QUESTION = """\
SELECT month, flights, with_airline, late
FROM (SELECT month, count(*) AS flights, count(airline) AS with_airline
      FROM flights GROUP BY month)
JOIN (SELECT month, count(*) AS late FROM late_flights GROUP BY month) USING (month)
ORDER BY month"""

Answer = list[tuple[int, int, int, int]]
"""By month: flights, those with the name of their airline, those more than an hour late."""


def write_schema(inferred: Path, folder: Path) -> Path:
    """Write the columns of the new table: the inferred ones, the hour of departure as a time."""
    schema = json.loads(inferred.read_text())
    for field in schema["fields"]:
        if field["name"] == "time_hour":
            field["type"] = "timestamp(us, UTC)"
    path = folder / SCHEMA
    path.write_text(json.dumps(schema, indent=1) + "\n")
    return path


def write_configuration(folder: Path, sandbox: Sandbox) -> Path:
    """Write ``table.toml`` for the servers of ``sandbox``; return its path."""
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{(folder / 'catalog.db').resolve()}",
        "warehouse": f"s3://{sandbox.s3.bucket}/warehouse",
    }
    settings: Settings = {
        "group": {"name": "demo_table", "kind": "table"},
        "kafka": {
            "topics": [flights.TOPIC],
            "session_timeout": "6s",
            "heartbeat_interval": "2s",
        },
        "ledger.zookeeper": {"session_timeout": "5s"},
        "policy": {"max_messages": 12000, "max_age": "3s"},
        "output": {"prefix": "table"},
        "catalog.properties": catalog,
        "rows": {"metadata_columns": ["_topic", "_kafka_partition", "_offset"]},
        "commit": {"interval": "1s", "timeout": "5s"},
        "logs": {"format": "json"},
    }
    about = "Written by the demonstration; docs/configuration.md explains every setting."
    text = configuration(sandbox, folder / "local", settings, about=about)
    path = folder / "table.toml"
    path.write_text(text + _routes((folder / SCHEMA).resolve()))
    return path


def _routes(schema: Path) -> str:
    """Return both routes.  What has no time of departure goes to quarantine."""
    return f"""
[[tables]]
table = "{ALL}"
field = "time_hour"
partition_by = ["month(time_hour)"]
schema_file = {json.dumps(str(schema))}
auto_create = true
evolve = true

[[tables]]
table = "{LATE}"
field = "dep_delay"
matches = "{MORE_THAN_AN_HOUR}"
auto_create = true
evolve = true
"""


class TableScene:
    """Tells how flights become rows, and asks the tables."""

    def __init__(self, screen: Screen, folder: Path, sandbox: Sandbox, inferred: Path) -> None:
        """``inferred`` is the schema that another scene has found in the messages."""
        self._screen = screen
        self._folder = folder
        self._sandbox = sandbox
        self._inferred = inferred

    def run(self) -> None:
        """Fill both tables, kill the coordinator, then compare the tables with the flights."""
        self._screen.step("Making each flight a row of Iceberg tables, with two processes")
        write_schema(self._inferred, self._folder)
        path = write_configuration(self._folder, self._sandbox)
        self._screen.say(f"{ALL} gets every flight, in partitions by month")
        self._screen.say(f"{LATE} gets a second row of each flight that left over an hour late")
        with open_table_group(load(path, surroundings())) as group:
            writing = Writing(path, group)
            try:
                self._fill(writing)
            finally:
                writing.close()
        self._screen.command("tables", "ls", str(path))
        self._screen.command("verify", str(path))

        self._screen.step("Asking both tables by SQL, with DuckDB, and the source")
        self._compare(path)

    def _fill(self, writing: Writing) -> None:
        commit, pid = writing.kill_in_the_middle()
        rows = sum(file.records for files in commit.files for file in files.files)
        self._screen.say(
            f"SIGKILL to process {pid}, which coordinates, in the middle of a commit to "
            f"{commit.table}: {rows:,} rows are in files that the table does not have yet",
            style="yellow",
        )
        self._screen.say("the other process takes over its partitions, and commits those files")
        writing.finish()
        self._screen.say("everything is in the tables, and the process has ended on SIGTERM")

    def _compare(self, configuration: Path) -> None:
        for line in QUESTION.splitlines():
            self._screen.say(line, style="cyan")
        answer = ask_tables(configuration)
        self._screen.say("month  flights  with airline   late")
        for month, count, named, late in answer:
            self._screen.say(f"{month:5}  {count:7,}  {named:12,}  {late:5,}")
        if answer != ask_source():
            raise SecorError("the tables give another answer than the flights themselves")
        self._screen.say("all 12 months: the same answer from both")
        self._screen.say(
            f"the column airline came with the messages of month {flights.AIRLINE_SINCE}, "
            "and the tables grew by it"
        )


class Writing:
    """Two processes of the table group, of which one is killed."""

    def __init__(self, configuration: Path, group: TableGroup) -> None:
        self._group = group
        self._processes = [
            SecorProcess(configuration, configuration.with_name(f"table-{number}.log"))
            for number in (1, 2)
        ]

    def kill_in_the_middle(self) -> tuple[CommitObject, int]:
        """Kill the coordinator between the beginning of a commit and its end.

        Returns the commit and the process.  Each commit begins with an object that says what
        it will do: when one appears, the process is stopped, and killed if the table does not
        have the commit yet.
        """
        seen = {commit.key for commit in self._group.history.list()}
        deadline = time.monotonic() + _WITHIN
        while True:
            self._check(deadline, "no commit could be interrupted")
            for listed in self._group.history.list():
                if listed.key in seen:
                    continue
                seen.add(listed.key)
                coordinator = self._coordinator()
                coordinator.pause()
                commit = self._group.history.read(listed.uuid, listed.id)
                if is_interrupted(self._group.catalog, commit):
                    coordinator.kill()
                    self._processes.remove(coordinator)
                    return commit, coordinator.pid
                coordinator.resume()

    def _coordinator(self) -> SecorProcess:
        """Return the process whose log says last that it coordinates."""
        since: Mapping[str, SecorProcess] = {
            line["timestamp"]: process
            for process in self._processes
            for line in map(json.loads, process.log.read_text().splitlines())
            if line["event"] == "coordinating"
        }
        return since[max(since)]

    def finish(self) -> None:
        """Wait until everything is in the tables; end the process that is left."""
        numbers = range(flights.PARTITIONS)
        partitions = [TopicPartition(flights.TOPIC, number) for number in numbers]
        deadline = time.monotonic() + _WITHIN
        while not self._all_there(partitions):
            self._check(deadline, "not everything is in the tables")
            time.sleep(_LOOK_EVERY)
        for process in self._processes:
            code = process.stop()
            if code != 0:
                raise SecorError(f"secor run ended with code {code} on SIGTERM; see {process.log}")

    def _all_there(self, partitions: list[TopicPartition]) -> bool:
        ends, ledger = self._group.topics.ends(partitions), self._group.ledger
        for partition in partitions:  # a slow broker may leave some out of its answer
            if partition not in ends or (ledger.read(partition).committed or 0) < ends[partition]:
                return False
        staged = self._group.staged()
        tables = [look_at(self._group.committer, name, staged) for name in (ALL, LATE)]
        return all(table.state == "ok" and not table.staged_files for table in tables)

    def _check(self, deadline: float, why: str) -> None:
        for process in self._processes:
            process.check()
        if time.monotonic() > deadline:
            logs = ", ".join(str(process.log) for process in self._processes)
            raise Unavailable(f"{why} within {_WITHIN:.0f} s; see {logs}")

    def close(self) -> None:
        """Leave nothing running."""
        for process in self._processes:
            process.end()


def is_interrupted(catalog: Catalog, commit: CommitObject) -> bool:
    """Tell whether a commit of a stopped process has many rows and is not done."""
    rows = sum(file.records for files in commit.files for file in files.files)
    if rows < _MANY:
        return False
    try:
        table = catalog.load_table(commit.table)
    except Unavailable:
        return True  # it was stopped within its transaction, which locks SQLite
    return find_commit(table, commit.id) is None


def ask_tables(configuration: Path) -> Answer:
    """Ask both tables by SQL: the Iceberg library finds their files, DuckDB answers."""
    import duckdb

    catalog, _ = open_tables(load(configuration, surroundings()))
    columns = {ALL: ("month", "airline"), LATE: ("month",)}
    with duckdb.connect() as connection:
        for table, names in columns.items():
            rows = catalog.library.load_table(table).scan(selected_fields=names).to_arrow()
            connection.register(table.partition(".")[2], rows)
        return connection.execute(QUESTION).fetchall()


def ask_source() -> Answer:
    """Ask the table that the messages were made of, by other means."""
    known = flights.table("flights")
    counts = known.groupby("month").size()
    late = known[known["dep_delay"] > 60].groupby("month").size()
    return [
        (month, int(count), int(count) if month >= flights.AIRLINE_SINCE else 0, int(late[month]))
        for month, count in counts.items()
    ]
