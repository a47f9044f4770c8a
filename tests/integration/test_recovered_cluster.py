"""A broker that is wiped comes back: topics, messages, groups, ACLs, quotas, settings."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from secor.adapters.kafka.cluster_admin import Quota, read_quotas, set_quotas
from secor.adapters.local import DirectoryStore
from secor.config.load import load
from secor.core.clock import SystemClock
from secor.core.model import OffsetRange, TopicPartition
from secor.formats import make_format
from secor.sandbox.kafka import KafkaServer
from secor.sandbox.state import free_port
from secor.service.metrics import Metrics
from secor.service.monitoring.kept_cluster import KeptClusterBoard
from secor.wiring.cluster_keeper import ClusterLooker
from secor.wiring.topic_keeper import keep_topics
from tests.fakes.archive import Shelf, messages
from tests.integration.daemons import run_secor, wait_until

ORDERS, QUIET = "orders", "quiet"
LONG = str(10_000 * 86400 * 1000)
"""Nothing of this test is older, in milliseconds."""
RECENT = {"message.timestamp.before.max.ms": "60000"}
"""Refuses every message of this test, so that no restore could begin with it."""
ACTIVE, SHOP = "active", "shop"
DENY = AclBinding(
    *(ResourceType.TOPIC, ORDERS, ResourcePatternType.LITERAL, "User:mallory", "*"),
    *(AclOperation.READ, AclPermissionType.DENY),
)
ALLOW = AclBinding(
    *(ResourceType.TOPIC, "ord", ResourcePatternType.PREFIXED, "User:alice", "*"),
    *(AclOperation.READ, AclPermissionType.ALLOW),
)
QUOTA = Quota((("client-id", "loader"),), {"producer_byte_rate": 1048576.0})


class Broker:
    """A broker with an authorizer, which can be wiped and is another cluster then."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = KafkaServer(
            folder=folder,
            log=folder / "kafka.log",
            port=free_port(),
            controller_port=free_port(),
            progress=lambda _line: None,
            settings={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
            },
        )
        folder.mkdir()
        self._server.start()
        self.address = f"127.0.0.1:{self._server.port}"
        self.admin = AdminClient({"bootstrap.servers": self.address})

    def wipe(self) -> None:
        self._server.kill()
        shutil.rmtree(self._folder / "data")
        self._server.start()
        self.admin = AdminClient({"bootstrap.servers": self.address})

    def end(self) -> None:
        self._server.kill()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    started = Broker(tmp_path / "broker")
    try:
        yield started
    finally:
        started.end()


def test_everything_of_a_wiped_broker_comes_back_and_consumers_go_on(
    broker: Broker, tmp_path: Path
) -> None:
    bucket = tmp_path / "bucket"
    fill_and_keep(broker, tmp_path, bucket)
    broker.wipe()
    job = write_job(tmp_path, broker, bucket)
    planned = run_secor("recover", "plan", str(job), "--json")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    plan_names_it_all(json.loads(planned.stdout))

    held = run_secor("recover", "run", str(job), "--hold")
    assert held.returncode == 0, held.stdout + held.stderr
    assert "all is back but the settings" in held.stdout
    verified = run_secor("recover", "verify", str(job), "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert json.loads(verified.stdout)["messages"]["differences"] == []
    assert settings_of(broker)["retention.ms"] == "-1"
    a_lost_offset_of_a_running_group_is_refused_and_the_others_go_on(broker, job)

    done = run_secor("recover", "run", str(job))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "complete: all is back" in done.stdout
    assert settings_of(broker).items() >= {"retention.ms": LONG, **RECENT}.items()
    rules = broker.admin.describe_acls(
        AclBindingFilter(
            *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
            *(AclOperation.ANY, AclPermissionType.ANY),
        )
    )
    assert set(rules.result(timeout=30)) == {DENY, ALLOW}
    assert read_quotas({"bootstrap_servers": broker.address}) == [QUOTA]
    assert next_message(broker, SHOP) == b"payload 777"
    moved = run_secor("recover", "run", str(job))
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert "1 group has consumed more since" in moved.stdout


def fill_and_keep(broker: Broker, folder: Path, bucket: Path) -> None:
    """Let the broker have everything, and a backup group keep it, with its messages."""
    shelf = Shelf(bucket, make_format("sequencefile"), prefix="backup")
    for number in range(2):
        place = TopicPartition(ORDERS, number)
        shelf.put(messages(range(1000)), OffsetRange(0, 1000), topic_partition=place)
    admin = broker.admin
    topics = [
        NewTopic(
            ORDERS, 3, 1, config={"retention.ms": LONG, "max.message.bytes": "2000000", **RECENT}
        ),
        NewTopic(QUIET, 2, 1),
    ]
    for made in admin.create_topics(topics).values():
        made.result(timeout=30)
    commit(broker, ACTIVE, Partition(ORDERS, 1, 10))
    commit(broker, SHOP, Partition(ORDERS, 0, 777), Partition(QUIET, 1, 0))
    for made in admin.create_acls([DENY, ALLOW]).values():
        made.result(timeout=30)
    set_quotas({"bootstrap_servers": broker.address}, [QUOTA])
    path = folder / "backup.toml"
    path.write_text(
        f"""
[group]
name = "backup"
kind = "backup"
[kafka]
bootstrap_servers = ["{broker.address}"]
topics_pattern = ".*"
topics_exclude = "_.*"
[ledger]
kind = "kafka"
[store]
kind = "local"
[store.local]
directory = "{bucket}"
[output]
prefix = "backup"
[local]
directory = "{folder}/files"
"""
    )
    config, store, clock = load(path, {}), DirectoryStore(bucket), SystemClock()
    keep_topics(config, store, {})
    board = KeptClusterBoard(Metrics(), clock)
    looker = ClusterLooker(config, store, board, clock)
    looker.look({TopicPartition(ORDERS, 0)}, threading.Event())
    assert [it["error"] for it in board.rows()] == [None, None, None]


def commit(broker: Broker, group: str, *places: Partition) -> None:
    def is_done() -> bool:
        # The coordinator of a new cluster may still be loading: it says so by partition.
        asked = broker.admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, list(places))], request_timeout=30
        )
        return all(it.error is None for it in asked[group].result(timeout=30).topic_partitions)

    wait_until(is_done, "the offsets to be committed")


def write_job(folder: Path, broker: Broker, bucket: Path) -> Path:
    path = folder / "lost.toml"
    path.write_text(
        f"""
[group]
name = "lost"
kind = "restore"
[kafka]
bootstrap_servers = ["{broker.address}"]
[store]
kind = "local"
[store.local]
directory = "{bucket}"
[source]
prefix = "backup"
[writing]
offsets_partitions = 3
"""
    )
    return path


def plan_names_it_all(plan: dict[str, object]) -> None:
    assert plan["may_begin"] is True
    topics = plan["topics"]
    assert isinstance(topics, list)
    assert [(it["topic"], it["partitions"], it["offsets"]) for it in topics] == [
        (ORDERS, 3, 2000),
        (QUIET, 2, 0),
    ]
    assert topics[0]["set_at_the_end"] == {"retention.ms": LONG, **RECENT}
    assert plan["offsets_of_groups"] == {"exact": 3}
    kinds = plan["kinds"]
    assert isinstance(kinds, list)
    assert {it["kind"]: (it["total"], it["done"]) for it in kinds} == {
        "topics": (2, 0),
        "messages": (2000, 0),
        "groups": (2, 0),
        "acls": (2, 0),
        "quotas": (1, 0),
        "settings": (2, 0),
    }


def a_lost_offset_of_a_running_group_is_refused_and_the_others_go_on(
    broker: Broker, job: Path
) -> None:
    for group in (ACTIVE, SHOP):
        broker.admin.delete_consumer_groups([group])[group].result(timeout=30)
    member = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": ACTIVE,
            "enable.auto.commit": False,
        }
    )
    with closing(member):
        member.subscribe([ORDERS])

        def is_assigned() -> bool:
            member.poll(0.2)
            return bool(member.assignment())

        wait_until(is_assigned, "the group to run")
        refused = run_secor("recover", "run", str(job), "--hold")
        assert refused.returncode == 5, refused.stdout + refused.stderr
        assert f"refused: groups: group {ACTIVE} is running" in refused.stdout
        assert "groups: 1 of 2" in refused.stdout


def settings_of(broker: Broker) -> dict[str, str]:
    (asked,) = broker.admin.describe_configs([ConfigResource("TOPIC", ORDERS)]).values()
    return {name: it.value for name, it in asked.result(timeout=30).items()}


def next_message(broker: Broker, group: str) -> bytes | None:
    """Return the next message of a group, which commits it."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    with closing(consumer):
        consumer.assign([Partition(ORDERS, 0)])
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None, message.error()
        consumer.commit(message, asynchronous=False)
        value = message.value()
        assert value is None or isinstance(value, bytes)
        return value
