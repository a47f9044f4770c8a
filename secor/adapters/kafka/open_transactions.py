"""Open transactions of topic partitions, and the producers that hold them open (KIP-664).

A log's last stable offset is where its first open transaction began.  The leader of the topic
partition knows that transaction's producer (``DescribeProducers``), each broker the transactions
that it coordinates (``ListTransactions``, ``DescribeTransactions``).  A transaction that the
leader has open, and its coordinator has not, is hanging: nothing ends it but a person.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kafka import errors as kafka_errors

from secor.adapters.kafka.client import Client, to_client
from secor.adapters.kafka.insides import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from secor.core.model import OpenTransaction, TopicPartition
from secor.core.text import error_text

_log = logging.getLogger(__name__)

_FEW = 20
"""Partitions of one request: each may have ten thousands of producers, and the answer is decoded
between the heartbeats.
"""

_GOING_ON = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
"""States in which the coordinator has the transaction, or still writes its markers."""


@dataclass(frozen=True, slots=True)
class _Described:
    """A transaction as its coordinator describes it; ``since`` in seconds since the epoch."""

    transactional_id: str
    state: str
    since: float | None
    topic_partitions: frozenset[TopicPartition]


async def first_open_transactions(
    client: Client, topic_partitions: Iterable[TopicPartition], timeout: float
) -> dict[TopicPartition, OpenTransaction]:
    """Return the transactions that the last stable offsets wait for, without those of none.

    They are described as far as brokers know them and this user may see them; ``timeout`` in
    seconds bounds each request.
    """
    first = await _first_producers(client, topic_partitions, timeout)
    described = await _describe(
        client, {int(earliest.producer_id) for earliest in first.values()}, timeout
    )
    opened = {
        key: _open_transaction(key, producer, described.get(int(producer.producer_id)))
        for key, producer in first.items()
    }
    # The coordinator had ended these when it was asked: their markers may have come since.
    suspects = [key for key, transaction in opened.items() if transaction.hanging]
    again = await _first_producers(client, suspects, timeout)
    return {
        key: transaction
        for key, transaction in opened.items()
        if key not in suspects
        or (key in again and again[key].current_txn_start_offset == transaction.start_offset)
    }


async def _first_producers(
    client: Client, topic_partitions: Iterable[TopicPartition], timeout: float
) -> dict[TopicPartition, Any]:
    """Ask the leaders for the producer of the first open transaction of each partition."""
    leaders: dict[Any, list[TopicPartition]] = {}
    for key in topic_partitions:
        leader = client.cluster.leader_for_partition(to_client(key))
        if leader not in (None, -1):
            leaders.setdefault(leader, []).append(key)
    first: dict[TopicPartition, Any] = {}
    requests = [
        (leader, _producers_of(led[start : start + _FEW]))
        for leader, led in leaders.items()
        for start in range(0, len(led), _FEW)
    ]
    for leader, request in requests:
        answer = await _ask(client, leader, request, timeout)
        for described in answer.topics if answer is not None else ():
            for part in described.partitions:
                producers = [
                    producer
                    for producer in part.active_producers
                    if producer.current_txn_start_offset >= 0
                ]
                if not part.error_code and producers:
                    key = TopicPartition(described.name, part.partition_index)
                    first[key] = min(
                        producers, key=lambda producer: int(producer.current_txn_start_offset)
                    )
    return first


async def transactions_of_leader(
    client: Client, leader: Any, topic_partitions: Iterable[TopicPartition], timeout: float
) -> dict[TopicPartition, dict[int, int]]:
    """Return the first offsets of the open transactions of partitions, by producer id.

    Partitions that this user may not read are left out.  Raises kafka-python's errors.
    """
    began: dict[TopicPartition, dict[int, int]] = {}
    wanted = list(topic_partitions)
    for start in range(0, len(wanted), _FEW):
        request = _producers_of(wanted[start : start + _FEW])
        sent = client.manager.send(request, node_id=client.aside(leader, "questions"))
        answer = await client.manager.wait_for(sent, timeout * 1000)
        for described in answer.topics:
            for part in described.partitions:
                if part.error_code == kafka_errors.TopicAuthorizationFailedError.errno:
                    continue
                if part.error_code:
                    raise kafka_errors.for_code(part.error_code)(described.name)
                began[TopicPartition(described.name, part.partition_index)] = {
                    int(producer.producer_id): int(producer.current_txn_start_offset)
                    for producer in part.active_producers
                    if producer.current_txn_start_offset >= 0
                }
    return began


def _producers_of(topic_partitions: Iterable[TopicPartition]) -> Any:
    wanted: dict[str, list[int]] = {}
    for key in topic_partitions:
        wanted.setdefault(key.topic, []).append(key.partition)
    topic = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(
        topics=[topic(name=name, partition_indexes=numbers) for name, numbers in wanted.items()]
    )


async def _describe(
    client: Client, producer_ids: set[int], timeout: float
) -> dict[int, _Described]:
    """Ask every broker: each lists the transactions that it coordinates."""
    described: dict[int, _Described] = {}
    # All brokers: a transaction's coordinator follows from the hash of its id, which is what is
    # looked for.
    for broker in client.cluster.brokers() if producer_ids else ():
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=sorted(producer_ids), max_version=0
        )
        listed = await _ask(client, broker.node_id, request, timeout)
        names = (
            [str(entry.transactional_id) for entry in listed.transaction_states] if listed else []
        )
        if not names:
            continue
        answer = await _ask(
            client, broker.node_id, DescribeTransactionsRequest(transactional_ids=names), timeout
        )
        for state in answer.transaction_states if answer is not None else ():
            if not state.error_code:
                described[int(state.producer_id)] = _described(state)
    return described


def _described(state: Any) -> _Described:
    return _Described(
        transactional_id=str(state.transactional_id),
        state=str(state.transaction_state),
        since=_seconds(int(state.transaction_start_time_ms)),
        topic_partitions=frozenset(
            TopicPartition(topic.topic, number)
            for topic in state.topics
            for number in topic.partitions
        ),
    )


def _seconds(milliseconds: int) -> float | None:
    return milliseconds / 1000 if milliseconds >= 0 else None


def _open_transaction(
    topic_partition: TopicPartition, producer: Any, described: _Described | None
) -> OpenTransaction:
    known = OpenTransaction(
        start_offset=int(producer.current_txn_start_offset),
        producer_id=int(producer.producer_id),
        last_written=_seconds(int(producer.last_timestamp)),
    )
    if described is None:
        return known  # of another coordinator's past, or not for this user's eyes
    known = replace(known, transactional_id=described.transactional_id)
    if described.state in _GOING_ON and topic_partition in described.topic_partitions:
        return replace(known, since=described.since)
    return replace(known, hanging=True)


async def _ask(client: Client, node_id: Any, request: Any, timeout: float) -> Any:
    """Return the answer; None without the right to ask, and from brokers before 2.8 and 3.0."""
    try:
        sent = client.manager.send(request, node_id=client.aside(node_id, "questions"))
        return await client.manager.wait_for(sent, timeout * 1000)
    except kafka_errors.KafkaError as error:
        _log.debug("asking for open transactions: %s", error_text(error))
        return None
