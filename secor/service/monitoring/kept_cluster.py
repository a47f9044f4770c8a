"""The age of the cluster's kept state, for metrics and the status page."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from secor.core.ports import Clock

if TYPE_CHECKING:
    from secor.service.metrics import Metrics


@dataclass(frozen=True, slots=True)
class KeptKind:
    """The last good look at a kind, in seconds since 1970, and the error since then."""

    kind: str
    last_success: float | None
    error: str | None


class KeptClusterBoard:
    """The last look at each kind by this process; empty while another process looks.

    The keeper's thread writes; others read.
    """

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: dict[str, KeptKind] = {}

    def kept(self, kind: str, now: float) -> None:
        """Record a good look."""
        with self._lock:
            self._kinds[kind] = KeptKind(kind, now, None)
        self._metrics.cluster_kept.labels(kind).set(now)
        # From zero on: Prometheus sees no increase to the first value of a series.
        self._metrics.cluster_failures.labels(kind)

    def failed(self, kind: str, error: str) -> None:
        """Record a look that failed."""
        with self._lock:
            before = self._kinds.get(kind)
            self._kinds[kind] = KeptKind(kind, before.last_success if before else None, error)
        self._metrics.cluster_failures.labels(kind).inc()

    def denied(self, groups: int) -> None:
        """Count groups that this user may not see as a failure."""
        if groups:
            self._metrics.cluster_failures.labels("groups").inc()

    def clear(self) -> None:
        """Forget everything: another process looks, and reports."""
        with self._lock:
            kinds = [
                kept_kind.kind
                for kept_kind in self._kinds.values()
                if kept_kind.last_success is not None
            ]
            self._kinds.clear()
        for kind in kinds:
            self._metrics.cluster_kept.remove(kind)

    def rows(self) -> list[dict[str, object]]:
        """Return a row of each kind for the status page, with its age in seconds."""
        now = self._clock.now()
        with self._lock:
            kinds = sorted(self._kinds.values(), key=lambda kind: kind.kind)
        return [
            {
                "kind": kept_kind.kind,
                "age": None
                if kept_kind.last_success is None
                else max(0.0, now - kept_kind.last_success),
                "error": kept_kind.error,
            }
            for kept_kind in kinds
        ]
