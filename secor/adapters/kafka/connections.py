"""The client's connections, set up to read fast and to create no topics."""

from __future__ import annotations

import importlib.util
import logging
import ssl
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kafka import errors as kafka_errors

from secor.adapters import tls
from secor.adapters.kafka import insides
from secor.adapters.kafka.failures import refusal
from secor.core.errors import ConfigurationError, SecorError
from secor.core.text import error_text

_log = logging.getLogger(__name__)

_MOST_BYTES_A_TURN = 1024 * 1024
_TLS_RECORD_BYTES = 16 * 1024
"""The most that TLS decrypts at once."""


class ResponseFrame(insides.KafkaBytes):
    """The bytes of a response while they come in, and when they are decoded.

    The client's own copies each of them four times more: to write it, and to read it.
    """

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        begin = self.tell()
        end = begin + len(data)
        memoryview(self)[begin:end] = data
        self.seek(end)

    def read(self, nbytes: int | None = None) -> bytes | memoryview:
        """Return the next ``nbytes`` bytes, or a view of all that are left."""
        if nbytes is not None:
            return bytes(super().read(nbytes))
        rest = memoryview(self)[self.tell() :]
        self.seek(len(self))
        return rest


class NetClient(insides.NetworkClient):
    """The client's network part with our connections."""

    def __init__(self, topics: Sequence[str] | None, **configs: Any) -> None:
        insides.collect_responses_in(ResponseFrame)
        net = insides.NetworkSelector(**configs)
        manager = _Manager(net, **configs)
        # Else the group is joined without knowing the topics, and at once again.
        insides.set_first_topics(manager.cluster, topics)
        # The consumer's setting of this name does not reach the metadata requests.
        manager.cluster.config["allow_auto_create_topics"] = False
        # A topic that does not exist (yet) is asked for again at this pace.
        manager.cluster.config["retry_backoff_ms"] = 500
        super().__init__(net=net, manager=manager, **configs)

    @property
    def failures(self) -> list[BaseException]:
        """Reasons why brokers were not reached, one each, while none had been."""
        return list(self.manager.failures.values())


def check_security(options: Mapping[str, Any]) -> None:
    """See that the packages and files are there that connections need.

    Each connection reads the files anew, so that certificates may be renewed; the client
    takes one that it cannot read for a broker that does not answer.
    Raises ``ConfigurationError``.
    """
    if options.get("sasl_plain_username") and not options.get("sasl_plain_password"):
        raise ConfigurationError(
            "kafka.sasl_plain_password is missing: set it, or the environment's"
            " SECOR_KAFKA__SASL_PLAIN_PASSWORD"
        )
    if options.get("sasl_mechanism") == "GSSAPI" and importlib.util.find_spec("gssapi") is None:
        raise ConfigurationError(
            'kafka.sasl_mechanism "GSSAPI" needs the package gssapi: pip install gssapi (and'
            " Kerberos's own libraries)"
        )
    if options.get("security_protocol") not in ("SSL", "SASL_SSL"):
        return
    tls.client_context(
        "Kafka",
        authorities=options.get("ssl_cafile"),
        certificate=options.get("ssl_certfile"),
        key=options.get("ssl_keyfile"),
        password=options.get("ssl_password"),
        revoked=options.get("ssl_crlfile"),
    )


class _Manager(insides.ConnectionManager):
    """Connections that read in large pieces: by 4 KB, reading costs more than decoding.

    A try to connect that fails closes its socket; the client leaves that to chance.  And at
    the first contact it tries on, whatever the brokers say: here it ends when all of them
    refuse.  Later a refusal is reported and tried again.
    """

    def __init__(self, net: Any, **configs: Any) -> None:
        super().__init__(net, **configs)
        self.failures: dict[Any, BaseException] = {}
        self._reached = False
        self._receiver = Receiver()

    def get_connection(self, node_id: Any, *args: Any, **settings: Any) -> Any:
        if not self._reached:
            self._raise_refusal()
        known = self.known_connection(node_id)
        connection = super().get_connection(node_id, *args, **settings)
        if connection is not known:
            connection.init_future.add_callback(self._was_reached)
            connection.init_future.add_errback(partial(self._failed, node_id))
        return connection

    def _failed(self, node_id: Any, error: BaseException) -> None:
        where = f"Kafka at {self.config['bootstrap_servers']}"
        if not self._reached:
            known = self.failures.get(node_id)
            # The last try is cut off by the time that is left: it says less than a refusal.
            if known is None or refusal(known, where) is None:
                self.failures[node_id] = error
            return
        refused = refusal(error, where)
        if refused is not None:
            _log.warning("%s; trying again", refused)

    def _was_reached(self, _: object) -> None:
        self._reached = True
        self.failures.clear()

    def _raise_refusal(self) -> None:
        where = f"Kafka at {self.config['bootstrap_servers']}"
        refusals: list[SecorError | None] = []
        for broker in self.cluster.bootstrap_brokers():
            failure = self.failures.get(broker.node_id)
            refusals.append(None if failure is None else refusal(failure, where))
        if refusals and refusals[0] is not None and None not in refusals:
            raise refusals[0]

    async def build_transport(self, node: Any, timeout_at: float | None) -> Any:
        attempt = _Attempt(self.loop)
        try:
            sock = await insides.create_connection(
                attempt,
                node.host,
                node.port,
                self.config["socket_options"],
                proxy_url=self.config["proxy_url"],
                timeout_at=timeout_at,
            )
            attempt.sockets.add(sock)
            transport = self._transport(sock, node.host)
            used = insides.socket_of(transport)
            attempt.sockets.add(used)
            await transport.handshake()
        except (OSError, kafka_errors.KafkaError) as error:
            attempt.close()
            raise kafka_errors.KafkaConnectionError(
                f"{node.host}:{node.port}: {error_text(error)}"
            ) from error
        except GeneratorExit:
            # The client was closed meanwhile.
            attempt.close()
            raise
        attempt.close_others(used)
        insides.receive_by(transport, partial(self._receiver.receive, transport))
        return transport

    def _transport(self, sock: Any, host: str) -> Any:
        ssl_options = {key: value for key, value in self.config.items() if key.startswith("ssl_")}
        return insides.open_transport(
            self.loop, sock, host, ssl_options if self.ssl_enabled else None
        )


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


class Receiver:
    """Reads what has come to a connection into one buffer, which all connections of a
    client share.

    The client copies it before it reads from the next connection.
    """

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(_MOST_BYTES_A_TURN + _TLS_RECORD_BYTES))

    def receive(self, transport: Any) -> tuple[memoryview, Exception | None]:
        """Read what is there; what came before the connection's end is not thrown away."""
        size = 0
        sock = insides.socket_of(transport)
        encrypted = isinstance(sock, ssl.SSLSocket)
        # What TLS has decrypted already does not wake the selector: take it all.
        while size < _MOST_BYTES_A_TURN or (encrypted and sock.pending()):
            most = sock.pending() if size >= _MOST_BYTES_A_TURN else _MOST_BYTES_A_TURN - size
            try:
                received = sock.recv_into(self._buffer[size:], most)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as error:
                return self._ended(size, kafka_errors.KafkaConnectionError(error))
            if not received:
                return self._ended(size, kafka_errors.KafkaConnectionError("socket disconnected"))
            size += received
        return self._buffer[:size], None

    def _ended(self, size: int, error: Exception) -> tuple[memoryview, Exception | None]:
        return self._buffer[:size], None if size else error
