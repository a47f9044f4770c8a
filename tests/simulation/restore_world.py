"""Owners of one source partition over the fake cluster, one at a time or in each other's way.

An owner is what a daemon does with a source partition that it believes to be its own: open it,
write transactions, open it anew after an error.  Both owners of a world always believe so: the
protocol has to hold without the group's help.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Protocol

import greenlet
import pyarrow as pa

from secor.core.errors import RestartPartition, SecorError, Unavailable
from secor.core.model import SCHEMA, TopicPartition
from secor.core.ports import Clock
from secor.core.transactions import TransactionRequests
from secor.restore.boundaries import Boundaries, Kind
from secor.restore.model import Boundary, JobSpec, Piece, SourceExtent, SourcePartition
from secor.restore.offsets import OffsetTable, offsets_topic, rows_of
from secor.restore.opening import Opener
from secor.restore.ports import PieceReader, RestoreSource, TargetLog
from secor.restore.routing import Routing, RowFilter
from secor.restore.task import Task, TaskSettings, Turn
from secor.restore.writer.model import WriterLimits
from secor.restore.writer.writer import TransactionalWriter
from tests.fakes.reader import DirectReader
from tests.fakes.transactions import FakeBrokersWithoutTransactions, FakeCluster

SOURCE = SourcePartition("archive", "clicks", 0)
TARGET = TopicPartition("clicks", 0)
OFFSETS = TopicPartition(offsets_topic("job"), 0)
SPEC = JobSpec("job", {})
MESSAGES = 8
PER_PIECE = 2


class Crash(BaseException):
    """The process is gone; no handler swallows it."""


def rows(start: int, end: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset": offset,
                "timestamp": 1000 + offset,
                "timestamp_type": 0,
                "key": b"k",
                "value": b"%d" % offset,
                "headers": [],
            }
            for offset in range(start, end)
        ],
        schema=SCHEMA,
    )


@dataclass
class ListSource:
    """Messages 0 to ``messages``, in pieces of two; ``aborted`` pieces are to be skipped."""

    messages: int = MESSAGES
    per_piece: int = PER_PIECE
    aborted: frozenset[int] = frozenset()

    def exactly_once(self) -> bool:
        return True

    def defines_transactions(self) -> bool:
        return True

    def partitions(self) -> list[SourcePartition]:
        return [SOURCE]

    def extent(self, source: SourcePartition) -> SourceExtent:
        raise NotImplementedError

    def open(self, source: SourcePartition, next_offset: int) -> PieceReader:
        return DirectReader(self._pieces(next_offset))

    def _pieces(self, start: int) -> Iterator[Piece]:
        for at in range(0, self.messages, self.per_piece):
            end = min(at + self.per_piece, self.messages)
            if end > start:
                skipped = at in self.aborted
                boundary = Boundary.ABORT if skipped else Boundary.COMMIT
                yield Piece(rows(max(at, start), end), end, boundary)


class Silent:
    """Is told everything, and says nothing."""

    def began(self, source: SourcePartition) -> None: ...

    def committed(self, source: SourcePartition, *numbers: object) -> None: ...

    def skipped(self, source: SourcePartition, next_offset: int) -> None: ...

    def aborted(self, source: SourcePartition) -> None: ...


class Cluster(TransactionRequests, TargetLog, Protocol):
    """Brokers, and a hook that is called whenever a port to them is crossed."""

    hook: Callable[[str], None]

    @property
    def clock(self) -> Clock: ...


class OwnedWorld(Protocol):
    """What an owner needs: the cluster in memory, or a real one."""

    @property
    def cluster(self) -> Cluster: ...
    @property
    def source(self) -> RestoreSource: ...
    @property
    def source_partition(self) -> SourcePartition: ...
    @property
    def offsets(self) -> TopicPartition: ...
    @property
    def boundaries(self) -> Boundaries: ...
    @property
    def running(self) -> bool: ...
    def routing(self) -> Routing: ...
    def make_writer(self, transactional_id: str) -> TransactionalWriter: ...


@dataclass
class Owner:
    """One daemon's work on the source partition."""

    world: OwnedWorld
    name: str
    owned: bool = True
    opened: int = 0

    def owns(self, offsets: TopicPartition) -> bool:
        return self.owned

    def stopping(self, offsets: TopicPartition) -> bool:
        return False

    def run(self) -> None:
        """Write everything, or stop when it is fenced more often than any schedule needs."""
        for _ in range(30):
            task = self._open()
            if task is None:
                return
            try:
                while task.turn() is not Turn.EXHAUSTED:
                    pass
            except (RestartPartition, Unavailable):
                continue
            return

    def _open(self) -> Task | None:
        world = self.world
        self.opened += 1
        settings = TaskSettings(
            SPEC,
            world.source,
            world.routing(),
            world.boundaries,
            world.cluster.clock,
            Silent(),
            places=world.routing().places,
        )
        opener = Opener(settings, world.cluster, world.make_writer, lambda: world.running)
        try:
            opened = opener.open(world.offsets, [world.source_partition], self)
            for error in opened.failed.values():
                raise error
        except (RestartPartition, Unavailable):
            return self._open() if self.opened < 30 else None
        return opened.tasks[0] if opened.tasks else None


@dataclass
class World:
    """A cluster, a source and the owners of the source partition."""

    source_partition: ClassVar[SourcePartition] = SOURCE
    offsets: ClassVar[TopicPartition] = OFFSETS

    version: int = 2
    kind: Kind = "poll"
    source: ListSource = field(default_factory=ListSource)
    running: bool = True
    row_filter: RowFilter | None = None
    cluster: FakeCluster = field(init=False)
    boundaries: Boundaries = field(init=False)
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    transactional: bool = True

    def __post_init__(self) -> None:
        topics = {"clicks": 1, OFFSETS.topic: 2}
        if self.transactional:
            self.cluster = FakeCluster(topics, version=self.version)
        else:
            self.cluster = FakeBrokersWithoutTransactions(topics)
        self.boundaries = Boundaries(self.kind, interval=5.0, max_records=5)

    def routing(self) -> Routing:
        return Routing("{topic}", {"clicks": 1}, row_filter=self.row_filter)

    def make_writer(self, transactional_id: str) -> TransactionalWriter:
        limits = WriterLimits(batch_records=3, transactional=self.transactional)
        return TransactionalWriter(
            self.cluster, transactional_id, clock=self.cluster.clock, rng=self.rng, limits=limits
        )

    def check(self, *, complete: bool = True) -> None:
        """Every message once, in order; and the offset that is committed is behind them."""
        self.cluster.settle()
        values = [int(row["value"]) for row in self.cluster.visible(TARGET)]  # type: ignore[call-overload]
        skipped = {at + n for at in self.source.aborted for n in range(PER_PIECE)}
        wanted = [number for number in range(self.source.messages) if number not in skipped]
        assert values == wanted[: len(values)], values
        table = OffsetTable("job")
        for batch in self.cluster.log(OFFSETS).batches:
            if batch.committed:
                table.add(rows_of(batch.records))
        stored = table.offsets.get(SOURCE)
        reached = stored.next_offset if stored else 0
        assert values == [number for number in wanted if number < reached], (values, reached)
        if complete:
            assert reached == self.source.messages
            assert values == wanted


def crossings(world: OwnedWorld) -> int:
    """Count how often a whole run crosses a port."""
    count = 0

    def hook(_name: str) -> None:
        nonlocal count
        count += 1

    world.cluster.hook = hook
    Owner(world, "counted").run()
    return count


def act_at(number: int, act: Callable[[], None]) -> Callable[[str], None]:
    """Return a hook that acts at one crossing."""
    crossed = 0

    def hook(_name: str) -> None:
        nonlocal crossed
        crossed += 1
        if crossed == number:
            act()

    return hook


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


class Stepwise:
    """Owners as greenlets: whoever crosses a port gives way to the schedule."""

    def __init__(self, world: OwnedWorld, owners: list[Owner], errors: list[SecorError]) -> None:
        self._main = greenlet.getcurrent()
        self.running = {
            owner.name: greenlet.greenlet(partial(self._run, owner)) for owner in owners
        }
        self._errors = errors
        self._fault: BaseException | None = None
        world.cluster.hook = self._hook

    def _run(self, owner: Owner) -> None:
        try:
            owner.run()
        except Crash:
            return
        except SecorError as error:
            self._errors.append(error)

    def _hook(self, _name: str) -> None:
        if greenlet.getcurrent() is not self._main:
            self._main.switch()
            fault, self._fault = self._fault, None
            if fault is not None:
                raise fault

    def step(self, name: str, fault: BaseException | None = None) -> bool:
        """Let one go on to its next crossing; tell whether it is still there."""
        runner = self.running[name]
        if not runner.dead:
            self._fault = fault
            runner.switch()
        return not runner.dead
