"""The process around the loop: signals, the order of stopping, the service manager."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Protocol

import structlog

from secor.consumer import Consumer
from secor.ports import Clock

POLL = 0.25
"""Seconds that the loop waits for messages before it looks at ages and results again."""

REPORT_EVERY = 1.0
LEFT_AT_ONCE = 130


class ServiceManager(Protocol):
    """What a service manager wants to hear."""

    def ready(self) -> None:
        """The process does its work now."""

    def watchdog(self) -> None:
        """The loop is alive."""

    def status(self, text: str) -> None:
        """One line for people."""

    def stopping(self) -> None:
        """The process is on its way out."""


class Daemon:
    """Runs a consumer until SIGTERM or SIGINT, drains it, then closes what it stands on.

    The first signal drains: what the plans upload on shutdown is uploaded while the
    group membership, and with it the leases, is kept.  A second signal leaves at once;
    local files are a cache and every upload can be taken up by the next process.
    """

    def __init__(
        self,
        consumer: Consumer,
        *,
        clock: Clock,
        service_manager: ServiceManager,
        beat: Callable[[], None],
        report: Callable[[], None],
        close: Sequence[Callable[[], None]],
        drain_timeout: float,
    ) -> None:
        """``close`` is called in order at the end; ``drain_timeout`` is in seconds."""
        self._consumer = consumer
        self._clock = clock
        self._manager = service_manager
        self._beat = beat
        self._report = report
        self._close = close
        self._drain_timeout = drain_timeout
        self._stopping = False
        self._reported = float("-inf")
        self._log = structlog.get_logger("secor.daemon")

    def run(self) -> None:
        """Block until a signal has been obeyed.  Whatever the loop raises ends the process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        try:
            self._manager.ready()
            while not self._stopping:
                self._turn()
            self._drain()
        finally:
            for step in self._close:
                step()

    def stop(self) -> None:
        """End the loop after its present turn."""
        self._stopping = True

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._stopping:
            os._exit(LEFT_AT_ONCE)
        self.stop()

    def _turn(self) -> None:
        self._consumer.run_once(POLL)
        self._beat()
        now = self._clock.monotonic()
        if now - self._reported >= REPORT_EVERY:
            self._reported = now
            self._manager.watchdog()
            self._report()

    def _drain(self) -> None:
        self._manager.stopping()
        self._log.info("draining", timeout=self._drain_timeout)
        deadline = self._clock.monotonic() + self._drain_timeout
        self._consumer.drain()
        while not self._consumer.drained and self._clock.monotonic() < deadline:
            self._turn()
        if self._consumer.drained:
            self._log.info("drained")
        else:
            self._log.warning("not_drained", next="the next process reads the rest again")
