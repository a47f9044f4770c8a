"""Options of the client of an ensemble: addresses, credentials, ACLs, TLS, and its threads."""

from __future__ import annotations

import importlib.util
import math
import select
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.hosts import collect_hosts
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from secor.adapters import tls
from secor.adapters.zookeeper.sockets import BufferedSocket, WakeUps
from secor.core.errors import ConfigurationError
from secor.core.installing import how_to_install

_ERRORS = ~(select.POLLIN | select.POLLOUT)


class PollingHandler(SequentialThreadingHandler):
    """Waits by ``poll``, and only where nothing is known to be ready.

    For each wait, some five in a request, kazoo makes an epoll object, adds its sockets and
    closes it again: a quarter of a request's CPU.
    """

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **options: Any
    ) -> BufferedSocket:
        """Connect to an address of ``hostname``.  Raises ``OSError``."""
        connected = super().create_connection(address, hostname, timeout, **options)
        return BufferedSocket(connected, timeout)

    def create_socket_pair(self) -> tuple[WakeUps, WakeUps]:
        """Return the ends by which requests wake the loop."""
        wake_ups = WakeUps()
        return wake_ups, wake_ups

    def select(
        self,
        readers: Sequence[Any],
        writers: Sequence[Any],
        _: Sequence[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return which of them are ready, as ``select.select``; ``timeout`` in seconds.

        A socket with an error is ready: its next use raises the error.  Raises ``ValueError`` for
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


class TlsHandler(PollingHandler):
    """kazoo's threads, with connections of our own.

    kazoo's leave their socket behind when a handshake fails, and show no certificate that
    has its key in the same file.
    """

    def __init__(self, context: Callable[[], ssl.SSLContext]) -> None:
        """``context`` is asked for each connection: certificates may be renewed."""
        super().__init__()
        self._context = context

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> BufferedSocket:
        """Connect to an address of ``hostname``.  Raises ``OSError``."""
        try:
            context = self._context()
        except ConfigurationError as error:
            # Files that are being renewed: anything else would end kazoo's thread for good.
            raise OSError(str(error)) from error
        plain = socket.create_connection(address, timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Closed by itself when it raises.
        return BufferedSocket(context.wrap_socket(plain, server_hostname=hostname), timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything a connection needs.

    ``hosts`` is ``host:port,host:port/chroot``; timeouts are in seconds;
    ``sasl_mechanism`` None means digest authentication where there is a username;
    ``acl`` is ``open`` or ``creator`` (the own identity alone may do anything).
    """

    hosts: str
    session_timeout: float = 10.0
    connect_timeout: float = 15.0
    username: str | None = None
    password: str | None = None
    sasl_mechanism: str | None = None
    acl: str = "open"
    use_tls: bool = False
    tls_ca: str | None = None
    tls_certfile: str | None = None
    tls_keyfile: str | None = None
    tls_keyfile_password: str | None = None
    tls_verify: bool = True

    @property
    def servers(self) -> str:
        """The addresses without the chroot."""
        return self.hosts.partition("/")[0]

    @property
    def chroot(self) -> str:
        """The path behind the addresses, with a leading slash, or empty."""
        path = self.hosts.partition("/")[2].strip("/")
        return f"/{path}" if path else ""

    def check(self) -> None:
        """Raise ``ConfigurationError`` for what cannot work whatever the servers say."""
        try:
            collect_hosts(self.servers)
        except ValueError as error:
            raise ConfigurationError(
                f"ZooKeeper hosts {self.hosts!r}: {error}; write host:port,host:port/chroot"
            ) from error
        if self.acl not in ("open", "creator"):
            raise ConfigurationError(f"ZooKeeper acl {self.acl!r}: must be open or creator")
        if self.acl == "creator" and self.username is None and self.sasl_mechanism is None:
            raise ConfigurationError("ZooKeeper acl creator needs a username and password, or SASL")
        if self.sasl_mechanism and importlib.util.find_spec("puresasl") is None:
            raise ConfigurationError(
                f"ZooKeeper with SASL {self.sasl_mechanism} needs the package pure-sasl:"
                f" {how_to_install('zookeeper-sasl')}"
            )
        if self.sasl_mechanism == "GSSAPI" and importlib.util.find_spec("kerberos") is None:
            raise ConfigurationError(
                "ZooKeeper with SASL GSSAPI needs the package kerberos as well:"
                " pip install 'pure-sasl[GSSAPI]'"
            )
        if self.use_tls:
            self.tls_context()

    def tls_context(self) -> ssl.SSLContext:
        """Read the files.  Raises ``ConfigurationError``."""
        return tls.client_context(
            "ZooKeeper",
            authorities=self.tls_ca,
            certificate=self.tls_certfile,
            key=self.tls_keyfile,
            password=self.tls_keyfile_password,
            verify=self.tls_verify,
        )

    def client_arguments(self) -> dict[str, Any]:
        """Return the arguments of kazoo's client."""
        return {
            # The chroot is put in front of every path by ourselves: kazoo warns about one
            # that is not there yet, and we make it.
            "hosts": self.servers,
            "timeout": self.session_timeout,
            "default_acl": CREATOR_ALL_ACL if self.acl == "creator" else OPEN_ACL_UNSAFE,
            "auth_data": self._digest(),
            "sasl_options": self._sasl(),
            # For ever: kazoo's thread ends after its last try, and nothing would start it again.
            "connection_retry": {"max_tries": -1, "delay": 0.05, "max_delay": 2.0},
            "handler": TlsHandler(self.tls_context) if self.use_tls else PollingHandler(),
        }

    def _digest(self) -> list[tuple[str, str]]:
        if self.username is None or self.sasl_mechanism is not None:
            return []
        return [("digest", f"{self.username}:{self.password or ''}")]

    def _sasl(self) -> dict[str, str] | None:
        if self.sasl_mechanism is None:
            return None
        options = {"mechanism": self.sasl_mechanism}
        if self.username is not None:
            options |= {"username": self.username, "password": self.password or ""}
        return options
