"""A worker of Kafka Connect with a connector."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from secor.core.errors import NotFound, Unavailable
from secor.java.bundles import DEBEZIUM_POSTGRESQL, KAFKA_CONNECT, Bundle
from secor.java.cache import Progress
from secor.java.jars import jar_folder
from secor.java.runtime import find_java
from secor.sandbox.process import Server
from secor.sandbox.state import free_port

CONNECTOR = "source"
PREFIX = "shop"
"""Of the names of topics: ``shop.public.notes``."""

PASSWORD = "unused"
"""Of the database's user."""

SIGNALS = "public.signals"
"""The source's table by which the connector is told to read tables again."""

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
AVRO_CONVERTER = "io.apicurio.registry.utils.converter.AvroConverter"
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class ConnectWorker(Server):
    """A standalone worker of Kafka Connect that runs one connector, or those that are posted."""

    def __init__(
        self,
        *,
        folder: Path,
        log: Path,
        port: int,
        kafka: str,
        converter: Mapping[str, str],
        connector: Mapping[str, str],
        plugins: Sequence[Bundle] = (),
        progress: Progress,
        plugin: Bundle | Path = DEBEZIUM_POSTGRESQL,
        more_jars: Sequence[Path] = (),
    ) -> None:
        """``converter`` has the settings of both converters, without ``key.`` and ``value.``.

        ``plugins`` are loaded beside the connector.
        Without a ``connector`` there is none at first.  ``plugin`` has the class, and
        ``more_jars`` what it does not bring itself.
        """
        super().__init__(name="connect", folder=folder, log=log, port=port)
        self._kafka = kafka
        self._converter = dict(converter)
        self._connector = dict(connector)
        self._plugins = (plugin, *plugins)
        self._progress = progress
        self._plugin = plugin
        self._more_jars = tuple(more_jars)
        self.flush_interval = 1000
        """Milliseconds between commits of offsets, from the next start on."""

    @classmethod
    def for_posted(
        cls,
        folder: Path,
        kafka: str,
        plugin: Bundle | Path,
        progress: Progress,
        more_jars: Sequence[Path] = (),
    ) -> ConnectWorker:
        """Return a worker for connectors that are posted, with messages in JSON."""
        return cls(
            folder=folder / "connect",
            log=folder / "logs" / "connect.log",
            port=free_port(),
            kafka=kafka,
            converter={"converter": JSON_CONVERTER},
            connector={},
            progress=progress,
            plugin=plugin,
            more_jars=more_jars,
        )

    def command(self) -> list[str]:
        """Return the program and its arguments; write the files they name."""
        jars = jar_folder(KAFKA_CONNECT, self._progress)
        # The path is the folder above the plug-ins' own; on the class path of the worker, the
        # connector's services would not be found.
        plugins = self.folder / "plugins"
        for plugin in self._plugins:
            own = plugins / plugin.name
            own.mkdir(parents=True, exist_ok=True)
            more = self._more_jars if plugin is self._plugin else ()
            folder = plugin if isinstance(plugin, Path) else jar_folder(plugin, self._progress)
            for jar in [*folder.rglob("*.jar"), *more]:
                if not (own / jar.name).is_symlink():
                    (own / jar.name).symlink_to(jar)
        worker = {
            "bootstrap.servers": self._kafka,
            "listeners": f"http://{self.address}",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "offset.flush.interval.ms": str(self.flush_interval),
            "plugin.path": str(plugins),
            "topic.creation.enable": "true",
        }
        for side in ("key", "value"):
            worker[f"{side}.converter"] = self._converter["converter"]
            for name, value in self._converter.items():
                if name != "converter":
                    worker[f"{side}.converter.{name}"] = value
        files = []
        for name, settings in (("worker", worker), ("connector", self._connector)):
            if not settings:
                continue
            files.append(self.folder / f"{name}.properties")
            files[-1].write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        return [str(find_java()), *_JVM, "-cp", f"{jars}/*", main, *map(str, files)]

    def serves(self) -> bool:
        """Tell whether the connector's task runs.  Raises ``Unavailable`` if it has failed."""
        try:
            if not self._connector:
                return isinstance(self.ask("GET", "/connectors"), list)
            tasks = self.ask("GET", f"/connectors/{CONNECTOR}/status")["tasks"]
        except (OSError, http.client.HTTPException, NotFound):
            return False
        for task in tasks:
            if task["state"] == "FAILED":
                raise Unavailable(f"the connector has failed: {task['trace'][:3000]}")
        return bool(tasks) and all(task["state"] == "RUNNING" for task in tasks)

    def offsets(self) -> list[dict[str, Any]]:
        """Return where the connector would begin again; none where it does not answer."""
        try:
            answer = self.ask("GET", f"/connectors/{CONNECTOR}/offsets")
        except (OSError, http.client.HTTPException, NotFound):
            return []
        return [item["offset"] for item in answer["offsets"]]

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """Return what the REST interface answers.  Raises ``NotFound`` for what it refuses."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= http.client.BAD_REQUEST:
            raise NotFound(f"{method} {path}: {answer.status} {text.decode()[:1000]}")
        return json.loads(text) if text else None
