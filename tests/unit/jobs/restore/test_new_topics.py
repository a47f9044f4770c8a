"""The target of a topic that comes while a daemon follows the archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from secor.adapters.kafka.topic_admin import ProposedTopic, TopicDefinition
from secor.core.errors import TargetRefused
from secor.core.model import OffsetRange
from secor.jobs.restore.plan import prepare_topic
from secor.restore.model import SourceExtent, SourcePartition
from secor.wiring.restore import Job
from tests.simulation.restore_world import ListSource
from tests.unit.jobs.restore.test_offsets import Admin, World

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
