"""Relocation of a group's ledger: which ledger it is, and what a ledger records of a move."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from secor.core.errors import LedgerMoved
from secor.core.model import Entry

_PAGE = '"Another ledger" in docs/upgrade.md'


class Direction(StrEnum):
    """The side of a move that a ledger is on; the values are keys of the record."""

    MOVED_TO = "moved_to"
    RECEIVING_FROM = "receiving_from"


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """A ledger of one group: ``name`` for people, ``id`` the same by whatever address.

    ``id`` is None where nobody has given it one yet.
    """

    name: str
    id: str | None


@dataclass(frozen=True, slots=True)
class Relocation:
    """A ledger's record of a move: while it is there, no process may use the ledger.

    ``ledger`` and ``ledger_id`` are the place of the other one; ``at`` is a time in ISO 8601.
    """

    direction: Direction
    ledger: str
    ledger_id: str
    at: str
    by: str

    def concerns(self, direction: Direction, other: LedgerPlace) -> bool:
        """Return whether it records a move to, or from, the other ledger."""
        return self.direction is direction and self.ledger_id == other.id


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """An entry of a ledger that may be closed; ``relocation`` is what the entry itself says.

    ``version`` is the ledger's, for the write that replaces the entry.
    """

    entry: Entry
    relocation: Relocation | None
    version: object


def refusal(group: str, here: str, relocation: Relocation) -> LedgerMoved:
    """Return why nobody may use a ledger with this record, and what to do."""
    made = f"on {relocation.at} by {relocation.by}"
    if relocation.direction is Direction.MOVED_TO:
        return LedgerMoved(
            f"group {group}: its offsets were moved from {here} to {relocation.ledger} {made}:"
            " this configuration's [ledger] is no longer the group's. Configure that one; to go"
            f" back, stop all processes and say 'secor offsets move NEW OLD', see {_PAGE}"
        )
    return LedgerMoved(
        f"group {group}: moving its offsets from {relocation.ledger} to {here} began {made}"
        f" and is not finished: say 'secor offsets move OLD NEW' again, see {_PAGE}"
    )
