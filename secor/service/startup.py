"""The start of a process: servers that are out are waited for, mistakes are not."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Generic, Protocol, TypeVar

from secor.core.errors import OutcomeUnknown, SecorError, Unavailable
from secor.core.ports import Clock
from secor.core.retry import delay

ABANDONED = 5.0
"""Seconds that the end of the process waits for an attempt in work to close what it opened."""

Doing = Callable[[str], None]
"""Called with the server's name, such as ``the object store``, before it is asked."""


class Closable(Protocol):
    """The result of ``connect``."""

    def close(self) -> None:
        """Give up everything that was opened for it."""


C = TypeVar("C", bound=Closable)


@dataclass(frozen=True, slots=True)
class Hindrance:
    """A server that does not answer: since when (monotonic), and the last error, if any."""

    server: str
    since: float
    error: SecorError | None


class ConnectionAttempts(Generic[C]):
    """Calls ``connect`` in a thread of its own, again and again while a server is out.

    Each attempt begins anew: what one has opened it closes before it raises.  The caller
    goes on turning meanwhile: an attempt may take minutes where packets vanish.
    """

    def __init__(self, connect: Callable[[Doing], C], *, clock: Clock, rng: random.Random) -> None:
        """Start nothing yet."""
        self._connect = connect
        self._clock = clock
        self._rng = rng
        self._asked = ""
        self._hindrance = Hindrance("the servers", clock.monotonic(), None)
        self._connected: C | None = None
        self._refused: SecorError | None = None
        self._abandoned = threading.Event()
        self._ended = threading.Event()
        # A daemon thread: an attempt that hangs does not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="connecting", daemon=True)

    @property
    def hindrance(self) -> Hindrance:
        """The server that is waited for at this moment."""
        return self._hindrance

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def poll(self, timeout: float) -> C | None:
        """Return the connection; None when there is none after ``timeout`` seconds.

        Raises the ``SecorError`` that waiting cannot fix.
        """
        if not self._ended.wait(timeout):
            return None
        if self._refused is not None:
            raise self._refused
        if self._connected is None:
            raise RuntimeError("connecting ended by a defect; its traceback is above")
        return self._connected

    def abandon(self) -> None:
        """Connect no more, and close what was opened, or is soon."""
        self._abandoned.set()
        # One that still hangs is left alone: the process ends, and its sockets with it.
        if self._ended.wait(ABANDONED) and self._connected is not None:
            self._connected.close()

    def _work(self) -> None:
        try:
            connected = self._until_connected()
            # The caller has gone: nobody else would close it, and it would stay in the consumer
            # group until its session ends.
            if connected is not None and self._abandoned.is_set():
                connected.close()
                return
            # Before ``_ended`` is set: the caller reads it without a lock once it sees that.
            self._connected = connected
        except SecorError as error:
            self._refused = error
        finally:
            self._ended.set()

    def _until_connected(self) -> C | None:
        for attempt in count():
            self._asked = ""
            try:
                return self._connect(self._ask)
            except (Unavailable, OutcomeUnknown) as error:
                known = self._hindrance
                # As long as it is the same server, the time counts on, through all attempts.
                since = known.since if known.server == self._asked else self._clock.monotonic()
                self._hindrance = Hindrance(self._asked, since, error)
            # A wait that ends at once when the process is to stop, where ``sleep`` would not.
            if self._abandoned.wait(delay(attempt, rng=self._rng)):
                break
        return None

    def _ask(self, server: str) -> None:
        # Every attempt asks all of them, in the same order: one that is out stays the
        # hindrance until it has answered, which is when the next one is asked.
        answered, self._asked = self._asked, server
        if self._hindrance.error is None or self._hindrance.server == answered:
            self._hindrance = Hindrance(server, self._clock.monotonic(), None)
