"""The client's connections, set up to read fast and to create no topics."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

_READ_BYTES = 256 * 1024
_MOST_BYTES_A_TURN = 4 * 1024 * 1024


class NetClient(KafkaNetClient):
    """The client's network part with our connections."""

    def __init__(self, topics: Sequence[str] | None, **configs: Any) -> None:
        net = NetworkSelector(**configs)
        manager = _Manager(net, **configs)
        # Else the group is joined without knowing the topics, and at once again.
        manager.cluster.need_all_topic_metadata = topics is None
        manager.cluster._topics = set(topics or ())
        # The consumer's setting of this name does not reach the metadata requests.
        manager.cluster.config["allow_auto_create_topics"] = False
        # A topic that does not exist (yet) is asked for again at this pace.
        manager.cluster.config["retry_backoff_ms"] = 500
        super().__init__(net=net, manager=manager, **configs)


class _Manager(KafkaConnectionManager):
    """Connections that read in large pieces: by 4 KB, reading costs more than decoding.

    A try to connect that fails closes its socket; the client leaves that to chance.
    """

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        attempt = _Attempt(self._net)
        try:
            sock = await create_connection(
                attempt,
                node.host,
                node.port,
                self.config["socket_options"],
                proxy_url=self.config["proxy_url"],
                timeout_at=timeout_at,
            )
            attempt.sockets.add(sock)
            transport = self._transport(sock, node.host)
            attempt.sockets.add(transport._sock)
            await transport.handshake()
        except (OSError, kafka_errors.KafkaError) as error:
            attempt.close()
            raise kafka_errors.KafkaConnectionError(f"{node.host}:{node.port}: {error}") from error
        attempt.close_others(transport._sock)
        transport._sock_recv = partial(_receive, transport)
        return transport

    def _transport(self, sock: Any, host: str) -> Any:
        if self.ssl_enabled:
            tls = {key: value for key, value in self.config.items() if key.startswith("ssl_")}
            return KafkaSSLTransport(self._net, sock, host=host, **tls)
        return KafkaTCPTransport(self._net, sock, host=host)


class _Attempt:
    """The client's loop, seen from one try to connect; knows the sockets that were waited for."""

    def __init__(self, net: Any) -> None:
        self._net = net
        self.sockets: set[Any] = set()

    def wait_write(self, sock: Any, **how: Any) -> Any:
        self.sockets.add(sock)
        return self._net.wait_write(sock, **how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._net, name)

    def close_others(self, kept: Any) -> None:
        """Close those of addresses that did not answer; TLS has taken over its own."""
        for sock in self.sockets:
            if sock is not kept and sock.fileno() >= 0:
                sock.close()

    def close(self) -> None:
        self.close_others(None)


def _receive(transport: Any) -> tuple[bytes, Exception | None]:
    """Read what is there; what came before the connection's end is not thrown away."""
    pieces: list[bytes] = []
    size = 0
    sock = transport._sock
    encrypted = isinstance(sock, ssl.SSLSocket)
    # What TLS has decrypted already does not wake the selector: take it all.
    while size < _MOST_BYTES_A_TURN or (encrypted and sock.pending()):
        try:
            data = sock.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            break
        except OSError as error:
            return b"".join(pieces), None if pieces else kafka_errors.KafkaConnectionError(error)
        if not data:
            ended = kafka_errors.KafkaConnectionError("socket disconnected")
            return b"".join(pieces), None if pieces else ended
        pieces.append(data)
        size += len(data)
    return b"".join(pieces), None
