"""ZooKeeper, out of PySpark's own jars."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from secor.java.jars import pyspark_jars
from secor.java.runtime import find_java
from secor.sandbox.process import Server


class ZooKeeperServer(Server):
    """One server; ``tick`` in milliseconds: sessions last from 2 to 20 ticks."""

    def __init__(
        self,
        *,
        folder: Path,
        log: Path,
        port: int,
        tick: int,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(name="zookeeper", folder=folder, log=log, port=port)
        self.tick = tick
        self.settings = dict(settings or {})

    def command(self) -> list[str]:
        """Return the program and its arguments; write its configuration."""
        configuration = self.folder / "zoo.cfg"
        configuration.write_text(self.configuration())
        logging = self.folder / "log4j2.properties"
        logging.write_text(_LOG4J2)
        options = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        options += [f"-Dlog4j2.configurationFile={logging}", "-cp", f"{pyspark_jars()}/*"]
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        return [str(find_java()), *options, main, str(configuration)]

    def configuration(self) -> str:
        """Return ``zoo.cfg``."""
        settings = {
            "dataDir": self.folder / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "tickTime": self.tick,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            **self.settings,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def serves(self) -> bool:
        """Return whether it serves: ``ruok`` answers before it does, ``srvr`` names its mode."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError:
            return False
        return b"Mode:" in answer


_LOG4J2 = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1.} %m%n
"""
