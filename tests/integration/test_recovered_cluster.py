"""A broker that is wiped comes back: topics, messages, groups, ACLs, quotas, settings."""

from __future__ import annotations

import json
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
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from secor.adapters.kafka.cluster_admin import Quota, read_quotas, set_quotas
from secor.adapters.local import DirectoryStore
from secor.archive.cluster_journal import ClusterJournal
from secor.config.load import load
from secor.core.clock import SystemClock
from secor.core.model import OffsetRange, TopicPartition
from secor.formats import make_format
from secor.parsing.registry_content import registry_content
from secor.parsing.registry_server import Credentials, RegistryServer
from secor.service.metrics import Metrics
from secor.service.monitoring.kept_cluster import KeptClusterBoard
from secor.wiring.cluster_keeper import ClusterLooker
from secor.wiring.topic_keeper import keep_topics
from tests.fakes.archive import Shelf, messages
from tests.fakes.confluent import Confluent
from tests.fakes.registry import Registry, running_registry
from tests.integration.daemons import run_secor, wait_until
from tests.integration.wiped_broker import WipedBroker as Broker

ORDERS, QUIET, FRAMED = "orders", "quiet", "framed"
FRAMED_MESSAGES = 12
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


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    started = Broker(tmp_path / "broker")
    try:
        yield started
    finally:
        started.end()


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


def test_everything_of_a_wiped_broker_comes_back_and_consumers_go_on(
    broker: Broker, registry: Registry, tmp_path: Path
) -> None:
    bucket = tmp_path / "bucket"
    fill_and_keep(broker, tmp_path, bucket)
    keep_schemas(bucket, registry)
    broker.wipe()
    job = write_job(tmp_path, broker, bucket)
    with job.open("a") as file:
        file.write(f'[registry]\nurl = "{registry.url}"\n')
    framed_is_asked_for(job)
    refuses_the_directory_above(job)
    drill_leaves_nothing_on_a_cluster_that_a_file_names(broker, job)
    planned = run_secor("recover", "plan", str(job), "--json")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    plan_names_it_all(json.loads(planned.stdout))

    held = run_secor("recover", "run", str(job), "--hold")
    assert held.returncode == 0, held.stdout + held.stderr
    assert "all is back but the settings" in held.stdout
    assert f"schemas: {FRAMED_MESSAGES} ids changed in messages" in held.stdout
    assert deserialised(broker, registry) == [{"number": n} for n in range(FRAMED_MESSAGES)]
    evidence = tmp_path / "recovered.json"
    verified = run_secor("recover", "verify", str(job), "--json", "--evidence", str(evidence))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    proved = json.loads(evidence.read_bytes())
    assert proved["equal"] is True
    assert proved["lost_cluster"] != proved["target_cluster"]
    assert [it["messages"] for it in proved["messages"]["by_partition"][:3]] == [12, 1000, 1000]
    assert proved["schema_ids"] == {"changed_in_messages": FRAMED_MESSAGES, "not_kept": {}}
    assert json.loads(verified.stdout)["messages"]["differences"] == []
    assert settings_of(broker)["retention.ms"] == "-1"
    a_lost_offset_of_a_running_group_is_refused_and_the_others_go_on(broker, job)

    done = run_secor("recover", "run", str(job))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "complete: all is back" in done.stdout
    assert settings_of(broker).items() >= {"retention.ms": LONG, **RECENT}.items()
    assert rules_of(broker) == {DENY, ALLOW}
    assert read_quotas({"bootstrap_servers": broker.address}) == [QUOTA]
    assert next_message(broker, SHOP) == b"payload 777"
    finished = run_secor("recover", "plan", str(job))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "complete: all is back" in finished.stdout.splitlines()[-1]
    moved = run_secor("recover", "run", str(job))
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert "1 group has consumed more since" in moved.stdout


def keep_schemas(bucket: Path, registry: Registry) -> None:
    """Have a topic with Confluent's framing, and its schema, whose id is taken at the target."""
    application = Confluent()
    schema = json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": "number", "type": "long"}]}
    )
    write = application.avro(schema)
    values = [
        application.write(write, {"number": number}, FRAMED) for number in range(FRAMED_MESSAGES)
    ]
    shelf = Shelf(bucket, make_format("sequencefile"), prefix="backup")
    span = range(FRAMED_MESSAGES)
    shelf.put(
        messages(span, lambda offset: values[offset]),
        OffsetRange(0, FRAMED_MESSAGES),
        topic_partition=TopicPartition(FRAMED, 0),
    )
    with running_registry() as lost:
        application.copy_to(lost)
        server = RegistryServer(lost.url, Credentials())
        journal = ClusterJournal(DirectoryStore(bucket), "backup", "schemas", "lost:8081")
        journal.append(lambda: list(registry_content(server)), SystemClock().now)
    taken = int.from_bytes(values[0][1:5], "big")
    registry.register(taken, '"bytes"', subject="others")


def framed_is_asked_for(job: Path) -> None:
    refused = run_secor("recover", "run", str(job))
    assert refused.returncode == 5, refused.stdout + refused.stderr
    assert "set recover.framed to an expression" in refused.stdout
    with job.open("a") as file:
        file.write('[recover]\nframed = "-"\n')


def deserialised(broker: Broker, registry: Registry) -> list[object]:
    """Read the framed topic as its applications do, by the target's registry alone."""
    read = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    field = SerializationContext(FRAMED, MessageField.VALUE)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "judge-of-schemas",
            "enable.auto.commit": False,
        }
    )
    with closing(consumer):
        consumer.assign([Partition(FRAMED, 0, 0)])
        found = [consumer.poll(30) for _ in range(FRAMED_MESSAGES)]
        return [None if it is None else read(it.value(), field) for it in found]


def refuses_the_directory_above(job: Path) -> None:
    wrong = job.with_name("wrong.toml")
    wrong.write_text(job.read_text().replace('prefix = "backup"', 'prefix = ""'))
    refused = run_secor("recover", "plan", str(wrong))
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert 'set source.prefix = "backup"' in refused.stderr


def drill_leaves_nothing_on_a_cluster_that_a_file_names(broker: Broker, job: Path) -> None:
    into = job.with_name("drill-cluster.toml")
    into.write_text(f'[kafka]\nbootstrap_servers = ["{broker.address}"]\n')
    lost = job.with_name("of-drill.toml")
    lost.write_text(job.read_text().replace(broker.address, "127.0.0.1:1"))
    drilled = run_secor("drill", str(lost), "--into", str(into))
    assert drilled.returncode == 0, drilled.stdout + drilled.stderr
    assert "compare 2,012 messages" in drilled.stdout
    left = [name for name in broker.admin.list_topics(timeout=30).topics if name[:2] != "__"]
    assert left == []
    assert rules_of(broker) == set()
    assert read_quotas({"bootstrap_servers": broker.address}) == []
    assert broker.admin.list_consumer_groups().result(timeout=30).valid == []


def rules_of(broker: Broker) -> set[AclBinding]:
    rules = broker.admin.describe_acls(
        AclBindingFilter(
            *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
            *(AclOperation.ANY, AclPermissionType.ANY),
        )
    )
    return set(rules.result(timeout=30))


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
        (FRAMED, 1, FRAMED_MESSAGES),
        (ORDERS, 3, 2000),
        (QUIET, 2, 0),
    ]
    assert topics[1]["set_at_the_end"] == {"retention.ms": LONG, **RECENT}
    assert plan["offsets_of_groups"] == {"exact": 3}
    kinds = plan["kinds"]
    assert isinstance(kinds, list)
    assert {it["kind"]: (it["total"], it["done"]) for it in kinds} == {
        "schemas": (1, 0),
        "topics": (3, 0),
        "messages": (2012, 0),
        "groups": (2, 0),
        "acls": (2, 0),
        "quotas": (1, 0),
        "settings": (3, 1),
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
