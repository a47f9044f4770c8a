"""One daemon of a job: its membership, its workers, and the state that a person requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from secor.core.errors import (
    AccessDenied,
    LedgerLost,
    OffsetsTopicGone,
    OutcomeUnknown,
    RestartPartition,
    SecorError,
    StopPartition,
    Unavailable,
)
from secor.core.model import TopicPartition
from secor.core.pace import Pace
from secor.core.ports import Assigned, Clock, MessageSource, Revoked
from secor.restore.control import JobRecord, RequestedState
from secor.restore.model import SourcePartition
from secor.restore.opening import Opened, Opener
from secor.restore.schedule import After, AssignedSource, Opening, Phase, Schedule
from secor.restore.task import Turn

RECORD_EVERY = 2.0
"""Seconds between two looks at the job's record."""
GONE_LOOKS = 3
"""Looks in a row that find no offsets topic: a broker may not have heard of it yet."""
OTHERS_EVERY = 5.0
"""Seconds between two looks whether the other daemons have written all of theirs."""
DISCOVER_EVERY = 60.0
"""Seconds between two listings of a growing archive's topics and partitions."""
_STEP = 0.05


class EngineObserver(Protocol):
    """An observer of the engine."""

    def failed(self, source: SourcePartition, error: SecorError, meaning: After) -> None:
        """Opening or writing a source partition met an error."""

    def requested_state_changed(self, requested: RequestedState) -> None:
        """The job's record says something else than before."""

    def assigned(self, sources: int) -> None:
        """The source partitions that this daemon holds."""

    def not_listed(self, error: SecorError) -> None:
        """The archive could not be listed; it is tried again later."""

    def listed(self) -> None:
        """The archive was listed again."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a daemon: the requested state, and what it leaves."""

    requested: RequestedState
    failed: tuple[AssignedSource, ...]
    written: int


class Engine:
    """Runs the source partitions that the group assigns to this daemon.

    ``run_once`` is for the main thread, ``work_once`` for any number of workers.
    ``sources`` lists the source partitions by partition of the offsets topic; ``written``
    says whether all of some, which are not held here, is written.  As many source partitions as
    ``read_ahead`` are read at a time, some before a worker is free to write them; for a source
    that begins to read at once and in a thread of its own.
    """

    def __init__(
        self,
        *,
        membership: MessageSource,
        schedule: Schedule,
        opener: Opener,
        read_record: Callable[[], JobRecord | None],
        sources: Callable[[], dict[TopicPartition, list[SourcePartition]]],
        written: Callable[[Collection[SourcePartition]], bool],
        pace: Pace,
        clock: Clock,
        observer: EngineObserver,
        follow: bool,
        read_ahead: int = 0,
    ) -> None:
        self._membership = membership
        self._schedule = schedule
        self._opener = opener
        self._read_record = read_record
        self._sources = sources
        self._written = written
        self._others_at = 0.0
        self._pace = pace
        self._clock = clock
        self._observer = observer
        self._follow = follow
        self._readers = read_ahead
        self._lock = threading.RLock()
        self._leaving: set[TopicPartition] = set()
        self._listed = sources()
        self._discover_at = clock.monotonic() + DISCOVER_EVERY
        self._requested = RequestedState.RUNNING
        self._record_at = 0.0
        self._gone_looks = 0
        self._stop = False

    # --------------------------------------------------------- any thread

    def stop(self) -> None:
        """End soon: transactions in work are committed."""
        self._stop = True

    @property
    def requested(self) -> RequestedState:
        """The requested state at the last look at the job's record."""
        return self._requested

    def stopping(self, offsets: TopicPartition) -> bool:
        """Return whether a transaction of this partition is to end now."""
        return self._halted or not self.owns(offsets)

    def owns(self, offsets: TopicPartition) -> bool:
        """Return whether a partition of the offsets topic is assigned to this daemon."""
        with self._lock:
            return self._schedule.owns(offsets)

    @property
    def follows(self) -> bool:
        """Tell whether the job goes on when all is written, for the archive grows."""
        return self._follow

    @property
    def _halted(self) -> bool:
        return self._stop or self._requested is not RequestedState.RUNNING

    @property
    def assigned(self) -> list[AssignedSource]:
        """What this daemon holds."""
        with self._lock:
            return self._schedule.assigned

    # --------------------------------------------------------- the main thread

    def run_once(self, timeout: float) -> Ended | None:
        """Take the group's events and the requested state; return how the daemon has ended.

        Raises ``LedgerLost`` when the offsets topic is gone.
        """
        for event in self._membership.poll(timeout):
            if isinstance(event, Assigned):
                self._assign(event.partitions)
            elif isinstance(event, Revoked):
                self._revoke(event.partitions)
        self._release()
        self._read_ahead()
        self._look_at_requested_state()
        self._discover()
        finished = self._finished()
        with self._lock:
            working = [source for source in self._schedule.assigned if source.phase in _IN_WORK]
            over = self._stop or self._requested is RequestedState.STOPPED or finished
            # What is in work ends its transaction first, also when the job is stopped.
            if working or not over:
                return None
            failed = tuple(
                source for source in self._schedule.assigned if source.phase is Phase.FAILED
            )
            done = sum(source.phase is Phase.EXHAUSTED for source in self._schedule.assigned)
            return Ended(self._requested, failed, done)

    def _finished(self) -> bool:
        """Return whether the whole job is done, or something of ours has failed.

        What other daemons hold counts: one that died leaves its source partitions to us, and
        its session takes longer to end than our own last transaction.
        """
        with self._lock:
            if self._follow or not self._schedule.settled:
                return False
            phases = {source.source: source.phase for source in self._schedule.assigned}
        if Phase.FAILED in phases.values():
            return True
        others = {listing for listed in self._listed.values() for listing in listed} - phases.keys()
        now = self._clock.monotonic()
        if others and now < self._others_at:
            return False
        self._others_at = now + OTHERS_EVERY
        try:
            return not others or self._written(others)
        except _UNKNOWN_FOR_NOW:
            return False

    def _assign(self, partitions: frozenset[TopicPartition]) -> None:
        with self._lock:
            for offsets in partitions:
                self._leaving.discard(offsets)
                self._schedule.assign(offsets, self._listed.get(offsets, []))
            count = len(self._schedule.assigned)
        self._observer.assigned(count)

    def _revoke(self, partitions: frozenset[TopicPartition]) -> None:
        with self._lock:
            for offsets in partitions:
                self._schedule.revoke(offsets)
            self._leaving |= partitions

    def _release(self) -> None:
        """Release the revoked partitions that have nothing in work any more."""
        with self._lock:
            # A partition is released only when none of its transactions is open here: the new
            # owner's first request would abort it.
            free = {offsets for offsets in self._leaving if not self._schedule.busy(offsets)}
            for offsets in free:
                self._schedule.forget(offsets)
            self._leaving -= free
            count = len(self._schedule.assigned)
        if free:
            self._membership.release(free)
            self._observer.assigned(count)

    def _read_ahead(self) -> None:
        """Begin to read what is written next: no worker then waits for its first object."""
        while not self._halted:
            with self._lock:
                following = self._schedule.take_to_read(self._readers)
            if following is None:
                return
            assert following.task is not None
            try:
                following.task.read_ahead()
            except SecorError as error:
                self._report(following, error)
                continue
            with self._lock:
                self._schedule.record_step(following, Turn.IDLE)

    def _look_at_requested_state(self) -> None:
        now = self._clock.monotonic()
        if now < self._record_at:
            return
        self._record_at = now + RECORD_EVERY
        try:
            known = self._read_record()
        except OffsetsTopicGone as error:
            self._gone_looks += 1
            if self._gone_looks < GONE_LOOKS:
                return
            raise LedgerLost(f"{error}; {_START_ANEW}") from error
        except (Unavailable, RestartPartition):
            return  # Looked at again; before anything is opened it is read anyway.
        self._gone_looks = 0
        if known is None:
            # It was there when this daemon began.
            raise LedgerLost(f"the offsets topic has lost the job's record; {_START_ANEW}")
        requested = known.requested
        if requested is not self._requested:
            self._requested = requested
            self._observer.requested_state_changed(requested)

    def _discover(self) -> None:
        if not self._follow or self._clock.monotonic() < self._discover_at:
            return
        # Before the listing: an archive that cannot be listed is tried again after the interval,
        # not in each turn.
        self._discover_at = self._clock.monotonic() + DISCOVER_EVERY
        try:
            listed = self._sources()
        except _UNKNOWN_FOR_NOW as error:
            # What is known already is written meanwhile.
            self._observer.not_listed(error)
            return
        self._observer.listed()
        with self._lock:
            self._listed = listed
            for offsets, sources in listed.items():
                if self._schedule.owns(offsets):
                    self._schedule.discover(offsets, sources)

    # --------------------------------------------------------- the workers

    def work_once(self) -> bool:
        """Do one piece of work; False when there is none for now."""
        if self._halted:
            return False
        pause = self._pace.debt()
        if pause > 0:
            # In small steps, so that a stop is noticed. Between transactions only: one that waits
            # inside would run into its timeout.
            self._clock.sleep(min(pause, _STEP))
            return True
        with self._lock:
            work = self._schedule.take()
        if isinstance(work, Opening):
            self._open(work)
        elif isinstance(work, AssignedSource):
            self._turn(work)
        return work is not None

    def _open(self, opening: Opening) -> None:
        sources = [assigned_source.source for assigned_source in opening.assigned_sources]
        try:
            opened = self._opener.open(opening.offsets, sources, self)
        except SecorError as error:
            opened = Opened(failed=dict.fromkeys(sources, error))
        with self._lock:
            self._schedule.opened(opening, opened.tasks, opened.failed)
        for assigned_source in opening.assigned_sources:
            if assigned_source.source in opened.failed:
                self._report(assigned_source, opened.failed[assigned_source.source])
        self._read_ahead()

    def _turn(self, assigned_source: AssignedSource) -> None:
        assert assigned_source.task is not None
        try:
            # Outside the lock: a transaction takes seconds, and the main thread must go on polling,
            # or the group would take this daemon for dead.
            turn = assigned_source.task.turn()
        except SecorError as error:
            self._report(assigned_source, error)
            return
        with self._lock:
            self._schedule.record_step(assigned_source, turn)

    def _report(self, assigned_source: AssignedSource, error: SecorError) -> None:
        with self._lock:
            meaning = self._schedule.failed(assigned_source, error)
            # Asked after the schedule took the error in, under the same lock: a revocation in
            # between would make a fault of what is none.
            still_ours = self._schedule.owns(assigned_source.offsets)
        # A daemon that lost a partition is fenced by its new owner: that is no fault.
        if still_ours:
            self._observer.failed(assigned_source.source, error, meaning)


_START_ANEW = (
    "it alone knew what is written already: delete the job's targets and start it again, which"
    " restores everything"
)
_UNKNOWN_FOR_NOW = (Unavailable, OutcomeUnknown, AccessDenied, RestartPartition, StopPartition)
"""What keeps a daemon from knowing what there is, or how far the others are: it asks again.

A right that is missing may come back, as that of a token that is renewed.
"""
_IN_WORK = (Phase.OPENING, Phase.WORKING)
