"""Exchanges: requests that are encoded, sent and answered together, in place of one by one.

kazoo makes a handful of objects of each request, checks its path five times, and wakes a thread for
each answer: 100 us of CPU a request.  Here the thread that asks encodes all that it asks for, waits
once, and decodes.  Source: ZooKeeper's ``zookeeper.jute``, and the connection of kazoo 2.11.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.connection import ConnectionDropped
from kazoo.protocol.serialization import GetChildren, GetData, Transaction

_HEADER = struct.Struct("!iqi")
"""What an answer begins with: number of the request, transaction of the server, error."""

_FRAME = struct.Struct("!ii")
"""What a request begins with: the bytes that follow, and its number."""

_INT = struct.Struct("!i")
_TYPE = struct.Struct("!iBi")
_CREATE, _DELETE, _GET, _SET, _CHILDREN, _SYNC, _CHECK, _MULTI = 1, 2, 4, 5, 8, 9, 13, 14
_EPHEMERAL, _SEQUENCE = 1, 2
_LARGEST_NUMBER = 2**31 - 1


def _buffer(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _text(text: str) -> bytes:
    return _buffer(text.encode()) if text else _INT.pack(-1)


def get(path: str) -> bytes:
    """Ask for a node's data and stat."""
    return _INT.pack(_GET) + _text(path) + b"\0"


def children(path: str) -> bytes:
    """Ask for the names below a node."""
    return _INT.pack(_CHILDREN) + _text(path) + b"\0"


def sync(path: str) -> bytes:
    """Have the server catch up with its leader."""
    return _INT.pack(_SYNC) + _text(path)


def encoded_acl(acl: Iterable[Any]) -> bytes:
    """Encode kazoo's ACLs."""
    entries = [_INT.pack(item.perms) + _text(item.id.scheme) + _text(item.id.id) for item in acl]
    return _INT.pack(len(entries)) + b"".join(entries)


class Operations:
    """A transaction: all of its operations are carried out, or none."""

    def __init__(self, acl: bytes) -> None:
        """``acl`` of the nodes that it makes."""
        self._acl = acl
        self._encoded: list[bytes] = []

    def __len__(self) -> int:
        return len(self._encoded)

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> None:
        """Make a node."""
        flags = _EPHEMERAL * ephemeral | _SEQUENCE * sequence
        self._add(_CREATE, _text(path) + _buffer(data) + self._acl + _INT.pack(flags))

    def delete(self, path: str, version: int) -> None:
        """Delete a node of this version, -1 for any."""
        self._add(_DELETE, _text(path) + _INT.pack(version))

    def set_data(self, path: str, data: bytes, version: int) -> None:
        """Set a node of this version, -1 for any."""
        self._add(_SET, _text(path) + _buffer(data) + _INT.pack(version))

    def check(self, path: str, version: int) -> None:
        """Require that a node has this version, -1 for any."""
        self._add(_CHECK, _text(path) + _INT.pack(version))

    def _add(self, kind: int, operation: bytes) -> None:
        self._encoded.append(_TYPE.pack(kind, False, -1) + operation)

    def encoded(self) -> bytes:
        """Return the request."""
        return _INT.pack(_MULTI) + b"".join(self._encoded) + _TYPE.pack(-1, True, -1)


class Exchange:
    """Encoded requests and their answers: kazoo's thread brings these, one thread waits."""

    def __init__(self, requests: Sequence[bytes], timed_out: Callable[[str], Exception]) -> None:
        """``timed_out`` makes the error of an answer that does not come."""
        self.requests = requests
        self._timed_out = timed_out
        self._answers: list[tuple[int, bytes]] = []
        self._failure: Exception | None = None
        self._ends = threading.Lock()
        self._ends.acquire()

    def answer(self, error: int, content: bytes) -> None:
        """Take the next answer; answers come in the order of the requests."""
        self._answers.append((error, content))
        if len(self._answers) == len(self.requests):
            self._ends.release()

    def set_exception(self, error: Exception) -> None:
        """Note that no further answer comes; kazoo says it for each request."""
        if self._failure is None and len(self._answers) < len(self.requests):
            self._failure = error
            self._ends.release()

    def get(self, index: int, timeout: float) -> bytes:
        """Return one answer, when all have come.  Raises kazoo's error of it, or of all."""
        # Given back at once: it is open from the end on.
        if self._ends.acquire(timeout=timeout):
            self._ends.release()
        if index >= len(self._answers):
            raise self._failure or self._timed_out("no answer")
        error, content = self._answers[index]
        if error:
            kind = EXCEPTIONS[error]
            raise kind
        return content


class ExchangeAnswer:
    """One answer of an exchange, in the form of kazoo's asynchronous results."""

    def __init__(self, exchange: Exchange, index: int, decode: Callable[[bytes], Any]) -> None:
        self._exchange = exchange
        self._index = index
        self._decode = decode

    def get(self, timeout: float) -> Any:
        """Wait for it.  Raises what kazoo raises."""
        return self._decode(self._exchange.get(self._index, timeout))


def node_of(content: bytes) -> Any:
    """Return data and stat."""
    return GetData.deserialize(content, 0)


def names_of(content: bytes) -> Any:
    """Return names."""
    return GetChildren.deserialize(content, 0)


def results_of(content: bytes) -> Any:
    """Return one result for each operation, errors included."""
    return Transaction.deserialize(content, 0)


class ExchangeConnection:
    """Lets kazoo's connection take exchanges, and handle all that is there after each wait.

    kazoo would wait again for each request and for each answer.  All of it runs on its thread.
    """

    def __init__(self, connection: Any) -> None:
        """``connection`` is a ``ConnectionHandler`` whose sockets are those of ``sockets``."""
        self._connection = connection
        self._client = connection.client
        self._kazoo_sends = connection._send_request
        self._kazoo_reads_answer = connection._read_socket
        self._kazoo_answers = connection._read_response
        self._kazoo_reads = connection._read
        self._kazoo_writes = connection._write
        connection._send_request = self._send_requests
        connection._read_socket = self._read_answers
        connection._read_response = self._answer
        connection._read = self._read
        connection._write = self._write

    def _send_requests(self, read_timeout: float, connect_timeout: float) -> None:
        queue = self._client._queue
        while True:
            if queue and isinstance(queue[0][0], Exchange):
                self._send(queue[0][0], connect_timeout)
            else:
                self._kazoo_sends(read_timeout, connect_timeout)
            # Each takes one away, also where nothing is in the queue.
            if not self._connection._read_sock.pending():
                return

    def _send(self, exchange: Exchange, timeout: float) -> None:
        message = bytearray()
        sent = []
        number = self._connection._xid
        for request in exchange.requests:
            number = number % _LARGEST_NUMBER + 1
            message += _FRAME.pack(4 + len(request), number) + request
            sent.append((exchange, exchange, number))
        self._connection._xid = number
        # While it is in the queue, a connection that breaks ends it there, as kazoo's requests.
        self._connection._write(message, timeout)
        self._client._queue.popleft()
        self._connection._read_sock.recv(1)
        self._client._pending.extend(sent)

    def _read_answers(self, read_timeout: float) -> Any:
        ended = self._kazoo_reads_answer(read_timeout)
        # At most what was read at once: requests wait no longer than that takes.
        while ended is None and (frame := self._connection._socket.frame()) is not None:
            number, zxid, error = _HEADER.unpack_from(frame)
            # Pings, watches and refusals have numbers below zero.
            if number > 0 and self._is_next(Exchange):
                self._connection._socket.take(4 + len(frame))
                self._give(number, zxid, error, bytes(frame[_HEADER.size :]))
            else:
                ended = self._kazoo_reads_answer(read_timeout)
        return ended

    def _is_next(self, kind: type) -> bool:
        pending = self._client._pending
        return bool(pending) and isinstance(pending[0][0], kind)

    def _answer(self, header: Any, content: bytes, offset: int) -> Any:
        if not self._is_next(Exchange):
            return self._kazoo_answers(header, content, offset)
        return self._give(header.xid, header.zxid, header.err, content[offset:])

    def _give(self, number: int, zxid: int, error: int, content: bytes) -> None:
        exchange, _, asked = self._client._pending.popleft()
        if zxid > 0:
            self._client.last_zxid = zxid
        if number != asked:
            lost = ConnectionDropped(f"the answer to request {number} came, not to {asked}")
            exchange.set_exception(lost)
            raise lost
        exchange.answer(error, content)

    def _read(self, length: int, timeout: float) -> Any:
        data = self._connection._socket.take(length)
        return self._kazoo_reads(length, timeout) if data is None else data

    def _write(self, message: bytes | bytearray, timeout: float) -> None:
        # What does not fit, and errors of the system, is kazoo's.
        if not self._connection._socket.keep(message):
            self._kazoo_writes(message, timeout)
