"""The intent of a batch, recorded in the ledger; for how long a won write proves the lease."""

from __future__ import annotations

import threading

from secor.batch.sealed import SealedBatch
from secor.core.errors import LeaseLost, Unavailable
from secor.core.model import Entry, Intent, Superseded
from secor.core.naming import further_roots
from secor.core.ports import Clock, Lease

WRITES = 5
"""Writes in a row that may be answered too late to prove anything."""


def intent_of(batch: SealedBatch, recorded: Intent | None, owner: str, now: float) -> Intent:
    """Return the intent of ``batch``, which remembers the configurations that it supersedes."""
    return Intent(
        start=batch.range.start,
        end=batch.range.end,
        fingerprint=batch.fingerprint,
        owner=owner,
        at=now,
        root=batch.plan.root,
        supersedes=_supersedes(recorded, batch.fingerprint),
        also=further_roots(batch.plan.root, batch.plan.roots),
    )


def _supersedes(intent: Intent | None, fingerprint: str) -> tuple[Superseded, ...]:
    """All configurations under which objects of the open intent may exist, except ours."""
    if intent is None:
        return ()
    # The earlier ones stay in the list: a superseding intent may itself be superseded before it
    # commits, and objects of all of them may exist.
    tried = (*intent.supersedes, Superseded(intent.fingerprint, intent.root, intent.also))
    return tuple(dict.fromkeys(old for old in tried if old.fingerprint != fingerprint))


def record_intent(lease: Lease, before: Entry, intent: Intent, clock: Clock) -> LeaseProof:
    """Write the intent over the entry as it was read, and return what that proves.

    Raises ``LeaseLost`` where the write is refused, ``OutcomeUnknown`` where it has no answer.
    """
    # Read before the write: the answer may sleep, and the proof is as old as the question.
    won_at = clock.monotonic()
    recorded = lease.record(before, intent)
    return LeaseProof(lease, recorded, intent, won_at, clock)


class LeaseProof:
    """The recorded intent, and how long its write proves that nobody else may act."""

    def __init__(
        self, lease: Lease, entry: Entry, intent: Intent, won_at: float, clock: Clock
    ) -> None:
        """``entry`` as the won write left it; ``won_at`` in monotonic seconds, before the write."""
        self._lease = lease
        self._clock = clock
        self.intent = intent
        self.entry = entry
        self._renewing = threading.Lock()
        self._won_at = won_at

    def renew(self) -> None:
        """Raise ``LeaseLost`` unless the lease is held; prove it anew by a write if that is due.

        A process that slept past its session still believes in its lease: the write is refused.
        """
        # One write proves the lease for all put threads.
        with self._renewing:
            for _ in range(WRITES):
                if not self._lease.held():
                    raise LeaseLost("the lease ended before a put or a deletion")
                # Read before the write, never after: the process may sleep between any two lines,
                # and the proof must not look younger than the write that made it.
                began = self._clock.monotonic()
                if began - self._won_at < self._lease.trust:
                    return
                self.entry = self._lease.record(self.entry, self.intent)
                self._won_at = began
            # Each write is followed by another look at the clock: its answer may have slept, too.
            raise Unavailable(
                f"{self.intent.root}: the ledger's answers take longer than"
                f" {self._lease.trust:g} s, too long to prove the lease"
            )
