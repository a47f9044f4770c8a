"""A kafka-python consumer set up as Secor needs it, and calls into its IO thread.

The client (3.0.12) runs everything on one IO thread.  All of the adapter's work with it is
done there too, as coroutines: nothing races with rebalances, and a call from another thread
takes as long as its request, not as long as a poll.
"""

from __future__ import annotations

import base64
import itertools
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import kafka
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.consumer import IsolationLevel, ListOffsetsRequest, OffsetSpec
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from secor.adapters.kafka import batches
from secor.errors import AccessDenied, ConfigurationError, SecorError, Unavailable
from secor.model import LogRange, TopicPartition

KafkaTopicPartition = kafka.TopicPartition

_READ_BYTES = 256 * 1024
_MOST_BYTES_A_TURN = 4 * 1024 * 1024
_UNKNOWN_TOPIC = 3
_TRIES_UNKNOWN = 5
_RETRY = 0.2
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
    from the adapter itself.  ``topics`` are looked up at the first contact, all for None;
    ``timeout`` in seconds bounds it.
    Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        timeout: float = 30.0,
        receive_buffer_bytes: int = 1 << 20,
        metadata_max_age: float = 20.0,
        topics: Sequence[str] | None = (),
        **settings: Any,
    ) -> None:
        self._servers = options.get("bootstrap_servers")
        opened: list[_NetClient] = []

        def open_client(**configs: Any) -> _NetClient:
            opened.append(_NetClient(topics, **configs))
            return opened[-1]

        merged = {
            **options,
            **settings,
            "auto_offset_reset": "none",
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            # Beyond this many a connection refuses; uploads commit side by side.
            "max_in_flight_requests_per_connection": 100,
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

    def spawn(self, task: Callable[[], Any], failed: Callable[[BaseException], None]) -> None:
        """Run a function or coroutine on the IO thread; tell how it failed.

        What is given earlier is begun earlier.
        """
        try:
            self.net.call_soon_with_future(task).add_errback(failed)
        except (RuntimeError, kafka_errors.KafkaError) as error:
            raise Unavailable(f"the Kafka client is closed ({error})") from error

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

    def aside(self, node_id: Any, purpose: str) -> str:
        """Return a name of the same broker that has a connection of its own.

        A broker answers one request of a connection after the other: behind a waiting fetch
        or JoinGroup a question would wait too.
        """
        broker = self.cluster.broker_metadata(node_id)
        if broker is None:
            raise kafka_errors.NodeNotReadyError(node_id)
        name = f"{purpose}-{node_id}"
        self.cluster._coordinator_brokers[name] = MetadataResponse.MetadataResponseBroker(
            name, broker.host, broker.port, broker.rack
        )
        return name

    def log_range(self, topic_partition: TopicPartition, timeout: float) -> LogRange:
        """Ask for the log's start and its last stable offset."""
        what = f"the log of {topic_partition}"
        start, end = self.call(
            self._log_range, theirs(topic_partition), timeout, timeout=2 * timeout + 1, what=what
        )
        return LogRange(start, end)

    async def _log_range(self, tp: Any, timeout: float) -> tuple[int, int]:
        deadline = time.monotonic() + timeout
        for tries in itertools.count(1):
            try:
                start = await self._list_offset(tp, OffsetSpec.EARLIEST, timeout)
                end = await self._list_offset(tp, OffsetSpec.LATEST, timeout)
            except kafka_errors.RetriableError as error:
                unknown = isinstance(error, kafka_errors.UnknownTopicOrPartitionError)
                if time.monotonic() >= deadline or (unknown and tries == _TRIES_UNKNOWN):
                    raise
                self.cluster.add_topic(tp.topic)
                self.cluster.request_update()
                await self.net.sleep(_RETRY)
            else:
                return start, end
        raise AssertionError("counting ended")

    async def _list_offset(self, tp: Any, spec: Any, timeout: float) -> int:
        leader = self.cluster.leader_for_partition(tp)
        if leader in (None, -1):
            raise kafka_errors.UnknownTopicOrPartitionError(f"{tp.topic}/{tp.partition}")
        topic = ListOffsetsRequest.ListOffsetsTopic
        request = ListOffsetsRequest(
            isolation_level=IsolationLevel.READ_COMMITTED,
            topics=[
                topic(
                    name=tp.topic,
                    partitions=[
                        topic.ListOffsetsPartition(
                            partition_index=tp.partition, current_leader_epoch=-1, timestamp=spec
                        )
                    ],
                )
            ],
            # The first that knows isolation levels; the last whose answers need no more care.
            min_version=2,
            max_version=6,
        )
        sent = self.manager.send(request, node_id=self.aside(leader, "questions"))
        answer = await self.manager.wait_for(sent, timeout * 1000)
        found = answer.topics[0].partitions[0]
        if found.error_code:
            raise kafka_errors.for_code(found.error_code)(f"{tp.topic}/{tp.partition}")
        return int(found.offset)

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
        node = self.manager.least_loaded_node()
        sent = self.manager.send(request, node_id=self.aside(node, "questions"))
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
