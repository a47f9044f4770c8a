"""A PostgreSQL database as the source of a table's rows, read in snapshots and never changed.

Passwords come from the environment (``PGPASSWORD``, ``PGPASSFILE``, ``PGSERVICE``: libpq reads
them) or as an argument; errors never show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

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
from secor.core.installing import require_package
from secor.core.text import mask_urls
from secor.verify.source.report import lsn_text
from secor.verify.source.values import SourceColumn, SourceName

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


class PostgreSqlSource(SourceTable):
    """A ``Source`` (``tables.source_comparison``) of one table; used by one thread."""

    def columns(self) -> list[SourceColumn]:
        """Return the table's columns.  Raises ``ConfigurationError`` where there is no table."""
        rows = self._all(_COLUMNS, [self._table_sql()])
        return [SourceColumn(*row) for row in rows]

    def about_rows(self) -> int:
        """Return how many rows the table has, as the server last estimated it."""
        sql = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = %s::regclass"
        return int(self._all(sql, [self._table_sql()])[0][0])

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
        with driver_errors(psycopg.Error, self._fail):
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

    def _select_sql(self) -> str:
        columns = ", ".join(column.sql for column in self._columns)
        return f"SELECT {columns} FROM {self._table_sql()}"  # noqa: S608  # quoted

    def _table_sql(self) -> str:
        return f"{quoted(self.name.schema)}.{quoted(self.name.name)}"

    def _all(self, sql: str, parameters: Sequence[object]) -> list[Any]:
        import psycopg

        with driver_errors(psycopg.Error, self._fail):
            return list(self._connection.execute(sql, parameters).fetchall())


class PostgreSqlSnapshot(TableSnapshot):
    """A ``SourceRows`` within a transaction."""

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
        for keys_of_query in keys_together(keys):
            columns = zip(*keys_of_query, strict=True)
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
        raise no_url("PostgreSQL database", "postgresql://user@host:5432/database") from None
    refuse_password(parts.get("password"), "PGPASSWORD")
    server = f"{parts.get('host', 'localhost')}:{parts.get('port', '5432')}"
    where = f"--source {server}, database {parts.get('dbname', 'of the user')}"

    def fail(error: Exception) -> Exception:
        return _error_of(error, where, password)

    # What the URL says wins.
    options = {"connect_timeout": CONNECT_SECONDS, **parts}
    if password is not None:
        options["password"] = password
    with driver_errors(psycopg.Error, fail):
        connection = psycopg.connect(**options, autocommit=True)
    with closing(connection), driver_errors(psycopg.Error, fail):
        for name, value in _SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        milliseconds = str(round(statement_seconds * 1000))
        connection.execute("SELECT set_config('statement_timeout', %s, false)", [milliseconds])
        yield lambda name: PostgreSqlSource(connection, name, fail)


def _error_of(error: Any, where: str, password: str | None) -> Exception:
    lines = str(error).strip().splitlines()
    why = mask_urls(lines[0] if lines else type(error).__name__)
    fault, note = _fault_of(error, why)
    return database_error(fault, where, why, password, note)


def _fault_of(error: Any, why: str) -> tuple[DatabaseFault, str]:
    """Return the kind of an error, and the note that goes with it."""
    from psycopg import errors

    state = error.sqlstate or ""
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
        return DatabaseFault.NO_TABLE, ""
    if isinstance(error, errors.InsufficientPrivilege):
        return DatabaseFault.DENIED, "GRANT SELECT on the table to this user"
    if state.startswith("28") or "authentication failed" in why or "no password" in why:
        return (
            DatabaseFault.DENIED,
            "set PGPASSWORD, or name another variable by --source-password",
        )
    if isinstance(error, errors.LockNotAvailable):
        return DatabaseFault.LOCKED, ""
    if isinstance(error, errors.QueryCanceled):
        return DatabaseFault.SLOW, "a statement took too long"
    return DatabaseFault.OTHER, ""


def quoted(name: str) -> str:
    """Return an identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'
