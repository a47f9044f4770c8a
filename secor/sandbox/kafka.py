"""A Kafka broker that is its own controller (KRaft)."""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from secor.core.errors import Unavailable
from secor.java.bundles import KAFKA
from secor.java.cache import Progress, cache_folder, exclusive
from secor.java.jars import jar_folder
from secor.java.runtime import find_java
from secor.sandbox.process import Server

NODE_ID = 1
_JVM = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
_FORMATTED = ("meta.properties", "bootstrap.checkpoint")


def broker_settings(*, data: Path, port: int, controller_port: int) -> dict[str, object]:
    """Return ``server.properties`` of a single node that starts and rebalances quickly."""
    return {
        "process.roles": "broker,controller",
        "node.id": NODE_ID,
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        "num.partitions": 1,
        # One node: there is nobody to replicate to.
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "controlled.shutdown.enable": "false",
        # Groups settle at once, and sessions can be short.
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        # After a kill, a start waits until the controller has given up the broker before it: 9 s.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        # 128 MB by default.
        "log.cleaner.dedupe.buffer.size": 8388608,
        "auto.create.topics.enable": "false",
    }


def new_id() -> str:
    """Return a random id as Kafka writes them: 22 characters, not beginning with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def with_cluster_id(meta_properties: str, cluster_id: str) -> str:
    """Return ``meta.properties`` of another cluster and directory."""
    identity = {"cluster.id": cluster_id, "directory.id": new_id()}
    lines = (
        f"{key}={identity.get(key, value)}"
        for key, _, value in (line.partition("=") for line in meta_properties.splitlines())
        if key and not key.startswith("#")
    )
    return "\n".join(lines) + "\n"


class KafkaServer(Server):
    """The broker.  Its topics and groups are in ``data`` and survive every restart."""

    def __init__(
        self,
        *,
        folder: Path,
        log: Path,
        port: int,
        controller_port: int,
        progress: Progress,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(name="kafka", folder=folder, log=log, port=port)
        self.controller_port = controller_port
        self.settings = dict(settings or {})
        self._progress = progress

    def command(self) -> list[str]:
        """Return the program and its arguments; format the data folder once."""
        jars = jar_folder(KAFKA, self._progress)
        data = self.folder / "data"
        if not (data / "meta.properties").exists():
            format_data(data, self._progress)
        settings = broker_settings(data=data, port=self.port, controller_port=self.controller_port)
        properties = self.folder / "server.properties"
        properties.write_text(_properties({**settings, **self.settings}))
        return [str(find_java()), *_JVM, "-cp", f"{jars}/*", "kafka.Kafka", str(properties)]

    def serves(self) -> bool:
        """Return whether it said so in its log: its port is open before that."""
        return self.logged("Kafka Server started")


def format_data(data: Path, progress: Progress) -> None:
    """Make ``data`` the folder of a new cluster, from a template: formatting takes a JVM 4 s."""
    template = cache_folder() / "templates" / KAFKA.name
    if not template.is_dir():
        with exclusive(cache_folder(), progress):
            if not template.is_dir():
                _make_template(template, jar_folder_of_kafka=cache_folder() / "jars" / KAFKA.name)
    data.mkdir(parents=True, exist_ok=True)
    shutil.copy(template / "bootstrap.checkpoint", data)
    # Last: with it, the folder counts as formatted.
    meta = (template / "meta.properties").read_text()
    (data / "meta.properties").write_text(with_cluster_id(meta, new_id()))


def _make_template(template: Path, *, jar_folder_of_kafka: Path) -> None:
    template.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=template.parent) as working:
        data = Path(working) / "data"
        properties = Path(working) / "server.properties"
        properties.write_text(_properties(broker_settings(data=data, port=1, controller_port=2)))
        command = [str(find_java()), *_JVM, "-cp", f"{jar_folder_of_kafka}/*"]
        command += ["kafka.tools.StorageTool", "format", "-t", new_id(), "-c", str(properties)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise Unavailable(
                f"Kafka's storage could not be formatted (code {answer.returncode}):\n"
                f"{answer.stdout}{answer.stderr}"
            )
        whole = Path(working) / "template"
        whole.mkdir()
        for name in _FORMATTED:
            shutil.copy(data / name, whole)
        # Last, in one step: a template that is there is whole.
        whole.rename(template)


def _properties(settings: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())
