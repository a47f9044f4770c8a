"""Events as entries of systemd's journal, with their fields, by its native protocol.

https://systemd.io/JOURNAL_NATIVE_PROTOCOL/: a datagram of ``NAME=value`` lines; a value with
a line feed is ``NAME``, line feed, its length as 64 bits little endian, and its bytes.  What
is too large for a datagram goes as a sealed file in memory.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

SOCKET = "/run/systemd/journal/socket"

IDENTIFIER = "secor"
"""What ``journalctl -t`` finds the entries by."""

PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}

_PLAIN = ("event", "level")
"""Fields of an event that have names of their own in the journal."""

_LONGEST_NAME = 64
_MOST_FIELDS = 500
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


def is_journal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether ``stream`` goes to the journal: systemd names its device and inode."""
    device, _, inode = environment.get("JOURNAL_STREAM", "").partition(":")
    try:
        status = os.fstat(stream.fileno())
    except OSError:  # also a stream without a descriptor
        return False
    return (device, inode) == (str(status.st_dev), str(status.st_ino))


def entry(event: Mapping[str, Any]) -> bytes:
    """Return an event in the protocol: ``SECOR_EVENT``, ``SECOR_TOPIC``, and so on.

    ``MESSAGE`` is what people read: the event's name and its fields.
    """
    name, level = str(event.get("event", "")), str(event.get("level", "info"))
    fields = {key: _text(value) for key, value in event.items() if key not in _PLAIN}
    message = " ".join([name, *(f"{key}={value}" for key, value in _shown_fields(fields))])
    parts = [
        _field("MESSAGE", message),
        _field("PRIORITY", str(PRIORITIES.get(level, PRIORITIES["info"]))),
        _field("SYSLOG_IDENTIFIER", IDENTIFIER),
        _field("SECOR_EVENT", name),
    ]
    parts += [_field(_name(key), value) for key, value in list(fields.items())[:_MOST_FIELDS]]
    return b"".join(parts)


def _shown_fields(fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    # The journal has the time, and the logger says nothing to people.
    for key, value in fields.items():
        if key not in {"timestamp", "logger"}:
            yield key, value if re.fullmatch(r"[^\s\"=]+", value) else f'"{value}"'


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _name(key: str) -> str:
    """Return a name that the journal takes: others are dropped by it without a word."""
    return ("SECOR_" + re.sub(r"[^A-Z0-9_]", "_", key.upper()))[:_LONGEST_NAME]


def _field(name: str, value: str) -> bytes:
    # Keys of messages may have half a surrogate pair: a log line must not fail over one.
    data = value.encode("utf-8", "backslashreplace")
    if b"\n" not in data:
        return name.encode() + b"=" + data + b"\n"
    return name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"


class JournaldConnection:
    """A connection to journald; threads may share it."""

    def __init__(self, path: str = SOCKET) -> None:
        """Connect to nothing yet: each entry finds the journal anew, also after its restart."""
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def send(self, data: bytes) -> None:
        """Send one entry; waits while the journal's queue is full.  Raises ``OSError``."""
        try:
            self._socket.sendto(data, self._path)
        except OSError as error:
            # Too large for a datagram. Other errors are the caller's, who writes to the stream
            # instead.
            if error.errno not in {errno.EMSGSIZE, errno.ENOBUFS}:
                raise
            self._send_file(data)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _send_file(self, data: bytes) -> None:
        descriptor = os.memfd_create("journal-entry", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(data)
            # journald refuses a file that its sender could still change while it reads.
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", file.fileno()))]
            self._socket.sendmsg([], rights, 0, self._path)
