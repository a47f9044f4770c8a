"""kazoo's threads, which wait for their sockets at a fraction of the CPU."""

from __future__ import annotations

import math
import select
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from secor.adapters.zookeeper.sockets import BufferedSocket, WakeUps

_ERRORS = ~(select.POLLIN | select.POLLOUT)


class PollingHandler(SequentialThreadingHandler):
    """Waits by ``poll``, and only where nothing is known to be ready.

    For each wait, some five in a request, kazoo makes an epoll object, adds its sockets and
    closes it again: a quarter of a request's CPU.
    """

    def __init__(self) -> None:
        super().__init__()
        self._wake_ups: WakeUps | None = None

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **options: Any
    ) -> BufferedSocket:
        """Connect to an address of ``hostname``.  Raises ``OSError``."""
        connected = super().create_connection(address, hostname, timeout, **options)
        return BufferedSocket(connected, timeout)

    def create_socket_pair(self) -> tuple[WakeUps, WakeUps]:
        """Return the ends by which requests wake the loop."""
        wake_ups = self._wake_ups = WakeUps()
        return wake_ups, wake_ups

    @contextmanager
    def in_one_send(self) -> Iterator[None]:
        """Send what this thread asks for meanwhile at once, at the end."""
        with nullcontext() if self._wake_ups is None else self._wake_ups.in_one_send():
            yield

    def select(
        self,
        readers: Sequence[Any],
        writers: Sequence[Any],
        _: Sequence[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return which of them are ready, as ``select.select``; ``timeout`` in seconds.

        One with an error is ready: whoever uses it meets the error.  Raises ``ValueError`` for
        one that is closed.
        """
        # Requests that follow each other closely are sent together.
        if not any(isinstance(item, WakeUps) and item.pending() for item in readers):
            for item in readers:
                if isinstance(item, BufferedSocket):
                    item.flush()
        readable = [item for item in readers if _has_pending(item)]
        writable = [item for item in writers if isinstance(item, BufferedSocket)]
        if readable or writable:
            return readable, writable, []
        return *_poll(readers, writers, timeout), []


def _has_pending(item: Any) -> bool:
    return isinstance(item, BufferedSocket | WakeUps) and item.pending() > 0


def _poll(
    readers: Sequence[Any], writers: Sequence[Any], timeout: float | None
) -> tuple[list[Any], list[Any]]:
    waits = [(item, item.fileno(), select.POLLIN) for item in readers]
    waits += [(item, item.fileno(), select.POLLOUT) for item in writers]
    wanted: Counter[int] = Counter()
    for _item, descriptor, event in waits:
        wanted[descriptor] |= event
    poll = select.poll()
    for descriptor, events in wanted.items():
        poll.register(descriptor, events)
    happened = dict(poll.poll(None if timeout is None else math.ceil(timeout * 1000)))
    if any(events & select.POLLNVAL for events in happened.values()):
        raise ValueError("a socket was closed")
    ready: dict[int, list[Any]] = {select.POLLIN: [], select.POLLOUT: []}
    for item, descriptor, event in waits:
        if happened.get(descriptor, 0) & (event | _ERRORS):
            ready[event].append(item)
            if isinstance(item, BufferedSocket):
                item.note_ready()
    return ready[select.POLLIN], ready[select.POLLOUT]
