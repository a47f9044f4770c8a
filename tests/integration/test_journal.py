"""The journal's native protocol, with a socket of the test's own in journald's place."""

from __future__ import annotations

import fcntl
import io
import logging
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from secor.service.journal import JournaldConnection, entry, is_journal
from secor.service.logs import configure

Fields = dict[str, str]


def parse(data: bytes) -> Fields:
    """Read an entry as journald does."""
    found = {}
    while data:
        line, _, data = data.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            (length,) = struct.unpack("<Q", data[:8])
            value, end, data = (
                data[8 : 8 + length],
                data[8 + length : 9 + length],
                data[9 + length :],
            )
            assert end == b"\n"
        found[name.decode()] = value.decode()
    return found


class Journald:
    """Receives what is sent to ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(30)
        self.files = 0

    def receive(self) -> Fields:
        data, descriptors, _, _ = socket.recv_fds(self._socket, 1 << 20, 1)
        for descriptor in descriptors:
            self.files += 1
            assert fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE
            with os.fdopen(descriptor, "rb") as file:
                file.seek(0)
                data += file.read()
        return parse(data)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def journald(tmp_path: Path) -> Iterator[Journald]:
    receiver = Journald(tmp_path / "socket")
    yield receiver
    receiver.close()


@pytest.fixture
def journal(journald: Journald) -> Iterator[JournaldConnection]:
    made = JournaldConnection(journald.path)
    yield made
    made.close()


def test_an_event_has_its_fields_in_the_journal(
    journald: Journald, journal: JournaldConnection
) -> None:
    stream = io.StringIO()
    configure("info", "auto", stream, journal)
    log = structlog.get_logger("secor.partition")
    log.debug("below the level")
    log.error("stopped", topic="clicks", partition=3, error='two\nlines "x"')
    heard = journald.receive()
    assert heard.pop("SECOR_TIMESTAMP").endswith("Z")
    assert heard == {
        "MESSAGE": 'stopped topic=clicks partition=3 error="two\nlines "x""',
        "PRIORITY": "3",
        "SYSLOG_IDENTIFIER": "secor",
        "SECOR_EVENT": "stopped",
        "SECOR_LOGGER": "secor.partition",
        "SECOR_TOPIC": "clicks",
        "SECOR_PARTITION": "3",
        "SECOR_ERROR": 'two\nlines "x"',
    }
    assert stream.getvalue() == ""


def test_libraries_and_exceptions_come_the_same_way(
    journald: Journald, journal: JournaldConnection
) -> None:
    configure("info", "auto", io.StringIO(), journal)
    logging.getLogger("kazoo").warning("lost")
    heard = journald.receive()
    assert (heard["SECOR_EVENT"], heard["SECOR_MESSAGE"], heard["PRIORITY"]) == (
        "library",
        "lost",
        "4",
    )
    try:
        raise ValueError("why")
    except ValueError:
        structlog.get_logger("secor").exception("failed")
    assert "ValueError: why" in journald.receive()["SECOR_EXCEPTION"]


def test_an_entry_too_large_for_a_datagram_goes_as_a_sealed_file(
    journald: Journald, journal: JournaldConnection
) -> None:
    configure("info", "auto", io.StringIO(), journal)
    long = "x" * (8 << 20)
    structlog.get_logger("secor").info("large", value=long)
    assert journald.receive()["SECOR_VALUE"] == long
    assert journald.files == 1


def test_what_the_journal_does_not_take_is_a_line_of_its_stream(tmp_path: Path) -> None:
    stream = io.StringIO()
    journal = JournaldConnection(str(tmp_path / "absent"))
    configure("info", "auto", stream, journal)
    structlog.get_logger("secor").info("said", topic="clicks")
    journal.close()
    assert '"event": "said"' in stream.getvalue()


def test_odd_names_and_values_cannot_break_an_entry() -> None:
    event = {
        "event": "x\nPRIORITY=0",
        "level": "info",
        "_hidden": 1,
        "ключ=\n": "v",
        "lone": "\ud800\udcff",
        "n" * 100: "cut",
        "none": None,
    }
    found = parse(entry(event))
    assert found["PRIORITY"] == "6"
    assert found["SECOR_EVENT"] == "x\nPRIORITY=0"
    assert found["SECOR_LONE"] == r"\ud800\udcff"
    assert found["SECOR_NONE"] == "None"
    assert all(len(name) <= 64 and name.isascii() for name in found)
    assert all(not name.startswith("_") for name in found)


def test_a_stream_is_the_journal_only_if_systemd_names_it(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("w") as stream:
        status = os.fstat(stream.fileno())
        named = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        assert is_journal(stream, named)
        for other in ({}, {"JOURNAL_STREAM": ""}, {"JOURNAL_STREAM": f"{status.st_dev}:1"}):
            assert not is_journal(stream, other)
    assert not is_journal(io.StringIO(), named)


def test_a_daemon_whose_errors_go_to_a_file_does_not_take_it_for_the_journal(
    tmp_path: Path,
) -> None:
    """``2>file`` in a unit's command line leaves JOURNAL_STREAM as it was."""
    config = tmp_path / "wrong.toml"
    config.write_text(
        '[group]\nname = "x"\n[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\ntopics = ["t"]\n'
        '[store]\nkind = "local"\n[store.local]\n'
        f'directory = "{tmp_path / "absent" / "deeper"}"\n[output]\nprefix = "x"\n'
        f'[metrics]\nport = 0\naddress = "203.0.113.1"\n[local]\ndirectory = "{tmp_path}"\n'
    )
    code = "from secor.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", str(config)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JOURNAL_STREAM": "1:1"},
    )
    assert done.returncode == 2
    assert '"event": "starting"' in done.stderr
