"""A kafka-python consumer set up as Secor needs it, and calls into its IO thread.

The client (3.0.12) runs everything on one IO thread.  All of the adapter's work with it is
done there too, as coroutines: nothing races with rebalances, and a call from another thread
takes as long as its request, not as long as a poll.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import kafka
from kafka import errors as kafka_errors

from secor.adapters.kafka import guard, insides
from secor.adapters.kafka.batches import BatchRecords
from secor.adapters.kafka.connections import NetClient, check_security
from secor.adapters.kafka.failures import contact_failure, refusal, translated
from secor.core.errors import ConfigurationError, SecorError, Unavailable
from secor.core.model import TopicPartition
from secor.core.text import error_text

_log = logging.getLogger(__name__)

KafkaTopicPartition = kafka.TopicPartition


def to_client(topic_partition: TopicPartition) -> Any:
    """Return kafka-python's word for it."""
    return KafkaTopicPartition(topic_partition.topic, topic_partition.partition)


def from_client(topic_partition: Any) -> TopicPartition:
    """Return our word for kafka-python's."""
    return TopicPartition(topic_partition.topic, topic_partition.partition)


class Abandoned(Unavailable):
    """Nobody waits for the call any more; what it was to do may still be done."""


class Client:
    """One consumer of kafka-python: ``consumer``, and calls into its thread.

    ``options`` are kafka-python's (``bootstrap_servers``, security, ...); ``settings`` too,
    from the adapter itself.  ``topics`` are looked up at the first contact, all for None;
    ``timeout`` in seconds bounds it.  Unless ``committed``, it reads what is behind open
    transactions, too, and what was aborted.
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
        committed: bool = True,
        **settings: Any,
    ) -> None:
        servers = options.get("bootstrap_servers", ())
        self._servers = servers if isinstance(servers, str) else ", ".join(servers)
        opened: list[NetClient] = []

        def open_client(**configs: Any) -> NetClient:
            opened.append(NetClient(topics, **configs))
            return opened[-1]

        merged = {
            # The client waits up to half a minute before it looks for a broker again.
            "reconnect_backoff_max_ms": 2000,
            **options,
            **settings,
            # Out of range is an error for us to decide. "earliest" and "latest" jump without a
            # word, and lose or repeat messages.
            "auto_offset_reset": "none",
            "enable_auto_commit": False,
            "isolation_level": "read_committed" if committed else "read_uncommitted",
            # Else asking for a topic that was deleted makes it again.
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            # Beyond this many a connection refuses; uploads commit side by side.
            "max_in_flight_requests_per_connection": 100,
            "metadata_max_age_ms": int(metadata_max_age * 1000),
            "bootstrap_timeout_ms": int(timeout * 1000),
            "socket_options": _socket_options(receive_buffer_bytes),
            "kafka_client": open_client,
        }
        check_security(merged)
        try:
            self.consumer: Any = kafka.KafkaConsumer(**merged)
            guard.check(self.consumer)
        except (kafka_errors.KafkaError, SecorError, ValueError, OSError) as error:
            # A constructor that raises leaves its thread behind.
            for client in opened:
                client.close()
            failures = [failure for client in opened for failure in client.failures]
            raise self._not_reached(error, failures, timeout) from error
        parts = insides.ConsumerParts(self.consumer)
        self.net = parts.net
        self.manager = parts.manager
        self.cluster = parts.cluster
        self.fetcher = parts.fetcher
        self.coordinator = parts.coordinator
        self.subscription = parts.subscription
        self._network_client = parts.network_client
        insides.use_records(self.fetcher, BatchRecords)
        insides.compare_fetches_at_once()

    def _not_reached(
        self, error: Exception, failures: Sequence[BaseException], timeout: float
    ) -> SecorError:
        where = f"Kafka at {self._servers}"
        if isinstance(error, kafka_errors.KafkaTimeoutError):
            refused = [
                refused_error for failure in failures if (refused_error := refusal(failure, where))
            ]
            if refused:
                return refused[0]
            last = f" ({contact_failure(failures[-1])})" if failures else ""
            return Unavailable(
                f"no Kafka broker answered at {self._servers} within {timeout:g} s{last}; check "
                "kafka.bootstrap_servers, the network, and security_protocol (a TLS port "
                "does not answer plain text, nor the other way round)"
            )
        if isinstance(error, ValueError | OSError):
            return ConfigurationError(f"{where}: {error_text(error)}; check [kafka]")
        return translated(error, where)

    def spawn(self, task: Callable[[], Any], failed: Callable[[BaseException], None]) -> None:
        """Run a function or coroutine on the IO thread; pass its error to ``failed``.

        Tasks start in the order of the calls.
        """
        try:
            self.net.call_soon_with_future(task).add_errback(failed)
        except (RuntimeError, kafka_errors.KafkaError) as error:
            raise Unavailable(f"the Kafka client is closed ({error_text(error)})") from error

    def call(self, coroutine: Callable[..., Any], *args: Any, timeout: float, what: str) -> Any:
        """Run ``coroutine`` on the IO thread and wait for its result, as ``begin`` says."""
        return self.begin(coroutine, *args, what=what)(timeout)

    def begin(self, coroutine: Callable[..., Any], *args: Any, what: str) -> Callable[[float], Any]:
        """Begin ``coroutine`` on the IO thread; the function waits so many seconds for its result.

        Raises errors of our tree; ``Abandoned`` when the time is over, or when the client was
        closed meanwhile.
        """
        done = threading.Event()
        try:
            future = self.net.call_soon_with_future(coroutine, *args)
        except (RuntimeError, kafka_errors.KafkaError) as error:
            raise Unavailable(
                f"{what}: the Kafka client is closed ({error_text(error)})"
            ) from error
        future.add_both(lambda _: done.set())

        def result(timeout: float) -> Any:
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

        return result

    def aside(self, node_id: Any, purpose: str) -> str:
        """Return a name of the same broker that has a connection of its own.

        A broker answers one request of a connection after the other: behind a waiting fetch
        or JoinGroup a question would wait too.
        """
        broker = self.cluster.broker_metadata(node_id)
        if broker is None:
            which = "no broker" if node_id is None else f"broker {node_id} is not known and none"
            raise kafka_errors.NodeNotReadyError(f"{which} can be asked for now")
        name = f"{purpose}-{node_id}"
        insides.add_connection(self.cluster, name, broker)
        return name

    async def look_up(self, topics: Iterable[str]) -> None:
        """Ask for the metadata of topics now, on the IO thread; never raises for brokers.

        ``request_update`` waits until half a second has passed since the last answer.
        """
        for topic in topics:
            self.cluster.add_topic(topic)
        with suppress(kafka_errors.KafkaError):
            await self.cluster.refresh_metadata()

    def close(self, timeout: float = 5.0) -> None:
        """Leave the group, if in one, and end the thread; never raises for silent brokers."""
        try:
            self.consumer.close(autocommit=False, timeout_ms=int(timeout * 1000))
        except (kafka_errors.KafkaError, RuntimeError) as error:
            _log.warning("leaving the group: %s; its session will end by itself", error_text(error))
        # Does nothing when the consumer got that far.
        self._network_client.close()


def _socket_options(receive_buffer_bytes: int) -> list[tuple[int, int, int]]:
    return [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes),
    ]
