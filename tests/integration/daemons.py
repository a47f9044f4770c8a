"""``secor run`` as a real process over the sandbox, for tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Protocol
from urllib.request import urlopen

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from secor.config.load import load
from secor.core.errors import Unavailable
from secor.core.model import TopicPartition
from secor.sandbox import Sandbox
from secor.sandbox.first_steps import Settings, configuration
from secor.wiring.clients import open_ledger_for_operator

PATIENCE = 300.0
"""Seconds that a test waits for what must come, on a machine that does other things too."""


def write_config(
    folder: Path,
    sandbox: Sandbox,
    *,
    group: str,
    topic: str,
    ledger: str,
    endpoint_url: str | None = None,
    settings: Settings = MappingProxyType({}),
    more: str = "",
) -> Path:
    """Write a configuration with small batches, ``settings`` over it and ``more`` behind it.

    ``endpoint_url`` goes through a proxy.
    """
    path = folder / f"{group}.toml"
    usual: dict[str, dict[str, object]] = {
        "group": {"name": group},
        "kafka": {
            "topics": [topic],
            "session_timeout": "6s",
            "heartbeat_interval": "1s",
            "metadata_max_age": "5s",
        },
        "ledger": {"kind": ledger},
        "ledger.zookeeper": {"session_timeout": "4s"},
        "output": {"prefix": group},
        "policy": {"max_messages": 500, "max_age": "2s"},
        "logs": {"format": "json"},
    }
    if endpoint_url is not None:
        usual["store.s3"] = {"endpoint_url": endpoint_url}
    for section, keys in settings.items():
        usual[section] = {**usual.get(section, {}), **keys}
    text = configuration(sandbox, folder / "local", usual, about="Small batches.")
    path.write_text(f"{text}\n{more}\n")
    return path


class Daemon:
    """One process, its log in a file; ``command`` is ``run``, or ``restore run``."""

    def __init__(self, config: Path, log: Path, command: Sequence[str] = ("run",)) -> None:
        """Start it."""
        self.log = log
        with log.open("ab") as file:
            line = secor(*command, str(config))
            self.process = subprocess.Popen(line, stdout=file, stderr=file)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        """Return the exit code."""
        return self.process.wait(PATIENCE)

    def stop(self) -> int:
        """End it as a service manager does, once it has begun to work; return the exit code."""
        wait_until(lambda: '"event": "connected"' in self.text(), f"{self.log}: connected")
        self.send(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)

    def text(self) -> str:
        """Return the log."""
        return self.log.read_text()

    def port(self) -> int | None:
        """Return the port of metrics and status page; None before it is bound."""
        ports = re.findall(r'"port": (\d+)', self.text())
        return int(ports[-1]) if ports else None

    def page(self, path: str) -> str:
        """Return what its HTTP server answers."""
        with urlopen(f"http://127.0.0.1:{self.port()}{path}", timeout=PATIENCE) as answer:
            text: str = answer.read().decode()
        return text

    def total(self, metric: str) -> float:
        """Return the sum of a metric's series; 0 before the metrics are served."""
        if self.port() is None:
            return 0.0
        lines = self.page("/metrics").splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(metric + "{"))


class Start(Protocol):
    """Starts ``secor run``, or another command, with a configuration and a file for its log."""

    def __call__(self, config: Path, log: Path, command: Sequence[str] = ("run",)) -> Daemon: ...


def secor(*arguments: str) -> list[str]:
    """Return the command line ``secor ...`` of this very installation."""
    return [sys.executable, "-c", "from secor.cli.main import main; main()", *arguments]


def run_secor(*arguments: str, patience: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in at most ``patience`` seconds."""
    return subprocess.run(
        secor(*arguments), capture_output=True, text=True, timeout=patience, check=False
    )


@contextmanager
def daemons() -> Iterator[Start]:
    """Give a function that starts daemons; all are ended at the end."""
    started: list[Daemon] = []

    def start(config: Path, log: Path, command: Sequence[str] = ("run",)) -> Daemon:
        started.append(Daemon(config, log, command))
        return started[-1]

    try:
        yield start
    finally:
        for daemon in started:
            daemon.kill()


def create_topic(sandbox: Sandbox, topic: str, partitions: int) -> None:
    """Create a topic."""
    admin = KafkaAdminClient(bootstrap_servers=sandbox.kafka)
    admin.create_topics([NewTopic(name=topic, num_partitions=partitions, replication_factor=1)])
    admin.close()


def produce(sandbox: Sandbox, topic: str, partitions: int, numbers: range) -> None:
    """Send one message a number, round robin, some with headers, null keys or null values."""
    producer = KafkaProducer(bootstrap_servers=sandbox.kafka, compression_type="lz4")
    for number in numbers:
        key = b"key-%d" % number if number % 3 else None
        value = None if number % 7 == 0 and key else b'{"number": %d}' % number
        headers = [("n", b"%d" % number)] if number % 5 == 0 else []
        producer.send(topic, key=key, value=value, headers=headers, partition=number % partitions)
    producer.flush()
    producer.close()


def _is_reached(reached: Callable[[], bool]) -> bool:
    try:
        return reached()
    except Unavailable:
        return False


def wait_until(reached: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Wait; fails the test with ``what`` after ``patience`` seconds.

    A server that is not available, as it has just started, is asked again.
    """
    deadline = time.monotonic() + patience
    while not _is_reached(reached):
        assert time.monotonic() < deadline, f"not in {patience:.0f} s: {what}"
        time.sleep(0.1)


def committed(config: Path, topic: str, partitions: int) -> int:
    """Return the sum of the committed offsets."""
    settings = load(config, {})
    with open_ledger_for_operator(settings) as ledger:
        entries = [ledger.read(TopicPartition(topic, number)) for number in range(partitions)]
    return sum(entry.committed or 0 for entry in entries)
