"""A kafka-python consumer set up as Secor needs it, and calls into its IO thread.

The client (3.0.12) runs everything on one IO thread.  All of the adapter's work with it is
done there too, as coroutines: nothing races with rebalances, and a call from another thread
takes as long as its request, not as long as a poll.
"""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import kafka
from kafka import errors as kafka_errors
from kafka.consumer.fetcher import OffsetSpec
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataRequest

from secor.adapters.kafka import batches
from secor.errors import AccessDenied, ConfigurationError, SecorError, Unavailable
from secor.model import LogRange, TopicPartition

KafkaTopicPartition = kafka.TopicPartition

_READ_BYTES = 256 * 1024
_MOST_BYTES_A_TURN = 4 * 1024 * 1024
_UNKNOWN_TOPIC = 3
_DENIED = (
    kafka_errors.AuthorizationError,
    kafka_errors.SaslAuthenticationFailedError,
)
_MISCONFIGURED = (
    kafka_errors.KafkaConfigurationError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.InconsistentGroupProtocolError,
    kafka_errors.InvalidSessionTimeoutError,
    kafka_errors.InvalidGroupIdError,
    kafka_errors.UnsupportedVersionError,
)


def theirs(topic_partition: TopicPartition) -> Any:
    """Return kafka-python's word for it."""
    return KafkaTopicPartition(topic_partition.topic, topic_partition.partition)


def ours(topic_partition: Any) -> TopicPartition:
    """Return our word for kafka-python's."""
    return TopicPartition(topic_partition.topic, topic_partition.partition)


def translated(error: BaseException, what: str) -> SecorError:
    """Return the error of our tree that says what to do about one of the client's."""
    if isinstance(error, SecorError):
        return error
    said = f"{what}: {error or type(error).__name__}"
    if isinstance(error, _DENIED):
        return AccessDenied(f"{said}; check the credentials and the ACLs of topics and group")
    if isinstance(error, _MISCONFIGURED):
        return ConfigurationError(f"{said}; check the [kafka] section")
    return Unavailable(said)


def is_fatal(error: BaseException) -> bool:
    """Tell whether waiting cannot help."""
    return isinstance(error, _DENIED + _MISCONFIGURED)


class Abandoned(Unavailable):
    """Nobody waits for the call any more; what it was to do may still be done."""


class Client:
    """One consumer of kafka-python: ``consumer``, and calls into its thread.

    ``options`` are kafka-python's (``bootstrap_servers``, security, ...); ``settings`` too,
    from the adapter itself.  ``timeout`` in seconds bounds the first contact.
    Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        timeout: float = 30.0,
        receive_buffer_bytes: int = 1 << 20,
        metadata_max_age: float = 20.0,
        **settings: Any,
    ) -> None:
        self._servers = options.get("bootstrap_servers")
        opened: list[_NetClient] = []

        def open_client(**configs: Any) -> _NetClient:
            opened.append(_NetClient(**configs))
            return opened[-1]

        merged = {
            **options,
            **settings,
            "auto_offset_reset": "none",
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            "metadata_max_age_ms": int(metadata_max_age * 1000),
            "bootstrap_timeout_ms": int(timeout * 1000),
            "socket_options": _socket_options(receive_buffer_bytes),
            "kafka_client": open_client,
        }
        try:
            self.consumer: Any = kafka.KafkaConsumer(**merged)
            batches.install(self.consumer._fetcher)
        except (kafka_errors.KafkaError, SecorError, ValueError, OSError) as error:
            # A constructor that raises leaves its thread behind.
            for client in opened:
                client.close()
            raise self._not_reached(error, timeout) from error
        self.net: Any = self.consumer._net
        self.manager: Any = self.consumer._manager
        self.cluster: Any = self.consumer._cluster
        self.fetcher: Any = self.consumer._fetcher
        self.coordinator: Any = self.consumer._coordinator
        self.subscription: Any = self.consumer._subscription

    def _not_reached(self, error: Exception, timeout: float) -> SecorError:
        if isinstance(error, kafka_errors.KafkaTimeoutError):
            return Unavailable(
                f"no Kafka broker answered at {self._servers} within {timeout:g} s; check "
                "kafka.bootstrap_servers, the network, and security_protocol (a TLS port "
                "does not answer plain text, nor the other way round)"
            )
        if isinstance(error, ValueError | OSError):
            return ConfigurationError(f"Kafka at {self._servers}: {error}; check [kafka]")
        return translated(error, f"Kafka at {self._servers}")

    def post(self, task: Callable[[], object]) -> None:
        """Run ``task`` soon on the IO thread, after everything posted before."""
        try:
            self.net.call_soon_threadsafe(task)
        except (RuntimeError, kafka_errors.KafkaError) as error:
            raise Unavailable(f"the Kafka client is closed ({error})") from error

    def spawn(self, coroutine: Callable[[], Any], ended: Callable[[BaseException], None]) -> None:
        """Run ``coroutine`` on the IO thread for as long as it likes; tell how it failed."""
        self.net.call_soon_with_future(coroutine).add_errback(ended)

    def call(self, coroutine: Callable[..., Any], *args: Any, timeout: float, what: str) -> Any:
        """Run ``coroutine`` on the IO thread and wait for its result.

        Raises errors of our tree; ``Abandoned`` after ``timeout`` seconds, or when the client
        was closed meanwhile.
        """
        done = threading.Event()
        try:
            future = self.net.call_soon_with_future(coroutine, *args)
        except (RuntimeError, kafka_errors.KafkaError) as error:
            raise Unavailable(f"{what}: the Kafka client is closed ({error})") from error
        future.add_both(lambda _: done.set())
        if not done.wait(timeout):
            raise Abandoned(f"{what}: no answer from Kafka within {timeout:g} s")
        fault = future.exception
        if isinstance(fault, GeneratorExit):
            raise Abandoned(f"{what}: the Kafka client was closed")
        if isinstance(fault, kafka_errors.KafkaError):
            raise translated(fault, what) from fault
        if fault is not None:
            raise fault
        return future.value

    def log_range(self, topic_partition: TopicPartition, timeout: float) -> LogRange:
        """Ask for the log's start and its last stable offset."""
        what = f"the log of {topic_partition}"
        start, end = self.call(
            self._log_range, theirs(topic_partition), timeout, timeout=2 * timeout + 1, what=what
        )
        return LogRange(start, end)

    async def _log_range(self, tp: Any, timeout: float) -> tuple[int, int]:
        found = []
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
            answer = await self.fetcher._fetch_offsets_by_times_async({tp: spec}, timeout * 1000)
            if tp not in answer:
                raise kafka_errors.UnknownTopicOrPartitionError(str(tp))
            found.append(int(answer[tp].offset))
        return found[0], found[1]

    def topic_ids(self, topics: list[str] | None, timeout: float) -> dict[str, Topic]:
        """Ask for the topics' ids and partitions; all topics for None, absent ones left out."""
        found = self.call(self._topics, topics, timeout, timeout=timeout + 1, what="the topics")
        return {topic.name: topic for topic in found}

    async def _topics(self, topics: list[str] | None, timeout: float) -> list[Topic]:
        asked = (
            None
            if topics is None
            else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        )
        request = MetadataRequest(
            topics=asked,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        sent = self.manager.send(request)
        answer = await self.manager.wait_for(sent, timeout * 1000)
        return [_topic(found) for found in answer.topics if _exists(found)]

    def close(self, timeout: float = 5.0) -> None:
        """Leave the group, if in one, and end the thread."""
        try:
            self.consumer.close(autocommit=False, timeout_ms=int(timeout * 1000))
        except (kafka_errors.KafkaError, RuntimeError) as error:
            raise Unavailable(f"the Kafka client could not be closed: {error}") from error


class Topic:
    """A topic as the metadata shows it; ``id`` None from brokers before 2.8."""

    def __init__(self, name: str, topic_id: str | None, partitions: int, internal: bool) -> None:
        self.name = name
        self.id = topic_id
        self.partitions = partitions
        self.internal = internal


def id_text(topic_id: uuid.UUID | None) -> str | None:
    """Return a topic's id as Kafka's own tools print it; None for the id of zeros."""
    if topic_id is None or not topic_id.int:
        return None
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def _exists(found: Any) -> bool:
    if found.error_code == _UNKNOWN_TOPIC:
        return False
    error = kafka_errors.for_code(found.error_code)
    if issubclass(error, kafka_errors.AuthorizationError):
        raise error(found.name)
    return True


def _topic(found: Any) -> Topic:
    return Topic(found.name, id_text(found.topic_id), len(found.partitions), found.is_internal)


def _socket_options(receive_buffer_bytes: int) -> list[tuple[int, int, int]]:
    return [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes),
    ]


class _NetClient(KafkaNetClient):
    """The client's network part with our connections."""

    def __init__(self, **configs: Any) -> None:
        net = NetworkSelector(**configs)
        manager = _Manager(net, **configs)
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
