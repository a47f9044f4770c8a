"""Compares the installed kafka-python with all that the adapter uses of its insides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafka

from secor.adapters.kafka import insides
from secor.core.errors import ConfigurationError

OF_CLASSES = """
Fetcher: _parse_fetched_data _send_fetches_async maybe_validate_positions
Fetcher: validate_offsets_if_needed _create_fetch_requests _enable_incremental_fetch_sessions
FetchRequest: min_version_for_isolation_level
FetchSessionHandler: build_next
FetchMetadata: LEGACY
FetchRequestData: epoch id to_forget to_send
Fetcher.PartitionRecords: _consume_aborted_transactions_up_to _contains_abort_marker
Fetcher.PartitionRecords: _is_batch_aborted _maybe_skip_record _unpack_records drain
SubscriptionState: assign_from_subscribed pause
TopicPartitionState: awaiting_validation is_fetchable paused position preferred_read_replica seek
KafkaNetClient: _manager close throttle_delay
KafkaConnectionManager: _build_transport _conns _net cluster config connection_delay get_connection
KafkaConnectionManager: least_loaded_node send ssl_enabled wait_for
NetworkSelector: call_soon_with_future sleep wait_write
KafkaTCPTransport: _sock _sock_recv handshake
KafkaSSLTransport: _sock_recv handshake
KafkaBytes: read seek tell write
WakeupNotifier: notify
KafkaProducer: _sender
Sender: force_close
DefaultRecordBatch: _buffer base_offset has_producer_id is_control_batch last_offset
DefaultRecordBatch: leader_epoch magic next_offset producer_id validate_crc
DefaultRecordBatchBuilder: append build
FetchPartition: current_leader_epoch fetch_offset last_fetched_epoch partition
FetchPartition: partition_max_bytes
ProduceRequest: TopicProduceData
AddPartitionsToTxnRequest: AddPartitionsToTxnTopic
AlterClientQuotasRequest: API_KEY EntryData
ApiVersionsRequest: API_KEY
DescribeClientQuotasRequest: API_KEY
CoordinatorType: TRANSACTION
EndTxnRequest: API_KEY
FindCoordinatorRequest: API_KEY
InitProducerIdRequest: API_KEY
OffsetFetchRequest: OffsetFetchRequestGroup OffsetFetchRequestTopic
OffsetCommitRequest: OffsetCommitRequestTopic
ListOffsetsRequest: ListOffsetsTopic
MetadataRequest: MetadataRequestTopic
MetadataResponse: MetadataResponseBroker
OffsetSpec: EARLIEST LATEST
IsolationLevel: READ_COMMITTED READ_UNCOMMITTED
DescribeProducersRequest: TopicRequest
DescribeTransactionsRequest: API_KEY
ListTransactionsRequest: API_KEY
"""
"""What classes of ``insides`` must have, or set on each instance."""

OF_CONSUMER = """
: _client _cluster _coordinator _fetcher _manager _net _subscription
_cluster: _coordinator_brokers _topics add_listener add_topic broker_metadata config
_cluster: brokers leader_for_partition metadata_request need_all_topic_metadata partitions_for_topic
_cluster: leader_epoch_for_partition request_update topic_id unauthorized_topics
_coordinator: _generation coordinator coordinator_dead ensure_active_group_async
_coordinator: ensure_coordinator_ready_async need_rejoin poll_heartbeat request_rejoin
_coordinator: _heartbeat_enabled group_instance_id stable
_fetcher: _completed_fetches _fetch_futures _nodes_with_pending_fetch_requests _session_handlers
_fetcher: _handle_fetch_error _select_read_replica _subscriptions config
_fetcher: _client _isolation_level _manager
_subscription: assignment subscribed_pattern
"""
"""What the parts of a ``KafkaConsumer`` must have, by the attribute that holds the part.

A consumer without a group has no coordinator.
"""


def check(consumer: Any) -> None:
    """Compare the installed client with what is used of it.

    Raises ``ConfigurationError`` that names what is missing and says what to do.
    """
    missing = [
        f"{name}.{attribute}"
        for name, attribute in _pairs(OF_CLASSES)
        if not _has(_class(name), attribute)
    ]
    for part, attribute in _pairs(OF_CONSUMER):
        holder = getattr(consumer, part, None) if part else consumer
        absent = part == "_coordinator" and holder is None
        if not absent and not hasattr(holder, attribute):
            missing.append(".".join(filter(None, ("KafkaConsumer", part, attribute))))
    if missing:
        installed = getattr(kafka, "__version__", "of unknown version")
        raise ConfigurationError(
            f"kafka-python {installed} is not built as Secor needs it: it has no"
            f" {', '.join(missing)}; {insides.DO}"
        )


def _pairs(table: str) -> Iterator[tuple[str, str]]:
    for line in table.strip().splitlines():
        owner, _, attributes = line.partition(":")
        for attribute in attributes.split():
            yield owner, attribute


def _class(name: str) -> Any:
    member: Any = insides
    for step in name.split("."):
        member = getattr(member, step)
    return member


def _has(kind: Any, attribute: str) -> bool:
    # Attributes that ``__init__`` sets are in no class: its code names them.
    return hasattr(kind, attribute) or attribute in kind.__init__.__code__.co_names
