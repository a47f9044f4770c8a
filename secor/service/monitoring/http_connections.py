"""The connections of the HTTP server: few at once, each for a short time.

They share the process's file descriptors with the batches.  A connection serves one request,
which has ``DEADLINE`` from the first byte to the last.  One connection more than
``MOST_CONNECTIONS`` ends the oldest, so slow clients keep no probe out.
"""

from __future__ import annotations

import errno
import socket
import ssl
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

import structlog

DEADLINE = 10.0
"""Seconds from the connection to the last byte of its answer."""

MOST_CONNECTIONS = 32

_ROOM_AFTER = 1.0
"""Seconds that a new connection waits for the oldest one to end."""

_REST = 0.1
"""Seconds until the next try to accept, when no file descriptor is free."""


class BoundedServer(ThreadingHTTPServer):
    """A thread for each of at most ``most_connections`` connections, each with a deadline.

    With ``tls`` it speaks nothing but TLS.
    """

    # The end of the process waits for no client.
    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        tls: ssl.SSLContext | None = None,
        *,
        deadline: float = DEADLINE,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        """Bind at once.  Raises ``OSError``.  ``deadline`` is in seconds."""
        self._tls = tls
        self._deadline = deadline
        self._most = most_connections
        self._accepted_at: dict[socket.socket, float] = {}
        self._changed = threading.Condition()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    @property
    def connections(self) -> int:
        """Connections open now."""
        return len(self._accepted_at)

    def get_request(self) -> tuple[socket.socket, object]:
        """Accept; the handshake is left to the request's thread, which has a time limit."""
        try:
            accepted, address = super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(_REST)  # it stays readable: the base class would try again at once
            raise
        if self._tls is not None:
            accepted = self._tls.wrap_socket(
                accepted, server_side=True, do_handshake_on_connect=False
            )
        return accepted, address

    def verify_request(self, request: object, client_address: object) -> bool:
        """Make room for a new connection; without room it is closed."""
        assert isinstance(request, socket.socket)
        with self._changed:
            if len(self._accepted_at) >= self._most:
                # The oldest: the dictionary keeps the order in which they came.
                _hang_up(next(iter(self._accepted_at)))
            room = self._changed.wait_for(
                lambda: len(self._accepted_at) < self._most, timeout=_ROOM_AFTER
            )
            if room:
                self._accepted_at[request] = time.monotonic()
            return room

    def close_request(self, request: object) -> None:
        """Close a connection; its place is free."""
        assert isinstance(request, socket.socket)
        # Before its place is given away: the limit is one of file descriptors.
        request.close()
        with self._changed:
            self._accepted_at.pop(request, None)
            self._changed.notify_all()

    def service_actions(self) -> None:
        """Hang up on those that are over their time; called twice a second at least."""
        with self._changed:
            # From the outside: the thread itself waits in a read or a handshake that a slow client
            # keeps alive byte by byte.
            began_before = time.monotonic() - self._deadline
            for connection, accepted_at in self._accepted_at.items():
                if accepted_at <= began_before:
                    _hang_up(connection)

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay quiet about clients that break off or do not speak TLS; defects are logged."""
        level = "debug" if isinstance(sys.exception(), OSError) else "error"
        log = getattr(structlog.get_logger("secor.health"), level)
        log("request_failed", client=str(client_address), exc_info=level == "error")

    def server_bind(self) -> None:
        """Bind without the base class's look at DNS for our own name: it may take long."""
        TCPServer.server_bind(self)
        self.server_name = str(self.server_address[0])
        self.server_port = int(self.server_address[1])


def _hang_up(connection: socket.socket) -> None:
    """End what the connection's thread waits for; that thread closes it."""
    with suppress(OSError):
        # Not the method of a TLS socket, which takes its state from under the thread.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
