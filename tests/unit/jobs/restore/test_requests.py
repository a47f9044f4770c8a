"""Requests to brokers do not grow with the topics and partitions of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from secor.adapters.kafka.topic_admin import ProposedTopic, TopicDefinition, TopicDescription
from secor.core.model import OffsetRange, TopicPartition
from secor.jobs.restore.plan import plan, prepare
from secor.restore.model import SourceExtent, SourcePartition
from secor.restore.offsets import offsets_topic
from secor.wiring.restore import Job, LockedLog
from tests.simulation.restore_world import ListSource
from tests.unit.jobs.restore.test_offsets import World

PARTITIONS = 10


@dataclass
class Cluster:
    """An admin client and a reader of logs in one, which counts what it is asked."""

    topics: dict[str, int] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def describe(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        self.asked["describe"] += 1
        rights = frozenset({"WRITE", "DESCRIBE"})
        return {
            name: TopicDescription(name, "id", self.topics[name], 1, {}, {}, rights)
            for name in names
            if name in self.topics
        }

    def proposed(
        self, topics: Mapping[str, TopicDefinition], *_: object
    ) -> dict[str, ProposedTopic]:
        self.asked["proposed"] += 1
        return {name: ProposedTopic(None, topics[name].settings) for name in topics}

    def create(self, topics: Mapping[str, TopicDefinition], *_: object) -> None:
        self.asked["create"] += 1
        self.topics.update({name: topics[name].partitions for name in topics})

    def group_partitions(self, names: Sequence[str], *_: object) -> frozenset[TopicPartition]:
        self.asked["partitions"] += 1
        return frozenset(
            TopicPartition(name, number)
            for name in names
            for number in range(self.topics.get(name, 0))
        )

    def partitions(self, topic: str) -> list[TopicPartition]:
        self.asked["partitions"] += 1
        return [TopicPartition(topic, number) for number in range(self.topics.get(topic, 0))]

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked["ends"] += 1
        return dict.fromkeys(places, 0)

    def starts(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked["starts"] += 1
        return dict.fromkeys(places, 0)


@dataclass
class ManyTopics(ListSource):
    topics: int = 1

    def partitions(self) -> list[SourcePartition]:
        return [
            SourcePartition("archive", f"t{topic:04d}", number)
            for topic in range(self.topics)
            for number in range(PARTITIONS)
        ]

    def extent(self, source: SourcePartition) -> SourceExtent:
        return SourceExtent(source, OffsetRange(0, 8), objects=1)


@pytest.fixture(autouse=True)
def no_questions_about_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("job_findings", "room"):
        monkeypatch.setattr(f"secor.jobs.restore.plan.{name}", lambda *_arguments: ())


def job_over(cluster: Cluster, topics: int) -> Job:
    reader: Any = cluster
    job = World().job(topics=[], topics_pattern=".*")
    return replace(job, source=ManyTopics(topics=topics), admin=reader, log=LockedLog(reader))


@pytest.mark.parametrize("exist", [False, True])
def test_a_plan_asks_brokers_as_often_for_a_thousand_topics_as_for_one(exist: bool) -> None:
    asked = []
    for topics in (1, 1000):
        there = {f"t{topic:04d}": PARTITIONS for topic in range(topics)} if exist else {}
        cluster = Cluster(there)
        planned = plan(job_over(cluster, topics))
        assert len(planned.topics) == topics
        assert planned.may_begin
        asked.append(cluster.asked)
    assert asked[0] == asked[1]
    assert asked[1].total() < 10


def test_topics_and_the_jobs_own_are_made_together_and_counted_at_once() -> None:
    cluster = Cluster()
    job = job_over(cluster, 1000)
    prepare(job)
    assert cluster.asked["create"] == 1
    assert len(cluster.topics) == 1001
    assert job.ensure_offsets_topic() == cluster.topics[offsets_topic(job.name)]
    before = cluster.asked["partitions"]
    assert len(job.routing().partitions) == 1000
    assert cluster.asked["partitions"] - before == 1


def test_what_no_leader_answers_is_asked_alone() -> None:
    class Silent(Cluster):
        def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
            return {place: 5 for place in places if place.partition}

        def end(self, place: TopicPartition, *, committed: bool) -> int:
            assert not committed
            self.asked["one end"] += 1
            return 7

        def start(self, place: TopicPartition) -> int:
            return 3

    cluster: Any = Silent()
    sizes = LockedLog(cluster).held([TopicPartition("t", number) for number in range(3)])
    assert [sizes[TopicPartition("t", number)] for number in range(3)] == [4, 5, 5]
    assert cluster.asked["one end"] == 1
