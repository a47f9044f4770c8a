"""Reports of a process's state to systemd: the datagrams of sd_notify(3)."""

from __future__ import annotations

import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType

import structlog


class StopSignal:
    """Set once by SIGTERM or SIGINT; the main thread makes it and waits for it.

    No ``threading.Event``: a signal may interrupt the very thread that holds its lock, in
    ``wait`` or in another signal's ``set``, and would wait for it for ever.
    """

    def __init__(self) -> None:
        """Take the signals over."""
        self._is_set = False
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def is_set(self) -> bool:
        """Return whether a signal came."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait for a signal, at most so long; return whether one came."""
        if not self._is_set:
            with suppress(Empty):
                self._wakeups.get(timeout=max(0.0, seconds))
        return self._is_set

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._is_set = True
        self._wakeups.put(None)  # which a signal may interrupt, too


class Notifier:
    """Sends states to the socket ``address``; None, outside of systemd, sends nothing."""

    def __init__(self, address: str | None) -> None:
        """``address`` is a path, or ``@name`` for an abstract socket."""
        # In the kernel, abstract names begin with a null byte instead of systemd's "@".
        self._address = "\0" + address[1:] if address and address[0] == "@" else address
        self._failed = False

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Notifier:
        """Take the socket of ``NOTIFY_SOCKET``, if there is one."""
        return cls(environment.get("NOTIFY_SOCKET") or None)

    def ready(self) -> None:
        """Report that the process does its work now."""
        self._send("READY=1")

    def watchdog(self) -> None:
        """Report that the loop is alive."""
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """Show one line for people in ``systemctl status``."""
        self._send("STATUS=" + " ".join(text.split()))

    def stopping(self) -> None:
        """Report that the process is stopping."""
        self._send("STOPPING=1")

    def _send(self, state: str) -> None:
        if self._address is None:
            return
        try:
            # A socket for each state: these are few, and the manager may have been started again
            # since.
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.connect(self._address)
                sender.sendall(state.encode())
        except OSError as error:
            # The listener is gone; persisting messages matters more.  Log it once.
            if not self._failed:
                log = structlog.get_logger("secor.systemd")
                log.warning("notify_failed", state=state, error=str(error))
            self._failed = True
