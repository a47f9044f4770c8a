"""A restore while leaders and coordinators move from a broker that dies to another."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

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


def leaders(sandbox: Sandbox, topic: str) -> set[int]:
    admin = KafkaAdminClient(bootstrap_servers=sandbox.kafka)
    (described,) = admin.describe_topics([topic])
    admin.close()
    return {partition["leader_id"] for partition in described["partitions"]}


def left(job: Path) -> int:
    """Return what is left; all of it while no broker says so."""
    told = run_secor("restore", "status", str(job), "--json")
    return int(json.loads(told.stdout)["left"]) if told.returncode == 0 else TOTAL


def test_coordinators_and_leaders_move_when_a_broker_dies(tmp_path: Path, fleet: Fleet) -> None:
    archive = tmp_path / "bucket"
    archive.mkdir()
    fill(archive, range(0, MESSAGES, 1000))
    with (
        Sandbox.up(tmp_path / "servers", services=("kafka",), kafka_settings=REPLICATED) as sandbox,
        second_broker(sandbox) as other,
    ):
        job = write_job(tmp_path, sandbox, "moved", archive, messages_per_second=1000)
        job.write_text(job.read_text().replace("[writing]", "replication_factor = 2\n[writing]"))
        try:
            first, second = fleet.start(job), fleet.start(job)
            wait_until(lambda: left(job) < TOTAL, "the job begins")
            topics = ("moved-flights", "secor-restore-moved", "__transaction_state")
            assert all(NODE_ID in leaders(sandbox, topic) for topic in topics)
            rest = left(job)
            other.kill()
            first.send_signal(signal.SIGKILL)
            wait_until(lambda: left(job) < rest / 2, "the job goes on beside the broker's death")
            assert all(leaders(sandbox, topic) == {1} for topic in topics)
            other.start()
            assert second.wait(PATIENCE) == 0, fleet.logs()
            check(sandbox, job)
        finally:
            fleet.kill()
