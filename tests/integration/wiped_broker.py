"""A broker with an authorizer, which can be wiped and is another cluster then."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient

from secor.sandbox.kafka import KafkaServer
from secor.sandbox.state import free_port

AUTHORIZER: Mapping[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
OPEN: Mapping[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Everybody may do what no rule is about."""


class WipedBroker:
    """The broker; ``admin`` asks it by librdkafka."""

    def __init__(self, folder: Path, settings: Mapping[str, object] = AUTHORIZER) -> None:
        self._folder = folder
        self._server = KafkaServer(
            folder=folder,
            log=folder / "kafka.log",
            port=free_port(),
            controller_port=free_port(),
            progress=lambda _line: None,
            settings=settings,
        )
        folder.mkdir()
        self._server.start()
        self.address = f"127.0.0.1:{self._server.port}"
        self.admin = AdminClient({"bootstrap.servers": self.address})

    def wipe(self) -> None:
        """SIGKILL, then all data gone, then a start as another cluster."""
        self._server.kill()
        shutil.rmtree(self._folder / "data")
        self._server.start()
        self.admin = AdminClient({"bootstrap.servers": self.address})

    def end(self) -> None:
        """End it."""
        self._server.kill()
