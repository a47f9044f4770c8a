"""A topic that is kept, deleted, restored, and read on by a consumer group, on real servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as ClientPartition
from kafka.admin import NewTopic

from secor.adapters.local import DirectoryStore
from secor.config.load import load
from secor.core.clock import SystemClock
from secor.core.model import OffsetRange, TopicPartition
from secor.formats import make_format
from secor.sandbox import Sandbox
from secor.service.metrics import Metrics
from secor.service.monitoring.kept_cluster import KeptClusterBoard
from secor.wiring.cluster_keeper import ClusterLooker
from secor.wiring.topic_keeper import keep_topics
from tests.fakes.archive import Shelf, messages
from tests.integration.daemons import run_secor, wait_until, write_config

TOPIC = "kept-and-restored"
HELD = [offset for offset in range(1000) if offset % 7]
"""A compacted topic's offsets: counting them from its start would go wrong."""


def test_a_topic_comes_back_with_its_settings_and_its_groups_go_on(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    bucket = tmp_path / "bucket"
    shelf = Shelf(bucket, make_format("sequencefile"), prefix="backup")
    for number in range(2):
        shelf.put(
            messages(HELD), OffsetRange(0, 1000), topic_partition=TopicPartition(TOPIC, number)
        )
    with closing(KafkaAdminClient(bootstrap_servers=sandbox.kafka)) as admin:
        settings = {"cleanup.policy": "compact", "max.message.bytes": "2000000"}
        admin.create_topics([NewTopic(TOPIC, 3, 1, topic_configs=settings)])
        commit(sandbox, Partition(TOPIC, 0, 777), Partition(TOPIC, 1, 1000))
        keep(sandbox, tmp_path, bucket)
        admin.delete_topics([TOPIC])
    job = write_job(tmp_path, sandbox, bucket)
    planned = run_secor("restore", "plan", str(job), "--json")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    (topic,) = json.loads(planned.stdout)["topics"]
    assert topic["made_with"] == {
        "partitions": 3,
        "settings": {
            "cleanup.policy": "delete",
            "max.message.bytes": "2000000",
            "message.timestamp.after.max.ms": "9223372036854775807",
            "retention.ms": "-1",
        },
        "settings_for_later": {"cleanup.policy": "compact"},
    }
    assert run_secor("restore", "run", str(job)).returncode == 0
    assert run_secor("restore", "verify", str(job)).returncode == 0
    foreign_record_is_told_and_changes_nothing(sandbox, job)
    groups_go_on(sandbox, tmp_path, job)


def commit(sandbox: Sandbox, *places: Partition) -> None:
    admin = AdminClient({"bootstrap.servers": sandbox.kafka})

    def is_done() -> bool:
        # The coordinator of a new cluster may still be loading: it says so by partition.
        asked = admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions("shop", list(places))], request_timeout=30
        )
        return all(it.error is None for it in asked["shop"].result(timeout=30).topic_partitions)

    wait_until(is_done, "the offsets to be committed")


def keep(sandbox: Sandbox, folder: Path, bucket: Path) -> None:
    """Let a backup group look at its topics and at the cluster once."""
    path = write_config(
        folder,
        sandbox,
        group="keeper",
        topic=TOPIC,
        ledger="kafka",
        settings={
            "output": {"prefix": "backup"},
            "store": {"kind": "local"},
            "store.local": {"directory": str(bucket)},
        },
    )
    config, store, clock = load(path, {}), DirectoryStore(bucket), SystemClock()
    keep_topics(config, store, {})
    board = KeptClusterBoard(Metrics(), clock)
    looker = ClusterLooker(config, store, board, clock)
    looker.look({TopicPartition(TOPIC, 0)}, threading.Event())
    assert [(it["kind"], it["error"]) for it in board.rows()] == [
        ("acls", None),
        ("groups", None),
        ("quotas", None),
    ]
    listed = run_secor("ls", str(path))
    assert "kept of the cluster" in listed.stdout, listed.stderr
    printed = map(json.loads, run_secor("cat", "--groups", str(path)).stdout.splitlines())
    kept = {(it["partition"], it["offset"]) for it in printed if it["topic"] == TOPIC}
    judge = AdminClient({"bootstrap.servers": sandbox.kafka})
    asked = judge.list_consumer_group_offsets([ConsumerGroupTopicPartitions("shop")])
    places = asked["shop"].result(timeout=30).topic_partitions
    committed = {(it.partition, it.offset) for it in places if it.topic == TOPIC}
    assert kept == committed == {(0, 777), (1, 1000)}


def write_job(folder: Path, sandbox: Sandbox, bucket: Path) -> Path:
    path = folder / "kept.toml"
    path.write_text(
        f"""
[group]
name = "kept"
kind = "restore"
[kafka]
bootstrap_servers = ["{sandbox.kafka}"]
[store]
kind = "local"
[store.local]
directory = "{bucket}"
[source]
prefix = "backup"
topics = ["{TOPIC}"]
[writing]
max_messages = 200
offsets_partitions = 3
[logs]
format = "json"
"""
    )
    return path


def foreign_record_is_told_and_changes_nothing(sandbox: Sandbox, job: Path) -> None:
    with closing(KafkaProducer(bootstrap_servers=sandbox.kafka)) as producer:
        producer.send("secor-restore-kept", key=b"whose?", value=b"\xff", partition=0)
    shown = run_secor("restore", "offsets", "show", str(job))
    assert "1 record that is not this job's" in shown.stdout
    again = run_secor("restore", "run", str(job))
    assert again.returncode == 0, again.stderr
    assert "0 messages written" in again.stdout


def groups_go_on(sandbox: Sandbox, folder: Path, job: Path) -> None:
    arguments = ("restore", "groups", str(job), "shop")
    own = run_secor("restore", "groups", str(job), "--from", str(job.with_name("keeper.toml")))
    assert own.returncode == 2, "the brokers forgot the offsets with the topic"
    with running_group(sandbox, "shop"):
        refused = run_secor(*arguments, "--apply")
        assert refused.returncode == 5
        assert "refused: shop is running" in refused.stdout
    applied = run_secor(*arguments, "--apply", "--json")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    (plan,) = json.loads(applied.stdout)
    assert {it["precision"] for it in plan["offsets"]} == {"exact"}
    reader = KafkaConsumer(
        bootstrap_servers=sandbox.kafka,
        group_id="shop",
        isolation_level="read_committed",
        enable_auto_commit=False,
    )
    with closing(reader):
        reader.assign([ClientPartition(TOPIC, 0)])
        read: list[bytes] = []

        def some() -> bool:
            read.extend(values(reader))
            return bool(read)

        wait_until(some, "the next message")
        assert read[0] == b"payload 778", "777 was compacted away"
        last = ClientPartition(TOPIC, 1)
        # Behind the last message is only its transaction's marker.
        assert reader.committed(last) == reader.end_offsets([last])[last] - 1
    # What the group has committed since is not set back.
    saved = folder / "groups.csv"
    saved.write_text(f"shop,{TOPIC},0,10\n")
    stays = run_secor(*arguments, "--from", str(saved), "--apply")
    assert stays.returncode == 5
    assert "has committed other offsets" in stays.stdout


@contextmanager
def running_group(sandbox: Sandbox, group: str) -> Iterator[None]:
    """Keep a member in ``group``, to which the topic's partitions are assigned.

    It is librdkafka's: kafka-python's own poll forgets a join that is answered between two
    polls, and may then never get an assignment.
    """
    member = Consumer(
        {"bootstrap.servers": sandbox.kafka, "group.id": group, "enable.auto.commit": False}
    )
    try:
        member.subscribe([TOPIC])

        def assigned() -> bool:
            member.poll(0.2)
            return bool(member.assignment())

        try:
            wait_until(assigned, "the group to run")
        except AssertionError as error:
            raise AssertionError(f"{error}; the broker says {described(sandbox, group)}") from None
        yield
    finally:
        member.close()


def described(sandbox: Sandbox, group: str) -> object:
    with closing(KafkaAdminClient(bootstrap_servers=sandbox.kafka)) as admin:
        return admin.describe_groups([group])


def values(reader: KafkaConsumer) -> list[bytes]:
    return [record.value for records in reader.poll(500).values() for record in records]
