"""What the commands of a topic partition's state tables do, without Kafka, files or threads.

The model knows nothing of states: it keeps what the commands changed, and refuses a command that
cannot be carried out.  ``steps`` says what may happen next in the real world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import ClassVar

from secor.consume.partition_states import Command, Commands, Event, PartitionStates, Waits

EARLY, LATE = 0.0, 1000.0
"""Seconds.  Everything happens early, except for rounds, which are either."""

WAKE_AT = 1.0


class RecordedStates(PartitionStates):
    """Remembers in ``rows`` which states met which events."""

    rows: ClassVar[set[tuple[str, Event]]] = set()

    def on(self, event: Event, now: float) -> Commands:
        """Remember, then go on."""
        self.rows.update({(self.reading, event), (self.uploading, event)})
        return super().on(event, now)


class Impossible(AssertionError):
    """A command that nobody can carry out, or that breaks a promise."""


def demand(condition: bool, what: str) -> None:
    """Raise ``Impossible`` unless ``condition``."""
    if not condition:
        raise Impossible(what)


@dataclass(frozen=True)
class Choices:
    """What the disk says to a seal, and whether an open batch may be cut where it is."""

    disk_full: bool = False
    may_cut: bool = True


@dataclass
class Model:
    """One topic partition of the world; ``sealed`` counts batches that wait for upload."""

    states: PartitionStates
    assigned: bool = True
    begun_again: bool = False
    fetching: bool = False
    open_batch: bool = False
    sealed: int = 0
    searching: bool = False
    uploading: bool = False

    @property
    def facts(self) -> tuple[object, ...]:
        """All that makes two of them different."""
        states = self.states
        return (
            *(states.reading, states.uploading, self.assigned, self.begun_again, self.fetching),
            *(self.open_batch, self.sealed, self.searching, self.uploading),
        )

    def copied(self) -> Model:
        """Return another in the same state."""
        return replace(self, states=copy(self.states))

    def give(self, event: Event, choices: Choices, now: float = EARLY) -> Commands:
        """Let ``event`` happen and carry out what it commands."""
        commands = self.states.on(event, now)
        for command in commands:
            ACTIONS[command](self, choices)
        return commands


def _locate(model: Model, _: Choices) -> None:
    demand(model.assigned, "a search for a partition that is not assigned")
    demand(not model.searching and not model.uploading, "two tasks at once")
    model.searching = True


def _read(model: Model, _: Choices) -> None:
    demand(model.assigned, "reading a partition that is not assigned")
    demand(not model.open_batch and not model.sealed, "reading over an earlier batch")
    model.open_batch = model.fetching = True


def _pause(model: Model, _: Choices) -> None:
    demand(model.fetching, "a pause of what is not fetched")
    model.fetching = False


def _resume(model: Model, _: Choices) -> None:
    demand(model.open_batch and not model.fetching, "a resume without a pause")
    model.fetching = True


def _seal(model: Model, choices: Choices) -> None:
    demand(model.open_batch, "a seal without a batch")
    demand(not model.sealed and not model.uploading, "a second batch before the first is done")
    if choices.disk_full:
        model.give(Event.RESTART_DROPPING, choices)
        return
    model.sealed += 1
    model.give(Event.SEALED, choices)


def _seal_rest(model: Model, choices: Choices) -> None:
    demand(model.open_batch and not model.fetching, "the last batch is sealed while it grows")
    model.open_batch = False
    if choices.may_cut and not choices.disk_full:
        model.sealed += 1
        model.give(Event.SEALED, choices)


def _drop_open(model: Model, _: Choices) -> None:
    demand(model.open_batch and not model.fetching, "the open batch is dropped while it grows")
    model.open_batch = False


def _retire(model: Model, _: Choices) -> None:
    demand(model.assigned, "retired twice")
    model.assigned = False


def _begin_again(model: Model, _: Choices) -> None:
    demand(not model.assigned and not model.begun_again, "begun again beside its predecessor")
    model.begun_again = True


def _upload(model: Model, _: Choices) -> None:
    demand(model.sealed > 0, "an upload of nothing")
    demand(not model.uploading and not model.searching, "two tasks at once")
    model.uploading = True


def _forget(model: Model, _: Choices) -> None:
    demand(model.sealed > 0 and not model.uploading, "the files of an upload in work are deleted")
    model.sealed -= 1


def _drop_queued(model: Model, _: Choices) -> None:
    demand(model.uploading, "the first of several batches is kept, and nobody uploads it")
    model.sealed = 1


def _drop_sealed(model: Model, _: Choices) -> None:
    demand(model.sealed > 0 and not model.uploading, "the files of an upload in work are deleted")
    model.sealed = 0


ACTIONS: dict[Command, Callable[[Model, Choices], None]] = {
    Command.LOCATE: _locate,
    Command.READ: _read,
    Command.PAUSE: _pause,
    Command.RESUME: _resume,
    Command.SEAL: _seal,
    Command.SEAL_REST: _seal_rest,
    Command.DROP_OPEN: _drop_open,
    Command.RETIRE: _retire,
    Command.BEGIN_AGAIN: _begin_again,
    Command.UPLOAD: _upload,
    Command.FORGET: _forget,
    Command.DROP_QUEUED: _drop_queued,
    Command.DROP_SEALED: _drop_sealed,
}


@dataclass(frozen=True)
class Step:
    """Something that may happen: events that come together, in order, at a time."""

    events: tuple[Event, ...]
    now: float = EARLY
    choices: Choices = Choices()

    def __str__(self) -> str:
        when = " late" if self.now == LATE else ""
        return f"{', '.join(self.events)}{when}{'' if self.choices == Choices() else self.choices}"


FULL, UNCUTTABLE = Choices(disk_full=True), Choices(may_cut=False)
FAILURES = (Event.RESTART_DROPPING, Event.STOP_DROPPING)


def steps(model: Model) -> Iterator[Step]:
    """Say what may happen next, by what the model shows and the loop knows."""
    yield Step((Event.ROUND,))
    yield Step((Event.ROUND,), LATE)
    if model.assigned:
        yield Step((Event.LEAVE_DROPPING,))
        if model.open_batch or model.sealed:  # the plan is known, which may ask for an upload
            for choices in (Choices(), FULL, UNCUTTABLE):
                yield Step((Event.LEAVE_KEEPING,), choices=choices)
    if model.searching:
        yield from _search_ends(model)
    if model.uploading:
        yield from _upload_ends(model)
    if model.open_batch:
        yield from _loop_reads(model)


def _search_ends(model: Model) -> Iterator[Step]:
    if not model.assigned:
        yield Step((Event.SEARCH_ENDED,))
        return
    for event in (Event.LOCATED, *FAILURES):
        yield Step((event,))


def _upload_ends(model: Model) -> Iterator[Step]:
    yield Step((Event.COMMITTED if model.sealed == 1 else Event.COMMITTED_FIRST,))
    yield Step((Event.UPLOAD_RETRYABLE,))
    if model.open_batch:
        for failure in FAILURES:
            yield Step((Event.UPLOAD_ABANDONED, failure))
    else:
        yield Step((Event.UPLOAD_ABANDONED,))


def _loop_reads(model: Model) -> Iterator[Step]:
    yield Step((Event.HOLD,))
    yield Step((Event.GO,))
    for event in FAILURES:
        yield Step((event,))
    for choices in (Choices(), FULL, UNCUTTABLE):
        yield Step((Event.RESTART_KEEPING,), choices=choices)
        yield Step((Event.STOP_KEEPING,), choices=choices)
    if not model.sealed:
        yield Step((Event.SEAL,))
        yield Step((Event.SEAL,), choices=FULL)


TASK_ENDED = {
    Event.LOCATED: "searching",
    Event.SEARCH_ENDED: "searching",
    Event.COMMITTED: "uploading",
    Event.COMMITTED_FIRST: "uploading",
    Event.UPLOAD_RETRYABLE: "uploading",
    Event.UPLOAD_ABANDONED: "uploading",
}


def take(model: Model, step: Step) -> tuple[Model, Commands]:
    """Return what comes of ``step``, and its commands; ``model`` stays as it is."""
    after = model.copied()
    commands: Commands = ()
    for event in step.events:
        task = TASK_ENDED.get(event)
        if task is not None:
            setattr(after, task, False)
        elif event in FAILURES:
            after.searching = False  # its result was an error
        commands += after.give(event, step.choices, step.now)
    return after, commands


def begin() -> Model:
    """Return a partition that was just assigned."""
    return Model(RecordedStates(WAKE_AT, Waits()))
