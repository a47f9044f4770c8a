"""The client's connections, set up to read fast and to create no topics."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

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
    """Connections that read in large pieces: by 4 KB, reading costs more than decoding."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        transport._sock_recv = partial(_receive, transport)
        return transport


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
