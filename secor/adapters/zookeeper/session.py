"""One ZooKeeper session: it reconnects by itself, and deletes what has to go."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError, SessionExpiredError
from kazoo.hosts import collect_hosts
from kazoo.protocol.connection import ConnectionDropped
from kazoo.protocol.states import KazooState

from secor.adapters import tls
from secor.adapters.zookeeper.exchanges import ExchangeConnection
from secor.adapters.zookeeper.options import Options
from secor.adapters.zookeeper.requests import Requests
from secor.core.errors import AccessDenied, SecorError, Unavailable

_log = logging.getLogger(__name__)

DROPS = 5
"""Connections of a session that servers close one after the other, before it is given up."""

_TLS = tls.Names(
    authority="ledger.zookeeper.tls_ca",
    certificate="ledger.zookeeper.tls_certfile and tls_keyfile",
    unchecked="ledger.zookeeper.tls_verify = false",
    plain="set ledger.zookeeper.use_tls = false, or correct the port",
)


class Contact:
    """Remembers how the tries to connect ended, the last one of each server.

    A server that has seen less than the client (it was wiped, or restored from a backup)
    closes each connection without an answer, for ever, and kazoo tries on with the same
    session.  After ``DROPS`` of them and twice the session's timeout the session is given up:
    by then it would have ended anyway.  A new one asks for nothing that the server lacks.
    """

    def __init__(
        self, client: Any, options: Options, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Listen to ``client``, a ``KazooClient`` that is not started yet."""
        self._client = client
        self._clock = clock
        self._hosts = options.servers
        self._use_tls = options.use_tls
        self._patience = 2 * options.session_timeout
        self._servers = len(collect_hosts(options.servers)[0])
        self._failures: dict[tuple[str, int], _Failure] = {}
        self._drops = 0
        self._dropped_since = 0.0
        connection = client._connection
        self._connect = connection._connect
        self._errors = (KazooException, OSError, connection.handler.timeout_exception)
        connection._connect = self._try

    def _try(self, host: str, address: str, port: int) -> Any:
        try:
            answer = self._connect(host, address, port)
        except self._errors as error:
            failure = _Failure.of(error)
            self._failures[host, port] = failure
            if failure.hung_up and self._is_given_up():
                raise SessionExpiredError("every connection of the session is closed") from error
            raise
        self._drops = 0
        return answer

    def _is_given_up(self) -> bool:
        """Count a connection that a server has closed; return whether it was one too many."""
        if not self._client._session_id:
            return False
        now = self._clock()
        self._dropped_since = now if self._drops == 0 else self._dropped_since
        self._drops += 1
        if self._drops < DROPS or now - self._dropped_since < self._patience:
            return False
        _log.warning(
            "ZooKeeper at %s has closed %d connections without an answer in %.0f s, as a server"
            " does that was wiped or restored from a backup: beginning a new session",
            self._hosts,
            self._drops,
            now - self._dropped_since,
        )
        self._drops = 0
        return True

    def refusal(self) -> str | None:
        """Return what to do when all servers refuse; None where another try may help."""
        advice = [failure.advice for failure in self._seen()]
        return advice[0] if len(advice) == self._servers and None not in advice else None

    def hint(self) -> str:
        """Return what else may be wrong."""
        for failure in self._seen():
            if failure.advice is not None:
                return failure.advice
        if self._use_tls and any(failure.in_handshake for failure in self._seen()):
            return f"perhaps this port does not speak TLS: {_TLS.plain}"
        check = "check ledger.zookeeper.hosts, the network, and that a server is running there"
        if not self._use_tls and any(failure.hung_up for failure in self._seen()):
            return f"{check}; if its port speaks TLS, set ledger.zookeeper.use_tls = true"
        return check

    def _seen(self) -> list[_Failure]:
        return list(self._failures.values())


@dataclass(frozen=True, slots=True)
class _Failure:
    """The relevant part of an error; the error itself would keep its socket open.

    ``hung_up``: the server took the connection, and closed it.
    """

    advice: str | None
    in_handshake: bool
    hung_up: bool

    @classmethod
    def of(cls, error: BaseException) -> _Failure:
        inner = error.__context__
        return cls(
            tls.advice(error, _TLS),
            in_handshake=isinstance(inner, ssl.SSLError),
            hung_up=isinstance(error, ConnectionDropped)
            and (isinstance(inner, ConnectionResetError) or not isinstance(inner, OSError)),
        )


_LOOK = 0.05
"""Seconds between looks whether the servers refuse."""


class Session(Requests):
    """A session that reconnects by itself; ``epoch`` counts the sessions lost so far."""

    def __init__(self, options: Options) -> None:
        """Connect.  Raises ``ConfigurationError``, ``Unavailable``, ``AccessDenied``."""
        options.check()
        log = logging.getLogger("kazoo")
        if not log.handlers:
            # Without a handler its warnings go to a terminal, between a command's lines.
            log.addHandler(logging.NullHandler())
        super().__init__(KazooClient(**options.client_arguments()), options)
        self._contact = Contact(self._client, options)
        self._epoch = 0
        self._closed = False
        # Deletions not yet known to be done; each stays until it is, or its session ends.
        self._leftovers: dict[str, Callable[[], None]] = {}
        ExchangeConnection(self._client._connection)
        _watch_negotiation(self._client, self._negotiate)
        # Before the start: a session that is lost at once must be counted.
        self._client.add_listener(self._state_changed)
        self._connect()

    def _connect(self) -> None:
        options = self._options
        try:
            self._start()
            self.read(self._client.exists_async, "/")
        except (self._timed_out, KazooException) as error:
            self.close()
            raise Unavailable(
                f"ZooKeeper at {options.hosts} did not answer in {options.connect_timeout:g} s:"
                f" {self._contact.hint()}"
            ) from error
        except SecorError:
            self.close()
            raise

    def _start(self) -> None:
        deadline = time.monotonic() + self._options.connect_timeout
        started = self._client.start_async()
        while not started.wait(_LOOK):
            refused = self._contact.refusal()
            if refused is not None:
                raise AccessDenied(f"ZooKeeper at {self._options.hosts}: {refused}")
            if time.monotonic() >= deadline:
                raise self._timed_out("not connected")

    @property
    def epoch(self) -> int:
        """The number of sessions lost; what belonged to an earlier one is gone."""
        return self._epoch

    @property
    def closed(self) -> bool:
        """Return whether ``close`` was called."""
        return self._closed

    # ------------------------------------------------------ nodes to be deleted

    def delete_soon(self, path: str) -> None:
        """Delete a node of this session, at reconnection if need be; does not wait."""

        def delete() -> None:
            self._client.delete_async(path).rawlink(deleted)

        def deleted(result: Any) -> None:
            if result.successful() or isinstance(result.exception, NoNodeError):
                self._leftovers.pop(path, None)

        self._soon(path, delete)

    def sweep_soon(self, directory: str, prefix: str) -> None:
        """Delete children of ``directory`` that a create with a lost answer may have made."""

        def sweep() -> None:
            self._client.get_children_async(directory).rawlink(listed)

        def listed(result: Any) -> None:
            # Anything else than a listing stays for the next connection.
            if result.successful():
                self._leftovers.pop(prefix, None)
                for name in result.value:
                    if name.startswith(prefix):
                        self.delete_soon(f"{directory}/{name}")

        self._soon(prefix, sweep)

    def _soon(self, key: str, action: Callable[[], None]) -> None:
        # Noted before it is tried: a connection that breaks now has it done by the next one.
        self._leftovers[key] = action
        if self.connected:
            action()

    # ----------------------------------------------------------------- states

    def _negotiate(self, seconds: float) -> None:
        self._negotiated = seconds

    def _state_changed(self, state: str) -> None:
        # Runs on kazoo's own thread: nothing here may wait.
        if state == KazooState.LOST:
            # Locks compare this number: kazoo's own ``is_acquired`` stays true after the session is
            # gone.
            self._epoch += 1
            # The nodes were ephemeral: they went with their session.
            self._leftovers.clear()
            # A server that forgot the session may have forgotten the nodes, too.
            self._ensured.clear()
        elif state == KazooState.CONNECTED:
            for action in list(self._leftovers.values()):
                action()

    def close(self) -> None:
        """End the session: its ephemeral nodes go at once."""
        self._closed = True
        # A connection thread that hangs keeps kazoo from stopping; the session then
        # ends by itself at its timeout.
        with suppress(KazooException, OSError):
            self._client.stop()
        with suppress(KazooException, OSError):
            self._client.close()


def _watch_negotiation(client: Any, report: Callable[[float], None]) -> None:
    """Report the session timeout of each connection: kazoo keeps it in a local variable."""
    connection = client._connection
    invoke = connection._invoke

    def invoke_and_report(timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = invoke(timeout, request, xid)
        # The answer to a connect request: the only one without an xid.
        if xid is None and isinstance(answer, tuple):
            granted = getattr(answer[0], "time_out", 0)
            if granted > 0:
                report(granted / 1000.0)
        return answer

    connection._invoke = invoke_and_report
