"""Why the servers of an ensemble are not reached: kazoo only logs it."""

from __future__ import annotations

import ssl
from typing import Any

from kazoo.exceptions import KazooException
from kazoo.hosts import collect_hosts
from kazoo.protocol.connection import ConnectionDropped

from secor import tls
from secor.adapters.zookeeper.options import Options

_TLS = tls.Names(
    authority="ledger.zookeeper.tls_ca",
    certificate="ledger.zookeeper.tls_certfile and tls_keyfile",
    unchecked="ledger.zookeeper.tls_verify = false",
    plain="set ledger.zookeeper.use_tls = false, or correct the port",
)


class Contact:
    """Remembers how the tries to connect ended, the last one of each server."""

    def __init__(self, client: Any, options: Options) -> None:
        """Listen to ``client``, a ``KazooClient`` that is not started yet."""
        self._use_tls = options.use_tls
        self._servers = len(collect_hosts(options.servers)[0])
        self._failures: dict[tuple[str, int], BaseException] = {}
        connection = client._connection
        connect = connection._connect

        def told(host: str, address: str, port: int) -> Any:
            try:
                return connect(host, address, port)
            except (KazooException, OSError, connection.handler.timeout_exception) as error:
                self._failures[host, port] = error
                raise

        connection._connect = told

    def refusal(self) -> str | None:
        """Return what to do when all servers refuse; None where another try may help."""
        found = [tls.advice(error, _TLS) for error in list(self._failures.values())]
        return found[0] if len(found) == self._servers and None not in found else None

    def hint(self) -> str:
        """Return what else may be wrong."""
        for error in list(self._failures.values()):
            advice = tls.advice(error, _TLS)
            if advice is not None:
                return advice
        if self._use_tls and any(map(_ended_in_handshake, list(self._failures.values()))):
            return f"perhaps this port does not speak TLS: {_TLS.plain}"
        check = "check the addresses, and that a server is running there"
        if not self._use_tls and any(map(_hung_up, list(self._failures.values()))):
            return f"{check}; if its port speaks TLS, set ledger.zookeeper.use_tls = true"
        return check


def _hung_up(error: BaseException) -> bool:
    return isinstance(error, ConnectionDropped) and not isinstance(error.__context__, OSError)


def _ended_in_handshake(error: BaseException) -> bool:
    return any(isinstance(one, ssl.SSLError) for one in (error, error.__cause__, error.__context__))
