"""A board with the tables of a daemon of a table group, for the status page."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from secor.core.errors import SecorError
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.service.status.remedies import remedy
from secor.tables.commit.commit_result import Result, TableResult
from secor.tables.commit.refused_files import describe
from secor.tables.control import ControlEvent, EventKind
from secor.tables.cycle import State
from secor.tables.observer import Backlog

MOST_TABLES = 10_000
"""Tables that are kept; names come from messages, and anybody may write into a topic."""

FROM_COORDINATORS = (EventKind.START_COMMIT, EventKind.COMMIT_TO_TABLE, EventKind.COMMIT_COMPLETE)


class HasState(Protocol):
    """A coordinator, as far as the page shows it."""

    @property
    def state(self) -> State:
        """Its place in the cycle."""


@dataclass(frozen=True, slots=True)
class CommitKnown:
    """The last commit of a table: ``time`` in seconds since the epoch.

    One that another process announced has the id of its cycle, and no numbers.
    """

    id: str
    time: float
    files: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class TableKnown:
    """``state`` is ``unknown``, ``ok``, ``stopped`` or ``failed``, ``why`` the reason.

    ``seen`` is when this process last learnt of the table (seconds since the epoch);
    ``valid_through`` is in milliseconds; ``conflicts`` are counted since the start.
    """

    table: str
    state: str = "unknown"
    why: str | None = None
    remedy: str | None = None
    stopped: Mapping[TopicPartition, str] = field(default_factory=dict)
    seen: float | None = None
    commit: CommitKnown | None = None
    valid_through: int | None = None
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class CyclesKnown:
    """The cycles that this process has coordinated; times in seconds since the epoch."""

    complete: int = 0
    partial: int = 0
    failed: int = 0
    ended: float | None = None
    seconds: float = 0.0
    missing: int = 0
    error: SecorError | None = None
    error_at: float = 0.0


@dataclass(frozen=True, slots=True)
class TablesKnown:
    """All of one moment.

    ``coordinator`` is this ``process`` or the one that was last heard, at ``heard`` (seconds
    since the epoch); ``state`` is None in a process that never coordinates; ``staged`` None in
    one that does not coordinate now.
    """

    process: str
    coordinator: str | None
    epoch: int | None
    heard: float | None
    state: State | None
    cycles: CyclesKnown
    staged: Backlog | None
    tables: tuple[TableKnown, ...]

    @property
    def leads(self) -> bool:
        """This process coordinates."""
        return self.coordinator == self.process


class TableBoard:
    """The loop and the coordinator write here, the HTTP server reads; nobody waits for long."""

    def __init__(self, clock: Clock, process: str, tables: Iterable[str] = ()) -> None:
        """``process`` is the name of this one, ``tables`` are those of the configuration."""
        self._clock = clock
        self._process = process
        self._lock = threading.Lock()
        self._tables = {table: TableKnown(table) for table in tables}
        self._coordinator: str | None = None
        self._epoch: int | None = None
        self._heard: float | None = None
        self._cycles = CyclesKnown()
        self._staged: Backlog | None = None
        self._watched: HasState | None = None

    def watch(self, coordinator: HasState) -> None:
        """Take this process's coordinator."""
        self._watched = coordinator

    # ------------------------------------------------------------- the loop

    def hear(self, event: ControlEvent) -> None:
        """Take an event of the control topic; what this process sent is known already."""
        if event.kind not in FROM_COORDINATORS or event.sender == self._process:
            return
        now = self._clock.now()
        with self._lock:
            if self._coordinator != self._process:
                self._coordinator, self._epoch, self._heard = event.sender, event.epoch, now
            if event.kind is EventKind.COMMIT_TO_TABLE and event.table is not None:
                table = self._table(event.table)
                valid = table.valid_through if event.valid_through is None else event.valid_through
                commit = CommitKnown(event.commit, now)
                self._keep(TableKnown(event.table, "ok", seen=now, commit=commit), table, valid)

    # ------------------------------------------------- the coordinator's thread

    def lead(self, leads: bool, epoch: int) -> None:
        """This process coordinates, or ceases to: then others know how the tables are."""
        with self._lock:
            self._staged, self._heard = None, None
            self._coordinator, self._epoch = (self._process, epoch) if leads else (None, None)
            if not leads:
                for name, table in self._tables.items():
                    self._tables[name] = replace(
                        table, state="unknown", why=None, remedy=None, stopped={}
                    )

    def end_cycle(self, seconds: float, missing: int) -> None:
        """Count a cycle that went through."""
        with self._lock:
            cycles = self._cycles
            self._cycles = replace(
                cycles,
                complete=cycles.complete + (not missing),
                partial=cycles.partial + bool(missing),
                ended=self._clock.now(),
                seconds=seconds,
                missing=missing,
                error=None,
            )

    def fail_cycle(self, error: SecorError) -> None:
        """Count a cycle that found a server out; the error stays until one goes through."""
        with self._lock:
            self._cycles = replace(
                self._cycles,
                failed=self._cycles.failed + 1,
                error=error,
                error_at=self._clock.now(),
            )

    def show_result(self, result: TableResult) -> None:
        """Take what came of a table in a cycle."""
        now = self._clock.now()
        with self._lock:
            table = self._table(result.table)
            commit, valid = table.commit, table.valid_through
            if result.result is Result.COMMITTED and result.commit is not None:
                commit = CommitKnown(result.commit, now, result.files, result.records)
                valid = valid if result.valid_through is None else result.valid_through
            why = [] if result.error is None else [str(result.error)]
            why += describe(result.table, result.refused)
            fresh = TableKnown(
                result.table,
                _state(result),
                "; ".join(why) or None,
                None if result.error is None else remedy(result.error),
                dict(result.stopped),
                seen=now,
                commit=commit,
                conflicts=result.conflicts,
            )
            self._keep(fresh, table, valid)

    def show_staged(self, backlog: Backlog) -> None:
        """Take what is staged at the end of a cycle."""
        with self._lock:
            self._staged = backlog

    # ------------------------------------------------------------ any thread

    def known(self) -> TablesKnown:
        """Return everything, of one moment; the tables by name."""
        state = None if self._watched is None else self._watched.state
        with self._lock:
            return TablesKnown(
                process=self._process,
                coordinator=self._coordinator,
                epoch=self._epoch,
                heard=self._heard,
                state=state,
                cycles=self._cycles,
                staged=self._staged,
                tables=tuple(self._tables[name] for name in sorted(self._tables)),
            )

    def _table(self, name: str) -> TableKnown:
        return self._tables.get(name, TableKnown(name))

    def _keep(self, fresh: TableKnown, before: TableKnown, valid_through: int | None) -> None:
        """Store a table; beyond ``MOST_TABLES`` the one that was seen longest ago goes."""
        self._tables[fresh.table] = replace(
            fresh,
            valid_through=valid_through,
            conflicts=before.conflicts + fresh.conflicts,
        )
        if len(self._tables) > MOST_TABLES:
            others = (table for name, table in self._tables.items() if name != fresh.table)
            oldest = min(others, key=lambda table: table.seen or 0.0)
            del self._tables[oldest.table]


def _state(result: TableResult) -> str:
    if result.result is Result.FAILED:
        return "failed"
    stops = result.result is Result.STOPPED or result.stopped or result.refused
    return "stopped" if stops else "ok"
