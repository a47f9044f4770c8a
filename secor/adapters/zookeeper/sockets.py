"""Sockets for kazoo's loop that ask the system less often.

kazoo waits before each send and before each of the two reads of an answer, sends each request
by itself, and wakes its loop by a byte for each.  Nearly always the socket is ready, the rest
of the answer came along with its first bytes, the loop is awake, and the next request is there.
So after each wait all that is there is sent and read (``exchanges.ExchangeConnection``).
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading

_WINDOW = 65536
"""Bytes that are read at once, and that may wait to be sent together."""

_LENGTH = struct.Struct("!i")
"""What an answer begins with: the bytes that follow."""


class BufferedSocket:
    """A connection that reads all that has come at once, and sends when ``flush`` is called."""

    def __init__(self, connected: socket.socket, timeout: float) -> None:
        """Take a connected socket, of TLS or not; ``timeout`` is the seconds of one sending."""
        self._socket = connected
        self._timeout = timeout
        self._ahead = memoryview(b"")
        self._unsent = bytearray()
        self._is_ready = False

    def pending(self) -> int:
        """Return how many bytes ``recv`` gives without waiting, at least."""
        if self._ahead:
            return len(self._ahead)
        # One byte is what a socket has that was waited for; its end counts as one.
        return 1 if self._is_ready else self._decrypted()

    def frame(self) -> memoryview | None:
        """Return the next answer, without its length, if it has been read whole."""
        if len(self._ahead) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._ahead)
        end = _LENGTH.size + length
        return self._ahead[_LENGTH.size : end] if len(self._ahead) >= end else None

    def take(self, size: int) -> bytes | None:
        """Return exactly ``size`` bytes; None where not so many have been read."""
        if len(self._ahead) < size:
            return None
        data = bytes(self._ahead[:size])
        self._ahead = self._ahead[size:]
        return data

    def _decrypted(self) -> int:
        return self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0

    def note_ready(self) -> None:
        """Note that it was waited for, and may be read."""
        self._is_ready = True

    def recv(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end.  Raises as a socket's ``recv``."""
        if not self._ahead:
            self._is_ready = False
            self._ahead = memoryview(self._socket.recv(_WINDOW))
        data = bytes(self._ahead[:size])
        self._ahead = self._ahead[size:]
        return data

    def send(self, data: bytes | memoryview) -> int:
        """Keep all of it for ``flush``.  Raises as that where much is waiting already."""
        self._unsent += data
        if len(self._unsent) >= _WINDOW:
            self.flush()
        return len(data)

    def keep(self, data: bytes | bytearray) -> bool:
        """Keep all of it for ``flush``; False, and nothing is kept, where much is waiting."""
        if len(self._unsent) + len(data) >= _WINDOW:
            return False
        self._unsent += data
        return True

    def flush(self) -> None:
        """Send what waits.  Raises ``OSError``, also when it takes too long."""
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait_for(select.POLLOUT)
            # TLS may have to read before it can write: a key update, for example.
            except ssl.SSLWantReadError:
                self._wait_for(select.POLLIN)
            else:
                del self._unsent[:sent]

    def _wait_for(self, event: int) -> None:
        poll = select.poll()
        poll.register(self._socket, event)
        if not poll.poll(self._timeout * 1000):
            raise TimeoutError(f"a request could not be sent in {self._timeout:g} s")

    def setblocking(self, flag: bool) -> None:
        """Set whether it waits by itself."""
        self._socket.setblocking(flag)

    def fileno(self) -> int:
        """Return its descriptor; -1 when it is closed."""
        return self._socket.fileno()

    def shutdown(self, how: int) -> None:
        """End one direction or both."""
        self._socket.shutdown(how)

    def close(self) -> None:
        """Close it; nothing can be read any more."""
        self._ahead = memoryview(b"")
        self._unsent.clear()
        self._is_ready = False
        self._socket.close()


class WakeUps:
    """Both ends of the pipe that wakes kazoo's loop: it holds at most one byte."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._lock = threading.Lock()
        self._unread = 0
        self._is_awake = False  # the byte is there
        self._closed = False

    def pending(self) -> int:
        """Return how many were sent and not read."""
        return self._unread

    def send(self, data: bytes) -> int:
        """Count them, and wake the loop.  Raises ``OSError`` when it is closed."""
        with self._lock:
            if self._closed:
                raise OSError("closed")
            self._unread += len(data)
            # One byte wakes the loop; more would only fill the pipe, and a full one blocks.
            if not self._is_awake:
                self._writer.send(b"\0")
                self._is_awake = True
        return len(data)

    def recv(self, size: int) -> bytes:
        """Take up to ``size`` of them.  Raises ``BlockingIOError`` when there is none."""
        with self._lock:
            taken = min(size, self._unread)
            if not taken:
                raise BlockingIOError
            self._unread -= taken
            if not self._unread and self._is_awake:
                self._reader.recv(1)
                self._is_awake = False
        return bytes(taken)

    def fileno(self) -> int:
        """Return the descriptor that can be read while any is unread; -1 when it is closed."""
        return self._reader.fileno()

    def close(self) -> None:
        """Close both ends."""
        with self._lock:
            self._closed = True
            self._unread = 0
            self._writer.close()
            self._reader.close()
