"""The words of transactional writing, and the port through which brokers are asked.

Source: Kafka's protocol guide; KIP-98 (transactions), KIP-890 (their second version).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from secor.core.model import TopicPartition


class BrokerCode(IntEnum):
    """Kafka's error codes, as far as answers to a producer have them; others are ``UNKNOWN``."""

    UNKNOWN = -1
    NONE = 0
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    MESSAGE_TOO_LARGE = 10
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    TRANSACTION_ABORTABLE = 120

    @classmethod
    def of(cls, number: int) -> BrokerCode:
        """Return the code of a number on the wire."""
        try:
            return cls(number)
        except ValueError:
            return cls.UNKNOWN


class Request(IntEnum):
    """The five requests of a transactional producer, by their number in the protocol."""

    PRODUCE = 0
    FIND_COORDINATOR = 10
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The coordinator's grant to a transactional id; a higher epoch fences lower ones."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class IdentityAnswer:
    """Answer to InitProducerId and EndTxn.

    ``identity`` is None where the answer has none: after an error, and after an EndTxn of the
    first version of transactions, which leaves the identity as it was.
    """

    code: BrokerCode
    identity: ProducerIdentity | None = None


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    """Answer of one partition; ``base_offset`` is the first record's, -1 after an error."""

    code: BrokerCode
    base_offset: int = -1
    message: str = ""


class TransactionRequests(Protocol):
    """Requests of transactional producers; many ids share the connections.

    Each call waits ``wait`` seconds at most.  A request whose answer is lost, and one that
    could not be sent, raise ``Unavailable``: the caller sends the same request again, which
    the protocol makes harmless.
    """

    @property
    def version(self) -> int:
        """Version of the transaction protocol, 1 or 2: in 2 producing adds the partition."""

    def find_coordinator(self, transactional_id: str, *, wait: float) -> BrokerCode:
        """Look up the id's coordinator, which the other requests then go to."""

    def init_producer_id(
        self, transactional_id: str, timeout: float, *, wait: float
    ) -> IdentityAnswer:
        """Fence every earlier owner and end its transaction; ``timeout`` is a transaction's."""

    def add_partitions(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        wait: float,
    ) -> BrokerCode:
        """Add partitions to the transaction; the gravest code where they differ."""

    def produce(
        self, transactional_id: str, topic_partition: TopicPartition, batch: bytes, *, wait: float
    ) -> Callable[[], ProduceAnswer]:
        """Send one batch to the partition's leader; the function waits for the answer."""

    def end_transaction(
        self, transactional_id: str, identity: ProducerIdentity, *, commit: bool, wait: float
    ) -> IdentityAnswer:
        """Commit or abort the transaction; version 2 answers with the next identity."""

    def open_transactions(
        self, topic_partitions: Collection[TopicPartition], *, wait: float
    ) -> Mapping[TopicPartition, Mapping[int, int]]:
        """Return by producer id the offsets at which open transactions began, as leaders know it.

        Topic partitions that this user may not read are left out.  Raises ``Unavailable``.
        """

    def refresh(self, topic: str) -> None:
        """Look up the topic's leaders again, soon."""
