from __future__ import annotations

import random
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from secor.core.errors import (
    AccessDenied,
    ArchiveIncomplete,
    LedgerLost,
    OffsetsTopicGone,
    OutcomeUnknown,
    RestartPartition,
    SecorError,
    Unavailable,
)
from secor.core.model import TopicPartition
from secor.core.pace import Pace
from secor.core.ports import Assigned, Event, Revoked
from secor.core.transactions import BrokerCode
from secor.restore.boundaries import Boundaries
from secor.restore.control import JobRecord, RequestedState
from secor.restore.engine import (
    DISCOVER_EVERY,
    GONE_LOOKS,
    OTHERS_EVERY,
    RECORD_EVERY,
    Ended,
    Engine,
)
from secor.restore.model import Piece, SourcePartition
from secor.restore.opening import Opener
from secor.restore.ports import PieceReader
from secor.restore.reading import ReadAhead
from secor.restore.routing import Routing
from secor.restore.schedule import LATER_CAP, After, Phase, Schedule
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
        self.aborts: list[SourcePartition] = []
        self.unlisted: list[SecorError] = []

    def aborted(self, source: SourcePartition) -> None:
        self.aborts.append(source)

    def failed(self, source: SourcePartition, error: SecorError, meaning: After) -> None:
        self.errors.append((error, meaning))

    def requested_state_changed(self, requested: RequestedState) -> None: ...

    def assigned(self, sources: int) -> None: ...

    def not_listed(self, error: SecorError) -> None:
        self.unlisted.append(error)

    def listed(self) -> None: ...


class Daemon:
    """An engine over the fake cluster, its one worker called by the test."""

    def __init__(
        self,
        source: ListSource | None = None,
        *,
        others: bool = False,
        follow: bool = False,
        read_ahead: int = 0,
        more: Sequence[SourcePartition] = (),
    ) -> None:
        self.world = World(source=source or ListSource())
        self.group, self.told = Group(), Told()
        self.record: JobRecord | None = JobRecord(RequestedState.RUNNING, 1, SPEC.hash, 2)
        self.reading_fails: SecorError | None = None
        self.others_written = False
        self.looking_fails: list[SecorError] = []
        clock = self.world.cluster.clock
        settings = TaskSettings(
            SPEC,
            self.world.source,
            Routing("{topic}", {"clicks": 10}),
            Boundaries("poll"),
            clock,
            self.told,
        )
        self.listed = {OFFSETS: [SOURCE, *more], **({ELSEWHERE: [OTHER]} if others else {})}
        self.listing_fails: SecorError | None = None
        self.engine = Engine(
            membership=self.group,  # type: ignore[arg-type]
            schedule=Schedule(
                clock=clock, rng=random.Random(1), look_again=1.0 if follow else None
            ),
            opener=Opener(settings, self.world.cluster, self.world.make_writer, self._running),
            read_record=self._read,
            sources=self._sources,
            written=self._written,
            pace=Pace(clock),
            clock=clock,
            observer=self.told,
            follow=follow,
            read_ahead=read_ahead,
        )

    def _read(self) -> JobRecord | None:
        if self.reading_fails is not None:
            raise self.reading_fails
        return self.record

    def _running(self) -> bool:
        return self.record is not None and self.record.requested is RequestedState.RUNNING

    def _sources(self) -> dict[TopicPartition, list[SourcePartition]]:
        if self.listing_fails is not None:
            raise self.listing_fails
        return self.listed

    def _written(self, sources: Collection[SourcePartition]) -> bool:
        assert set(sources) == {OTHER}
        if self.looking_fails:
            raise self.looking_fails.pop()
        return self.others_written

    def run(self, turns: int = 60) -> Ended | None:
        for _ in range(turns):
            self.engine.work_once()
            ended = self.engine.run_once(0)
            if ended is not None:
                return ended
        return None

    def request(self, requested: RequestedState) -> None:
        self.record = JobRecord(requested, 2, SPEC.hash, 2)
        self.world.cluster.clock.advance(RECORD_EVERY)


@pytest.fixture
def daemon() -> Daemon:
    daemon = Daemon()
    daemon.group.events.append(Assigned(frozenset({OFFSETS})))
    return daemon


def test_a_daemon_ends_when_all_is_written(daemon: Daemon) -> None:
    ended = daemon.run()
    assert ended == Ended(RequestedState.RUNNING, (), 1)
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
    daemon.request(RequestedState.PAUSED)
    daemon.run(2)
    calls = len(daemon.world.cluster.calls)
    assert daemon.run(10) is None
    assert len(daemon.world.cluster.calls) == calls
    daemon.request(RequestedState.RUNNING)
    assert daemon.run() is not None
    daemon.world.check()


def test_a_stopped_job_ends_the_daemon(daemon: Daemon) -> None:
    daemon.run(4)
    daemon.request(RequestedState.STOPPED)
    ended = daemon.run()
    assert ended is not None
    assert ended.requested is RequestedState.STOPPED
    daemon.world.check(complete=False)


@pytest.mark.parametrize("seen_again", [True, False])
def test_without_its_offsets_topic_a_daemon_ends_and_writes_nothing_again(
    daemon: Daemon, seen_again: bool
) -> None:
    clock = daemon.world.cluster.clock
    daemon.reading_fails = OffsetsTopicGone("the offsets topic is gone")
    for _ in range(GONE_LOOKS - 1):
        daemon.engine.run_once(0)
        clock.advance(RECORD_EVERY)
    if seen_again:
        # A broker had not heard of it yet.
        daemon.reading_fails = None
        assert daemon.run() is not None
        daemon.world.check()
        return
    with pytest.raises(LedgerLost, match="delete the job's targets and start it again"):
        daemon.engine.run_once(0)


def test_an_offsets_topic_that_was_made_anew_under_a_daemon_ends_it(daemon: Daemon) -> None:
    daemon.record = None
    with pytest.raises(LedgerLost, match="has lost the job's record"):
        daemon.run()
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


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("cannot list"),
        OutcomeUnknown("no answer"),
        AccessDenied("the token has expired"),
        ArchiveIncomplete("an index cannot be read"),
    ],
)
def test_an_archive_that_cannot_be_listed_for_now_is_told_and_ends_nothing(
    error: SecorError,
) -> None:
    daemon = Daemon(follow=True)
    daemon.group.events.append(Assigned(frozenset({OFFSETS})))
    daemon.run()
    daemon.listing_fails = error
    daemon.world.cluster.clock.advance(DISCOVER_EVERY)
    daemon.run(2)
    assert daemon.told.unlisted == [error]
    daemon.listing_fails = None
    daemon.listed = {OFFSETS: [SOURCE, OTHER]}
    daemon.world.cluster.clock.advance(DISCOVER_EVERY)
    daemon.run(2)
    assert [assigned.source for assigned in daemon.engine.assigned] == [SOURCE, OTHER]


def test_what_is_not_known_of_other_daemons_is_asked_again() -> None:
    daemon = Daemon(others=True)
    daemon.looking_fails = [
        Unavailable("store"),
        OutcomeUnknown("store"),
        AccessDenied("store"),
        RestartPartition("topic"),
        ArchiveIncomplete("object"),
    ]
    daemon.group.events.append(Assigned(frozenset({OFFSETS})))
    while daemon.looking_fails:
        assert daemon.run() is None
        daemon.world.cluster.clock.advance(OTHERS_EVERY)
    daemon.others_written = True
    assert daemon.run() is not None


def test_what_a_person_mended_comes_back_by_itself() -> None:
    daemon = Daemon(follow=True)
    daemon.group.events.append(Assigned(frozenset({OFFSETS})))
    # The target takes no more: a quota of its disk, say.
    daemon.world.cluster.refuse["produce"] = [BrokerCode.POLICY_VIOLATION]
    daemon.run(5)
    ((error, meaning),) = daemon.told.errors
    assert meaning is After.TRY_LATER
    assert "POLICY_VIOLATION" in str(error)
    (assigned,) = daemon.engine.assigned
    assert (assigned.phase, assigned.error) == (Phase.FAILED, error)
    daemon.world.cluster.clock.advance(LATER_CAP)
    daemon.run()
    assert (assigned.phase, assigned.error) == (Phase.EXHAUSTED, None)
    daemon.world.check()


def test_a_job_that_ends_does_not_wait_for_a_person(daemon: Daemon) -> None:
    daemon.world.cluster.refuse["produce"] = [BrokerCode.POLICY_VIOLATION]
    ended = daemon.run()
    assert ended is not None
    assert [assigned.source for assigned in ended.failed] == [SOURCE]


def test_a_partition_is_kept_while_a_transaction_of_it_is_written(daemon: Daemon) -> None:
    seen: list[bool] = []

    def hook(name: str) -> None:
        if name == "before commit" and not seen:
            daemon.group.events.append(Revoked(frozenset({OFFSETS})))
            daemon.engine.run_once(0)
            seen.append(OFFSETS in daemon.group.released)

    daemon.world.cluster.hook = hook
    daemon.run(8)
    assert seen == [False]
    assert daemon.group.released == {OFFSETS}


@pytest.mark.parametrize("request_", ["produce", "commit"])
def test_what_the_broker_wants_aborted_is_written_again(daemon: Daemon, request_: str) -> None:
    clock = daemon.world.cluster.clock
    daemon.world.cluster.refuse[request_] = [BrokerCode.TRANSACTION_ABORTABLE]
    daemon.run(6)
    clock.advance(60)
    assert daemon.run() is not None
    assert daemon.told.errors == []
    assert daemon.told.aborts == [SOURCE]
    daemon.world.check()


@dataclass
class ThreadedSource(ListSource):
    """Reads in threads, and knows which source partitions are opened."""

    opened: list[SourcePartition] = field(default_factory=list)
    fails: list[SecorError] = field(default_factory=list)
    readable: threading.Event = field(default_factory=threading.Event)

    def _pieces(self, start: int) -> Iterator[Piece]:
        assert self.readable.wait(30)
        yield from super()._pieces(start)

    def open(self, source: SourcePartition, next_offset: int) -> PieceReader:
        self.opened.append(source)
        if self.fails:
            raise self.fails.pop()
        return ReadAhead(self._pieces(next_offset))


def test_the_next_is_read_while_the_last_messages_of_the_one_before_are_written() -> None:
    source = ThreadedSource()
    daemon = Daemon(source, read_ahead=1, more=[OTHER])
    daemon.group.events.append(Assigned(frozenset({OFFSETS})))
    daemon.engine.run_once(0)
    daemon.engine.work_once()
    assert source.opened == [SOURCE], "as soon as its offset is known"
    source.readable.set()
    first = daemon.engine.assigned[0].task
    assert first is not None
    while first.is_reading:
        time.sleep(0.001)
    daemon.engine.run_once(0)
    assert source.opened == [SOURCE, OTHER], "before a message of the first is written"
    assert daemon.run() == Ended(RequestedState.RUNNING, (), 2)
    assert source.opened == [SOURCE, OTHER]
    daemon.world.check()


def test_what_cannot_be_read_ahead_is_opened_anew_and_written_once() -> None:
    source = ThreadedSource(fails=[Unavailable("no store")])
    source.readable.set()
    daemon = Daemon(source, read_ahead=1)
    daemon.group.events.append(Assigned(frozenset({OFFSETS})))
    daemon.engine.run_once(0)
    daemon.engine.work_once()
    assert [meaning for _, meaning in daemon.told.errors] == [After.OPEN_AGAIN]
    daemon.world.cluster.clock.advance(60)
    assert daemon.run() == Ended(RequestedState.RUNNING, (), 1)
    daemon.world.check()


def test_a_daemon_that_stops_reads_nothing_ahead() -> None:
    source = ThreadedSource()
    daemon = Daemon(source, read_ahead=1)
    daemon.group.events.append(Assigned(frozenset({OFFSETS})))
    daemon.request(RequestedState.PAUSED)
    daemon.engine.run_once(0)
    daemon.engine.work_once()
    daemon.engine.run_once(0)
    assert source.opened == []
