from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from secor.service.systemd import Notifier


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(30)
        if request.param == "path":
            address = str(tmp_path / "notify")
            receiver.bind(address)
        else:
            receiver.bind("")  # Linux chooses an abstract name
            address = "@" + receiver.getsockname()[1:].decode()
        yield address, receiver


def test_the_service_manager_hears_every_state(manager: tuple[str, socket.socket]) -> None:
    address, receiver = manager
    notifier = Notifier.of({"NOTIFY_SOCKET": address})
    notifier.ready()
    notifier.watchdog()
    notifier.status("12 partitions,\nno lag")
    notifier.stopping()
    heard = [receiver.recv(1000).decode() for _ in range(4)]
    assert heard == ["READY=1", "WATCHDOG=1", "STATUS=12 partitions, no lag", "STOPPING=1"]


def test_outside_of_systemd_nothing_is_sent() -> None:
    with capture_logs() as lines:
        Notifier.of({}).ready()
    assert lines == []


def test_a_manager_that_is_gone_is_told_once_and_stops_nothing(tmp_path: Path) -> None:
    notifier = Notifier(str(tmp_path / "absent"))
    with capture_logs() as lines:
        notifier.ready()
        notifier.watchdog()
    assert [line["event"] for line in lines] == ["notify_failed"]
