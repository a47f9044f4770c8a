"""The commit cycle: when to ask the workers, when to commit.  Pure: time is an argument.

Every ``interval`` the coordinator asks the workers to upload what they hold.  It waits until all
of the group's topic partitions have answered, at most ``timeout``, and commits what is staged.
What comes late stays staged, and is in the next commit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from secor.core.model import TopicPartition


class State(StrEnum):
    """States of a coordinator; ``TRANSITIONS`` is the whole of it."""

    STANDBY = "standby"
    IDLE = "idle"
    COLLECTING = "collecting"
    COMMITTING = "committing"


TRANSITIONS = {
    State.STANDBY: frozenset({State.IDLE}),
    State.IDLE: frozenset({State.COLLECTING, State.COMMITTING, State.STANDBY}),
    State.COLLECTING: frozenset({State.COMMITTING, State.IDLE, State.STANDBY}),
    State.COMMITTING: frozenset({State.IDLE, State.STANDBY}),
}


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: between the beginnings of cycles, and for the answers of one.

    Without ``asks`` there is no channel: what is staged is committed every interval.  A cycle
    that was not answered by all in time commits what there is, or, where ``discards``, nothing.
    """

    interval: float = 60.0
    timeout: float = 30.0
    asks: bool = True
    discards: bool = False


@dataclass(frozen=True, slots=True)
class Cycle:
    """One coordinator's present cycle.

    ``began``, ``asked`` (the last time) and ``due`` (of the next cycle) are monotonic seconds;
    ``commit`` is the id of the cycle that is going on, ``answered`` the workers that have uploaded
    what their partitions held.
    """

    state: State = State.STANDBY
    due: float = 0.0
    began: float = 0.0
    asked: float = 0.0
    commit: str = ""
    answered: frozenset[TopicPartition] = frozenset()

    def become(self, state: State) -> Cycle:
        """Go to ``state``; a transition that ``TRANSITIONS`` does not have is a bug."""
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"the cycle does not go from {self.state} to {state}")
        return replace(self, state=state)

    def answer(self, commit: str, partitions: frozenset[TopicPartition]) -> Cycle:
        """Note that these have answered; ignore answers to another cycle."""
        # A late answer to an earlier cycle says nothing of this one: its worker may have read on
        # since.
        if self.state is not State.COLLECTING or commit != self.commit:
            return self
        return replace(self, answered=self.answered | partitions)

    def finish(self, now: float, timing: Timing) -> Cycle:
        """End a cycle, however it went: the next begins an interval after this one's beginning."""
        # From the beginning, not from now: a slow commit must not stretch the interval, and a
        # commit longer than the interval must not be followed by two in a row.
        due = max(now, self.began + timing.interval)
        return replace(self.become(State.IDLE), due=due, commit="", answered=frozenset())


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before ``until`` (monotonic seconds), unless something is heard."""

    until: float


@dataclass(frozen=True, slots=True)
class Ask:
    """Announce the commit that ``cycle`` names."""

    cycle: Cycle


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Announce the same commit again: a process may have joined since, or not have heard it."""

    cycle: Cycle


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit what is staged; ``missing`` have not answered (a partial commit)."""

    cycle: Cycle
    missing: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Discard:
    """End the cycle without a commit and begin again; ``missing`` have not answered."""

    cycle: Cycle
    missing: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class StepDown:
    """Somebody else is to coordinate."""

    cycle: Cycle


Decision = Wait | Ask | AskAgain | Commit | Discard | StepDown

LOOK_AGAIN = 1.0
"""Seconds in which a standby looks whether it has to take over."""


ASK_AGAIN = 1.0
"""Seconds, at least, after which those that have not answered are asked again."""

MOST_ASKED = 5
"""How often a cycle asks, at most."""


def decide(
    cycle: Cycle,
    now: float,
    *,
    leads: bool,
    partitions: frozenset[TopicPartition],
    commit: str,
    timing: Timing,
) -> Decision:
    """Return what to do now; ``commit`` is a new id for a cycle that begins.

    ``partitions`` are all topic partitions of the group.  One that takes over begins at once:
    what its predecessor left is staged.
    """
    if not leads:
        if cycle.state is State.STANDBY:
            return Wait(now + LOOK_AGAIN)
        return StepDown(replace(cycle.become(State.STANDBY), commit="", answered=frozenset()))
    if cycle.state is State.STANDBY:
        # Takes over at once: what the former coordinator has asked for is staged by now.
        cycle = replace(cycle.become(State.IDLE), due=now)
    if cycle.state is State.IDLE:
        if now < cycle.due:
            return Wait(cycle.due)
        started = replace(cycle, began=now, asked=now, commit=commit, answered=frozenset())
        if timing.asks:
            return Ask(started.become(State.COLLECTING))
        return Commit(started.become(State.COMMITTING), frozenset())
    missing = partitions - cycle.answered
    # Asked again, a few times: a worker that joined after the announcement has not heard it, and
    # one that restarted has forgotten it.
    if missing and now < cycle.began + timing.timeout:
        again = cycle.asked + max(ASK_AGAIN, timing.timeout / MOST_ASKED)
        if now >= again:
            return AskAgain(replace(cycle, asked=now))
        return Wait(min(again, cycle.began + timing.timeout))
    if missing and timing.discards:
        return Discard(cycle, missing)
    # Workers that have not answered hold up nobody: what they stage later is in the next cycle.
    return Commit(cycle.become(State.COMMITTING), missing)


def valid_through(
    previous: int | None,
    partitions: frozenset[TopicPartition],
    greatest: dict[TopicPartition, int],
    complete: frozenset[TopicPartition],
    now: int,
) -> int | None:
    """Return the timestamp (ms) up to which everything is committed; it never goes back.

    It is never later than ``now`` (ms): a ``previous`` one that is was made by a message from
    the future, and counts for nothing.

    It is the least of the partitions' ``greatest`` timestamps.  ``complete`` partitions, whose
    log holds nothing beyond what is committed, do not limit it.  A partition without
    either leaves it as it was.
    """
    if previous is not None and previous > now:
        previous = None
    limiting = partitions - complete
    # A partition that was never seen may hold anything: it is not "no limit".
    if not limiting <= greatest.keys():
        return previous
    if limiting:
        reached = min(greatest[topic_partition] for topic_partition in limiting)
    elif greatest:
        # All are complete: nothing is missing anywhere, so the newest message is reached.
        reached = max(greatest.values())
    else:
        return previous
    reached = min(reached, now)
    return reached if previous is None else max(previous, reached)
