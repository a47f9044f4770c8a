"""Topics that come, and targets that grow, while a daemon runs."""

from __future__ import annotations

import pytest

from secor.core.errors import TargetRefused, Unavailable
from secor.core.model import TopicPartition
from secor.restore.model import Piece, SourcePartition
from secor.restore.routing import Routing
from secor.restore.targets import Targets
from tests.fakes.archive import messages

CLICKS, SECOND, NEW = (
    SourcePartition("archive", "clicks", 0),
    SourcePartition("archive", "clicks", 1),
    SourcePartition("archive", "views", 0),
)


class World:
    def __init__(self) -> None:
        self.counts = {"clicks": 1}
        self.made: list[str] = []
        self.kept: list[str] = []
        self.refuses = False
        routing = Routing("{topic}", dict(self.counts))
        self.targets = Targets(
            routing,
            ["clicks"],
            self.prepare,
            lambda name: self.counts.get(name, 0),
            self.kept.append,
        )

    def prepare(self, topic: str) -> None:
        self.made.append(topic)
        if self.refuses:
            raise TargetRefused(f"the new topic {topic} cannot be restored")
        self.counts.setdefault(topic, 1)

    def written(self, source: SourcePartition) -> TopicPartition:
        self.targets.ready(source)
        return self.targets(source, Piece(messages(range(2)), 2))[0].topic_partition


def test_the_target_of_a_new_topic_is_prepared_once() -> None:
    world = World()
    assert world.written(NEW) == world.written(NEW) == TopicPartition("views", 0)
    assert world.written(CLICKS) == TopicPartition("clicks", 0)
    assert world.made == world.kept == ["views"]


def test_a_new_topic_that_is_refused_is_an_error_of_its_own_and_tried_again() -> None:
    world = World()
    world.refuses = True
    with pytest.raises(TargetRefused, match="the new topic views cannot be restored"):
        world.written(NEW)
    assert world.written(CLICKS) == TopicPartition("clicks", 0)
    world.refuses = False
    assert world.written(NEW) == TopicPartition("views", 0)


def test_partitions_that_were_added_to_a_target_are_seen_at_the_next_try() -> None:
    world = World()
    with pytest.raises(TargetRefused, match="clicks has 1 partition, and no 1; add some"):
        world.written(SECOND)
    world.counts["clicks"] = 2
    assert world.written(SECOND) == TopicPartition("clicks", 1)
    assert world.made == []


def test_a_target_that_the_brokers_do_not_know_yet_is_waited_for() -> None:
    world = World()
    world.counts["views"] = 0
    with pytest.raises(Unavailable, match="do not know the target views"):
        world.written(NEW)
    assert world.kept == [], "it has no id yet"
    world.counts["views"] = 1
    world.written(NEW)
    assert world.kept == ["views"]


def test_a_target_that_is_missing_is_named_by_verify() -> None:
    for partitioning in ("same", "key"):
        routing = Routing("{topic}", {"views": 0}, partitioning=partitioning)
        with pytest.raises(TargetRefused, match="views does not exist: 'secor restore run' makes"):
            routing(NEW, Piece(messages(range(2)), 2))
