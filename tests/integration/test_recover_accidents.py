"""Recoveries to targets and from archives that are not as one would like them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from secor.adapters.local import DirectoryStore
from secor.archive.cluster_journal import ClusterJournal, Item
from secor.archive.kept_topics import KeptTopic, KeptTopics
from secor.core.clock import SystemClock
from secor.core.model import OffsetRange, TopicPartition
from secor.formats import make_format
from tests.fakes.archive import Shelf, messages
from tests.integration.daemons import run_secor, secor, wait_until
from tests.integration.test_drill import RULE, vars_of
from tests.integration.wiped_broker import OPEN, WipedBroker

pytestmark = pytest.mark.long
EARLY = 1_699_999_000.0
"""Before the messages of a shelf, whose times begin at 1,700,000,000 s."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WipedBroker]:
    started = WipedBroker(tmp_path_factory.mktemp("broker") / "kafka", OPEN)
    try:
        yield started
    finally:
        started.end()


@dataclass
class Lost:
    """An archive of a lost cluster, and the job that recovers it."""

    folder: Path
    broker: WipedBroker
    name: str
    more: str = 'leave_out = ["acls", "quotas"]'

    def __post_init__(self) -> None:
        self.store = DirectoryStore(self.folder / "bucket")
        self.shelf = Shelf(self.folder / "bucket", make_format("sequencefile"), prefix="backup")

    def topic(self, name: str, offsets: range, partition: int = 0) -> None:
        """Archive messages of a partition."""
        span = OffsetRange(offsets.start, offsets.stop)
        self.shelf.put(messages(offsets), span, topic_partition=TopicPartition(name, partition))

    def keep(self, kind: str, items: Sequence[Item], now: float | None = None) -> None:
        """Keep something of the cluster at a time."""
        journal = ClusterJournal(self.store, "backup", kind, "lost-cluster")
        time = SystemClock().now() if now is None else now
        journal.append(lambda: list(items), lambda: time)

    def groups(
        self, offsets: dict[str, dict[str, dict[str, int]]], now: float | None = None
    ) -> None:
        """Keep offsets by group, topic and partition."""
        self.keep("groups", list(offsets.items()), now)

    @property
    def job(self) -> Path:
        """The file, written anew."""
        path = self.folder / f"{self.name}.toml"
        path.write_text(
            f"""
[group]
name = "{self.name}"
kind = "restore"
[kafka]
bootstrap_servers = ["{self.broker.address}"]
[store]
kind = "local"
[store.local]
directory = "{self.folder}/bucket"
[source]
prefix = "backup"
[writing]
offsets_partitions = 3
[recover]
{self.more}
"""
        )
        return path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of ``secor recover``."""
        command, *options = arguments
        return run_secor("recover", command, str(self.job), *options)

    def offset(self, group: str, topic: str) -> int:
        """Return what a group has committed at the target."""
        asked = self.broker.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        places = asked[group].result(timeout=30).topic_partitions
        return next(it.offset for it in places if it.topic == topic)

    def size(self, topic: str) -> int:
        """Return the end of the log of a topic's first partition."""
        place = Place(topic, 0)
        asked = self.broker.admin.list_offsets({place: OffsetSpec.latest()})
        end: int = asked[place].result(timeout=30).offset
        return end


@pytest.fixture
def lost(broker: WipedBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Lost:
    return Lost(tmp_path, broker, request.node.name.removeprefix("test_")[:60])


def succeeded(answer: subprocess.CompletedProcess[str]) -> str:
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def refused(answer: subprocess.CompletedProcess[str], code: int = 5) -> str:
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr


def test_to_a_time_messages_and_groups_are_as_they_were(lost: Lost) -> None:
    lost.topic("timed", range(1000))
    lost.groups({"shop": {"timed": {"0": 100}}}, EARLY)
    lost.groups({"shop": {"timed": {"0": 900}}})
    time = ("--at", "2023-11-14T22:13:20.500Z")
    succeeded(lost.run("run", *time))
    assert "500 messages compared: all equal" in succeeded(lost.run("verify", *time))
    assert lost.offset("shop", "timed") == 100
    assert "spec" in refused(lost.run("run"), 2), "another time is another job"


def test_groups_from_before_the_archive_go_on_at_its_first_message(lost: Lost) -> None:
    lost.topic("late", range(500, 1000))
    lost.groups({"slow": {"late": {"0": 100}}, "quick": {"late": {"0": 700}}})
    planned = succeeded(lost.run("plan"))
    assert "1 from the first archived message" in planned
    succeeded(lost.run("run"))
    assert lost.offset("slow", "late") == 0
    assert lost.offset("quick", "late") == 200


def test_an_empty_topic_is_used_and_one_with_messages_is_refused_by_name(lost: Lost) -> None:
    lost.topic("empty-there", range(10))
    lost.topic("full-there", range(10))
    lost.groups({})
    new = [
        NewTopic(name, 2, 1, config={"retention.ms": "-1"})
        for name in ("empty-there", "full-there")
    ]
    for made in lost.broker.admin.create_topics(new).values():
        made.result(timeout=30)
    producer = Producer({"bootstrap.servers": lost.broker.address})
    producer.produce("full-there", b"somebody's")
    producer.flush(30)
    told = refused(lost.run("run"), 2)
    assert "full-there" in told
    assert "empty-there" not in told
    lost.broker.admin.delete_topics(["full-there"])["full-there"].result(timeout=30)
    succeeded(lost.run("run"))
    assert lost.size("empty-there") > 10


def test_the_brokers_own_topics_and_names_that_collide(lost: Lost) -> None:
    lost.topic("__consumer_offsets", range(10))
    lost.topic("a.b", range(10))
    lost.topic("a_b", range(10))
    lost.groups({})
    planned = refused(lost.run("plan"))
    assert "brokers make only one of it and a_b" in planned
    assert "__consumer_offsets" not in planned
    refused(lost.run("run"), 2)
    assert "a.b" not in lost.broker.admin.list_topics(timeout=30).topics


def test_a_stopped_job_names_the_command_that_resumes_it(lost: Lost) -> None:
    lost.topic("stopped", range(1000))
    lost.groups({})
    job = lost.job
    job.write_text(
        job.read_text().replace(
            "[writing]", "[writing]\nmax_messages = 100\nmessages_per_second = 20"
        )
    )
    running = subprocess.Popen(
        [*secor(), "recover", "run", str(job)], stdout=subprocess.PIPE, text=True
    )
    wait_until(
        lambda: (
            json.loads(run_secor("restore", "status", str(job), "--json").stdout)["generation"] > 0
        ),
        "the job to begin",
    )
    assert run_secor("restore", "stop", str(job)).returncode == 0
    told, _ = running.communicate(timeout=60)
    assert running.returncode == 5
    assert "secor restore resume" in told
    assert run_secor("restore", "resume", str(job)).returncode == 0
    succeeded(lost.run("run"))


def test_two_jobs_for_one_target_and_own_topics_that_are_lost(lost: Lost) -> None:
    lost.topic("twice", range(100))
    lost.groups({"shop": {"twice": {"0": 50}}})
    succeeded(lost.run("run"))
    first = lost.name
    lost.name = "another"
    assert "twice" in refused(lost.run("run"), 2)
    lost.name = first
    own = f"secor-restore-{first}"
    lost.broker.admin.delete_topics([own])[own].result(timeout=30)
    for command in ("plan", "run", "status"):
        code = 2 if command == "run" else 5
        told = refused(lost.run(command), code)
        assert "is gone" in told, told
    assert lost.size("twice") < 110, "nothing is written again"


def test_without_a_right_the_rest_comes_back_and_the_missing_is_named(lost: Lost) -> None:
    lost.more = ""
    lost.topic("rights", range(100))
    lost.groups({"shop": {"rights": {"0": 50}}})
    lost.keep("acls", [("TOPIC:LITERAL:orders", [vars_of(RULE)])])
    lost.keep("quotas", [])
    # Once there is a rule about the cluster, the broker needs one, too.
    for operation, permission in (
        (AclOperation.ALL, AclPermissionType.ALLOW),
        (AclOperation.ALTER, AclPermissionType.DENY),
    ):
        kind, literal = ResourceType.BROKER, ResourcePatternType.LITERAL
        rule = AclBinding(
            kind, "kafka-cluster", literal, "User:ANONYMOUS", "*", operation, permission
        )
        lost.broker.admin.create_acls([rule])[rule].result(timeout=30)
    told = refused(lost.run("run"))
    assert "refused: acls:" in told
    assert "Alter" in told or "ClusterAuthorization" in told
    assert "groups: 1 of 1" in told
    assert "settings: 1 of 1" in told
    assert lost.offset("shop", "rights") == 50


def test_a_thousand_topics_and_groups(lost: Lost) -> None:
    names = [f"many-{number:04d}" for number in range(1000)]
    for name in names:
        settings = {"retention.ms": "86400000000"}
        topic = KeptTopic(name, f"id-{name}", 2, 1, settings)
        KeptTopics(lost.store, f"backup/{name}").keep(topic, "2026-11-21T10:00:00Z")
        lost.topic(name, range(5))
    lost.groups({f"group-{name}": {name: {"0": 3}} for name in names})
    began = SystemClock().monotonic()
    planned = succeeded(lost.run("plan"))
    assert "5,000 offsets of 1,000 partitions" in planned
    shown = [f"plan {SystemClock().monotonic() - began:.0f} s"]
    for command in ("run", "verify", "status"):
        began = SystemClock().monotonic()
        told = succeeded(lost.run(command))
        shown.append(f"{command} {SystemClock().monotonic() - began:.0f} s")
    assert "groups: 1,000 of 1,000" in told
    assert lost.offset("group-many-0999", "many-0999") == 3
    print("; ".join(shown))
