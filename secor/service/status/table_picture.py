"""The tables' part of ``/status.json``, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from secor import __version__
from secor.core.text import iso_time
from secor.service.status.remedies import remedy
from secor.tables.observer import Backlog

if TYPE_CHECKING:
    from secor.service.status.table_board import CyclesKnown, TableKnown, TablesKnown


def age(now: float, then: float | None) -> float | None:
    """Return seconds since ``then``, never less than 0; None for None."""
    return None if then is None else round(max(0.0, now - then), 3)


Values = dict[str, Any]


def coordinator_picture(group: str, known: TablesKnown, now: float, *, alive: bool) -> Values:
    """Return everything that a process shows which only coordinates."""
    return {
        "version": __version__,
        "group": group,
        "instance": known.process,
        "at": iso_time(now),
        "alive": alive,
        "coordination": coordination_picture(known, now),
        "tables": tables_picture(known, now),
    }


def coordination_picture(known: TablesKnown, now: float) -> Values:
    """Return the coordinator, the cycles of this process, and what is staged."""
    return {
        "coordinator": known.coordinator,
        "here": known.leads,
        "epoch": known.epoch,
        "heard_age": age(now, known.heard),
        "state": None if known.state is None else str(known.state),
        "cycles": _cycles(known.cycles, now),
        "conflicts": sum(table.conflicts for table in known.tables),
        "staged": None if known.staged is None else _staged(known.staged, now),
    }


def tables_picture(known: TablesKnown, now: float) -> list[Values]:
    """Return each table that this process knows, by name."""
    return [_table(table, known.staged, now) for table in known.tables]


def _cycles(cycles: CyclesKnown, now: float) -> Values:
    error = cycles.error
    return {
        "complete": cycles.complete,
        "partial": cycles.partial,
        "failed": cycles.failed,
        "last": None
        if cycles.ended is None
        else {
            "at": iso_time(cycles.ended),
            "age": age(now, cycles.ended),
            "seconds": round(cycles.seconds, 3),
            "without_answer": cycles.missing,
        },
        "error": None
        if error is None
        else {
            "at": iso_time(cycles.error_at),
            "age": age(now, cycles.error_at),
            "message": str(error),
            "remedy": remedy(error),
        },
    }


def _table(table: TableKnown, staged: Backlog | None, now: float) -> Values:
    commit, valid = table.commit, table.valid_through
    lacks = None
    if staged is not None:
        lacks = _staged(staged.by_table.get(table.table, Backlog(0, 0, 0, None)), now)
    return {
        "table": table.table,
        "state": table.state,
        "why": table.why,
        "remedy": table.remedy,
        "stopped_partitions": {str(key): why for key, why in sorted(table.stopped.items())},
        "seen_age": age(now, table.seen),
        "last_commit": None
        if commit is None
        else {
            "id": commit.id,
            "at": iso_time(commit.time),
            "age": age(now, commit.time),
            "files": commit.files,
            "rows": commit.rows,
        },
        "valid_through": None if valid is None else iso_time(valid / 1000),
        "valid_through_age": None if valid is None else age(now, valid / 1000),
        "staged": lacks,
        "conflicts": table.conflicts,
    }


def _staged(backlog: Backlog, now: float) -> Values:
    return {
        "batches": backlog.manifests,
        "files": backlog.files,
        "rows": backlog.rows,
        "bytes": backlog.size,
        "oldest_age": age(now, backlog.oldest),
    }
