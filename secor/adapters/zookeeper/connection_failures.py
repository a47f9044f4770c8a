"""Why the servers of an ensemble are not reached: kazoo only logs it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import KazooException
from kazoo.hosts import collect_hosts
from kazoo.protocol.connection import ConnectionDropped

from secor.adapters import tls
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
        self._failures: dict[tuple[str, int], _Failure] = {}
        connection = client._connection
        connect = connection._connect

        def told(host: str, address: str, port: int) -> Any:
            try:
                return connect(host, address, port)
            except (KazooException, OSError, connection.handler.timeout_exception) as error:
                self._failures[host, port] = _Failure.of(error)
                raise

        connection._connect = told

    def refusal(self) -> str | None:
        """Return what to do when all servers refuse; None where another try may help."""
        found = [failure.advice for failure in self._seen()]
        return found[0] if len(found) == self._servers and None not in found else None

    def hint(self) -> str:
        """Return what else may be wrong."""
        for failure in self._seen():
            if failure.advice is not None:
                return failure.advice
        if self._use_tls and any(failure.in_handshake for failure in self._seen()):
            return f"perhaps this port does not speak TLS: {_TLS.plain}"
        check = "check the addresses, and that a server is running there"
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
            hung_up=isinstance(error, ConnectionDropped) and not isinstance(inner, OSError),
        )
