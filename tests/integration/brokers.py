"""A second broker beside a sandbox's own, which stays the controller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from secor.sandbox import Sandbox
from secor.sandbox.kafka import KafkaServer, new_id
from secor.sandbox.process import Server
from secor.sandbox.state import free_port

NODE_ID = 2
REPLICATED = {
    "offsets.topic.replication.factor": 2,
    "transaction.state.log.replication.factor": 2,
    "transaction.state.log.min.isr": 1,
    "min.insync.replicas": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
"""What a sandbox needs whose coordinators are to move."""


@contextmanager
def second_broker(sandbox: Sandbox, **settings: object) -> Iterator[Server]:
    """Start another broker of the same cluster, with more settings; ends it at the end."""
    first = sandbox.servers["kafka"]
    assert isinstance(first, KafkaServer)
    folder = sandbox.directory / "kafka-2"
    _format(folder / "data", first.folder / "data")
    port = free_port()
    server = KafkaServer(
        folder=folder,
        log=sandbox.directory / "logs" / "kafka-2.log",
        port=port,
        controller_port=first.controller_port,
        progress=lambda _line: None,
        settings={
            **REPLICATED,
            "process.roles": "broker",
            "node.id": NODE_ID,
            "controller.quorum.voters": f"1@127.0.0.1:{first.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            **settings,
        },
    )
    server.start()
    try:
        yield server
    finally:
        server.kill()


def _format(data: Path, of_first: Path) -> None:
    """Make an empty folder of the same cluster: what it has to know it hears of the controller."""
    data.mkdir(parents=True)
    meta = (of_first / "meta.properties").read_text()
    changes = {"node.id": str(NODE_ID), "directory.id": new_id()}
    for key, value in changes.items():
        meta = re.sub(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", meta)
    (data / "meta.properties").write_text(meta)
