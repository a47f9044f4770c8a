"""Waiting for sockets, as kazoo's threads do."""

from __future__ import annotations

import socket
import time

import pytest

from secor.adapters.zookeeper.options import PollingHandler


def test_what_is_ready_is_told_also_at_the_end_of_a_connection() -> None:
    handler = PollingHandler()
    near, far = socket.socketpair()
    with near, far:
        assert handler.select([near], [near], [], 0) == ([], [near], [])
        far.send(b"x")
        assert handler.select([near, far], [], [], 1.0) == ([near], [], [])
        assert handler.select([near], [near], [], None) == ([near], [near], [])
        far.close()
        near.recv(1)
        assert handler.select([near], [], [], 1.0) == ([near], [], [])


def test_a_wait_ends_after_its_time() -> None:
    near, far = socket.socketpair()
    with near, far:
        began = time.monotonic()
        assert PollingHandler().select([near], [], [], 0.02) == ([], [], [])
        assert time.monotonic() - began >= 0.02


def test_a_closed_socket_is_no_socket_that_is_waited_for() -> None:
    near, far = socket.socketpair()
    near.close()
    far.close()
    with pytest.raises(ValueError, match=r"negative|closed"):
        PollingHandler().select([near], [], [], 1.0)
