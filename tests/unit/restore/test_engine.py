from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from secor.core.errors import SecorError, Unavailable
from secor.core.model import TopicPartition
from secor.core.ports import Assigned, Event, Revoked
from secor.restore.boundaries import Boundaries
from secor.restore.control import JobRecord, Wish
from secor.restore.engine import OTHERS_EVERY, WISH_EVERY, Ended, Engine
from secor.restore.model import SourcePartition
from secor.restore.opening import Opener
from secor.restore.pace import Pace
from secor.restore.routing import Routing
from secor.restore.schedule import After, Schedule
from secor.restore.task import TaskSettings
from tests.simulation.restore_world import OFFSETS, SOURCE, SPEC, ListSource, Silent, World

OTHER = SourcePartition("archive", "clicks", 9)
ELSEWHERE = TopicPartition(OFFSETS.topic, 5)


@dataclass
class Group:
    events: list[Event] = field(default_factory=list)
    released: set[TopicPartition] = field(default_factory=set)

    def poll(self, timeout: float) -> Sequence[Event]:
        events, self.events = self.events, []
        return events

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        self.released |= set(partitions)


class Told(Silent):
    def __init__(self) -> None:
        self.errors: list[tuple[SecorError, After]] = []

    def failed(self, source: SourcePartition, error: SecorError, meaning: After) -> None:
        self.errors.append((error, meaning))

    def wished(self, wish: Wish) -> None: ...

    def assigned(self, sources: int) -> None: ...


class Daemon:
    """An engine over the fake cluster, its one worker called by the test."""

    def __init__(self, source: ListSource | None = None, *, others: bool = False) -> None:
        self.world = World(source=source or ListSource())
        self.group, self.told = Group(), Told()
        self.record = JobRecord(Wish.RUNNING, 1, SPEC.hash, 2)
        self.others_written = False
        clock = self.world.cluster.clock
        settings = TaskSettings(
            SPEC,
            self.world.source,
            Routing("{topic}", {"clicks": 1}),
            Boundaries("poll"),
            clock,
            self.told,
        )
        listed = {OFFSETS: [SOURCE], **({ELSEWHERE: [OTHER]} if others else {})}
        self.engine = Engine(
            membership=self.group,  # type: ignore[arg-type]
            schedule=Schedule(clock=clock, rng=random.Random(1), look_again=None),
            opener=Opener(settings, self.world.cluster, self.world.make_writer, self._running),
            read_record=lambda: self.record,
            sources=lambda: listed,
            written=self._written,
            pace=Pace(clock),
            clock=clock,
            observer=self.told,
            follow=False,
        )

    def _running(self) -> bool:
        return self.record.wish is Wish.RUNNING

    def _written(self, sources: Collection[SourcePartition]) -> bool:
        assert set(sources) == {OTHER}
        return self.others_written

    def run(self, turns: int = 60) -> Ended | None:
        for _ in range(turns):
            self.engine.work_once()
            ended = self.engine.run_once(0)
            if ended is not None:
                return ended
        return None

    def wish(self, wish: Wish) -> None:
        self.record = JobRecord(wish, 2, SPEC.hash, 2)
        self.world.cluster.clock.advance(WISH_EVERY)


@pytest.fixture
def daemon() -> Daemon:
    daemon = Daemon()
    daemon.group.events.append(Assigned(frozenset({OFFSETS})))
    return daemon


def test_a_daemon_ends_when_all_is_written(daemon: Daemon) -> None:
    ended = daemon.run()
    assert ended == Ended(Wish.RUNNING, (), 1)
    daemon.world.check()


def test_it_waits_for_what_a_daemon_that_died_has_left() -> None:
    daemon = Daemon(others=True)
    daemon.group.events.append(Assigned(frozenset({OFFSETS})))
    assert daemon.run() is None
    daemon.world.cluster.clock.advance(OTHERS_EVERY)
    assert daemon.run() is None
    daemon.others_written = True
    daemon.world.cluster.clock.advance(OTHERS_EVERY)
    assert daemon.run() is not None


def test_a_paused_job_begins_nothing_and_goes_on_when_it_is_resumed(daemon: Daemon) -> None:
    daemon.run(4)
    daemon.wish(Wish.PAUSED)
    daemon.run(2)
    calls = len(daemon.world.cluster.calls)
    assert daemon.run(10) is None
    assert len(daemon.world.cluster.calls) == calls
    daemon.wish(Wish.RUNNING)
    assert daemon.run() is not None
    daemon.world.check()


def test_a_stopped_job_ends_the_daemon(daemon: Daemon) -> None:
    daemon.run(4)
    daemon.wish(Wish.STOPPED)
    ended = daemon.run()
    assert ended is not None
    assert ended.wish is Wish.STOPPED
    daemon.world.check(complete=False)


def test_a_partition_that_moves_away_is_released_once_nothing_of_it_is_in_work(
    daemon: Daemon,
) -> None:
    daemon.run(4)
    daemon.group.events.append(Revoked(frozenset({OFFSETS})))
    assert daemon.run(10) is None
    assert daemon.group.released == {OFFSETS}
    daemon.group.events.append(Assigned(frozenset({OFFSETS})))
    assert daemon.run() is not None
    daemon.world.check()


def test_an_error_that_passes_opens_the_source_partition_anew(daemon: Daemon) -> None:
    lost = [Unavailable("lost")]

    def hook(name: str) -> None:
        if name == "after read" and lost:
            raise lost.pop()

    daemon.world.cluster.hook = hook
    daemon.run(3)
    assert [meaning for _, meaning in daemon.told.errors] == [After.OPEN_AGAIN]
    daemon.world.cluster.clock.advance(60)
    assert daemon.run() is not None
    daemon.world.check()
