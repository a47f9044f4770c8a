"""Which source partitions a daemon holds, and what is to be done with each: a table.

No thread here: the engine's workers take work and bring back how it ended, one at a time.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from secor.core.errors import (
    AccessDenied,
    ArchiveIncomplete,
    ConfigurationError,
    OutcomeUnknown,
    RestartPartition,
    SecorError,
    StopPartition,
    TargetRefused,
    Unavailable,
)
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.core.retry import delay
from secor.restore.model import SourcePartition
from secor.restore.task import Task, Turn


class Phase(Enum):
    """Phases of a source partition."""

    CLOSED = "closed"
    OPENING = "opening"
    READY = "ready"
    WORKING = "working"
    EXHAUSTED = "exhausted"
    FAILED = "failed"


class After(Enum):
    """Meanings of an error for a source partition."""

    OPEN_AGAIN = "open again"
    TRY_LATER = "try later"
    """A person has to fix it, at an unknown time: it is tried again now and then."""
    FAIL = "fail"
    """Only another configuration can help."""


LATER_BASE, LATER_CAP = 15.0, 300.0
"""Seconds between two attempts after an error that a person has to fix."""

_AFTER: Sequence[tuple[type[SecorError], After]] = (
    (ArchiveIncomplete, After.TRY_LATER),
    (TargetRefused, After.TRY_LATER),
    (AccessDenied, After.TRY_LATER),
    (StopPartition, After.FAIL),
    (ConfigurationError, After.FAIL),
    (RestartPartition, After.OPEN_AGAIN),
    (Unavailable, After.OPEN_AGAIN),
    (OutcomeUnknown, After.OPEN_AGAIN),
)

TRANSITIONS = MappingProxyType(
    {
        (Phase.CLOSED, Phase.OPENING): "its partition of the offsets topic is opened",
        (Phase.OPENING, Phase.READY): "initialised, its offset read",
        (Phase.OPENING, Phase.CLOSED): "not ours, paused, or an error that passes",
        (Phase.OPENING, Phase.FAILED): "an error that a person must fix",
        (Phase.READY, Phase.WORKING): "a turn begins",
        (Phase.WORKING, Phase.READY): "a turn wrote, or found nothing for now",
        (Phase.WORKING, Phase.EXHAUSTED): "all is written",
        (Phase.WORKING, Phase.CLOSED): "the writer is of no use any more",
        (Phase.WORKING, Phase.FAILED): "an error that a person must fix",
        (Phase.FAILED, Phase.OPENING): "another try: somebody may have fixed it",
        (Phase.EXHAUSTED, Phase.WORKING): "it is looked whether the source has grown",
    }
)


def after(error: SecorError) -> After:
    """Return what an error means; one that is not known here is for a person."""
    for kind, meaning in _AFTER:
        if isinstance(error, kind):
            return meaning
    return After.FAIL


@dataclass(slots=True)
class AssignedSource:
    """One source partition; ``again_at`` in monotonic seconds, ``attempts`` failed in a row."""

    source: SourcePartition
    offsets: TopicPartition
    phase: Phase = Phase.CLOSED
    task: Task | None = None
    error: SecorError | None = None
    attempts: int = 0
    again_at: float = 0.0

    def move(self, phase: Phase) -> None:
        """Change the phase, as the table allows."""
        assert (self.phase, phase) in TRANSITIONS, f"{self.source}: {self.phase} to {phase}"
        self.phase = phase


@dataclass(frozen=True, slots=True)
class Opening:
    """Work: open these source partitions of one partition of the offsets topic."""

    offsets: TopicPartition
    assigned_sources: tuple[AssignedSource, ...]


class Schedule:
    """The schedule of this daemon's source partitions; for one thread at a time."""

    def __init__(self, *, clock: Clock, rng: random.Random, look_again: float | None) -> None:
        """``look_again`` is after how many seconds an exhausted source may have grown."""
        self._clock = clock
        self._rng = rng
        self._look_again = look_again
        self._assigned: dict[SourcePartition, AssignedSource] = {}
        self._known_sources: set[TopicPartition] = set()

    @property
    def assigned(self) -> list[AssignedSource]:
        """All source partitions of this daemon."""
        return list(self._assigned.values())

    def owns(self, offsets: TopicPartition) -> bool:
        """Return whether a partition of the offsets topic is assigned."""
        return offsets in self._known_sources

    def assign(self, offsets: TopicPartition, sources: Iterable[SourcePartition]) -> None:
        """Take a partition of the offsets topic, with its source partitions."""
        self._known_sources.add(offsets)
        self.discover(offsets, sources)

    def discover(self, offsets: TopicPartition, sources: Iterable[SourcePartition]) -> None:
        """Take those source partitions that are new."""
        for source in sources:
            known = self._assigned.get(source)
            if known is None:
                self._assigned[source] = AssignedSource(source, offsets)
        # Partitions of one topic follow each other: its objects are listed once for all of them.
        self._assigned = dict(sorted(self._assigned.items()))

    def revoke(self, offsets: TopicPartition) -> None:
        """Give a partition up: nothing of it is started any more."""
        self._known_sources.discard(offsets)

    def busy(self, offsets: TopicPartition) -> bool:
        """Return whether anything of a partition is in work."""
        return any(
            assigned_source.phase in (Phase.OPENING, Phase.WORKING)
            for assigned_source in self._assigned.values()
            if assigned_source.offsets == offsets
        )

    def forget(self, offsets: TopicPartition) -> None:
        """Forget what was given up and is not in work any more."""
        for assigned_source in [
            assigned_source
            for assigned_source in self._assigned.values()
            if assigned_source.offsets == offsets
        ]:
            if assigned_source.task is not None:
                assigned_source.task.close()
            del self._assigned[assigned_source.source]

    def take(self) -> Opening | AssignedSource | None:
        """Return the next work: all that a partition has to open, or a turn of one source."""
        now = self._clock.monotonic()
        due = [
            assigned_source
            for assigned_source in self._assigned.values()
            if self._due(assigned_source, now)
        ]
        for assigned_source in due:
            # To open comes before turns: an opening fences a dead owner, whose open transaction
            # holds back readers of the target.
            if assigned_source.phase in _UNOPENED:
                # All of the partition together: its offsets are read once for all of them.
                together = tuple(
                    other
                    for other in due
                    if other.offsets == assigned_source.offsets and other.phase in _UNOPENED
                )
                for other in together:
                    other.move(Phase.OPENING)
                return Opening(assigned_source.offsets, together)
        for assigned_source in due:
            assigned_source.move(Phase.WORKING)
            return assigned_source
        return None

    def take_to_read(self, most: int) -> AssignedSource | None:
        """Return a source partition to read ahead of its turn, which it has meanwhile.

        None where ``most`` are read already.  One that is read to its end does not count: while
        its last messages are written the next one is read.
        """
        now = self._clock.monotonic()
        tasks = [(source, source.task) for source in self._assigned.values() if source.task]
        if sum(task.is_reading for _, task in tasks) >= most:
            return None
        for assigned_source, task in tasks:
            fresh = assigned_source.phase is Phase.READY and not assigned_source.attempts
            if fresh and not task.is_open and self._due(assigned_source, now):
                assigned_source.move(Phase.WORKING)
                return assigned_source
        return None

    def _due(self, assigned_source: AssignedSource, now: float) -> bool:
        waits = assigned_source.phase in (*_UNOPENED, Phase.READY, Phase.EXHAUSTED)
        return waits and assigned_source.again_at <= now and self.owns(assigned_source.offsets)

    def opened(
        self,
        opening: Opening,
        tasks: Sequence[Task],
        failed: Collection[SourcePartition] = (),
    ) -> None:
        """Bring the tasks of an opening; none when it was not allowed.

        Those that ``failed`` are left as they are: ``failed()`` brings their errors.
        """
        by_source = {task.source: task for task in tasks}
        for assigned_source in opening.assigned_sources:
            if assigned_source.source in failed:
                continue
            assigned_source.task = by_source.get(assigned_source.source)
            assigned_source.move(Phase.CLOSED if assigned_source.task is None else Phase.READY)
            assigned_source.again_at = self._clock.monotonic() + (
                1.0 if assigned_source.task is None else 0.0
            )

    def record_step(self, assigned_source: AssignedSource, turn: Turn) -> None:
        """Record how a step ended.  Only progress resets the failure count."""
        if turn is Turn.ABORTED:
            assigned_source.again_at = self._clock.monotonic() + delay(
                assigned_source.attempts, rng=self._rng
            )
            assigned_source.attempts += 1
            assigned_source.move(Phase.READY)
            return
        assigned_source.error, assigned_source.attempts = None, 0
        if turn is not Turn.EXHAUSTED:
            assigned_source.move(Phase.READY)
            return
        assigned_source.move(Phase.EXHAUSTED)
        wait = float("inf") if self._look_again is None else self._look_again
        assigned_source.again_at = self._clock.monotonic() + wait

    def failed(self, assigned_source: AssignedSource, error: SecorError) -> After:
        """Record the error that ended an opening or a step; return its meaning."""
        meaning = after(error)
        if assigned_source.task is not None:
            assigned_source.task.close()
            assigned_source.task = None
        assigned_source.error = error
        assigned_source.again_at = self._clock.monotonic() + self._pause(
            meaning, assigned_source.attempts
        )
        assigned_source.attempts += 1
        assigned_source.move(Phase.CLOSED if meaning is After.OPEN_AGAIN else Phase.FAILED)
        return meaning

    def _pause(self, meaning: After, attempts: int) -> float:
        """Return seconds until a source partition is opened again."""
        if meaning is After.FAIL:
            return float("inf")
        if meaning is After.TRY_LATER:
            return delay(attempts, rng=self._rng, base=LATER_BASE, cap=LATER_CAP)
        return delay(attempts, rng=self._rng)

    @property
    def settled(self) -> bool:
        """Return whether there is nothing left to do here: all is written, or has failed."""
        phases = {assigned_source.phase for assigned_source in self._assigned.values()}
        return bool(self._known_sources) and phases <= {Phase.EXHAUSTED, Phase.FAILED}


_UNOPENED = (Phase.CLOSED, Phase.FAILED)
