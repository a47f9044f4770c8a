"""The control topic on a real broker: deleted, cut, and full of what is no event."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.errors import UnknownTopicOrPartitionError

from secor.adapters.kafka import control_topic
from secor.adapters.kafka.control_topic import ControlTopic
from secor.tables.control import ControlEvent, EventKind
from tests.contracts.kafka_group import PATIENCE, Broker

if TYPE_CHECKING:
    from secor.sandbox import Sandbox

GROUP = "lake"


class Ends:
    """A coordinator's end of the channel and a worker's."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.coordinator = ControlTopic(broker.options, topic, GROUP, self._count)
        self.worker = ControlTopic(broker.options, topic, GROUP, self._count)
        self.asked = 0

    def _count(self, direction: str, kind: str) -> None:
        self.counts[direction, kind] += 1

    def wait(self) -> None:
        assert self.coordinator.ready.wait(PATIENCE)
        assert self.worker.ready.wait(PATIENCE)

    def ask(self) -> set[str]:
        """Ask once; return the commits that the worker has heard of by then."""
        commit = f"c{self.asked}"
        self.asked += 1
        self.coordinator.send(ControlEvent(EventKind.START_COMMIT, GROUP, commit, 1, "coordinator"))
        time.sleep(0.1)
        return {event.commit for event in self.worker.receive()}

    def ask_until_heard(self) -> None:
        """Ask again and again, as cycles do, until the worker hears one of these requests."""
        first = self.asked
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if any(int(commit[1:]) >= first for commit in self.ask()):
                return
        raise AssertionError("the worker hears nothing any more")


@contextmanager
def ends_of(broker: Broker, topic: str) -> Iterator[Ends]:
    ends = Ends(broker, topic)
    with closing(ends.coordinator), closing(ends.worker):
        ends.wait()
        yield ends


@pytest.fixture(scope="module")
def broker(sandbox: Sandbox) -> Broker:
    return Broker(sandbox.kafka)


def test_what_happens_to_the_topic_costs_announcements_alone(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_topic, "RETRY", 0.5)
    monkeypatch.setattr(control_topic, "SEND_MS", 1_000)
    topic = broker.name("control")
    with ends_of(broker, topic) as ends:
        ends.ask_until_heard()

        producer = KafkaProducer(**broker.options)
        for size in (0, 1, 10, 1000, 100_000):
            producer.send(topic, b"\xc3\x01" + size * b"?")
        producer.flush()
        producer.close()
        ends.ask_until_heard()
        assert ends.counts["received", "unknown"] >= 5

        with broker.admin() as admin:
            admin.delete_records({KafkaPartition(topic, 0): -1})
        ends.ask_until_heard()

        with broker.admin() as admin:
            admin.delete_topics([topic])
        ends.ask_until_heard()
        with broker.admin() as admin:
            try:
                (described,) = admin.describe_topics([topic])
            except UnknownTopicOrPartitionError:
                raise AssertionError("the topic was not made again") from None
        assert len(described["partitions"]) == 1
