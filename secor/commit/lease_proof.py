"""The intent that a batch records, and for how long a won write proves the lease."""

from __future__ import annotations

import threading

from secor.batch.sealed import SealedBatch
from secor.core.errors import LeaseLost, Unavailable
from secor.core.model import Entry, Intent, Superseded
from secor.core.naming import roots_beside
from secor.core.ports import Clock, Lease

WRITES = 5
"""Writes in a row that may be answered too late to prove anything."""


def intent_of(batch: SealedBatch, standing: Intent | None, owner: str, at: float) -> Intent:
    """Return the intent of ``batch``, which remembers the configurations that it supersedes."""
    return Intent(
        start=batch.range.start,
        end=batch.range.end,
        fingerprint=batch.fingerprint,
        owner=owner,
        at=at,
        root=batch.plan.root,
        supersedes=_supersedes(standing, batch.fingerprint),
        also=roots_beside(batch.plan.root, batch.plan.roots),
    )


def _supersedes(intent: Intent | None, fingerprint: str) -> tuple[Superseded, ...]:
    """All configurations under which objects of the open intent may exist, except ours."""
    if intent is None:
        return ()
    tried = (*intent.supersedes, Superseded(intent.fingerprint, intent.root, intent.also))
    return tuple(dict.fromkeys(old for old in tried if old.fingerprint != fingerprint))


class LeaseProof:
    """The recorded intent, and how long its write proves that nobody else may act."""

    def __init__(self, lease: Lease, entry: Entry, intent: Intent, clock: Clock) -> None:
        self._lease = lease
        self._clock = clock
        self.intent = intent
        self._renewing = threading.Lock()
        self._won_at = clock.monotonic()
        self.entry = lease.record(entry, intent)

    def renew(self) -> None:
        """Raise ``LeaseLost`` unless the lease is held; prove it anew by a write if that is due.

        A process that slept past its session still believes in its lease: the write tells.
        """
        with self._renewing:
            for _ in range(WRITES):
                if not self._lease.held():
                    raise LeaseLost("the lease ended before a put or a deletion")
                began = self._clock.monotonic()
                if began - self._won_at < self._lease.trust:
                    return
                self.entry = self._lease.record(self.entry, self.intent)
                self._won_at = began
            # Looked at again after each write: its answer may have slept as well as we.
            raise Unavailable(
                f"{self.intent.root}: the ledger's answers take longer than"
                f" {self._lease.trust:g} s, too long to prove the lease"
            )
