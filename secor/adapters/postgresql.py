"""A PostgreSQL database as the source of a table's rows, read in snapshots and never changed.

Passwords come from the environment (``PGPASSWORD``, ``PGPASSFILE``, ``PGSERVICE``: libpq reads
them) or as an argument; errors never show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from secor.core.errors import AccessDenied, ConfigurationError, Unavailable
from secor.core.installing import require_package
from secor.core.text import MASK, mask_urls
from secor.verify.source.report import lsn_text
from secor.verify.source.values import SourceColumn, SourceName

CONNECT_SECONDS = 10
LOCK_SECONDS = 30
KEYS_TOGETHER = 500

Chunk = Sequence[Sequence[str | None]]

_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "xmloption": "content",
    "default_transaction_read_only": "on",
    "lock_timeout": f"{LOCK_SECONDS}s",
    "application_name": "secor verify",
}
"""Of the session: each value has one text, wherever the server is."""

_COLUMNS = """
SELECT a.attname, coalesce(e.typname, b.typname), coalesce(b.oid, t.oid)::regtype::text,
       e.oid IS NOT NULL, coalesce(e.typtype, b.typtype) = 'e',
       coalesce(e.typtype, b.typtype) IN ('r', 'm'), a.attgenerated <> ''
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
LEFT JOIN pg_type e ON e.oid = b.typelem AND b.typcategory = 'A'
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_POSITION = """
SELECT ((CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
              ELSE pg_current_wal_lsn() END) - '0/0')::bigint
"""
_DELIVERED = """
SELECT min(confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots
WHERE slot_type = 'logical' AND active AND database = current_database()
"""


class PostgreSqlSource:
    """A ``Source`` (``tables.source_comparison``) of one table; used by one thread."""

    def __init__(
        self, connection: Any, name: SourceName, fail: Callable[[Exception], Exception]
    ) -> None:
        """``connection`` commits by itself; ``fail`` makes errors of ours of the driver's."""
        self._connection = connection
        self.name = name
        self._fail = fail
        self._columns: Sequence[SourceColumn] = ()
        self._key: Sequence[SourceColumn] = ()
        self._chunk_rows = 1

    def columns(self) -> list[SourceColumn]:
        """Return the table's columns.  Raises ``ConfigurationError`` where there is no table."""
        rows = self._all(_COLUMNS, [self._table_sql()])
        return [SourceColumn(*row) for row in rows]

    def about_rows(self) -> int:
        """Return how many rows the table has, as the server last estimated it."""
        sql = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = %s::regclass"
        return int(self._all(sql, [self._table_sql()])[0][0])

    def choose(
        self, columns: Sequence[SourceColumn], key: Sequence[SourceColumn], chunk_rows: int
    ) -> None:
        """Choose what snapshots read."""
        self._columns, self._key, self._chunk_rows = columns, key, chunk_rows

    def delivered(self) -> int | None:
        """Return what the connectors of this database have confirmed; None without a slot."""
        delivered: int | None = self._all(_DELIVERED, [])[0][0]
        return delivered

    def position_text(self, position: int) -> str:
        """Return a position as PostgreSQL writes it."""
        return lsn_text(position)

    @contextmanager
    def snapshot(self) -> Iterator[PostgreSqlSnapshot]:
        """Open a transaction that sees one state of the database."""
        import psycopg

        connection = self._connection
        try:
            # Set before the transaction begins: the driver refuses it inside.
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            with connection.transaction():
                # The snapshot is taken by the first statement: the position is behind it.
                connection.execute(f"SELECT FROM {self._table_sql()} LIMIT 0")
                position = int(connection.execute(_POSITION).fetchone()[0])
                yield PostgreSqlSnapshot(
                    connection, position, self._select_sql(), self._key, self._chunk_rows
                )
        except psycopg.Error as error:
            raise self._fail(error) from None

    def _select_sql(self) -> str:
        columns = ", ".join(column.sql for column in self._columns)
        return f"SELECT {columns} FROM {self._table_sql()}"  # noqa: S608  # quoted

    def _table_sql(self) -> str:
        return f"{quoted(self.name.schema)}.{quoted(self.name.name)}"

    def _all(self, sql: str, parameters: Sequence[object]) -> list[Any]:
        import psycopg

        try:
            rows: list[Any] = self._connection.execute(sql, parameters).fetchall()
        except psycopg.Error as error:
            raise self._fail(error) from None
        return rows


@dataclass(frozen=True, slots=True)
class PostgreSqlSnapshot:
    """A ``SourceRows`` within a transaction."""

    connection: Any
    position: int
    select: str
    key: Sequence[SourceColumn]
    chunk_rows: int

    def rows(self) -> Iterator[Chunk]:
        """Give all rows, ``chunk_rows`` at a time; each chunk is a statement of its own."""
        # A cursor with a name is on the server: without one, the driver would fetch the whole table
        # into memory.
        with self.connection.cursor(name="secor_verify") as cursor:
            cursor.execute(self.select)
            while chunk := cursor.fetchmany(self.chunk_rows):
                yield chunk

    def rows_of(self, keys: Sequence[Sequence[str]]) -> Iterator[Chunk]:
        """Give the rows of some keys."""
        names = ", ".join(quoted(column.name) for column in self.key)
        casts = ", ".join(f"k{index}::{column.cast}" for index, column in enumerate(self.key))
        lists = ", ".join("%s::text[]" for _ in self.key)
        aliases = ", ".join(f"k{index}" for index in range(len(self.key)))
        # With parameters, the driver reads a percent sign in a name as one.
        select = f"{self.select} WHERE ({names})".replace("%", "%%")
        sql = f"{select} IN (SELECT {casts} FROM unnest({lists}) AS keys({aliases}))"  # noqa: S608  # quoted
        for begin in range(0, len(keys), KEYS_TOGETHER):
            columns = zip(*keys[begin : begin + KEYS_TOGETHER], strict=True)
            yield self.connection.execute(sql, [list(column) for column in columns]).fetchall()


@contextmanager
def open_postgresql(
    url: str, password: str | None, statement_seconds: float
) -> Iterator[Callable[[SourceName], PostgreSqlSource]]:
    """Connect; give what opens a table of the database.

    Raises ``ConfigurationError`` for a URL that is wrong or has a password, ``Unavailable``.
    """
    require_package("psycopg", "source", "--source")
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        # Its message repeats the URL.
        raise ConfigurationError(
            "--source: this is no URL of a PostgreSQL database: write"
            " postgresql://user@host:5432/database"
        ) from None
    if parts.get("password"):
        raise ConfigurationError(
            "--source: the URL has a password, which every user of this machine can see: take it"
            " away, and set PGPASSWORD, or name another variable by --source-password"
        )
    server = f"{parts.get('host', 'localhost')}:{parts.get('port', '5432')}"
    where = f"--source {server}, database {parts.get('dbname', 'of the user')}"

    def fail(error: Exception) -> Exception:
        return _error_of(error, where, password)

    # What the URL says wins.
    options = {"connect_timeout": CONNECT_SECONDS, **parts}
    if password is not None:
        options["password"] = password
    try:
        connection = psycopg.connect(**options, autocommit=True)
    except psycopg.Error as error:
        raise fail(error) from None
    try:
        for name, value in _SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        milliseconds = str(round(statement_seconds * 1000))
        connection.execute("SELECT set_config('statement_timeout', %s, false)", [milliseconds])
        yield lambda name: PostgreSqlSource(connection, name, fail)
    except psycopg.Error as error:
        raise fail(error) from None
    finally:
        connection.close()


def _error_of(error: Any, where: str, password: str | None) -> Exception:
    from psycopg import errors

    lines = str(error).strip().splitlines()
    why = mask_urls(lines[0] if lines else type(error).__name__)
    if password:
        why = why.replace(password, MASK)
    state = error.sqlstate or ""
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
        return ConfigurationError(f"{where}: {why}: name the table by --source-table")
    if isinstance(error, errors.InsufficientPrivilege):
        return AccessDenied(f"{where}: {why}: GRANT SELECT on the table to this user")
    if state.startswith("28") or "authentication failed" in why or "no password" in why:
        return AccessDenied(
            f"{where}: {why}: set PGPASSWORD, or name another variable by --source-password"
        )
    if isinstance(error, errors.LockNotAvailable):
        return Unavailable(
            f"{where}: somebody has locked the table for {LOCK_SECONDS} s: try again ({why})"
        )
    if isinstance(error, errors.QueryCanceled):
        return Unavailable(
            f"{where}: a statement took too long: give --source-timeout more seconds, or take a"
            f" smaller --chunk-rows ({why})"
        )
    return Unavailable(f"{where}: {why}")


def quoted(name: str) -> str:
    """Return an identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'
