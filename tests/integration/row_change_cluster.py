"""Rows that are changed by a Spark cluster which is gone for minutes, and comes back.

``python -m tests.integration.row_change_cluster SECONDS [FOLDER]``: real servers and a standalone
cluster.  Master, workers and executors are killed and started again; ``secor tables run`` is
started again when it ends, as its service does.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from secor.java.runtime import spark_java_home
from secor.sandbox.state import free_port
from tests.integration.row_change_steps import ROOT, Committer, Scene, scene_of, wait_until
from tests.spark.cluster import Cluster, cluster_in

TIMEOUT = 60.0
"""Seconds: a busy machine takes half of it to start Spark."""
UNAVAILABLE = 4


@dataclass
class Service:
    """Starts the committer again when it has ended, as systemd does."""

    scene: Scene
    began: float = field(default_factory=time.monotonic)
    running: list[Committer] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Print what happens, and when."""
        print(f"{time.monotonic() - self.began:6.1f} s  {text}", flush=True)

    def look(self) -> None:
        """Start a committer where none runs."""
        if self.running and self.running[-1].process.poll() is not None:
            ended = self.running[-1]
            code = ended.process.returncode
            self.say(f"ended with {code}: {ended.text().splitlines()[-1]}")
            assert code == UNAVAILABLE, ended.log
        elif self.running:
            return
        self.running.append(self.scene.open())
        self.say("secor tables run is started")

    def wait_until_right(self, what: str) -> None:
        """Wait until the table is as the messages say."""

        def is_right() -> bool:
            self.look()
            return self.scene.is_right()

        wait_until(is_right, what)
        self.say(what)


def lose(service: Service, cluster: Cluster, seconds: float) -> None:
    """Kill the cluster, and bring it back after some time."""
    cluster.kill()
    service.say("master, workers and executors are killed")
    service.scene.produce()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        service.look()
        time.sleep(1.0)
    cluster.start()
    service.say("the cluster is back")
    service.scene.produce()
    service.wait_until_right("all rows are there")


def main(seconds: float, folder: Path) -> None:
    """Lose the cluster for a moment, in which the committer lives on, and for minutes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and end what runs
    os.environ["JAVA_HOME"] = str(spark_java_home(folder))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)
    with cluster_in(folder / "cluster", free_port()) as cluster, scene_of("iceberg", folder) as it:
        it.master, it.timeout = cluster.master, TIMEOUT
        service = Service(it)
        it.produce()
        service.wait_until_right("the first rows are there")
        lose(service, cluster, 0.0)
        lose(service, cluster, seconds)


if __name__ == "__main__":
    main(float(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp()))
