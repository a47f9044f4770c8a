"""A watcher of the tables in its own thread: others may change them, and new batches must follow.

Files made for an earlier schema or partition spec stay right, so there is no hurry.  A new plan
needs a new batch: the parser ends the open one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from secor.core.errors import SecorError
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.core.retry import EndedErrors, RepeatedErrors

PATIENCE = 600.0
"""Seconds between two interruptions of one topic partition: one that follows an open intent is
given back the earlier versions, and has to end that first."""

INTERVAL = 60.0
"""Seconds between looks into the catalog."""


class Freshness:
    """The present identity of the tables of one topic; for any thread."""

    def __init__(self, clock: Clock, patience: float = PATIENCE) -> None:
        self._clock = clock
        self._patience = patience
        self._present: tuple[str, frozenset[str]] | None = None
        self._interrupted: dict[TopicPartition, float] = {}
        self._lock = threading.Lock()

    def show(self, identity: str, uuids: frozenset[str]) -> None:
        """Note the present identity of the tables, and their uuids."""
        with self._lock:
            self._present = identity, uuids

    def interrupts(
        self, topic_partition: TopicPartition, identity: str, uuids: frozenset[str]
    ) -> bool:
        """Return whether a batch made for tables of this identity must end.

        Files staged for a table that is gone never get into its successor, so a batch for
        one of its ``uuids`` ends at once.
        """
        with self._lock:
            if self._present is None or self._present[0] == identity:
                return False
            now = self._clock.monotonic()
            last = self._interrupted.get(topic_partition)
            is_gone = not uuids <= self._present[1]
            if not is_gone and last is not None and now < last + self._patience:
                return False
            self._interrupted[topic_partition] = now
            return True


class RefreshThread:
    """Looks again every ``interval`` seconds until it is closed."""

    def __init__(
        self,
        refreshes: Callable[[], Iterable[Callable[[], None]]],
        report: Callable[[SecorError], None],
        interval: float = INTERVAL,
        over: Callable[[EndedErrors], None] = lambda _: None,
    ) -> None:
        """``refreshes`` gives what is to be called; ``report`` is given what the first one raised
        of a row of errors, ``over`` the row once nothing raises any more.
        """
        self._refreshes = refreshes
        self._report = report
        self._interval = interval
        self._over = over
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="table-refresh", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it; a look that is under way is not waited for."""
        self._closing.set()

    def _run(self) -> None:
        repeated = RepeatedErrors(time.monotonic)
        while not self._closing.wait(self._interval):
            failed = False
            for refresh in self._refreshes():
                try:
                    refresh()
                except SecorError as error:
                    failed = True
                    if repeated.failed("refresh", type(error).__name__):
                        self._report(error)
            ended = None if failed else repeated.ended("refresh")
            if ended is not None:
                self._over(ended)
