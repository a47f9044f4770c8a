"""Decisions about each error of each request: pure, total, tested.

Source: the error handling of Kafka's own ``TransactionManager``; KIP-890 and KIP-1050.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from secor.core.transactions import BrokerCode, Request


class WriterAction(Enum):
    """A writer's next action after an answer."""

    GO_ON = "go on"
    RETRY = "retry"
    """Send the same bytes again, after a pause."""
    FIND_COORDINATOR = "find the coordinator"
    """Look the coordinator up anew, then send the same request again."""
    FIND_LEADER = "find the leader"
    """Look the leader up anew, then send the same bytes again."""
    ABORT = "abort"
    """The transaction must not be committed; the writer stays good."""
    REBUILD = "rebuild"
    """This writer is finished: make a new one, initialise, read the offset."""
    FENCED = "fenced"
    """As ``REBUILD``, but only if we still own the source partition."""
    FAIL = "fail"
    """Sending again cannot help: a person must act."""


_C = BrokerCode

_EVERYWHERE: Mapping[BrokerCode, WriterAction] = {
    _C.NONE: WriterAction.GO_ON,
    _C.REQUEST_TIMED_OUT: WriterAction.RETRY,
    _C.NETWORK_EXCEPTION: WriterAction.RETRY,
    _C.BROKER_NOT_AVAILABLE: WriterAction.RETRY,
    _C.THROTTLING_QUOTA_EXCEEDED: WriterAction.RETRY,
    _C.UNSUPPORTED_VERSION: WriterAction.FAIL,
    # A missing right does not come back within a transaction. The schedule tries it again now and
    # then.
    _C.CLUSTER_AUTHORIZATION_FAILED: WriterAction.FAIL,
    _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: WriterAction.FAIL,
    _C.TOPIC_AUTHORIZATION_FAILED: WriterAction.FAIL,
    _C.INVALID_PRODUCER_EPOCH: WriterAction.FENCED,
    _C.PRODUCER_FENCED: WriterAction.FENCED,
    # KIP-890: the broker asks for an abort itself, and goes on with this identity afterwards.
    _C.TRANSACTION_ABORTABLE: WriterAction.ABORT,
}

_OF_COORDINATOR: Mapping[BrokerCode, WriterAction] = {
    _C.COORDINATOR_LOAD_IN_PROGRESS: WriterAction.RETRY,
    _C.CONCURRENT_TRANSACTIONS: WriterAction.RETRY,
    _C.COORDINATOR_NOT_AVAILABLE: WriterAction.FIND_COORDINATOR,
    _C.NOT_COORDINATOR: WriterAction.FIND_COORDINATOR,
    _C.TRANSACTION_COORDINATOR_FENCED: WriterAction.REBUILD,
    _C.INVALID_PRODUCER_ID_MAPPING: WriterAction.REBUILD,
    _C.INVALID_TXN_STATE: WriterAction.REBUILD,
    _C.UNKNOWN_PRODUCER_ID: WriterAction.REBUILD,
}

_OF_PRODUCE: Mapping[BrokerCode, WriterAction] = {
    _C.UNKNOWN_TOPIC_OR_PARTITION: WriterAction.FIND_LEADER,
    _C.LEADER_NOT_AVAILABLE: WriterAction.FIND_LEADER,
    _C.NOT_LEADER_OR_FOLLOWER: WriterAction.FIND_LEADER,
    _C.FENCED_LEADER_EPOCH: WriterAction.FIND_LEADER,
    _C.UNKNOWN_LEADER_EPOCH: WriterAction.FIND_LEADER,
    _C.KAFKA_STORAGE_ERROR: WriterAction.FIND_LEADER,
    _C.NOT_ENOUGH_REPLICAS: WriterAction.RETRY,
    _C.NOT_ENOUGH_REPLICAS_AFTER_APPEND: WriterAction.RETRY,
    # Spoilt on the way: the bytes were right when their checksum was made.
    _C.CORRUPT_MESSAGE: WriterAction.RETRY,
    # Version 2: the transaction before this one is still being completed, or the coordinator
    # that has to add the partition does not answer the leader.
    _C.CONCURRENT_TRANSACTIONS: WriterAction.RETRY,
    _C.COORDINATOR_LOAD_IN_PROGRESS: WriterAction.RETRY,
    _C.COORDINATOR_NOT_AVAILABLE: WriterAction.RETRY,
    _C.NOT_COORDINATOR: WriterAction.RETRY,
    # One batch of a writer is in flight at a time, and a broker answers its repetition with
    # the first one's offset: a sequence that is older cannot be ours.
    _C.DUPLICATE_SEQUENCE_NUMBER: WriterAction.REBUILD,
    _C.OUT_OF_ORDER_SEQUENCE_NUMBER: WriterAction.REBUILD,
    _C.UNKNOWN_PRODUCER_ID: WriterAction.REBUILD,
    _C.INVALID_PRODUCER_ID_MAPPING: WriterAction.REBUILD,
    _C.INVALID_TXN_STATE: WriterAction.REBUILD,
    _C.MESSAGE_TOO_LARGE: WriterAction.FAIL,
    _C.RECORD_LIST_TOO_LARGE: WriterAction.FAIL,
    _C.INVALID_RECORD: WriterAction.FAIL,
    _C.INVALID_TIMESTAMP: WriterAction.FAIL,
    _C.INVALID_TOPIC: WriterAction.FAIL,
    _C.POLICY_VIOLATION: WriterAction.FAIL,
    _C.UNSUPPORTED_COMPRESSION_TYPE: WriterAction.FAIL,
    _C.UNSUPPORTED_FOR_MESSAGE_FORMAT: WriterAction.FAIL,
}

_BY_REQUEST: Mapping[Request, Mapping[BrokerCode, WriterAction]] = MappingProxyType(
    {
        Request.FIND_COORDINATOR: {
            **_EVERYWHERE,
            _C.COORDINATOR_LOAD_IN_PROGRESS: WriterAction.RETRY,
            _C.COORDINATOR_NOT_AVAILABLE: WriterAction.RETRY,
            _C.TRANSACTION_ABORTABLE: WriterAction.RETRY,
        },
        Request.INIT_PRODUCER_ID: {
            **_EVERYWHERE,
            **_OF_COORDINATOR,
            _C.INVALID_TRANSACTION_TIMEOUT: WriterAction.FAIL,
            # There is no transaction of this writer yet.
            _C.TRANSACTION_ABORTABLE: WriterAction.RETRY,
        },
        Request.ADD_PARTITIONS_TO_TXN: {
            **_EVERYWHERE,
            **_OF_COORDINATOR,
            # A coordinator that has just started knows a new topic a moment later than its leader.
            _C.UNKNOWN_TOPIC_OR_PARTITION: WriterAction.RETRY,
            _C.OPERATION_NOT_ATTEMPTED: WriterAction.RETRY,
        },
        Request.PRODUCE: {**_EVERYWHERE, **_OF_PRODUCE},
        Request.END_TXN: {**_EVERYWHERE, **_OF_COORDINATOR},
    }
)


def decide(request: Request, code: BrokerCode) -> WriterAction:
    """Return what to do; an error that is not known makes the writer be built anew."""
    # To build anew is always right: it initialises, which ends what is open, and reads the offset.
    return _BY_REQUEST[request].get(code, WriterAction.REBUILD)


def missing_right(code: BrokerCode, ids: str, topic: str | None) -> str | None:
    """Return which right has to be given to the user; None where none is missing.

    ``ids`` is what the job's transactional ids begin with, ``topic`` what was written to.
    """
    if code is _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return f"allow this user Write on transactional ids that begin with {ids}"
    if code is _C.TOPIC_AUTHORIZATION_FAILED and topic is not None:
        return f"allow this user Write on the topic {topic}"
    if code in (_C.TOPIC_AUTHORIZATION_FAILED, _C.CLUSTER_AUTHORIZATION_FAILED):
        return (
            f"allow this user Write on transactional ids that begin with {ids}, on the targets,"
            " and on the job's offsets topic"
        )
    return None


_TOO_LARGE = "a message is larger than the topic takes: raise its max.message.bytes"
_TOO_FEW_REPLICAS = (
    "fewer of its replicas are in sync than its min.insync.replicas: bring the brokers back, or"
    " lower it"
)
_WHAT_TO_DO: Mapping[BrokerCode, str] = MappingProxyType(
    {
        _C.MESSAGE_TOO_LARGE: _TOO_LARGE,
        _C.RECORD_LIST_TOO_LARGE: _TOO_LARGE,
        _C.INVALID_RECORD: "a compacted topic takes no message without a key: set its"
        " cleanup.policy to delete for the time of the restore",
        _C.INVALID_TIMESTAMP: "raise its message.timestamp.before.max.ms and after.max.ms",
        _C.NOT_ENOUGH_REPLICAS: _TOO_FEW_REPLICAS,
        _C.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _TOO_FEW_REPLICAS,
        _C.KAFKA_STORAGE_ERROR: "the broker cannot write to its disk: look whether it is full",
    }
)


def what_to_do(code: BrokerCode) -> str:
    """Return, behind a semicolon, what a person can do about a code; empty where nothing is."""
    advice = _WHAT_TO_DO.get(code)
    return "" if advice is None else f"; {advice}"
