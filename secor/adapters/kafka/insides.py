"""The one place, with ``fetch_requests``, that touches what kafka-python 3.0.12 does not promise.

Whole record batches, a membership without gaps and fast connections are not to be had from
the client's public interface.  All names of it that another release may move are here:
``guard`` compares them with the installed client, and no other module of the adapter imports
from ``kafka``'s inner modules or reads an underscore attribute of one of its objects
(``fetch_requests`` reads those of a fetcher).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import kafka

from secor.core.errors import ConfigurationError

VERSION = "3.0.12"

DO = (
    f"install the version that Secor is made for: pip install 'kafka-python=={VERSION}'"
    " (a package named kafka or kafka-python-ng in the same environment hides it)"
)

try:
    from kafka import KafkaProducer
    from kafka.consumer.fetcher import (
        Fetcher,
        FetchMetadata,
        FetchRequestData,
        FetchSessionHandler,
    )
    from kafka.consumer.subscription_state import (
        AsyncConsumerRebalanceListener,
        SubscriptionState,
        TopicPartitionState,
    )
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.net.compat import KafkaNetClient
    from kafka.net.inet import create_connection
    from kafka.net.manager import KafkaConnectionManager
    from kafka.net.sasl.oauth import AbstractTokenProvider
    from kafka.net.selector import NetworkSelector
    from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
    from kafka.net.wakeup_notifier import WakeupNotifier
    from kafka.partitioner.default import murmur2
    from kafka.producer.sender import Sender
    from kafka.protocol import parser as _parser
    from kafka.protocol.admin import (
        AlterClientQuotasRequest,
        DescribeClientQuotasRequest,
        DescribeGroupsRequest,
        DescribeProducersRequest,
        DescribeTransactionsRequest,
        ListTransactionsRequest,
    )
    from kafka.protocol.consumer import (
        FetchRequest,
        IsolationLevel,
        ListOffsetsRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        OffsetForLeaderEpochRequest,
        OffsetSpec,
    )
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
    from kafka.protocol.metadata import (
        ApiVersionsRequest,
        CoordinatorType,
        FindCoordinatorRequest,
        MetadataRequest,
        MetadataResponse,
    )
    from kafka.protocol.producer import (
        AddPartitionsToTxnRequest,
        EndTxnRequest,
        InitProducerIdRequest,
        ProduceRequest,
    )
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

    _ClientRecords: Any = Fetcher.PartitionRecords
    KafkaBytes: Any = _parser.KafkaBytes
    FetchPartition: Any = FetchRequest.FetchTopic.FetchPartition
except (ImportError, AttributeError) as error:
    _installed = getattr(kafka, "__version__", "of unknown version")
    raise ConfigurationError(
        f"kafka-python {_installed} is not built as Secor needs it ({error}); {DO}"
    ) from error

# fmt: off
__all__ = [
    "AbstractTokenProvider", "AddPartitionsToTxnRequest", "AlterClientQuotasRequest",
    "ApiVersionsRequest", "DescribeClientQuotasRequest",
    "AsyncConsumerRebalanceListener", "CooperativeStickyAssignor", "CoordinatorType",
    "DefaultRecordBatch", "DefaultRecordBatchBuilder", "DescribeGroupsRequest",
    "DescribeProducersRequest", "DescribeTransactionsRequest", "EndTxnRequest",
    "FetchMetadata", "FetchRequest", "FetchRequestData", "FetchSessionHandler", "Fetcher",
    "FindCoordinatorRequest", "InitProducerIdRequest", "IsolationLevel", "KafkaBytes",
    "KafkaConnectionManager", "KafkaProducer", "KafkaSSLTransport", "KafkaTCPTransport",
    "ListOffsetsRequest", "ListTransactionsRequest", "MetadataRequest", "MetadataResponse",
    "NetworkSelector", "OffsetCommitRequest", "OffsetFetchRequest", "OffsetForLeaderEpochRequest",
    "OffsetSpec", "ProduceRequest", "RangePartitionAssignor", "RoundRobinPartitionAssignor",
    "Sender", "StickyPartitionAssignor", "SubscriptionState", "TopicPartitionState",
    "WakeupNotifier", "create_connection", "murmur2",
]
# fmt: on


class ConsumerParts:
    """The inner objects of a ``KafkaConsumer``; all of them belong to its IO thread."""

    def __init__(self, consumer: Any) -> None:
        self.net: Any = consumer._net
        self.manager: Any = consumer._manager
        self.cluster: Any = consumer._cluster
        self.fetcher: Any = consumer._fetcher
        self.coordinator: Any = consumer._coordinator
        self.subscription: Any = consumer._subscription
        self.network_client: Any = consumer._client


# ------------------------------------------------------------------- fetching


class PartitionRecords(_ClientRecords):
    """One partition's part of a fetch response; ``unpack`` says what it consists of."""

    def unpack(self, records: Any) -> Iterator[Any]:
        """Yield the items of the client's ``MemoryRecords``."""
        raise NotImplementedError

    def fetched_bytes(self) -> bytes:
        """Return all bytes of the answer."""
        return bytes(self._fetched._buffer)

    def abort_transactions_up_to(self, offset: int) -> None:
        """Begin the aborted transactions whose first offset is at most ``offset``."""
        self._consume_aborted_transactions_up_to(offset)

    def ends_aborted_transaction(self, batch: Any) -> bool:
        """Return whether the batch is an abort marker; reads its first record."""
        return bool(self._contains_abort_marker(batch))

    def is_aborted(self, batch: Any) -> bool:
        """Return whether the batch belongs to a transaction that was aborted."""
        return bool(self._is_batch_aborted(batch))

    def _maybe_skip_record(self, _item: Any) -> bool:
        return False

    def _unpack_records(self, _tp: Any, records: Any, *_deserializers: object) -> Iterator[Any]:
        self._fetched: Any = records
        return self.unpack(records)


def batch_bytes(batch: Any) -> bytearray:
    """Return the bytes of a record batch, header included, before a record of it is read."""
    return batch._buffer


def use_records(fetcher: Any, records: type[PartitionRecords]) -> None:
    """Let ``fetcher`` make ``records`` of every fetched partition."""
    fetcher.PartitionRecords = records


FETCH_FIELDS = (
    *("partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch"),
    "partition_max_bytes",
)
"""What the client sets of a partition in a fetch request."""

_fetch_fields = attrgetter(*FETCH_FIELDS)


def compare_fetches_at_once() -> None:
    """Let the client compare what it asks for by these fields alone.

    Before each request it compares all partitions of a session with those of the request before.
    Its own comparison looks up the default of every field that was not set: 4.7 us, not 0.3.
    """
    FetchPartition.__eq__ = _asks_for_the_same


def _asks_for_the_same(partition: Any, other: Any) -> bool:
    return partition is other or (
        type(partition) is type(other) and bool(_fetch_fields(partition) == _fetch_fields(other))
    )


def completed_fetches(fetcher: Any) -> Any:
    """Return the deque of answers that nobody has parsed yet."""
    return fetcher._completed_fetches


async def send_fetches(fetcher: Any) -> list[Any]:
    """Ask every broker that has no fetch request; return the futures of the answers.

    When one cannot be sent, the fetch sessions of all brokers begin anew: the client has
    already noted what it was about to add to them, and would never ask for it again.
    """
    try:
        sent: list[Any] = await fetcher._send_fetches_async()
    except BaseException:
        reset_sessions(fetcher, list(fetcher._session_handlers))
        raise
    return sent


def sent_fetches(fetcher: Any) -> list[Any]:
    """Return the futures of the fetch requests that were sent lately."""
    return list(fetcher._fetch_futures)


def asked_nodes(fetcher: Any) -> frozenset[Any]:
    """Return the brokers that have a fetch request of ours."""
    return frozenset(fetcher._nodes_with_pending_fetch_requests)


def fetch_wait(fetcher: Any) -> float:
    """Return for how many seconds a broker may keep a fetch request without messages."""
    return float(fetcher.config["fetch_max_wait_ms"]) / 1000


def set_fetch_wait(fetcher: Any, seconds: float) -> None:
    """Set it for the requests that follow."""
    fetcher.config["fetch_max_wait_ms"] = int(seconds * 1000)


def read_replica(fetcher: Any, topic_partition: Any) -> int | None:
    """Return the broker that a partition is read from: its leader, or a replica in our rack."""
    return fetcher._select_read_replica(topic_partition)


def set_rack(fetcher: Any, rack: str) -> None:
    """Set the rack that brokers hear of in the requests that follow."""
    fetcher.config["client_rack"] = rack


def report_fetch_failures(fetcher: Any, report: Callable[[Any], object]) -> None:
    """Call ``report`` with the broker of each fetch request that fails."""
    handle = fetcher._handle_fetch_error

    def handle_and_report(node: Any, error: Any) -> None:
        handle(node, error)
        report(node)

    fetcher._handle_fetch_error = handle_and_report


def forget_asked_nodes(fetcher: Any) -> None:
    """Count no broker as being asked."""
    fetcher._nodes_with_pending_fetch_requests.clear()


def reset_sessions(fetcher: Any, nodes: Iterable[Any]) -> None:
    """Name all partitions in the next fetch request to each of these brokers."""
    for node in nodes:
        handler = fetcher._session_handlers.get(node)
        if handler is not None:
            # The client's own way to begin a session anew: its next request names all partitions.
            handler.handle_error(None)


def parse_fetch(fetcher: Any, completed: Any) -> Any:
    """Return the records of an answer, None for one without; raises what the client does.

    Only a leader names the replica that is to be read.  The client would ask the leader again
    after each answer of that replica, which names none.
    """
    answer = completed.partition_data
    state = fetcher._subscriptions.assignment.get(completed.topic_partition)
    if state is not None and answer.preferred_read_replica < 0 and not answer.error_code:
        replica = state.preferred_read_replica()
        answer.preferred_read_replica = -1 if replica is None else replica
    return fetcher._parse_fetched_data(completed)


# ------------------------------------------------------ membership and metadata


def member_id(coordinator: Any) -> str:
    """Return the member id under which the group knows us, empty before the first join."""
    return str(coordinator._generation.member_id)


def membership_lost(coordinator: Any) -> bool:
    """Return whether the client knows that it is no member any more."""
    return bool(coordinator._generation.is_lost())


def is_fenced(coordinator: Any) -> bool:
    """Return whether another process has joined under the ``group_instance_id`` of this one.

    The client logs it, ends its heartbeats and otherwise goes on as if it were a member.
    """
    static = coordinator.group_instance_id is not None
    return static and coordinator.stable() and not coordinator._heartbeat_enabled


def add_connection(cluster: Any, name: str, broker: Any) -> None:
    """Let ``name`` be another connection to the address of ``broker``."""
    # The client looks there first, and metadata never replaces what is there.
    cluster._coordinator_brokers[name] = MetadataResponse.MetadataResponseBroker(
        name, broker.host, broker.port, broker.rack
    )


def empty_assignment(assignor: Any) -> Any:
    """Return what gives a member no partition, as ``assignor`` does."""
    return ConsumerProtocolAssignment(assignor.version, [], b"")


class MetadataAge:
    """The time at which the client asked for the metadata that it holds.

    An answer that was on its way already when something happened says nothing about it.
    """

    def __init__(self, cluster: Any) -> None:
        self.asked_at = 0.0
        """Monotonic seconds; 0 for metadata from before this object."""
        self.answers = 0
        self._asking_since = 0.0
        self._request = cluster.metadata_request
        cluster.metadata_request = self._ask
        cluster.add_listener(self._answer)

    def _ask(self) -> Any:
        # The client has one such request under way at most.
        self._asking_since = time.monotonic()
        return self._request()

    def _answer(self, _cluster: Any) -> None:
        self.asked_at = self._asking_since
        self.answers += 1


def set_first_topics(cluster: Any, topics: Sequence[str] | None) -> None:
    """Ask for these topics at the first contact, for all of them when None."""
    cluster.need_all_topic_metadata = topics is None
    cluster._topics = set(topics or ())


# ---------------------------------------------------------------- connections


class ConnectionManager(KafkaConnectionManager):
    """The client's connections; ``build_transport`` makes one."""

    @property
    def loop(self) -> Any:
        """The selector's loop."""
        return self._net

    def known_connection(self, node_id: Any) -> Any:
        """Return the connection under this name, None where there is none."""
        return self._conns.get(node_id)

    async def build_transport(self, node: Any, timeout_at: float | None) -> Any:
        """Connect to ``node`` until ``timeout_at`` (monotonic seconds), handshake included."""
        raise NotImplementedError

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        return await self.build_transport(node, timeout_at)


class NetworkClient(KafkaNetClient):
    """The client's network part."""

    @property
    def manager(self) -> Any:
        """The manager that it was made with."""
        return self._manager


def open_transport(net: Any, sock: Any, host: str, ssl: dict[str, Any] | None) -> Any:
    """Return a transport over a connected socket; ``ssl`` are the client's options for TLS."""
    if ssl is None:
        return KafkaTCPTransport(net, sock, host=host)
    return KafkaSSLTransport(net, sock, host=host, **ssl)


def socket_of(transport: Any) -> Any:
    """Return the socket; TLS has wrapped the one that was given."""
    return transport._sock


def receive_by(
    transport: Any, receive: Callable[[], tuple[bytes | memoryview, Exception | None]]
) -> None:
    """Let the transport read by ``receive``, which returns what came and what ended it.

    What came is copied before the next call.
    """
    transport._sock_recv = receive


def collect_responses_in(frame: type[KafkaBytes]) -> None:
    """Let connections keep the bytes of a response in such a frame."""
    _parser.KafkaBytes = frame


def give_up_sending(producer: Any) -> None:
    """Let a ``KafkaProducer`` drop what it could not send: else it can never be closed."""
    producer._sender.force_close()
