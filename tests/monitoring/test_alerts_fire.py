"""A real Prometheus over real daemons: what is broken fires its alert, which clears when mended.

Two groups: one of two processes with the S3 server; and one of a single process with a
directory, and with batches so small that it cannot keep up with a flood.  The rules are those
of ``config/prometheus`` with their times divided by ``FACTOR``.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaProducer

from secor.sandbox.state import free_port
from tests.contracts.kafka_group import Broker
from tests.integration.daemons import (
    Daemon,
    create_topic,
    daemons,
    produce,
    wait_until,
    write_config,
)
from tests.monitoring.rules import write_quicker
from tests.monitoring.server import Labels, Prometheus

if TYPE_CHECKING:
    from secor.sandbox import Sandbox

FACTOR = 60
BURST = 200
"""Messages of the flood in a tenth of a second, some times what is stored then."""

STEADY, FLOODED = "alerts-steady", "alerts-flooded"
Settings = dict[str, dict[str, object]]


@dataclass
class Place:
    """Where one process runs, by its group and port; what it reads has the group's name."""

    folder: Path
    sandbox: Sandbox
    begin: Callable[[Path, Path], Daemon]
    group: str
    settings: Settings
    port: int = field(default_factory=free_port)

    @property
    def target(self) -> tuple[str, Labels]:
        """What Prometheus is told."""
        return f"127.0.0.1:{self.port}", {"group": self.group}

    def start(self, more: Settings | None = None) -> Daemon:
        """Start a process; one that ran here before has ended."""
        folder = self.folder / str(self.port)
        folder.mkdir(exist_ok=True)
        config = write_config(
            folder,
            self.sandbox,
            group=self.group,
            topic=self.group,
            ledger="zookeeper",
            settings={
                "metrics": {"port": self.port},
                # However full this machine's disk may be.
                "limits": {"local_bytes": "64MiB"},
                **self.settings,
                **(more or {}),
            },
        )
        return self.begin(config, folder / "log")


@pytest.fixture
def place(sandbox: Sandbox, tmp_path: Path) -> Iterator[Callable[[str, Settings], Place]]:
    with daemons() as begin:
        yield lambda group, settings: Place(tmp_path, sandbox, begin, group, settings)


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    rules = write_quicker(tmp_path / "secor.rules.yml", FACTOR)
    with Prometheus(tmp_path / "prometheus", [rules]) as running:
        yield running


@contextmanager
def flood(sandbox: Sandbox, topic: str) -> Iterator[None]:
    """Produce in a thread, as fast as ``BURST`` says, until the end."""
    ended = threading.Event()

    def run() -> None:
        producer = KafkaProducer(bootstrap_servers=sandbox.kafka)
        while not ended.wait(0.1):
            for _ in range(BURST):
                producer.send(topic, value=b"drop", partition=0)
            producer.flush()
        producer.close()

    thread = threading.Thread(target=run, name="flood")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def fires(prometheus: Prometheus, name: str, **labels: str) -> bool:
    """Tell whether an alert fires; all that fire by this name must have these labels."""
    found = [
        alert["labels"]
        for alert in prometheus.alerts()
        if alert["labels"]["alertname"] == name and alert["state"] == "firing"
    ]
    for one in found:
        assert labels.items() <= one.items(), one
    return bool(found)


@pytest.mark.slow
def test_what_is_broken_fires_its_alert_which_clears_when_mended(
    sandbox: Sandbox, place: Callable[[str, Settings], Place], prometheus: Prometheus
) -> None:
    create_topic(sandbox, STEADY, 2)
    create_topic(sandbox, FLOODED, 1)
    impatient: Settings = {"store.s3": {"read_timeout": "1s", "max_attempts": 1}}
    one, other = place(STEADY, impatient), place(STEADY, impatient)
    directory = one.folder / "bucket"
    directory.mkdir()
    local: Settings = {"store": {"kind": "local"}, "store.local": {"directory": str(directory)}}
    small = place(FLOODED, local)
    # A batch for each fetch, and a record batch for each of these.
    slowly: Settings = {
        "policy": {"max_messages": 10},
        "kafka": {"max_partition_fetch_bytes": "1KiB"},
    }

    killed, _, slow = one.start(), other.start(), small.start(slowly)
    prometheus.scrape(one.target, other.target, small.target)
    reading = 'min by (group) (secor_assigned_partitions{group="%s"})'

    def settled() -> bool:
        answers = [prometheus.query(reading % group) for group in (STEADY, FLOODED)]
        return all(found and float(found[0]["value"][1]) == 1 for found in answers)

    wait_until(settled, "every process reads a partition")
    wait_until(lambda: not prometheus.firing(), "nothing fires")
    assert [rule["lastError"] for rule in prometheus.rules() if rule["health"] != "ok"] == []

    with flood(sandbox, FLOODED):
        with Broker(sandbox.kafka).open_transaction(STEADY, [b"waits"], "nobody") as producer:
            killed.kill()
            down = one.target[0]
            wait_until(lambda: fires(prometheus, "SecorDown", instance=down), "SecorDown")
            assert not fires(prometheus, "SecorGroupDown")
            one.start()
            wait_until(lambda: not fires(prometheus, "SecorDown"), "SecorDown clears")
            withheld = "SecorMessagesWithheld"
            wait_until(lambda: fires(prometheus, withheld, topic=STEADY, partition="0"), withheld)
            producer.abort_transaction()
        wait_until(lambda: not fires(prometheus, withheld), f"{withheld} clears")

        sandbox.servers["s3"].pause()
        try:
            produce(sandbox, STEADY, 2, range(200))  # few: all of them are read, none stored
            failing = "SecorUploadsFailing"
            wait_until(lambda: fires(prometheus, failing, group=STEADY), failing)
            growing = "SecorLagGrowing"
            wait_until(lambda: fires(prometheus, growing, topic=FLOODED), growing)
        finally:
            sandbox.servers["s3"].resume()

    slow.send(signal.SIGTERM)
    assert slow.wait() == 0
    small.start()
    wait_until(lambda: not prometheus.firing(), "everything clears")
