"""Rolling upgrades with real processes: configurations side by side, as docs/upgrade.md says."""

from __future__ import annotations

import itertools
import json
import signal
import threading
import time
from pathlib import Path

import pytest
from kafka import KafkaProducer

from secor.config.load import load
from secor.core.model import TopicPartition
from secor.sandbox import Sandbox
from secor.wiring.clients import open_ledger_for_operator
from tests.integration.daemons import (
    PATIENCE,
    Daemon,
    Start,
    create_topic,
    run_secor,
    wait_until,
    write_config,
)

PARTITIONS = 4
MAX_AGE = 2.0
ALLOWANCE = 80.0
"""Seconds beyond the policy for two starts of Python, rebalances and uploads on a busy machine."""

pytestmark = pytest.mark.slow


class Traffic:
    """Writes all the time; remembers when each offset was written, and when it was committed."""

    def __init__(self, sandbox: Sandbox, config: Path, topic: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=sandbox.kafka, acks="all")
        self._config = load(config, {})
        self._topic = topic
        self._stop = threading.Event()
        self.written: dict[int, list[float]] = {number: [] for number in range(PARTITIONS)}
        self.slowest = 0.0
        self.committed = dict.fromkeys(range(PARTITIONS), 0)
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._look)]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        self._producer.close()

    @property
    def total(self) -> int:
        return sum(len(times) for times in self.written.values())

    def end(self) -> None:
        """Write no more, and wait until all of it is committed."""
        self._stop.set()
        wait_until(lambda: sum(self.committed.values()) == self.total, "everything committed")

    def _write(self) -> None:
        for number in itertools.count():
            if self._stop.wait(0.01):
                break
            partition = number % PARTITIONS
            # One after the other: the offsets of a partition are 0, 1, 2, ...
            sent = self._producer.send(self._topic, value=b"%d" % number, partition=partition)
            self.written[partition].append(time.monotonic())
            sent.get(PATIENCE)

    def _look(self) -> None:
        """Measure how long a message waits: from its write to the commit of its object."""
        with open_ledger_for_operator(self._config) as ledger:
            while not (self._stop.is_set() and sum(self.committed.values()) == self.total):
                for partition, before in self.committed.items():
                    entry = ledger.read(TopicPartition(self._topic, partition))
                    after = entry.committed or 0
                    now = time.monotonic()
                    if after > before:
                        oldest = self.written[partition][before]
                        self.slowest = max(self.slowest, now - oldest)
                    self.committed[partition] = after
                time.sleep(0.1)


def ready(daemon: Daemon) -> bool:
    """Tell whether it reads a partition."""
    assert daemon.process.poll() is None, daemon.text()
    return '"event": "running"' in daemon.text()


def replace(old: Daemon, config: Path, log: Path, start: Start) -> Daemon:
    """Stop one, start one in its place, and wait until it works."""
    old.send(signal.SIGTERM)
    assert old.wait() == 0, old.text()
    assert "Traceback" not in old.text()
    assert '"event": "drained"' in old.text()
    new = start(config, log)
    wait_until(lambda: ready(new), "the new process to work")
    return new


def test_versions_of_a_configuration_follow_each_other_without_a_gap(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "upgrade"
    create_topic(sandbox, topic, PARTITIONS)

    def version(name: str, output: dict[str, object], most: int) -> Path:
        (tmp_path / name).mkdir()
        # What moves is uploaded first: its age would begin anew with the next owner.
        policy = {"max_messages": most, "max_age": f"{MAX_AGE:g}s", "upload_on_revoke": True}
        return write_config(
            tmp_path / name,
            sandbox,
            group=topic,
            topic=topic,
            ledger="zookeeper",
            settings={"output": {"prefix": topic, **output}, "policy": policy},
        )

    first = version("first", {"format": "sequencefile", "offsets_per_partition": 100}, 60)
    second = version("second", {"format": "parquet", "offsets_per_partition": 70}, 90)
    third = version("third", {"format": "sequencefile", "codec": "zstd", "generation": 2}, 40)

    with Traffic(sandbox, first, topic) as traffic:
        fleet = [start(first, tmp_path / f"first-{number}.log") for number in range(2)]
        wait_until(lambda: all(ready(daemon) for daemon in fleet), "the first processes to work")
        # Another format and layout beside the first, another generation beside that, and back.
        for step, config in enumerate((second, third, first, first)):
            log = tmp_path / f"{config.parent.name}-{step}.log"
            fleet[step % 2] = replace(fleet[step % 2], config, log, start)
        traffic.end()

    for daemon in fleet:
        daemon.send(signal.SIGTERM)
    assert [daemon.wait() for daemon in fleet] == [0, 0]
    assert traffic.slowest < MAX_AGE + ALLOWANCE
    for config in (first, second, third):
        checked = run_secor("verify", str(config))
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert f"{traffic.total:,} messages" in checked.stdout
    listed = json.loads(run_secor("ls", str(first), topic, "--json").stdout)["objects"]
    kinds = {(one["key"].rpartition(".")[2], one["generation"]) for one in listed}
    assert kinds == {("seq", 1), ("parquet", 1), ("seq", 2)}
