"""A put that takes effect when its range has been read again from a compacted log, and stored."""

from __future__ import annotations

import http.client
import os
import signal
import threading
import time
from email.message import Message
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from secor.config.load import load
from secor.core.model import TopicPartition
from secor.sandbox import Sandbox
from secor.wiring.clients import open_reader, open_store
from tests.faults.proxy import FaultProxy, Rule
from tests.integration.daemons import (
    PATIENCE,
    Start,
    committed,
    run_secor,
    wait_until,
    write_config,
)

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}
KEYS = 20
BATCH = 500


class Gate(FaultProxy):
    """Holds up the first put of a topic's messages until it is told to let it go."""

    def __init__(self, upstream: str, topic: str) -> None:
        self._topic = topic
        self._lock_first = threading.Lock()
        self.arrived = threading.Event()
        self.go = threading.Event()
        self.answers: list[tuple[str, int]] = []
        super().__init__(upstream)

    def draw(self, method: str, target: str) -> Rule | None:
        with self._lock_first:
            first = self._stores_messages(method, target) and not self.arrived.is_set()
            if first:
                self.arrived.set()
        if first:
            self.go.wait(2 * PATIENCE)
        return super().draw(method, target)

    def _stores_messages(self, method: str, target: str) -> bool:
        """Tell it from puts of the topic's description, and of the cluster's groups."""
        return method == "PUT" and self._topic in target and "/_" not in target

    def answered(
        self, method: str, target: str, headers: Message, response: http.client.HTTPResponse
    ) -> None:
        if self._stores_messages(method, target):
            self.answers.append((target, response.status))


def create_compacted(sandbox: Sandbox, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=sandbox.kafka)
    admin.create_topics([NewTopic(topic, 1, replication_factor=1, topic_configs=COMPACTED)])
    admin.close()


def produce(sandbox: Sandbox, topic: str, numbers: range) -> None:
    """Write messages of a few keys, whose earlier ones go; those in the middle stay."""
    producer = KafkaProducer(bootstrap_servers=sandbox.kafka, linger_ms=20)
    for number in numbers:
        stays = BATCH // 2 <= number < BATCH
        key = b"once-%d" % number if stays else b"%d" % (number % KEYS)
        producer.send(topic, key=key, value=b"%d" % number, partition=0)
    producer.flush(PATIENCE)
    producer.close()


def first_offset(config: Path, topic: str) -> int:
    """Return the offset of the first message that the log still has."""
    owner = TopicPartition(topic, 0)
    with open_reader(load(config, {})) as reader:
        for chunk in reader.read(owner, 0, reader.log_range(owner).end):
            if chunk.records.num_rows:
                offset: int = chunk.records.column("offset")[0].as_py()
                return offset
    return 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("ledger", ["zookeeper", "kafka"])
def test_a_put_that_takes_effect_after_its_range_was_stored_changes_nothing(
    ledger: str, how: signal.Signals, sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    """Its sender is killed, or stopped between its look at the lease and the request."""
    topic = f"late-{ledger}-{how.name.lower()}"
    with Gate(sandbox.s3.endpoint_url, topic) as gate:
        config = write_config(
            tmp_path,
            sandbox,
            group=topic,
            topic=topic,
            ledger=ledger,
            endpoint_url=gate.url,
            settings={"policy": {"max_messages": BATCH}},
        )
        create_compacted(sandbox, topic)
        produce(sandbox, topic, range(BATCH))
        sender = start(config, tmp_path / "log-sender")
        assert gate.arrived.wait(PATIENCE), sender.text()
        if how is signal.SIGKILL:
            time.sleep(1.0)  # the body is on its way, too
        os.kill(sender.process.pid, how)
        total = BATCH

        def compacted() -> bool:
            nonlocal total
            produce(sandbox, topic, range(total, total + KEYS))
            total += KEYS
            return first_offset(config, topic) > 0

        wait_until(compacted, "the first messages compacted away")
        start(config, tmp_path / "log-successor")
        wait_until(lambda: committed(config, topic, 1) == total, "the successor stored it all")
        there = len(gate.answers)
        gate.go.set()
        if how is signal.SIGSTOP:
            sender.send(signal.SIGCONT)
        wait_until(lambda: len(gate.answers) > there, "the late put is answered")
        late = [status for _, status in gate.answers[there:]]
        assert set(late) == {412}, gate.answers  # a sender that wakes may send it again
        done = run_secor("verify", str(config))
        assert done.returncode == 0, done.stdout + done.stderr
        with open_store(load(config, {})) as store:
            starts = [stored.key for stored in store.list(f"{topic}/{topic}/offset=0/1_0_")]
        assert sum(f"1_0_{0:020d}" in key for key in starts) == 1
