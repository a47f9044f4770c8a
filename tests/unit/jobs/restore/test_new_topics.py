"""The target of a topic that comes while a daemon follows the archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from secor.adapters.kafka.topic_admin import ProposedTopic, TopicDefinition, TopicDescription
from secor.core.errors import TargetRefused
from secor.core.model import OffsetRange
from secor.jobs.restore.plan import plan, prepare_topic
from secor.restore.model import SourceExtent, SourcePartition
from secor.restore.new_topics import NO_LIMIT
from secor.restore.preflight import refused
from secor.wiring.restore import Job
from tests.simulation.restore_world import ListSource
from tests.unit.jobs.restore.test_offsets import Admin, World

DAY = 86_400_000
LIMITS = {"message.timestamp.after.max.ms": "3600000", "retention.ms": "-1"}

CLICKS, VIEWS = (SourcePartition("archive", topic, 1) for topic in ("clicks", "views"))


class Source(ListSource):
    def partitions(self) -> list[SourcePartition]:
        return [CLICKS, VIEWS]

    def extent(self, source: SourcePartition) -> SourceExtent:
        return SourceExtent(source, OffsetRange(0, 8), objects=1)


class Brokers(Admin):
    refuses: str | None = None

    def describe(self, _names: Sequence[str]) -> dict[str, Any]:
        return {}

    def proposed(
        self, topics: Mapping[str, TopicDefinition], *_replicas: object
    ) -> dict[str, ProposedTopic]:
        return {it: ProposedTopic(self.refuses, topics[it].settings) for it in topics}


def growing(target: str = "new-{topic}") -> tuple[Job, Brokers]:
    brokers: Any = Brokers({})
    job = World().job(target={"topic": target}, topics=["clicks", "views"])
    return replace(job, source=Source(), admin=brokers), brokers


def test_it_is_made_as_at_the_start() -> None:
    job, brokers = growing()
    prepare_topic(job, "views")
    assert brokers.topics == {"new-views": 2}


def test_one_that_the_brokers_would_not_make_is_refused_by_name() -> None:
    job, brokers = growing()
    brokers.refuses = "allow this user Create"
    with pytest.raises(
        TargetRefused, match=r"topic views .*: new-views: .* allow this user Create"
    ):
        prepare_topic(job, "views")
    assert brokers.topics == {}


@pytest.mark.parametrize(
    ("target", "what"),
    [("all", "clicks, views would all be written to it"), ("all-offsets", "has the job's offsets")],
)
def test_one_that_meets_another_topic_is_refused(target: str, what: str) -> None:
    job, brokers = growing(target)
    with pytest.raises(TargetRefused, match=what):
        prepare_topic(job, "views")
    assert brokers.topics == {}


class Dated(Source):
    """Messages whose times are by the clocks of their producers."""

    newest = 0

    def extent(self, source: SourcePartition) -> SourceExtent:
        oldest = self.newest - 10 * DAY
        span = OffsetRange(0, 8)
        return SourceExtent(source, span, objects=1, oldest=oldest, newest=self.newest)


class Strict(Brokers):
    """Brokers that refuse messages an hour ahead of their clock, and topics with that limit."""

    exist: tuple[str, ...] = ()

    def describe(self, names: Sequence[str]) -> dict[str, Any]:
        rights = frozenset({"WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"})
        return {
            name: TopicDescription(name, "id", 3, 1, {}, LIMITS, rights)
            for name in names
            if name in self.exist
        }

    def proposed(
        self, topics: Mapping[str, TopicDefinition], *_replicas: object
    ) -> dict[str, ProposedTopic]:
        return {
            name: ProposedTopic(None, {**LIMITS, **topic.settings})
            for name, topic in topics.items()
        }


@pytest.mark.parametrize("ahead", [-3, 3])
def test_clocks_that_differ_from_ours_refuse_no_message_of_a_new_topic(
    monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    for name in ("job_findings", "room"):
        monkeypatch.setattr(f"secor.jobs.restore.plan.{name}", lambda *_arguments: ())
    brokers, source = Strict({}), Dated()
    job = World().job(target={"topic": "new-{topic}"}, topics=["clicks", "views"])
    source.newest = int(job.clock.now() * 1000) + ahead * DAY
    job = replace(job, source=source, admin=cast(Any, brokers))
    planned = plan(job)
    assert planned.may_begin, planned.findings
    for topic in planned.topics:
        assert topic.new is not None
        assert topic.new.settings["message.timestamp.after.max.ms"] == NO_LIMIT
    brokers.exist = ("new-clicks",)
    refusing = refused(plan(job).findings)
    if ahead < 0:
        assert refusing == []
    else:
        assert [it.topic for it in refusing] == ["new-clicks"]
        assert (
            "message.timestamp.after.max.ms = 3600000 refuses the newest messages"
            in refusing[0].what
        )
