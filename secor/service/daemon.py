"""The process around the loop: signals, the order of stopping, the service manager."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

import structlog

from secor.core.ports import Clock
from secor.service.startup import Hindrance

POLL = 0.25
"""Seconds that the loop waits for messages before it looks at ages and results again."""

REPORT_EVERY = 1.0

READY_AFTER = 30.0
"""Seconds of connecting after which the process counts as started, and waits for servers.

Mistakes show sooner and fail the start; a boot is not held up by a server that is out.
"""

LEFT_AT_ONCE = 130


class ServiceManager(Protocol):
    """The interface of a service manager."""

    def ready(self) -> None:
        """The process does its work now."""

    def watchdog(self) -> None:
        """The loop is alive."""

    def status(self, text: str) -> None:
        """One line for people."""

    def stopping(self) -> None:
        """The process is on its way out."""


class DaemonLoop(Protocol):
    """The daemon's view of a ``Consumer``."""

    def run_once(self, timeout: float) -> None:
        """Do what is due; wait at most ``timeout`` seconds for messages."""

    def drain(self) -> None:
        """Read no more, and upload what is to be uploaded at the end."""

    @property
    def drained(self) -> bool:
        """Nothing is in work any more."""


@dataclass(frozen=True, slots=True)
class ConnectedParts:
    """The parts that exist once all servers have answered; ``close`` gives them up."""

    consumer: DaemonLoop
    report: Callable[[], None]
    close: Callable[[], None]


class Connector(Protocol):
    """The daemon's part of ``ConnectionAttempts``; ``poll`` raises what waiting cannot fix."""

    @property
    def hindrance(self) -> Hindrance:
        """The server that is waited for at this moment."""

    def start(self) -> None:
        """Begin to connect."""

    def poll(self, timeout: float) -> ConnectedParts | None:
        """Return what was connected; None when there is nothing after ``timeout`` seconds."""

    def abandon(self) -> None:
        """Connect no more, and close what was opened."""


class ThreadDefects:
    """Threads that ended by an exception: without them the process would only seem to work.

    Without the coordinator's thread, for one, it would stage for ever and commit nothing.  Threads
    expect the errors of their servers; whatever else ends one is a defect.
    """

    def __init__(self) -> None:
        """Take ``threading.excepthook`` until ``close``; what was there prints the traceback."""
        self._before = threading.excepthook
        self._defect: threading.ExceptHookArgs | None = None
        threading.excepthook = self._ended

    def check(self) -> None:
        """Raise ``RuntimeError``, from what the first thread raised, if one has ended by it."""
        if self._defect is not None:
            name = self._defect.thread.name if self._defect.thread is not None else "?"
            raise RuntimeError(f"the thread {name} has ended") from self._defect.exc_value

    def close(self) -> None:
        """Give the hook back."""
        threading.excepthook = self._before

    def _ended(self, defect: threading.ExceptHookArgs) -> None:
        self._before(defect)
        self._defect = self._defect or defect


class Daemon:
    """Connects, runs a consumer until SIGTERM or SIGINT, drains it, closes its clients.

    Servers that are out at the start are waited for.  The first signal drains: what the
    plans upload on shutdown is uploaded while the group membership, and with it the leases,
    is kept.  A second signal leaves at once; local files are a cache and every upload can be
    taken up by the next process.
    """

    def __init__(
        self,
        connecting: Connector,
        *,
        clock: Clock,
        service_manager: ServiceManager,
        beat: Callable[[], None],
        waiting: Callable[[Hindrance], None],
        close: Callable[[], None],
        drain_timeout: float,
    ) -> None:
        """``waiting`` is called about once a second with what the start waits for.

        ``close`` is called last of all; ``drain_timeout`` is in seconds.
        """
        self._connecting = connecting
        self._clock = clock
        self._manager = service_manager
        self._beat = beat
        self._waiting = waiting
        self._close = close
        self._drain_timeout = drain_timeout
        self._stopping = False
        self._reported = float("-inf")
        self._log = structlog.get_logger("secor.daemon")

    def run(self) -> bool:
        """Block until a signal has been obeyed; return whether nothing is in work any more.

        Raises errors of connecting that waiting cannot fix; whatever the loop raises, or ends a
        thread, ends the process.
        """
        # Before connecting: a start that waits for servers obeys a signal, too.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        defects = ThreadDefects()
        try:
            working = self._connected()
            return True if working is None else self._work(working, defects)
        finally:
            defects.close()
            self._close()

    def stop(self) -> None:
        """End the loop after its present turn."""
        self._stopping = True

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._stopping:
            # A second signal: nothing is cleaned up, and nothing needs to be.  An upload that was
            # under way is finished by the process that reads its intent next.
            os._exit(LEFT_AT_ONCE)
        self.stop()

    def _connected(self) -> ConnectedParts | None:
        """Wait for the servers; None when a signal came first."""
        began = self._clock.monotonic()
        # In a thread of its own: where packets vanish, one attempt takes minutes, and this loop has
        # to answer the watchdog and signals meanwhile.
        self._connecting.start()
        while not self._stopping:
            working = self._connecting.poll(POLL)
            if working is not None:
                self._log.info("connected", seconds=round(self._clock.monotonic() - began, 1))
                return working
            self._pulse(lambda: self._still_waiting(began))
        self._manager.stopping()
        self._connecting.abandon()
        return None

    def _still_waiting(self, began: float) -> None:
        self._waiting(self._connecting.hindrance)
        if self._clock.monotonic() - began >= READY_AFTER:
            # A boot waits for this process as long as it is not ready: a server that is out for
            # hours must not hold up the whole machine.
            self._manager.ready()

    def _work(self, working: ConnectedParts, defects: ThreadDefects) -> bool:
        try:
            self._manager.ready()
            while not self._stopping:
                self._turn(working)
                # Not in the drain: what is read already may be stored without that thread.
                defects.check()
            return self._drain(working)
        finally:
            # After the drain, never before: closing leaves the consumer group, and a lease is only
            # worth something while the group still counts this process as the partition's owner.
            working.close()

    def _turn(self, working: ConnectedParts) -> None:
        working.consumer.run_once(POLL)
        self._pulse(working.report)

    def _pulse(self, report: Callable[[], None]) -> None:
        """Report that the loop is alive, and now and then its state."""
        self._beat()
        now = self._clock.monotonic()
        if now - self._reported >= REPORT_EVERY:
            self._reported = now
            # From the loop's own thread. A thread for the watchdog alone would report life from a
            # process whose loop hangs.
            self._manager.watchdog()
            report()

    def _drain(self, working: ConnectedParts) -> bool:
        # Said first: a status page asked now shows a process that ends, not one that hangs.
        self._manager.stopping()
        self._log.info("draining", timeout=self._drain_timeout)
        # Before the drain begins: what it uploads counts for the time that the service manager
        # grants.
        deadline = self._clock.monotonic() + self._drain_timeout
        working.consumer.drain()
        # The loop keeps turning while it drains: it polls, and so stays in the group.
        while not working.consumer.drained and self._clock.monotonic() < deadline:
            self._turn(working)
        if working.consumer.drained:
            self._log.info("drained")
            return True
        self._log.warning("not_drained", next="the next process reads the rest again")
        return False
