"""Reconcile: what the ledger's committed offset and intent mean for a sealed batch; pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from secor.core.model import Entry, OffsetRange


class Action(Enum):
    """One row of the table in DESIGN.md."""

    UPLOAD = "upload"
    """No intent yet: record ours, put, commit."""
    RESUME = "resume"
    """The entry has our very intent: look what is there, put the rest, commit."""
    SUPERSEDE = "supersede"
    """An intent of this range under another configuration: record ours, then as RESUME."""
    RESTART = "restart"
    """The batch does not fit the ledger: drop it and begin at the ledger's entry."""
    LEDGER_LOST = "ledger lost"
    """The entry is gone: stop, never guess."""
    LEDGER_EDITED = "ledger edited"
    """``committed`` was moved under an open intent: stop."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An action and, for logs and errors, why."""

    action: Action
    why: str


def reconcile(batch: OffsetRange, fingerprint: str, entry: Entry) -> Decision:
    """Decide about the sealed ``batch`` made under ``fingerprint``.

    Every batch begins at an entry that was read, so a missing entry is always a lost one.
    An intent that ends elsewhere restarts: the new reading then seals exactly at its end.
    """
    committed, intent = entry.committed, entry.intent
    if committed is None:
        return Decision(Action.LEDGER_LOST, "the entry that was read before is gone")
    # Before the start is compared: an offset that somebody moved mostly differs from the batch's
    # start, too, and a restart would not name the cause.
    if intent is not None and intent.start != committed:
        why = f"committed is {committed}, the open intent begins at {intent.start}"
        return Decision(Action.LEDGER_EDITED, why)
    if committed != batch.start:
        why = f"committed is {committed}, the batch begins at {batch.start}"
        return Decision(Action.RESTART, why)
    if intent is None:
        return Decision(Action.UPLOAD, "no intent is open")
    # Before the fingerprints: names depend on where the range begins, so a batch with another end
    # would put its objects under the names that the intent has fixed for another range.
    if intent.end != batch.end:
        why = f"the open intent ends at {intent.end}, the batch at {batch.end}"
        return Decision(Action.RESTART, why)
    if intent.fingerprint != fingerprint:
        why = f"the open intent was recorded under the configuration {intent.fingerprint}"
        return Decision(Action.SUPERSEDE, why)
    # Whose intent it is makes no difference: names and content follow from range and fingerprint.
    return Decision(Action.RESUME, "the open intent is of this batch")
