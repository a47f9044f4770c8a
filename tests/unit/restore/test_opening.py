"""Source partitions are opened together, and fail alone."""

from __future__ import annotations

import pytest

from secor.core.errors import AccessDenied, SpecChanged, Unavailable
from secor.core.model import TopicPartition
from secor.restore.boundaries import Boundaries
from secor.restore.model import SourcePartition, transactional_id
from secor.restore.offsets import StoredOffset, offset_key, record
from secor.restore.opening import Opener
from secor.restore.task import TaskSettings
from secor.restore.writer.writer import TransactionalWriter
from tests.simulation.restore_world import OFFSETS, SOURCE, SPEC, Silent, World

OTHER = SourcePartition("archive", "clicks", 1)


class Mine:
    def owns(self, offsets: TopicPartition) -> bool:
        return True

    def stopping(self, offsets: TopicPartition) -> bool:
        return False


class Refused(TransactionalWriter):
    error: Exception

    def initialise(self) -> None:
        raise self.error


def opener_of(world: World, error: Exception | None = None) -> Opener:
    settings = TaskSettings(
        SPEC, world.source, world.routing(), Boundaries("poll"), world.cluster.clock, Silent()
    )

    def make(name: str) -> TransactionalWriter:
        writer = world.make_writer(name)
        if error is not None and name == transactional_id("job", OTHER):
            writer.__class__ = Refused
            writer.error = error  # type: ignore[attr-defined]
        return writer

    return Opener(settings, world.cluster, make, lambda: True)


def test_an_offset_of_another_spec_stops_only_its_own_source_partition() -> None:
    world = World()
    writer = world.make_writer("anybody")
    writer.initialise()
    writer.begin()
    writer.write(OFFSETS, record(offset_key("job", OTHER), StoredOffset(5, "old").encode(), 0))
    writer.commit()
    opened = opener_of(world).open(OFFSETS, [OTHER, SOURCE], Mine())
    assert [task.source for task in opened.tasks] == [SOURCE]
    assert isinstance(opened.failed[OTHER], SpecChanged)


def test_an_id_that_is_refused_stops_only_its_own_source_partition() -> None:
    opener = opener_of(World(), AccessDenied("no Write on the id"))
    opened = opener.open(OFFSETS, [OTHER, SOURCE], Mine())
    assert [task.source for task in opened.tasks] == [SOURCE]
    assert isinstance(opened.failed[OTHER], AccessDenied)


def test_brokers_that_are_away_are_not_asked_for_each_id() -> None:
    with pytest.raises(Unavailable):
        opener_of(World(), Unavailable("away")).open(OFFSETS, [OTHER, SOURCE], Mine())
