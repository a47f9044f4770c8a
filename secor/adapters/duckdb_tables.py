"""Iceberg tables as DuckDB's own reader sees them, by its extension ``iceberg``.

DuckDB gets the place of the metadata that the catalog names, and the credentials with which the
Iceberg library reads the table.  It reads data files in Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from secor.adapters.iceberg.catalog import library_table_of
from secor.core.errors import ConfigurationError, Unavailable
from secor.core.installing import how_to_install
from secor.tables.catalog import Table
from secor.verify.engine_filters import (
    RowFilter,
    comparable_columns,
    extremes_sql,
    where_sql,
)

EXTENSIONS = ("avro", "httpfs", "iceberg")
"""What the extension ``iceberg`` needs comes first."""


def open_connection() -> Any:
    """Return a connection that reads Iceberg tables.

    Extensions come from packages of this very version, else from where DuckDB has installed
    them.  Nothing is downloaded.  Raises ``ConfigurationError`` for what is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ConfigurationError(
            f"--by duckdb: DuckDB is not installed: {how_to_install('duckdb')}"
        ) from error
    # DuckDB would ask its server for an extension that is not there.
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    # Before all else: where Python runs without a file (-c), DuckDB draws a bar for each statement
    # of more than two seconds, LOAD too, into what commands print.
    connection.execute("SET enable_progress_bar = false")
    try:
        for name in EXTENSIONS:
            file = _packaged(name, duckdb.__version__)
            connection.execute(f"LOAD {literal(pa.scalar(str(file))) if file else name}")
    except duckdb.Error as error:
        connection.close()
        why = str(error).splitlines()[0]
        raise ConfigurationError(
            f"--by duckdb: DuckDB {duckdb.__version__} has no extension {name!r}:"
            f" {how_to_install('duckdb')}, or let DuckDB fetch it: INSTALL {name} ({why})"
        ) from error
    # Otherwise times with a zone are compared in that of this machine.
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _packaged(name: str, version: str) -> Path | None:
    """Return the file of an extension that a package has brought for this version of DuckDB."""
    try:
        package = import_module(f"duckdb_extension_{name}")
    except ImportError:
        return None
    folder = Path(str(package.__file__)).parent
    return next(folder.glob(f"extensions/v{version}/{name}.duckdb_extension"), None)


class DuckDBTables:
    """A ``TableReader``; used by one thread."""

    name = "DuckDB"

    def __init__(self, connection: Any) -> None:
        """``connection`` is one of ``open_connection``."""
        self._connection = connection
        self._secret: str | None = None

    def scan(self, table: Table, branch: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give columns of all rows; see ``TableReader``."""
        if table.head(branch) is not None:
            names = ", ".join(map(quoted, columns))
            yield from self._query(table, f"SELECT {names} FROM {self._rows(table, branch)}")  # noqa: S608  # quoted

    def extremes(self, table: Table, branch: str) -> Iterator[pa.RecordBatch]:
        """Give the extremes of each file; see ``TableReader``."""
        if table.head(branch) is None:
            return
        # A column of this name cannot be read: DuckDB gives the path of the file for it.
        columns = [
            column
            for column in comparable_columns(table.schema)
            if column.name.lower() != "filename"
        ]
        aggregates = extremes_sql(columns, quoted)
        rows = self._rows(table, branch)
        select = ", ".join(["filename AS file", *aggregates])
        yield from self._query(table, f"SELECT {select} FROM {rows} GROUP BY filename")  # noqa: S608  # quoted

    def counts(self, table: Table, branch: str, filters: Sequence[RowFilter]) -> Sequence[int]:
        """Count rows; see ``TableReader``."""
        if not filters or table.head(branch) is None:
            return [0] * len(filters)
        rows = self._rows(table, branch)
        conditions = [where_sql(filter_, "filename", quoted, literal) for filter_ in filters]
        selects = [
            f"SELECT {number} AS number, count(*) AS rows FROM {rows} WHERE {condition}"  # noqa: S608  # quoted
            for number, condition in enumerate(conditions)
        ]
        counted = pa.Table.from_batches(self._query(table, " UNION ALL ".join(selects)))
        by_number = dict(zip(*(column.to_pylist() for column in counted.columns), strict=True))
        return [by_number[number] for number in range(len(filters))]

    def _rows(self, table: Table, branch: str) -> str:
        head = table.head(branch)
        assert head is not None
        library_table = library_table_of(table)
        if require_readable(table.identifier, library_table.metadata_location) == "s3":
            self._use_credentials(library_table.io.properties)
        place = literal(pa.scalar(library_table.metadata_location))
        return f"iceberg_scan({place}, snapshot_from_id = {head.snapshot_id})"

    def _use_credentials(self, properties: Mapping[str, Any]) -> None:
        import duckdb

        secret = f"CREATE OR REPLACE SECRET secor ({', '.join(_secret(properties))})"
        # A secret is made once, not for each query; another table may have other credentials.
        if secret != self._secret:
            try:
                self._connection.execute(secret)
            except duckdb.Error as error:
                # Its message may repeat the statement.
                raise ConfigurationError(
                    "--by duckdb: DuckDB does not take the catalog's endpoint and credentials"
                    f" ({type(error).__name__})"
                ) from None
            self._secret = secret

    def _query(self, table: Table, sql: str) -> Iterator[pa.RecordBatch]:
        import duckdb

        try:
            yield from self._connection.execute(sql).to_arrow_reader()
        except duckdb.Error as error:
            why = str(error).splitlines()[0]
            raise Unavailable(f"table {table.identifier}: DuckDB cannot read it: {why}") from error


def require_readable(table: str, location: str) -> str:
    """Return the scheme of a location, ``s3`` or ``file``.

    Raises ``ConfigurationError`` for a place that DuckDB does not read with our credentials.
    """
    scheme = urlsplit(location).scheme
    if scheme in ("", "file"):
        return "file"
    if scheme in ("s3", "s3a", "s3n"):
        return "s3"
    raise ConfigurationError(
        f"table {table}: --by duckdb reads tables in S3 and in directories, not {scheme}://: use"
        " --by spark"
    )


@contextmanager
def duckdb_tables() -> Iterator[DuckDBTables]:
    """Open DuckDB.  Raises ``ConfigurationError``."""
    connection = open_connection()
    try:
        yield DuckDBTables(connection)
    finally:
        connection.close()


def _secret(properties: Mapping[str, Any]) -> Iterator[str]:
    """Give the options of a secret for S3, from the properties of the library's files."""
    given = {
        "KEY_ID": properties.get("s3.access-key-id"),
        "SECRET": properties.get("s3.secret-access-key"),
        "SESSION_TOKEN": properties.get("s3.session-token"),
        "REGION": properties.get("s3.region") or properties.get("client.region"),
    }
    if not given["KEY_ID"]:
        given |= _credentials_of_environment(properties)
    yield "TYPE s3"
    for name, value in given.items():
        if value:
            yield f"{name} {literal(pa.scalar(str(value)))}"
    endpoint = properties.get("s3.endpoint")
    if endpoint:
        parts = urlsplit(str(endpoint))
        yield f"ENDPOINT {literal(pa.scalar(parts.netloc))}"
        yield f"USE_SSL {str(parts.scheme != 'http').lower()}"
        if str(properties.get("s3.force-virtual-addressing", "")).lower() != "true":
            yield "URL_STYLE 'path'"


def _credentials_of_environment(properties: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the credentials that AWS's own chain finds: environment, profile, role of a host."""
    from botocore.session import Session

    session = Session(profile=properties.get("s3.profile-name"))
    credentials = session.get_credentials()
    if credentials is None:
        return {}
    frozen = credentials.get_frozen_credentials()
    region = properties.get("s3.region") or session.get_config_variable("region")
    return {
        "KEY_ID": frozen.access_key,
        "SECRET": frozen.secret_key,
        "SESSION_TOKEN": frozen.token,
        "REGION": region,
    }


def quoted(name: str) -> str:
    """Return an identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: pa.Scalar) -> str:
    """Return a value in SQL, exactly; it is constant before files are chosen."""
    kind = value.type
    if isinstance(kind, pa.UuidType):
        return f"'{value.value.as_py().hex()}'::UUID"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = value.as_py()
        if text.isprintable():
            return "'" + text.replace("'", "''") + "'"
        return f"decode(from_hex('{text.encode().hex()}'))"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"from_hex('{value.as_py().hex()}')"
    if pa.types.is_fixed_size_binary(kind):
        return f"from_hex('{value.as_py().hex()}')"
    if pa.types.is_date32(kind):
        return f"(DATE '1970-01-01' + {value.value})"
    if pa.types.is_timestamp(kind):
        moment = f"make_timestamp({value.value})"
        return moment if kind.tz is None else f"{moment}::TIMESTAMPTZ"
    if pa.types.is_time64(kind):
        return f"'{value.as_py().isoformat()}'::TIME"
    if pa.types.is_decimal(kind):
        return f"'{value.as_py():f}'::DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_floating(kind):
        return f"'{value.as_py()!r}'::{'FLOAT' if kind.bit_width == 32 else 'DOUBLE'}"
    return str(value.as_py())
