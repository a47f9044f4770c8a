"""The sockets of kazoo's loop: fewer calls of the system, and nothing waits that can go on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from secor.adapters.zookeeper.options import PollingHandler
from secor.adapters.zookeeper.sockets import BufferedSocket, WakeUps


@pytest.fixture
def ends() -> Iterator[tuple[BufferedSocket, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    buffered = BufferedSocket(near, 0.05)
    with far:
        yield buffered, far
        buffered.close()


@pytest.fixture
def wake_ups() -> Iterator[WakeUps]:
    wake_ups = WakeUps()
    yield wake_ups
    wake_ups.close()


def ready(item: BufferedSocket | WakeUps) -> bool:
    return PollingHandler().select([item], [], [], 0.0)[0] == [item]


def test_what_came_along_is_read_without_waiting(
    ends: tuple[BufferedSocket, socket.socket],
) -> None:
    buffered, far = ends
    assert not ready(buffered)
    far.send(b"1234answer")
    assert ready(buffered)
    assert buffered.pending() == 1
    assert buffered.recv(4) == b"1234"
    assert buffered.pending() == 6
    assert ready(buffered)
    assert buffered.recv(2) == b"an"
    assert buffered.recv(100) == b"swer"
    assert buffered.pending() == 0
    assert not ready(buffered)


def test_the_end_of_a_connection_is_read(ends: tuple[BufferedSocket, socket.socket]) -> None:
    buffered, far = ends
    far.send(b"last")
    far.close()
    assert ready(buffered)
    assert buffered.recv(4) == b"last"
    assert ready(buffered)
    assert buffered.recv(4) == b""


def test_requests_are_sent_before_answers_are_waited_for(
    ends: tuple[BufferedSocket, socket.socket], wake_ups: WakeUps
) -> None:
    buffered, far = ends
    handler = PollingHandler()
    far.setblocking(False)
    assert handler.select([], [buffered], [], 1.0) == ([], [buffered], [])
    assert buffered.send(b"one") == 3
    wake_ups.send(b"\0")
    assert handler.select([buffered, wake_ups], [], [], 0.0) == ([wake_ups], [], [])
    with pytest.raises(BlockingIOError):
        far.recv(10)  # another request is to come
    wake_ups.recv(1)
    buffered.send(memoryview(b"two"))
    assert handler.select([buffered, wake_ups], [], [], 0.0) == ([], [], [])
    assert far.recv(10) == b"onetwo"


def test_much_is_sent_before_more_is_taken(ends: tuple[BufferedSocket, socket.socket]) -> None:
    buffered, far = ends
    buffered.send(bytes(65536))
    assert len(far.recv(65536)) > 0


def test_a_server_that_takes_nothing_ends_the_connection(
    ends: tuple[BufferedSocket, socket.socket],
) -> None:
    buffered, _ = ends
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        buffered.send(bytes(10_000_000))


def test_what_a_server_takes_in_parts_is_sent_whole(
    ends: tuple[BufferedSocket, socket.socket],
) -> None:
    buffered, far = ends
    whole = b"0123456789" * 1_000_000
    received = bytearray()

    def read() -> None:
        while len(received) < len(whole):
            received.extend(far.recv(1 << 20))

    reader = threading.Thread(target=read)
    reader.start()
    buffered.send(whole)
    reader.join(60)
    assert received == whole


def test_a_closed_connection_has_nothing(ends: tuple[BufferedSocket, socket.socket]) -> None:
    buffered, far = ends
    far.send(b"12345")
    assert ready(buffered)
    buffered.recv(1)
    buffered.close()
    assert buffered.pending() == 0
    with pytest.raises(ValueError, match=r"negative|closed"):
        ready(buffered)


def test_the_loop_is_awake_until_the_last_wake_up_is_read(wake_ups: WakeUps) -> None:
    assert not ready(wake_ups)
    for _ in range(3):
        wake_ups.send(b"\0")
    for _ in range(3):
        assert ready(wake_ups)
        assert wake_ups.recv(1) == b"\0"
    assert not ready(wake_ups)
    with pytest.raises(BlockingIOError):
        wake_ups.recv(1)
    wake_ups.send(b"\0")
    assert ready(wake_ups)


def is_awake(wake_ups: WakeUps) -> bool:
    """Tell what a loop sees that waits already."""
    with socket.socket(fileno=wake_ups.fileno()) as reader:
        try:
            reader.setblocking(False)
            return bool(reader.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False
        finally:
            reader.setblocking(True)
            reader.detach()


def test_requests_wake_the_loop_once_until_it_has_read_them(wake_ups: WakeUps) -> None:
    for _ in range(3):
        wake_ups.send(b"\0")
    assert is_awake(wake_ups)
    wake_ups.recv(2)
    assert is_awake(wake_ups)
    wake_ups.recv(1)
    assert not is_awake(wake_ups)


def test_an_answer_is_a_frame_when_all_of_it_has_come(
    ends: tuple[BufferedSocket, socket.socket],
) -> None:
    buffered, far = ends
    assert buffered.frame() is None
    far.send(b"\0\0\0\3one\0\0\0\0\0\0\0\4fo")
    assert ready(buffered)
    assert buffered.take(1) is None  # nothing is read yet
    assert buffered.recv(1) == b"\0"
    assert buffered.take(6) == b"\0\0\3one"
    frame = buffered.frame()
    assert frame is not None
    assert frame.nbytes == 0
    assert buffered.take(4) == b"\0\0\0\0"
    assert buffered.frame() is None
    assert buffered.take(7) is None
    assert buffered.take(6) == b"\0\0\0\4fo"


def test_what_is_kept_is_sent_by_the_flush_and_not_more_than_fits(
    ends: tuple[BufferedSocket, socket.socket],
) -> None:
    buffered, far = ends
    assert buffered.keep(b"one")
    assert not buffered.keep(b"x" * (1 << 16))
    assert buffered.keep(bytearray(b"two"))
    buffered.flush()
    assert far.recv(100) == b"onetwo"


def test_a_closed_loop_is_not_woken(wake_ups: WakeUps) -> None:
    wake_ups.send(b"\0")
    wake_ups.close()
    with pytest.raises(OSError, match="closed"):
        wake_ups.send(b"\0")
    assert wake_ups.fileno() == -1
    wake_ups.close()
