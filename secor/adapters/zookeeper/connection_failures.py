"""Why the servers of an ensemble are not reached: kazoo only logs it."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import KazooException, SessionExpiredError
from kazoo.hosts import collect_hosts
from kazoo.protocol.connection import ConnectionDropped

from secor.adapters import tls
from secor.adapters.zookeeper.options import Options

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
        """Count a connection that a server has closed; tell whether it was one too many."""
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
    """What is of interest in an error; the error itself would keep its socket open.

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
