"""A daemon with a thousand source partitions: what it holds does not grow with them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from secor.core.model import OffsetRange, TopicPartition
from secor.core.pace import Pace
from secor.core.ports import Assigned
from secor.core.transactions import BrokerCode
from secor.restore.boundaries import Boundaries
from secor.restore.control import JobRecord, RequestedState
from secor.restore.engine import Engine
from secor.restore.model import JobSpec, Piece, Silence, SourceExtent, SourcePartition
from secor.restore.offsets import offsets_topic, partition_of
from secor.restore.opening import Opener
from secor.restore.routing import Routing
from secor.restore.schedule import Phase, Schedule
from secor.restore.task import TaskSettings
from secor.restore.writer.model import WriterLimits
from secor.restore.writer.writer import TransactionalWriter
from tests.fakes.transactions import FakeCluster, Transaction
from tests.simulation.restore_world import rows
from tests.unit.restore.test_engine import Group, Told

SOURCES, PARTITIONS, WORKERS, PIECES = 1000, 33, 4, 2
SPEC = JobSpec("many", {})
T = TypeVar("T")


class Brokers(FakeCluster):
    """The fake cluster for several threads."""

    def __init__(self) -> None:
        topics = {"clicks": SOURCES, offsets_topic("many"): PARTITIONS}
        super().__init__(topics)
        self._one = threading.RLock()

    def _call(
        self, name: str, act: Callable[[], T], wrap: Callable[[BrokerCode], T] | None = None
    ) -> T:
        with self._one:
            return super()._call(name, act, wrap)

    def _prepare(self, known: Transaction, *, commit: bool) -> None:
        super()._prepare(known, commit=commit)
        self._complete(known)

    def tick(self) -> None:
        """Nothing is left to do: what is ended is completed at once."""


@dataclass
class CountingSource:
    """Counts the readers that are open at a time, as each has a thread and pieces in memory."""

    opened: int = 0
    open_now: int = 0
    most_open: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def exactly_once(self) -> bool:
        return True

    def defines_transactions(self) -> bool:
        return False

    def partitions(self) -> list[SourcePartition]:
        return [SourcePartition("archive", "clicks", number) for number in range(SOURCES)]

    def extent(self, source: SourcePartition) -> SourceExtent:
        return SourceExtent(source, OffsetRange(0, PIECES))

    def open(self, source: SourcePartition, next_offset: int) -> CountedReader:
        with self.lock:
            self.opened += 1
            self.open_now += 1
            self.most_open = max(self.most_open, self.open_now)
        pieces = (Piece(rows(at, at + 1), at + 1) for at in range(next_offset, PIECES))
        return CountedReader(self, pieces)


@dataclass
class CountedReader:
    source: CountingSource
    pieces: Iterator[Piece]

    def next(self, wait: float) -> Piece | Silence:
        return next(self.pieces, Silence.EXHAUSTED)

    def close(self) -> None:
        with self.source.lock:
            self.source.open_now -= 1


@pytest.mark.parametrize("read_ahead", [0, WORKERS])
@pytest.mark.slow
def test_readers_are_open_for_what_is_written_just_now(read_ahead: int) -> None:
    brokers, source, group = Brokers(), CountingSource(), Group()
    listed: dict[TopicPartition, list[SourcePartition]] = {}
    for it in source.partitions():
        place = TopicPartition(offsets_topic("many"), partition_of("many", it, PARTITIONS))
        listed.setdefault(place, []).append(it)
    clock: Any = brokers.clock

    def make_writer(transactional_id: str) -> TransactionalWriter:
        return TransactionalWriter(
            brokers, transactional_id, clock=clock, rng=random.Random(1), limits=WriterLimits()
        )

    settings = TaskSettings(
        SPEC, source, Routing("{topic}", {"clicks": SOURCES}), Boundaries("interval"), clock, Told()
    )
    engine = Engine(
        membership=group,  # type: ignore[arg-type]
        schedule=Schedule(clock=clock, rng=random.Random(1), look_again=None),
        opener=Opener(settings, brokers, make_writer, lambda: True),
        read_record=lambda: JobRecord(RequestedState.RUNNING, 1, SPEC.hash, PARTITIONS),
        sources=lambda: listed,
        written=lambda _sources: True,
        pace=Pace(clock),
        clock=clock,
        observer=Told(),
        follow=False,
        read_ahead=read_ahead,
    )
    group.events.append(Assigned(frozenset(listed)))
    engine.run_once(0.0)
    threads = [threading.Thread(target=_work, args=(engine,)) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    ended = engine.run_once(0.0)
    assert ended is not None
    assert ended.written == SOURCES
    assert all(it.phase is Phase.EXHAUSTED for it in engine.assigned)
    assert source.opened == SOURCES
    assert source.open_now == 0
    assert source.most_open <= WORKERS + read_ahead
    for number in range(0, SOURCES, 97):
        visible = brokers.visible(TopicPartition("clicks", number))
        assert [row["value"] for row in visible] == [b"%d" % at for at in range(PIECES)]


def _work(engine: Engine) -> None:
    while engine.work_once():
        pass
