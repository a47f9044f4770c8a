"""Exchanges: kazoo's own bytes, answers in their order, and none that is lost is waited for."""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import ConnectionDropped
from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Delete,
    GetChildren,
    GetData,
    ReplyHeader,
    SetData,
    Sync,
    Transaction,
)
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from secor.adapters.zookeeper import exchanges
from secor.adapters.zookeeper.exchanges import (
    Exchange,
    ExchangeAnswer,
    ExchangeConnection,
    Operations,
    encoded_acl,
)
from secor.adapters.zookeeper.options import PollingHandler
from secor.adapters.zookeeper.sockets import BufferedSocket, WakeUps

PATHS = ("/a", "/consumers/grüße/offsets/clicks/0")


@pytest.mark.parametrize("path", PATHS)
def test_requests_are_kazoos_own(path: str) -> None:
    for request, kazoos in (
        (exchanges.get(path), GetData(path, None)),
        (exchanges.children(path), GetChildren(path, None)),
        (exchanges.sync(path), Sync(path)),
    ):
        assert request == struct.pack("!i", kazoos.type) + bytes(kazoos.serialize())


@pytest.mark.parametrize("acl", [OPEN_ACL_UNSAFE, CREATOR_ALL_ACL, []])
@pytest.mark.parametrize("path", PATHS)
def test_transactions_are_kazoos_own(path: str, acl: list[Any]) -> None:
    operations = Operations(encoded_acl(acl))
    operations.check(path, -1)
    operations.create(path)
    operations.create(path, b"an owner", ephemeral=True, sequence=True)
    operations.set_data(path, b"", 7)
    operations.delete(path, 2**31 - 1)
    kazoos = Transaction(
        [
            CheckVersion(path, -1),
            Create(path, b"", acl, 0),
            Create(path, b"an owner", acl, 3),
            SetData(path, b"", 7),
            Delete(path, 2**31 - 1),
        ]
    )
    assert len(operations) == len(kazoos.operations)
    assert operations.encoded() == struct.pack("!i", kazoos.type) + bytes(kazoos.serialize())


def exchange(count: int) -> Exchange:
    return Exchange([b"request"] * count, KazooTimeoutError)


def test_each_answer_is_given_and_an_error_is_that_of_one() -> None:
    asked = exchange(3)
    asked.answer(0, b"one")
    asked.answer(NoNodeError.code, b"")
    asked.answer(0, b"three")
    assert [asked.get(index, 1.0) for index in (2, 0)] == [b"three", b"one"]
    with pytest.raises(NoNodeError):
        asked.get(1, 1.0)
    assert ExchangeAnswer(asked, 0, bytes.decode).get(1.0) == "one"


def test_what_was_answered_before_the_connection_broke_is_known() -> None:
    asked = exchange(3)
    asked.answer(0, b"one")
    # As kazoo says it: for each request that is left.
    asked.set_exception(ConnectionLoss())
    asked.set_exception(ConnectionLoss())
    assert asked.get(0, 1.0) == b"one"
    for index in (1, 2):
        with pytest.raises(ConnectionLoss):
            asked.get(index, 1.0)


def test_a_loss_after_the_last_answer_changes_nothing() -> None:
    asked = exchange(1)
    asked.answer(0, b"one")
    asked.set_exception(ConnectionLoss())
    assert asked.get(0, 1.0) == b"one"


def test_an_answer_that_does_not_come_is_not_waited_for() -> None:
    asked = exchange(2)
    asked.answer(0, b"one")
    assert asked.get(0, 0.01) == b"one"
    with pytest.raises(KazooTimeoutError):
        asked.get(1, 0.01)


def test_the_waiting_thread_is_woken_by_the_last_answer() -> None:
    asked = exchange(2)
    got: list[bytes] = []
    waits = threading.Thread(target=lambda: got.append(asked.get(0, 10.0)))
    waits.start()
    asked.answer(0, b"one")
    assert got == []
    asked.answer(0, b"two")
    waits.join(10)
    assert got == [b"one"]


class Client:
    """The queues of kazoo's client."""

    def __init__(self) -> None:
        self._queue: deque[tuple[Any, Any]] = deque()
        self._pending: deque[tuple[Any, Any, int]] = deque()
        self.last_zxid = 0


class Connection:
    """kazoo's part of the work: it sends one request, and reads one answer, a call."""

    def __init__(self) -> None:
        near, self.far = socket.socketpair()
        near.setblocking(False)
        self._socket = BufferedSocket(near, 0.05)
        self._read_sock = WakeUps()
        self._xid = 0
        self.client = Client()
        self.written: list[bytes] = []
        self.answers: list[tuple[int, bytes]] = []
        ExchangeConnection(self)

    def ask(self, request: Any) -> None:
        self.client._queue.append((request, request))
        self._read_sock.send(b"\0")

    def send(self) -> None:
        self._send_request(1.0, 1.0)

    def received(self) -> list[tuple[int, bytes]]:
        """What was sent: numbers and requests."""
        self._socket.flush()
        data, requests = self.far.recv(1 << 17), []
        while data:
            length, number = struct.unpack_from("!ii", data)
            requests.append((number, data[8 : 4 + length]))
            data = data[4 + length :]
        return requests

    def come(self, *answers: tuple[int, int, bytes], rest: bytes = b"") -> Any:
        """Let answers (number, error, content) come, and be read."""
        frames = [
            struct.pack("!iiqi", 16 + len(content), number, 100 + number, error) + content
            for number, error, content in answers
        ]
        self.far.send(b"".join(frames) + rest)
        assert PollingHandler().select([self._socket], [], [], 1.0)[0]
        return self._read_socket(1.0)

    def close(self) -> None:
        self._socket.close()
        self._read_sock.close()
        self.far.close()

    def _send_request(self, _read_timeout: float, _connect_timeout: float) -> None:
        if self.client._queue:
            request, _ = self.client._queue.popleft()
            self._xid += 1
            self._write(struct.pack("!ii", 4 + len(request), self._xid) + request, 1.0)
            self.client._pending.append((request, None, self._xid))
        self._read_sock.recv(1)

    def _read_socket(self, timeout: float) -> Any:
        (length,) = struct.unpack("!i", self._read(4, timeout))
        content = self._read(length, timeout)
        header, offset = ReplyHeader.deserialize(content, 0)
        if header.xid < 0:  # a ping
            self.answers.append((header.xid, content[offset:]))
            return None
        return self._read_response(header, content, offset)

    def _read_response(self, header: Any, content: bytes, offset: int) -> int | None:
        self.client._pending.popleft()
        self.answers.append((header.xid, content[offset:]))
        return -11 if content[offset:] == b"close" else None

    def _read(self, length: int, _timeout: float) -> bytes:
        return self._socket.recv(length)

    def _write(self, message: bytes, _timeout: float) -> None:
        self.written.append(bytes(message))


@pytest.fixture
def connection() -> Iterator[Connection]:
    connection = Connection()
    yield connection
    connection.close()


def test_all_that_waits_is_sent_after_one_wait(connection: Connection) -> None:
    first, last = (Exchange(requests, KazooTimeoutError) for requests in ([b"a", b"b"], [b"d"]))
    connection.ask(first)
    connection.ask(b"kazoo's")
    connection.ask(last)
    connection._read_sock.send(b"\0")  # for a request that somebody took away
    connection.send()
    assert connection.received() == [(1, b"a"), (2, b"b"), (3, b"kazoo's"), (4, b"d")]
    assert connection._read_sock.pending() == 0
    pending = [(request, number) for request, _, number in connection.client._pending]
    assert pending == [(first, 1), (first, 2), (b"kazoo's", 3), (last, 4)]
    assert connection.written == []


def test_numbers_begin_anew_after_the_largest(connection: Connection) -> None:
    connection._xid = 2**31 - 2
    connection.ask(Exchange([b"a", b"b", b"c"], KazooTimeoutError))
    connection.send()
    assert [number for number, _ in connection.received()] == [2**31 - 1, 1, 2]


def test_a_request_that_does_not_fit_is_kazoos_to_write(connection: Connection) -> None:
    connection.ask(Exchange([b"x" * (1 << 16)], KazooTimeoutError))
    connection.send()
    assert [len(message) for message in connection.written] == [8 + (1 << 16)]
    assert len(connection.client._pending) == 1


def test_all_that_came_is_read_after_one_wait(connection: Connection) -> None:
    first, last = (Exchange(requests, KazooTimeoutError) for requests in ([b"a", b"b"], [b"d"]))
    for request in (first, b"kazoo's", last):
        connection.ask(request)
    connection.send()
    ping = (-2, 0, b"")
    connection.come((1, 0, b"A"), ping, (2, -101, b""), (3, 0, b"K"), (4, 0, b"D"))
    assert first.get(0, 0.01) == b"A"
    with pytest.raises(NoNodeError):
        first.get(1, 0.01)
    assert last.get(0, 0.01) == b"D"
    assert connection.answers == [(-2, b""), (3, b"K")]
    assert connection.client.last_zxid == 104


def test_an_answer_that_came_in_part_is_read_when_the_rest_is_there(
    connection: Connection,
) -> None:
    asked = Exchange([b"a", b"b"], KazooTimeoutError)
    connection.ask(asked)
    connection.send()
    whole = struct.pack("!iiqi", 17, 2, 102, 0) + b"B"
    connection.come((1, 0, b"A"), rest=whole[:9])
    assert len(connection.client._pending) == 1
    assert connection._socket.take(9) == whole[:9]


def test_nothing_is_read_behind_the_end_of_the_session(connection: Connection) -> None:
    connection.ask(b"close")
    connection.ask(Exchange([b"a"], KazooTimeoutError))
    connection.send()
    assert connection.come((1, 0, b"close"), (2, 0, b"A")) == -11
    assert len(connection.client._pending) == 1


def test_the_answer_to_another_request_breaks_the_connection(connection: Connection) -> None:
    asked = Exchange([b"a", b"b"], KazooTimeoutError)
    connection.ask(asked)
    connection.send()
    with pytest.raises(ConnectionDropped, match="request 7 came, not to 2"):
        connection.come((1, 0, b"A"), (7, 0, b"B"))
    assert asked.get(0, 0.01) == b"A"
    with pytest.raises(ConnectionDropped):
        asked.get(1, 0.01)
