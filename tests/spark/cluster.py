"""A standalone Spark cluster on loopback: a master and two workers, each on a host of its own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark

PATIENCE = 300.0
"""Seconds; a busy machine takes ten times what an idle one does."""

HOSTS = ("127.0.0.1", "127.0.0.2")
"""Spark runs no speculative task on the host of the one that it doubles."""

_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
_EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass
class Cluster:
    """Two workers of one core; each starts one executor for a job."""

    folder: Path
    port: int = 0
    """The master's; 0: any.  A cluster that is to come back needs the same."""
    memory: str = "600m"
    master: str = ""
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        """Start the servers and wait until the workers have found the master."""
        local = ("--host", HOSTS[0], "--port", str(self.port), "--webui-port", "0")
        self._launch("master", "Master", HOSTS[0], *local)
        self.master = self._told("master", _MASTER.search)
        for at, host in enumerate(HOSTS):
            self._launch(
                f"worker-{at}", "Worker", host, "--host", host, "--webui-port", "0",
                "--cores", "1", "--memory", self.memory,
                "--work-dir", str(self.folder / f"work-{at}"), self.master,
            )  # fmt: skip
        for at in range(len(HOSTS)):
            self._told(f"worker-{at}", re.compile(_REGISTERED).search)

    def stop(self) -> None:
        """End the servers and what they have started."""
        below = [one for server in self.servers for one in descendants(server.pid)]
        for server in reversed(self.servers):
            server.terminate()
        for server in self.servers:
            server.wait(PATIENCE)
        for one in below:
            kill(one)

    def kill(self) -> None:
        """End the servers at once, and what they have started."""
        below = [process for server in self.servers for process in descendants(server.pid)]
        for server in self.servers:
            server.kill()
            server.wait(PATIENCE)
        for process in below:
            kill(process)
        self.servers.clear()

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs of the executors that run now."""
        below = [one for server in self.servers for one in descendants(server.pid)]
        return [one for one in below if _EXECUTOR in " ".join(_command(one))]

    def _launch(self, name: str, what: str, host: str, *arguments: str) -> None:
        self.folder.mkdir(exist_ok=True)
        program = Path(pyspark.__file__).parent / "bin/spark-class"
        with (self.folder / f"{name}.log").open("wb") as log:
            server = subprocess.Popen(
                [program, f"org.apache.spark.deploy.{what.lower()}.{what}", *arguments],
                env={
                    **os.environ,
                    "SPARK_LOCAL_IP": host,
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                    "SPARK_LOG_DIR": str(self.folder),
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.servers.append(server)

    def _told(self, name: str, search: Callable[[str], re.Match[str] | None]) -> str:
        log = self.folder / f"{name}.log"
        wait_for(lambda: search(log.read_text()), f"{name}: {log}")
        match = search(log.read_text())
        assert match is not None
        return match[match.lastindex or 0]


@contextmanager
def cluster_in(folder: Path, port: int = 0) -> Iterator[Cluster]:
    """Give a cluster that ends with the block, with all that it has started."""
    cluster = Cluster(folder, port)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@dataclass
class Submitted:
    """A job that was started by a command; its output goes to ``log``."""

    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def of(cls, command: Sequence[object], log: Path, more: Mapping[str, str]) -> Submitted:
        """Start it, in the folder of the log: Python imports from where it is started, too."""
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(one) for one in command],
                cwd=log.parent,
                env={**os.environ, **more},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        return cls(process, log)

    def ended(self) -> tuple[int, str]:
        """Wait for its end; return the exit code and what it printed."""
        try:
            code = self.process.wait(PATIENCE)
        finally:
            self.kill()
        return code, self.log.read_text()

    def kill(self) -> None:
        """End the driver at once, its JVM and its Python."""
        for one in descendants(self.process.pid):
            kill(one)
        self.process.kill()
        self.process.wait(PATIENCE)


def descendants(pid: int) -> list[psutil.Process]:
    """Return all that a process has started and that is still there."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def kill(process: psutil.Process) -> None:
    """End a process at once, if it is there."""
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Poll until ``condition`` is true.  Fails naming ``what`` after a long time."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
