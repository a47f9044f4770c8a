"""The life of an assigned topic partition: two tables, one for reading, one for uploading.

Pure: ``on`` takes an event and the time, and returns commands.  ``lifecycle`` carries them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, TypeVar


class Reading(StrEnum):
    """States of reading."""

    WAITING = "waiting"
    """Its position is looked for when ``wake_at`` has come, and its predecessor has ended."""
    LOCATING = "locating"
    """A thread looks for its position."""
    READING = "reading"
    """Messages go into the open batch."""
    PAUSED = "paused"
    """As reading, but nothing more is fetched: what is in memory already may still come."""
    STOPPED = "stopped"
    """A person has to act.  It begins again at ``wake_at``, once its uploads have ended."""
    LEAVING = "leaving"
    """Nothing is read any more; the search for its position has still to end."""
    RETIRED = "retired"
    """Nothing is read any more; it is forgotten when its uploads have ended."""


class Uploading(StrEnum):
    """States of uploading sealed batches.  One is uploaded at a time, in order."""

    IDLE = "idle"
    """No sealed batch."""
    QUEUED = "queued"
    """A sealed batch is uploaded at the next round."""
    UPLOADING = "uploading"
    """A thread uploads the first sealed batch."""
    GIVING_UP = "giving up"
    """As uploading, but nobody wants the batch: the thread tries no further attempt."""
    BACKING_OFF = "backing off"
    """The first sealed batch is uploaded again at ``retry_at``."""


class Event(StrEnum):
    """Events of a topic partition.

    Some end its reading.  They say what becomes of it, *restart*, *stop* or *leave* (revoked,
    or the process ends), and whether the messages of the open batch are kept or dropped.
    """

    ROUND = "round"
    """The loop came round; becomes ``WAKE`` or ``UPLOAD_DUE`` if the time for it has come."""
    WAKE = "wake"
    """The time has come to look for the position, or to look at a stopped one again."""
    LOCATED = "located"
    """Its position is known."""
    SEARCH_ENDED = "search ended"
    """The search for the position of a leaving partition came back."""
    HOLD = "hold"
    """The open batch is due but cannot be sealed yet, or a limit is reached."""
    GO = "go"
    """Nothing speaks against reading on."""
    SEAL = "seal"
    """The open batch is due, and no other waits for its upload."""
    RESTART_KEEPING = "restart keeping"
    RESTART_DROPPING = "restart dropping"
    STOP_KEEPING = "stop keeping"
    STOP_DROPPING = "stop dropping"
    LEAVE_KEEPING = "leave keeping"
    LEAVE_DROPPING = "leave dropping"
    SEALED = "sealed"
    """A batch has joined those that wait for their upload."""
    UPLOAD_DUE = "upload due"
    """The time has come to upload the first sealed batch."""
    COMMITTED = "committed"
    """The only sealed batch is committed."""
    COMMITTED_FIRST = "committed first"
    """The first of two sealed batches is committed."""
    UPLOAD_RETRYABLE = "upload retryable"
    """The upload failed for now."""
    UPLOAD_ABANDONED = "upload abandoned"
    """The batch must not be tried again."""


class Command(StrEnum):
    """Commands of the tables; carried out in the order given."""

    LOCATE = "locate"
    """Have the position looked for."""
    READ = "read"
    """Open a batch at the position and have messages fetched from there."""
    PAUSE = "pause"
    RESUME = "resume"
    SEAL = "seal"
    """Seal the open batch and open the next."""
    SEAL_REST = "seal rest"
    """Seal the open batch if it may be cut where it is, else drop it; open none."""
    DROP_OPEN = "drop open"
    """Delete the open batch."""
    RETIRE = "retire"
    """Take it out of the assigned ones."""
    BEGIN_AGAIN = "begin again"
    """Assign the topic partition anew, in its first state."""
    UPLOAD = "upload"
    """Have the first sealed batch uploaded."""
    FORGET = "forget"
    """Delete the local files of the first sealed batch: it is committed."""
    DROP_QUEUED = "drop queued"
    """Delete the sealed batches after the first, which a thread works on."""
    DROP_SEALED = "drop sealed"
    """Delete all sealed batches."""


S = TypeVar("S", Reading, Uploading)
Commands: TypeAlias = tuple[Command, ...]
Table: TypeAlias = Mapping[tuple[S, Event], tuple[S, Commands]]
"""What follows on an event in a state: the next state, and what is to be done."""

_R, _U, _E, _C = Reading, Uploading, Event, Command

_ENDS: Mapping[Event, tuple[Reading, Commands]] = {
    # In this order: the rest is sealed while the partition is still the assigned one, and it is
    # taken out before its successor begins, which has the same key.
    _E.RESTART_KEEPING: (_R.RETIRED, (_C.SEAL_REST, _C.RETIRE, _C.BEGIN_AGAIN)),
    _E.RESTART_DROPPING: (_R.RETIRED, (_C.DROP_OPEN, _C.RETIRE, _C.BEGIN_AGAIN)),
    _E.STOP_KEEPING: (_R.STOPPED, (_C.SEAL_REST,)),
    _E.STOP_DROPPING: (_R.STOPPED, (_C.DROP_OPEN,)),
    _E.LEAVE_KEEPING: (_R.RETIRED, (_C.SEAL_REST, _C.RETIRE)),
    _E.LEAVE_DROPPING: (_R.RETIRED, (_C.DROP_OPEN, _C.RETIRE)),
}

READING: Table[Reading] = {
    (_R.WAITING, _E.WAKE): (_R.LOCATING, (_C.LOCATE,)),
    (_R.WAITING, _E.LEAVE_DROPPING): (_R.RETIRED, (_C.RETIRE,)),
    (_R.LOCATING, _E.LOCATED): (_R.READING, (_C.READ,)),
    (_R.LOCATING, _E.RESTART_DROPPING): (_R.RETIRED, (_C.RETIRE, _C.BEGIN_AGAIN)),
    (_R.LOCATING, _E.STOP_DROPPING): (_R.STOPPED, ()),
    (_R.LOCATING, _E.LEAVE_DROPPING): (_R.LEAVING, (_C.RETIRE,)),
    (_R.LEAVING, _E.SEARCH_ENDED): (_R.RETIRED, ()),
    (_R.READING, _E.SEAL): (_R.READING, (_C.SEAL,)),
    (_R.READING, _E.HOLD): (_R.PAUSED, (_C.PAUSE,)),
    (_R.READING, _E.GO): (_R.READING, ()),
    (_R.PAUSED, _E.SEAL): (_R.PAUSED, (_C.SEAL,)),
    (_R.PAUSED, _E.HOLD): (_R.PAUSED, ()),
    (_R.PAUSED, _E.GO): (_R.READING, (_C.RESUME,)),
    # Pause first: else the source goes on fetching for a partition whose messages nobody takes.
    **{(_R.READING, end): (state, (_C.PAUSE, *rest)) for end, (state, rest) in _ENDS.items()},
    **{(_R.PAUSED, end): row for end, row in _ENDS.items()},
    (_R.STOPPED, _E.WAKE): (_R.RETIRED, (_C.RETIRE, _C.BEGIN_AGAIN)),
    (_R.STOPPED, _E.LEAVE_KEEPING): (_R.RETIRED, (_C.RETIRE,)),
    (_R.STOPPED, _E.LEAVE_DROPPING): (_R.RETIRED, (_C.RETIRE,)),
}
"""A restart retires the object and makes another: nothing of the old reading can leak."""

UPLOADING: Table[Uploading] = {
    (_U.IDLE, _E.WAKE): (_U.IDLE, ()),
    (_U.IDLE, _E.SEAL): (_U.IDLE, ()),
    (_U.IDLE, _E.SEALED): (_U.UPLOADING, (_C.UPLOAD,)),
    (_U.IDLE, _E.RESTART_DROPPING): (_U.IDLE, ()),
    (_U.IDLE, _E.LEAVE_DROPPING): (_U.IDLE, ()),
    # Queued means a second sealed batch, and only the end of a reading makes one (SEAL_REST). So
    # nothing but its turn, or that it leaves, can come here.
    (_U.QUEUED, _E.UPLOAD_DUE): (_U.UPLOADING, (_C.UPLOAD,)),
    (_U.QUEUED, _E.LEAVE_DROPPING): (_U.IDLE, (_C.DROP_SEALED,)),
    (_U.UPLOADING, _E.SEALED): (_U.UPLOADING, ()),
    (_U.UPLOADING, _E.COMMITTED): (_U.IDLE, (_C.FORGET,)),
    (_U.UPLOADING, _E.COMMITTED_FIRST): (_U.QUEUED, (_C.FORGET,)),
    (_U.UPLOADING, _E.UPLOAD_RETRYABLE): (_U.BACKING_OFF, ()),
    (_U.UPLOADING, _E.UPLOAD_ABANDONED): (_U.IDLE, (_C.DROP_SEALED,)),
    # Not idle at once: the thread is still at the files, and may be about to commit. The successor
    # waits for it (``ActivePartitions.must_wait``).
    (_U.UPLOADING, _E.RESTART_DROPPING): (_U.GIVING_UP, (_C.DROP_QUEUED,)),
    (_U.UPLOADING, _E.LEAVE_DROPPING): (_U.GIVING_UP, (_C.DROP_QUEUED,)),
    # A commit is never undone: that nobody wants the batch any more came too late for it.
    (_U.GIVING_UP, _E.COMMITTED): (_U.IDLE, (_C.FORGET,)),
    (_U.GIVING_UP, _E.UPLOAD_RETRYABLE): (_U.IDLE, (_C.DROP_SEALED,)),
    (_U.GIVING_UP, _E.UPLOAD_ABANDONED): (_U.IDLE, (_C.DROP_SEALED,)),
    (_U.BACKING_OFF, _E.SEALED): (_U.BACKING_OFF, ()),
    (_U.BACKING_OFF, _E.UPLOAD_DUE): (_U.UPLOADING, (_C.UPLOAD,)),
    (_U.BACKING_OFF, _E.RESTART_DROPPING): (_U.IDLE, (_C.DROP_SEALED,)),
    (_U.BACKING_OFF, _E.LEAVE_DROPPING): (_U.IDLE, (_C.DROP_SEALED,)),
}
"""Events of both tables happen only where both have a row: a partition wakes, and seals, only
while no other batch is on its way."""

_READING_EVENTS = frozenset(event for _, event in READING)
_UPLOADING_EVENTS = frozenset(event for _, event in UPLOADING)


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds to wait before a restart, a further upload, a look at a stopped partition."""

    restart: float = 1.0
    retry: float = 5.0
    stopped: float = 60.0
    local_files: float = 10.0


class PartitionStates:
    """A state of each table, and the times that the two of them wait for."""

    def __init__(self, wake_at: float, waits: Waits) -> None:
        """Begin ``WAITING`` until ``wake_at``; all times are monotonic seconds."""
        self.reading = Reading.WAITING
        self.uploading = Uploading.IDLE
        self.wake_at = wake_at
        self.retry_at = 0.0
        self._waits = waits

    def on(self, event: Event, now: float) -> Commands:
        """Go to the next states and return what is to be done.

        Each table that knows the event must have a row for it in the present state: its
        absence is a bug (``AssertionError``), and changes nothing.
        """
        # One round may wake the reading and the uploading: each is an event of its own.
        if event is Event.ROUND:
            return tuple(command for due in self._due(now) for command in self.on(due, now))
        reading, uploading = self.reading, self.uploading
        commands: Commands = ()
        further: Commands = ()
        if event in _READING_EVENTS:
            reading, commands = _row(READING, reading, event)
        if event in _UPLOADING_EVENTS:
            uploading, further = _row(UPLOADING, uploading, event)
        # Only on the way in: an upload that ends meanwhile must not put off the next look.
        if reading is Reading.STOPPED and self.reading is not Reading.STOPPED:
            self.wake_at = now + self._waits.stopped
        if event is Event.UPLOAD_RETRYABLE:
            self.retry_at = now + self._waits.retry
        # Only here, after both tables had their row: a bug leaves both states as they were.
        self.reading, self.uploading = reading, uploading
        return commands + further

    def _due(self, now: float) -> Iterator[Event]:
        waiting = self.reading in (Reading.WAITING, Reading.STOPPED)
        # Idle: the table has no row for a position that is looked for during an upload, because the
        # ledger's entry is about to change.
        if waiting and now >= self.wake_at and self.uploading is Uploading.IDLE:
            yield Event.WAKE
        backing_off = self.uploading is Uploading.BACKING_OFF
        if self.uploading is Uploading.QUEUED or (backing_off and now >= self.retry_at):
            yield Event.UPLOAD_DUE

    @property
    def is_reading(self) -> bool:
        """Messages may be appended, whether more is fetched or not."""
        return self.reading in (Reading.READING, Reading.PAUSED)

    @property
    def may_seal(self) -> bool:
        """Only one batch is sealed at a time; the next one fills until that is uploaded."""
        return self.is_reading and self.uploading is Uploading.IDLE

    @property
    def is_uploading(self) -> bool:
        """A thread is at a batch."""
        return self.uploading in (Uploading.UPLOADING, Uploading.GIVING_UP)

    @property
    def ended(self) -> bool:
        """Nothing of it is in work or waits, and nothing will."""
        return self.reading is Reading.RETIRED and self.uploading is Uploading.IDLE


def _row(table: Table[S], state: S, event: Event) -> tuple[S, Commands]:
    if (state, event) not in table:
        raise AssertionError(f"{event.name} cannot happen while {state}")
    return table[state, event]
