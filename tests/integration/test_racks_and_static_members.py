"""Replicas in one's own rack (KIP-392) and static members (KIP-345), on real brokers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from secor.adapters.kafka import insides
from secor.adapters.kafka.agreement import Uses
from secor.adapters.kafka.client import to_client
from secor.core.errors import ConfigurationError
from secor.core.model import TopicPartition
from secor.sandbox import Sandbox
from tests.contracts.kafka_group import Broker, Receiver, together
from tests.integration.brokers import NODE_ID, REPLICATED, second_broker

USES = Uses("host-1", "zookeeper at /secor", ("zk-1:2181",), "s3://bucket", "seq (gzip) below x")
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_messages_come_from_the_replica_in_the_same_rack(tmp_path: Path, opened: ExitStack) -> None:
    # The controller notices a broker that is gone only after this test.
    patient = {"broker.session.timeout.ms": 60_000}
    settings = {**REPLICATED, **SELECTOR, **patient, "broker.rack": "zone-a"}
    sandbox = opened.enter_context(
        Sandbox.up(tmp_path / "servers", services=("kafka",), kafka_settings=settings)
    )
    other = opened.enter_context(second_broker(sandbox, **SELECTOR, **{"broker.rack": "zone-b"}))
    broker, topic = Broker(sandbox.kafka), "flights"
    with closing(KafkaAdminClient(bootstrap_servers=sandbox.kafka)) as admin:
        admin.create_topics([NewTopic(topic, -1, -1, replica_assignments={0: [1, 2], 1: [2, 1]})])
    values = [b"message-%d" % number for number in range(200)]
    for partition in (0, 1):
        broker.produce(topic, values, partition=partition, batch_size=500)
    clients: dict[str, Any] = {
        "max_partition_fetch_bytes": 1000,
        "metadata_max_age": 5.0,
    }
    receivers = {
        rack: Receiver(
            opened.enter_context(
                closing(broker.source(f"group-{rack}", [topic], client_rack=rack, **clients))
            )
        )
        for rack in ("zone-a", "zone-b", "")
    }
    partitions = [TopicPartition(topic, number) for number in (0, 1)]

    def replicas(rack: str) -> list[int | None]:
        fetcher = receivers[rack].source.client.fetcher
        return [insides.read_replica(fetcher, to_client(partition)) for partition in partitions]

    def settled(messages: int) -> bool:
        done = all(
            receiver.reached.get(partition) == messages
            for receiver in receivers.values()
            for partition in partitions
        )
        return done and [replicas(rack) for rack in ("zone-a", "zone-b")] == [[1, 1], [2, 2]]

    together(list(receivers.values()), lambda: settled(200))
    assert replicas("") == [1, 2], "its leaders"
    for partition in (0, 1):
        broker.produce(topic, values, partition=partition, batch_size=500)
    together(list(receivers.values()), lambda: settled(400))

    # Only leaders name a replica: the answers of the replica, which name none, change nothing.
    zone_b = receivers["zone-b"]
    fetcher = zone_b.source.client.fetcher
    asked: list[int] = []
    create = fetcher._create_fetch_requests

    def created() -> Any:
        requests = create()
        asked.extend(requests)
        return requests

    fetcher._create_fetch_requests = created
    zone_b.start(partitions[0], 0)
    zone_b.until(lambda: zone_b.reached.get(partitions[0]) == 400)
    assert asked.count(1) * 4 < asked.count(NODE_ID), asked

    # A replica that is gone: its leader is read, at once, though it goes on naming that replica.
    other.kill()
    killed_at = time.monotonic()
    zone_b.start(partitions[0], 0)
    zone_b.until(lambda: zone_b.reached.get(partitions[0]) == 400)
    assert time.monotonic() - killed_at < 15.0
    assert zone_b.values[partitions[0]] == values * 2
    assert replicas("zone-b")[0] != NODE_ID


class Group:
    """Processes of one group with four partitions."""

    def __init__(self, sandbox: Sandbox, opened: ExitStack) -> None:
        self.broker = Broker(sandbox.kafka)
        self.opened = opened
        self.topic = self.broker.topic(partitions=4)
        self.name = self.broker.name("group")

    def member(self, instance: str, uses: Uses = USES, **settings: Any) -> Receiver:
        source = self.broker.source(
            self.name,
            [self.topic],
            group_instance_id=instance,
            uses=uses,
            session_timeout=30.0,
            **settings,
        )
        self.opened.callback(source.close)
        return Receiver(source)

    def pair(self) -> tuple[Receiver, Receiver]:
        first, second = self.member("first"), self.member("second")
        together([first, second], lambda: len(first.owned) == len(second.owned) == 2)
        # Who joined first may ask for another rebalance, when it has seen the topic.
        settled = 0
        while settled != second.source.rebalances:
            settled = second.source.rebalances
            for receiver in (first, second):
                receiver.for_a_while(1.0)
        return first, second


@pytest.fixture
def group(sandbox: Sandbox, opened: ExitStack) -> Group:
    return Group(sandbox, opened)


def test_a_static_member_that_comes_back_gets_its_partitions_and_disturbs_nobody(
    group: Group,
) -> None:
    first, second = group.pair()
    rebalances, owned = second.source.rebalances, set(first.owned)
    first.source.close()
    again = group.member("first")
    together([again, second], lambda: again.owned == owned)
    second.for_a_while(1.0)
    assert second.source.rebalances == rebalances


def test_of_two_processes_with_one_name_the_earlier_ends_and_says_why(group: Group) -> None:
    first, second = group.pair()
    owned = set(first.owned)
    later = group.member("first")
    with pytest.raises(ConfigurationError, match=r"kafka\.group_instance_id") as raised:
        together([first, second, later], lambda: False)
    assert "give each process its own" in str(raised.value)
    together([later, second], lambda: later.owned == owned)


def test_a_static_member_that_comes_back_with_another_ledger_is_refused(group: Group) -> None:
    first, second = group.pair()
    first.source.close()
    other = group.member("first", replace(USES, ledger="kafka", servers=()))
    with pytest.raises(ConfigurationError, match="ledger: kafka, not zookeeper at /secor"):
        together([other, second], lambda: False)
    assert other.owned == set(), "nothing was to be read"


def test_a_static_member_that_comes_back_with_another_format_is_given_its_partitions(
    group: Group,
) -> None:
    first, second = group.pair()
    owned = set(first.owned)
    first.source.close()
    again = group.member("first", replace(USES, process="host-2", objects="jsonl (zstd) below x"))
    together([again, second], lambda: again.owned == owned)
