"""Databases that rows come from: the server, its connector, and how far that has read."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import psycopg2
import pymysql

from secor.core.errors import ConfigurationError, Unavailable
from secor.java.bundles import DEBEZIUM_MARIADB, DEBEZIUM_POSTGRESQL, Bundle
from secor.sandbox.catalogs import USER, PostgreSqlServer
from secor.sandbox.process import Server
from secor.sandbox.state import free_port
from tests.conformance import mariadb_columns, postgresql_columns
from tests.conformance.columns import Kind
from tests.conformance.servers import CONNECTOR, PASSWORD, PREFIX, SIGNALS, ConnectWorker
from tests.conformance.source_tables import KEYS_OF_MESSAGES, PARTS, SOURCES, SourceTable

SLOT = "conformance"
_OF_ALL = {
    "name": CONNECTOR,
    "tasks.max": "1",
    "database.hostname": "127.0.0.1",
    "database.user": USER,
    "database.password": PASSWORD,
    "topic.prefix": PREFIX,
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "2",
    "signal.data.collection": SIGNALS,
    "skipped.operations": "none",
    "incremental.snapshot.chunk.size": "20",
}


class PostgreSql:
    """A PostgreSQL server whose changes can be read by logical replication."""

    plugin: ClassVar[Bundle] = DEBEZIUM_POSTGRESQL
    sources: ClassVar[Mapping[str, SourceTable]] = SOURCES
    without_schema: ClassVar[Mapping[str, Kind]] = postgresql_columns.WITHOUT_SCHEMA
    time_units: ClassVar[Mapping[str, str]] = postgresql_columns.TIME_UNITS
    unlike: ClassVar[Sequence[str]] = postgresql_columns.UNLIKE

    def __init__(self, folder: Path) -> None:
        """Make what is not started."""
        self.server: Server = PostgreSqlServer(
            folder=folder / "postgresql",
            log=folder / "logs" / "postgresql.log",
            port=free_port(),
            settings={"wal_level": "logical", "TimeZone": "UTC"},
            programs=postgresql_columns.PROGRAMS,
        )
        self._end = ""

    @property
    def url(self) -> str:
        """The database as ``secor verify --source`` takes it."""
        return f"postgresql://{USER}@{self.server.address}/postgres"

    def connect(self) -> Any:
        """Return a connection that commits by itself."""
        connection = psycopg2.connect(
            host="127.0.0.1", port=self.server.port, user=USER, dbname="postgres"
        )
        connection.autocommit = True
        self.cursor = connection.cursor()
        for statement in postgresql_columns.TYPES:
            self.cursor.execute(statement)
        return connection

    def connector(self, kafka: str) -> dict[str, str]:
        """Return the connector's settings; ``kafka`` is the address of the brokers."""
        del kafka  # it keeps nothing there
        return {
            **_OF_ALL,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.port": str(self.server.port),
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "slot.name": SLOT,
            "publication.autocreate.mode": "filtered",
            "schema.include.list": "public",
            "table.exclude.list": ",".join(f"public.{name}" for name in PARTS),
            "publish.via.partition.root": "true",
            "message.key.columns": KEYS_OF_MESSAGES,
            "interval.handling.mode": "string",
        }

    def mark(self) -> None:
        """Note the end of the changes."""
        self.cursor.execute("SELECT pg_current_wal_lsn()")
        self._end = self.cursor.fetchone()[0]
        # The connector confirms a change only with the next one, and a pause may lie before these.
        for _ in range(2):
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

    def is_read(self, connect: ConnectWorker) -> bool:
        """Tell whether the connector has sent everything to Kafka."""
        del connect  # the database knows
        self.cursor.execute(
            "SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE slot_name = %s",
            (self._end, SLOT),
        )
        return bool(self.cursor.fetchone()[0])


class MariaDb:
    """A MariaDB server that writes rows into its log; its database is called ``public``."""

    plugin: ClassVar[Bundle] = DEBEZIUM_MARIADB
    sources: ClassVar[Mapping[str, SourceTable]] = mariadb_columns.SOURCES
    without_schema: ClassVar[Mapping[str, Kind]] = mariadb_columns.WITHOUT_SCHEMA
    time_units: ClassVar[Mapping[str, str]] = mariadb_columns.TIME_UNITS
    unlike: ClassVar[Sequence[str]] = ()

    def __init__(self, folder: Path) -> None:
        """Make what is not started."""
        self.server: Server = MariaDbServer(
            name="mariadb",
            folder=folder / "mariadb",
            log=folder / "logs" / "mariadb.log",
            port=free_port(),
        )
        self._end = ("", 0)

    @property
    def url(self) -> str:
        """The server as ``secor verify --source`` takes it."""
        return f"mariadb://{USER}@{self.server.address}"

    def connect(self) -> Any:
        """Return a connection that commits by itself."""
        connection = pymysql.connect(
            host="127.0.0.1", port=self.server.port, user="root", autocommit=True
        )
        self.cursor = connection.cursor()
        for statement in (
            "CREATE DATABASE public",
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT ALL ON *.* TO '{USER}'@'%'",
            "USE public",
            "SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')",
        ):
            self.cursor.execute(statement)
        return connection

    def connector(self, kafka: str) -> dict[str, str]:
        """Return the connector's settings; ``kafka`` is the address of the brokers."""
        return {
            **_OF_ALL,
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.port": str(self.server.port),
            "database.server.id": "184054",
            "database.include.list": "public",
            "bigint.unsigned.handling.mode": "precise",
            "schema.history.internal.kafka.bootstrap.servers": kafka,
            "schema.history.internal.kafka.topic": "history",
        }

    def mark(self) -> None:
        """Note the end of the changes."""
        self.cursor.execute("SHOW MASTER STATUS")
        file, position, *_ = self.cursor.fetchone()
        self._end = (file, int(position))
        # The connector's position is the beginning of the last change that it has read.
        self.cursor.execute("INSERT INTO signals VALUES ('end', 'log', '{\"message\": \"end\"}')")

    def snapshot_is_over(self) -> bool:
        """Tell whether the connector reads changes."""
        self.cursor.execute(
            "SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
        )
        return bool(self.cursor.fetchone()[0])

    def is_read(self, connect: ConnectWorker) -> bool:
        """Tell whether the connector has sent everything to Kafka."""
        offsets = connect.offsets()
        return any((it["file"], int(it["pos"])) >= self._end for it in offsets if "file" in it)


class MariaDbServer(Server):
    """MariaDB, from Debian's packages mariadb-server-core and mariadb-client-core."""

    def command(self) -> list[str]:
        """Return the program and its arguments; make the database once."""
        data = self.folder / "data"
        if not (data / "mysql").exists():
            _make_database(data)
        return [
            _program("mariadbd"),
            "--no-defaults",
            "--user=root",
            f"--datadir={data}",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            f"--socket={self.folder / 'socket'}",
            "--log-bin=binlog",
            "--server-id=1",
            "--binlog-format=ROW",
            "--gtid-strict-mode=1",
            "--default-time-zone=+00:00",
            "--character-set-server=utf8mb4",
            "--collation-server=utf8mb4_bin",
            "--innodb-flush-log-at-trx-commit=0",
        ]

    def serves(self) -> bool:
        """Tell whether it said so in its log."""
        return self.logged("ready for connections")


def _make_database(data: Path) -> None:
    shutil.rmtree(data, ignore_errors=True)  # one that was not finished
    options = ["--no-defaults", "--skip-test-db", "--skip-name-resolve", "--user=root"]
    options += ["--auth-root-authentication-method=normal", f"--datadir={data}"]
    command = [_program("mariadb-install-db"), *options]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise Unavailable(f"MariaDB's database could not be made:\n{answer.stdout}{answer.stderr}")


def _program(name: str) -> str:
    """Return the path of a program of MariaDB.  Raises ``ConfigurationError``."""
    program = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        raise ConfigurationError(
            f"{name} is not installed: apt-get install --no-install-recommends"
            " mariadb-server-core mariadb-client-core"
        )
    return program


Database = PostgreSql | MariaDb
DATABASES: Mapping[str, type[Database]] = {"postgresql": PostgreSql, "mariadb": MariaDb}
