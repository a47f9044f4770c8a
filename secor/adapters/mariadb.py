"""A MariaDB database as the source of a table's rows, read in snapshots and never changed.

The password comes from the environment (``MYSQL_PWD``) or as an argument; errors never show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from secor.adapters.source_database import (
    CONNECT_SECONDS,
    LOCK_SECONDS,
    Chunk,
    DatabaseFault,
    SourceTable,
    TableSnapshot,
    database_error,
    driver_errors,
    keys_together,
    no_url,
    refuse_password,
)
from secor.core.errors import ConfigurationError
from secor.core.installing import require_package
from secor.verify.source.values import SourceColumn, SourceName

# Times as text in UTC, and a snapshot that lasts for the whole transaction.
_SETTINGS = (
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}",
)
_COLUMNS = """
SELECT column_name, data_type, column_type, is_generated = 'ALWAYS' FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_ABOUT_ROWS = """
SELECT coalesce(table_rows, 0) FROM information_schema.tables
WHERE table_schema = %s AND table_name = %s
"""
_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_SAME_AS = {
    **dict.fromkeys(_NUMBERS, "int8"),
    **dict.fromkeys((*_TEXTS, "inet4", "inet6"), "text"),
    **dict.fromkeys(_BYTES, "bytea"),
    "decimal": "numeric",
    "float": "float4",
    "double": "float8",
    "datetime": "timestamp",
    "timestamp": "timestamptz",
    "json": "json",
    **{name: name for name in ("date", "time", "uuid", "bit")},
}
"""The types of ``source_values`` by MariaDB's; others cannot be compared."""

_DENIED = (
    "set MYSQL_PWD, or name another variable by --source-password, and GRANT SELECT on the table to"
    " this user"
)
_FAULTS = {
    **dict.fromkeys((1044, 1045, 1142, 1143, 1227, 1698), (DatabaseFault.DENIED, _DENIED)),
    **dict.fromkeys((1049, 1146), (DatabaseFault.NO_TABLE, "")),
    1205: (DatabaseFault.LOCKED, ""),
    **dict.fromkeys((2006, 2013), (DatabaseFault.SLOW, "the server did not answer")),
}
"""Numbers of MariaDB's errors, and of the driver's."""


class MariaDbSource(SourceTable):
    """A ``Source`` (``tables.source_comparison``) of one table; used by one thread."""

    _server = ""
    """The domain and the id of the server that wrote the position."""

    def columns(self) -> list[SourceColumn]:
        """Return the table's columns.  Raises ``ConfigurationError`` where there is no table."""
        rows = self._all(_COLUMNS, [self.name.schema, self.name.name])
        if not rows:
            raise ConfigurationError(
                f"--source: there is no table {self.name}, or this user may not read it: name the"
                " table by --source-table, or GRANT SELECT on it"
            )
        return [
            SourceColumn(name, _SAME_AS.get(kind, kind), cast, is_generated=bool(generated))
            for name, kind, cast, generated in rows
        ]

    def about_rows(self) -> int:
        """Return how many rows the table has, as the server last estimated it."""
        return int(self._all(_ABOUT_ROWS, [self.name.schema, self.name.name])[0][0])

    def delivered(self) -> int | None:
        """Return None: the server does not know what connectors have read."""
        return None

    def position_text(self, position: int) -> str:
        """Return a position as MariaDB writes it."""
        return f"GTID {self._server}-{position}" if self._server else "no GTID"

    @contextmanager
    def snapshot(self) -> Iterator[MariaDbSnapshot]:
        """Open a transaction that sees one state of the database."""
        import pymysql

        with (
            driver_errors(pymysql.MySQLError, self._fail),
            self._connection.cursor() as cursor,
        ):
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            # Asked for afterwards: the position is at or behind the snapshot.
            cursor.execute("SELECT @@gtid_binlog_pos")
            position = self._sequence(cursor.fetchone()[0])
            yield MariaDbSnapshot(
                self._connection, position, self._select_sql(), self._key, self._chunk_rows
            )
            cursor.execute("COMMIT")

    def _sequence(self, position: str) -> int:
        """Return the number within the one domain of a position such as ``0-1-345``."""
        if "," in position:
            raise ConfigurationError(
                f"--source: the server's log has several replication domains ({position}), whose"
                " positions have no order: compare with a server that has one"
            )
        self._server, _, sequence = position.rpartition("-")
        return int(sequence or 0)

    def _select_sql(self) -> str:
        columns = ", ".join(_text_sql(column) for column in self._columns)
        table = f"{quoted(self.name.schema)}.{quoted(self.name.name)}"
        return f"SELECT {columns} FROM {table}"  # noqa: S608  # quoted

    def _all(self, sql: str, parameters: Sequence[object]) -> list[Any]:
        import pymysql

        with (
            driver_errors(pymysql.MySQLError, self._fail),
            self._connection.cursor() as cursor,
        ):
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())


class MariaDbSnapshot(TableSnapshot):
    """A ``SourceRows`` within a transaction."""

    def rows(self) -> Iterator[Chunk]:
        """Give all rows, ``chunk_rows`` at a time, as the server sends them."""
        from pymysql.cursors import SSCursor

        with self.connection.cursor(SSCursor) as cursor:
            cursor.execute(self.select)
            while chunk := cursor.fetchmany(self.chunk_rows):
                yield chunk

    def rows_of(self, keys: Sequence[Sequence[str]]) -> Iterator[Chunk]:
        """Give the rows of some keys."""
        names = ", ".join(quoted(column.name) for column in self.key)
        marks = ", ".join(_MARKS.get(column.type, "%s") for column in self.key)
        # With parameters, the driver reads a percent sign in a name as one.
        select = f"{self.select} WHERE ({names}) IN ".replace("%", "%%")
        for keys_of_query in keys_together(keys):
            with self.connection.cursor() as cursor:
                sql = f"{select}({', '.join([f'({marks})'] * len(keys_of_query))})"
                cursor.execute(sql, [text for key in keys_of_query for text in key])
                yield cursor.fetchall()


_MARKS = {"bytea": "UNHEX(SUBSTRING(%s, 3))"}
"""SQL for keys whose texts are no literals of their types."""


def _text_sql(column: SourceColumn) -> str:
    """Return the expression whose text ``source_values`` reads for the column's type."""
    name = quoted(column.name)
    text = f"CAST({name} AS CHAR)"
    if column.type == "bytea":
        return f"CONCAT(CHAR(92 USING utf8mb4), 'x', LOWER(HEX({name})))"
    if column.type == "bit":
        return f"LPAD(BIN({name}), {column.cast.removeprefix('bit').strip('()') or 1}, '0')"
    # As text a float has six digits; as a double it has all of them.
    if column.type == "float4":
        return f"CAST(CAST({name} AS DOUBLE) AS CHAR)"
    if column.type in ("date", "timestamp", "timestamptz"):
        # Debezium writes null for the date zero, which is no date.
        return f"IF({name} = 0, NULL, {text})"
    return text


@contextmanager
def open_mariadb(
    url: str, password: str | None, statement_seconds: float
) -> Iterator[Callable[[SourceName], MariaDbSource]]:
    """Connect; give what opens a table of the server.

    Raises ``ConfigurationError`` for a URL that is wrong or has a password, ``Unavailable``.
    """
    require_package("pymysql", "source", "--source")
    import pymysql

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 3306
    except ValueError:
        raise no_url("MariaDB server", "mariadb://user@host:3306/database") from None
    refuse_password(parts.password, "MYSQL_PWD")
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    authorities = options.pop("ssl_ca", None)
    if options:
        raise ConfigurationError(
            f"--source: {', '.join(sorted(options))}: the only setting of a MariaDB URL is ssl_ca"
        )
    where = f"--source {host}:{port}"

    def fail(error: Exception) -> Exception:
        return _error_of(error, where, password)

    with driver_errors(pymysql.MySQLError, fail):
        connection = pymysql.connect(
            host=host,
            port=port,
            user=unquote(parts.username or "") or None,
            password=password or "",
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=statement_seconds,
            ssl={"ca": authorities} if authorities else None,
        )
    with closing(connection), driver_errors(pymysql.MySQLError, fail):
        with connection.cursor() as cursor:
            for statement in _SETTINGS:
                cursor.execute(statement)
        yield lambda name: MariaDbSource(connection, name, fail)


def _error_of(error: Exception, where: str, password: str | None) -> Exception:
    number = error.args[0] if error.args else 0
    why = str(error.args[-1] if error.args else error)
    fault, note = _FAULTS.get(number, (DatabaseFault.OTHER, ""))
    return database_error(fault, where, why, password, note)


def quoted(name: str) -> str:
    """Return an identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"
