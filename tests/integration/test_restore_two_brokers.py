"""A restore while leaders and coordinators move from a broker that dies to another."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource

from secor.sandbox import Sandbox
from tests.integration.brokers import NODE_ID, REPLICATED, second_broker
from tests.integration.daemons import PATIENCE, run_secor, wait_until
from tests.integration.test_restore import (
    MESSAGES,
    PARTITIONS,
    Fleet,
    check,
    fill,
    write_job,
)

TOTAL = PARTITIONS * MESSAGES


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def leaders(admin: AdminClient, topic: str) -> set[int]:
    """Return the brokers that lead partitions of a topic."""
    partitions = admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
    return {partition.leader for partition in partitions.values()}


def full(sandbox: Sandbox, topic: str) -> None:
    """Let a topic take nothing while one of its two brokers is away."""
    with closing(KafkaAdminClient(bootstrap_servers=sandbox.kafka)) as admin:
        strict = {"min.insync.replicas": "2"}
        admin.alter_configs([ConfigResource("TOPIC", topic, configs=strict)])


def left(job: Path) -> int:
    """Return what is left; all of it while no broker says so."""
    told = run_secor("restore", "status", str(job), "--json")
    return int(json.loads(told.stdout)["left"]) if told.stdout else TOTAL


def test_coordinators_and_leaders_move_when_a_broker_dies(tmp_path: Path, fleet: Fleet) -> None:
    topics = ("moved-flights", "secor-restore-moved", "__transaction_state")
    archive = tmp_path / "bucket"
    archive.mkdir()
    fill(archive, range(0, MESSAGES, 1000))
    with (
        Sandbox.up(tmp_path / "servers", services=("kafka",), kafka_settings=REPLICATED) as sandbox,
        second_broker(sandbox) as other,
    ):
        job = write_job(tmp_path, sandbox, "moved", archive, messages_per_second=100)
        text = job.read_text().replace("[writing]", "replication_factor = 2\n[writing]")
        job.write_text(text)
        admin = AdminClient({"bootstrap.servers": sandbox.kafka, "log_level": 0})
        try:
            first, second = fleet.start(job), fleet.start(job)
            wait_until(lambda: left(job) < TOTAL, "the job begins")
            assert all(NODE_ID in leaders(admin, topic) for topic in topics)
            other.kill()
            first.send_signal(signal.SIGKILL)
            wait_until(lambda: all(leaders(admin, topic) == {1} for topic in topics), "moved")
            rest = left(job)
            wait_until(lambda: left(job) < rest, "the job goes on beside the broker's death")
            full(sandbox, "moved-flights")
            wait_until(lambda: "NOT_ENOUGH_REPLICAS" in fleet.logs(), "the target takes nothing")
            assert "bring the brokers back, or lower it" in fleet.logs()
            second.send_signal(signal.SIGTERM)
            assert second.wait(PATIENCE) == 0, fleet.logs()
            other.start()
            job.write_text(text.replace("messages_per_second = 100", ""))
            assert fleet.start(job).wait(PATIENCE) == 0, fleet.logs()
            check(sandbox, job)
        finally:
            fleet.kill()
