"""Servers in one folder: started together, found again, stopped together."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from secor.core.errors import ConfigurationError, SecorError
from secor.java.cache import Progress, exclusive
from secor.sandbox.catalogs import IcebergRestServer, PostgreSqlServer
from secor.sandbox.kafka import KafkaServer
from secor.sandbox.process import Server
from secor.sandbox.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, S3ProxyServer, VersityServer
from secor.sandbox.state import (
    SERVICES,
    TICK,
    SandboxPlan,
    load_plan,
    new_plan,
    save_plan,
    with_catalog,
)
from secor.sandbox.zookeeper import ZooKeeperServer


@dataclass(frozen=True, slots=True)
class S3Access:
    """Access to the S3 server.  The bucket exists."""

    endpoint_url: str
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY
    bucket: str = BUCKET
    region: str = "us-east-1"


def quiet(line: str) -> None:
    """Take a line of progress and drop it."""


class Sandbox:
    """The servers of one folder.

    ``servers`` has each by its name (``kafka``, ``zookeeper``, ``s3``, and ``rest`` or
    ``postgresql`` for a catalog) with ``stop``, ``kill``, ``start``, ``pause`` and ``resume``,
    which keep port and data.
    """

    def __init__(self, directory: Path, plan: SandboxPlan, progress: Progress = quiet) -> None:
        self.directory = directory.resolve()
        self.plan = plan
        self._progress = progress
        self.servers = {name: self._server(name) for name in plan.services}

    @classmethod
    def up(
        cls,
        directory: Path,
        *,
        services: Sequence[str] = SERVICES,
        s3_server: str = "s3proxy",
        catalog: str | None = None,
        zookeeper_tick: int = TICK,
        kafka_settings: Mapping[str, object] | None = None,
        progress: Progress = quiet,
    ) -> Self:
        """Start a sandbox in ``directory``, or what does not run of the one that is there.

        One that is there keeps its servers, ports and settings, whatever the arguments say;
        only a ``catalog`` that is named is added and used from then on.
        Returns when all serve.  Raises ``Unavailable`` with the end of the log of the one
        that does not; then none is left running that was not before.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"{directory} cannot be made ({error.strerror}): name another folder"
            ) from error
        with exclusive(directory, progress):
            plan = load_plan(directory)
            if plan is None:
                plan = new_plan(
                    services,
                    s3_server=s3_server,
                    zookeeper_tick=zookeeper_tick,
                    kafka_settings=kafka_settings or {},
                )
            if catalog is not None:
                plan = with_catalog(plan, catalog)
            # Before anything starts: a sandbox that is interrupted is found again by its ports.
            save_plan(plan, directory)
            sandbox = cls(directory, plan, progress)
            sandbox._start()
        return sandbox

    @classmethod
    def of(cls, directory: Path, progress: Progress = quiet) -> Self:
        """Return the sandbox in ``directory``.  Raises ``ConfigurationError``: there is none."""
        plan = load_plan(directory)
        if plan is None:
            raise ConfigurationError(
                f"there is no sandbox in {directory}: secor sandbox up --directory {directory}"
            )
        return cls(directory, plan, progress)

    def down(self, *, delete: bool = False) -> list[str]:
        """Stop all; return the names of those that had to be killed.

        What they keep stays for the next ``up`` unless ``delete`` is given.
        """
        with ThreadPoolExecutor() as pool:
            clean = dict(
                zip(self.servers, pool.map(Server.stop, self.servers.values()), strict=True)
            )
        if delete:
            shutil.rmtree(self.directory)
        return [name for name, stopped in clean.items() if not stopped]

    @property
    def kafka(self) -> str:
        """The broker's address for clients."""
        return self.servers["kafka"].address

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's address for clients."""
        return self.servers["zookeeper"].address

    @property
    def s3(self) -> S3Access:
        """The access to the S3 server."""
        return S3Access(f"http://{self.servers['s3'].address}")

    @property
    def catalog(self) -> dict[str, str]:
        """The catalog of tables, in the words of the Iceberg library for Python."""
        rest, postgresql = self.servers.get("rest"), self.servers.get("postgresql")
        if self.plan.catalog == "rest" and isinstance(rest, IcebergRestServer):
            return {"type": "rest", "uri": rest.uri}
        uri = f"sqlite:///{self.directory / 'catalog.db'}"
        if self.plan.catalog == "postgresql" and isinstance(postgresql, PostgreSqlServer):
            uri = postgresql.uri
        return {"type": "sql", "uri": uri, "warehouse": self._warehouse}

    @property
    def _warehouse(self) -> str:
        if "s3" not in self.servers:
            return (self.directory / "warehouse").as_uri()
        return f"s3://{self.s3.bucket}/warehouse"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.down()

    def _start(self) -> None:
        started = time.monotonic()
        new = [server for server in self.servers.values() if not server.running()]
        try:
            for server in new:  # one after the other: the cache has one lock
                self._progress(f"starting {server.name} at {server.address}")
                server.launch()
            for server in self.servers.values():
                if server in new:
                    server.wait()
                    self._progress(f"{server.name} is ready, {time.monotonic() - started:.1f} s")
        except (SecorError, KeyboardInterrupt):
            for server in new:
                # Only those that were started here: others were running before, and are used.
                server.kill()
            raise

    def _server(self, name: str) -> Server:
        ports = self.plan.ports
        folder, log = self.directory / name, self.directory / "logs" / f"{name}.log"
        if name == "kafka":
            return KafkaServer(
                folder=folder,
                log=log,
                port=ports[name],
                controller_port=ports["kafka_controller"],
                progress=self._progress,
                settings=self.plan.kafka_settings,
            )
        if name == "zookeeper":
            tick = self.plan.zookeeper_tick
            settings = self.plan.zookeeper_settings
            return ZooKeeperServer(
                folder=folder, log=log, port=ports[name], tick=tick, settings=settings
            )
        if name == "rest":
            return IcebergRestServer(
                folder=folder,
                log=log,
                port=ports[name],
                progress=self._progress,
                properties=self._rest_properties(),
            )
        if name == "postgresql":
            return PostgreSqlServer(folder=folder, log=log, port=ports[name])
        if name == "s3" and self.plan.s3_server == "versitygw":
            return VersityServer(folder=folder, log=log, port=ports[name], progress=self._progress)
        return S3ProxyServer(
            folder=folder,
            log=log,
            port=ports[name],
            progress=self._progress,
            settings=self.plan.s3_settings,
        )

    def _rest_properties(self) -> dict[str, str]:
        """Return how the REST server reaches the files of tables."""
        if "s3" not in self.plan.services:
            return {"warehouse": (self.directory / "warehouse").as_uri()}
        access = S3Access(f"http://127.0.0.1:{self.plan.ports['s3']}")
        return {
            "warehouse": f"s3://{access.bucket}/warehouse",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": access.endpoint_url,
            "s3.access-key-id": access.access_key,
            "s3.secret-access-key": access.secret_key,
            "s3.path-style-access": "true",
            "client.region": access.region,
        }
