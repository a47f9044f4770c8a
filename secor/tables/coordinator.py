"""The coordinator: one exact commit for each table in each cycle.

The election only saves work: two coordinators at once are harmless, because each commit requires
the snapshot at which its vector was read.  Between cycles the coordinator remembers nothing that
the next cycle could not find again, so there is nothing to recover at the start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from secor.core.errors import SecorError
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.tables.commit.commit_result import TableResult
from secor.tables.commit.cycle_commit import CycleCommit, GroupTopics
from secor.tables.control import ControlChannel, ControlEvent, EventKind
from secor.tables.cycle import (
    Ask,
    AskAgain,
    Commit,
    Cycle,
    Discard,
    State,
    StepDown,
    Timing,
    Wait,
    decide,
)
from secor.tables.observer import TableObserver

LISTEN = 0.25
"""Most seconds between two looks at the channel."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a coordinator: the ``group``, and ``sender``, a name of this process."""

    group: str
    sender: str


class Coordinator:
    """``step`` is called again and again, from one thread."""

    def __init__(
        self,
        identity: Identity,
        *,
        leads: Callable[[], bool],
        topics: GroupTopics,
        commit: CycleCommit,
        channel: ControlChannel,
        clock: Clock,
        observer: TableObserver,
        timing: Timing,
        new_id: Callable[[], str],
    ) -> None:
        """``leads`` says whether this process is elected; ``new_id`` names a cycle."""
        self._identity = identity
        self._leads = leads
        self._topics = topics
        self._commit_cycle = commit
        self._channel = channel
        self._clock = clock
        self._observer = observer
        self._timing = timing
        self._new_id = new_id
        self._cycle = Cycle()
        self._epoch = 0
        self._partitions: frozenset[TopicPartition] = frozenset()

    @property
    def state(self) -> State:
        """Its place in the cycle."""
        return self._cycle.state

    def step_down(self) -> None:
        """Coordinate no more: this coordinator is given up."""
        if self._cycle.state is not State.STANDBY:
            self._cycle = Cycle()
            self._observer.leading(False, self._epoch)

    def step(self) -> float:
        """Do what is due; return the seconds after which there may be more to do."""
        for event in self._channel.receive():
            if event.kind is EventKind.DATA_COMPLETE:
                answered = frozenset(answer.topic_partition for answer in event.answers)
                self._cycle = self._cycle.answer(event.commit, answered)
        was_standby = self._cycle.state is State.STANDBY
        now = self._clock.monotonic()
        decision = decide(
            self._cycle,
            now,
            leads=self._leads(),
            partitions=self._partitions,
            # Asked for each time, used when a cycle begins: the decision itself stays pure.
            commit=self._new_id(),
            timing=self._timing,
        )
        if was_standby and not isinstance(decision, Wait):
            # The time is the epoch: workers follow the newest coordinator, and no server has to
            # count.
            self._epoch = int(self._clock.now())
            self._observer.leading(True, self._epoch)
        match decision:
            case Wait(until):
                return min(max(until - now, 0.0), LISTEN)
            case StepDown(cycle):
                self._cycle = cycle
                self._observer.leading(False, self._epoch)
            case Ask(cycle):
                self._cycle = cycle
                self._guarded(self._ask)
            case AskAgain(cycle):
                self._cycle = cycle
                self._guarded(lambda: self._send(EventKind.START_COMMIT))
            case Discard(cycle, missing):
                self._cycle = cycle.finish(now, self._timing)
                self._observer.cycle_discarded(len(missing))
            case Commit(cycle, missing):
                self._cycle = cycle
                self._guarded(lambda: self._commit(missing))
        return 0.0

    def _guarded(self, act: Callable[[], None]) -> None:
        """Leave a failure to the next cycle: everything is still staged."""
        try:
            act()
        except SecorError as error:
            self._observer.cycle_failed(error)
            if self._cycle.state is State.COLLECTING:
                self._cycle = self._cycle.become(State.COMMITTING)
            self._cycle = self._cycle.finish(self._clock.monotonic(), self._timing)

    def _ask(self) -> None:
        # Asked once, at the beginning: answers are compared with what the group had then, and a
        # topic that is new waits for the next cycle.
        self._partitions = self._topics.partitions()
        self._send(EventKind.START_COMMIT)

    def _send(self, kind: EventKind, result: TableResult | None = None) -> None:
        event = ControlEvent(
            kind, self._identity.group, self._cycle.commit, self._epoch, self._identity.sender
        )
        if result is not None:
            event = replace(
                event,
                table=result.table,
                snapshot=result.snapshot,
                valid_through=result.valid_through,
            )
        self._channel.send(event)

    def _commit(self, missing: frozenset[TopicPartition]) -> None:
        self._commit_cycle(
            self._cycle.commit,
            self._epoch,
            missing=missing,
            committed=lambda result: self._send(EventKind.COMMIT_TO_TABLE, result),
        )
        # Last: workers that hear it forget the cycle and answer no more.
        self._send(EventKind.COMMIT_COMPLETE)
        now = self._clock.monotonic()
        self._observer.cycle_ended(now - self._cycle.began, len(missing))
        self._cycle = self._cycle.finish(now, self._timing)


class CoordinatorThread:
    """Steps a coordinator until it is closed."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, timeout: float = 60.0) -> None:
        """Let the present step end, at most ``timeout`` seconds."""
        self._closing.set()
        # Bounded: a commit that waits for Spark must not hold up the end of the process. What it
        # leaves is staged, and the next coordinator settles it.
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._closing.wait(self._coordinator.step())
