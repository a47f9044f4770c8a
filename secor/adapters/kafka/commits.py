"""The group's committed offsets as a register: raw requests, one partition each.

The client's own ``committed`` may be answered from a request in flight, and its ``commit``
always goes under the current generation; a ledger needs neither.
Source: Kafka protocol, OffsetFetch (9) and OffsetCommit (8).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafka import errors as kafka_errors

from secor.adapters.kafka.client import Client
from secor.adapters.kafka.failures import translated
from secor.adapters.kafka.insides import (
    DescribeGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from secor.adapters.kafka.membership import Pin
from secor.adapters.ledger_codec import decode_kept_metadata
from secor.core.errors import (
    LeaseLost,
    LedgerCorrupt,
    OutcomeUnknown,
    SecorError,
    StopPartition,
    Unavailable,
)
from secor.core.model import Entry, TopicPartition
from secor.core.relocation import Direction, KeptEntry, Relocation
from secor.core.text import error_text

MOST_METADATA = 4096
"""UTF-16 units that a broker takes by default (``offset.metadata.max.bytes``)."""

_LATEST = 8
_LATEST_DESCRIPTION = 5
_NO_EFFECT = (
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.UnknownTopicOrPartitionError,
    kafka_errors.NodeNotReadyError,
)
_FENCED = (
    kafka_errors.IllegalGenerationError,
    kafka_errors.UnknownMemberIdError,
    kafka_errors.RebalanceInProgressError,
    kafka_errors.FencedInstanceIdError,
)
_TOO_LARGE = (
    kafka_errors.OffsetMetadataTooLargeError,
    kafka_errors.InvalidCommitOffsetSizeError,
)


@dataclass(frozen=True, slots=True)
class Raw:
    """An entry as the broker keeps it; what the writes compare."""

    offset: int
    metadata: str
    leader_epoch: int = field(default=-1, compare=False)
    """That of the last batch below ``offset``, -1 where it is not known: older brokers leave it
    out of their answers."""


class Fenced(LeaseLost):
    """The broker refused the generation or the member."""


def decoded(topic_partition: TopicPartition, raw: Raw | None) -> KeptEntry:
    """Return the entry, and what it says of a move.  Raises ``LedgerCorrupt``."""
    if raw is None:
        return KeptEntry(Entry(committed=None), None, None)
    where = f"{topic_partition}: the metadata of the group's committed offset"
    intent, topic_id, relocation = decode_kept_metadata(raw.metadata, where)
    leader_epoch = raw.leader_epoch if raw.leader_epoch >= 0 else None
    entry = Entry(raw.offset, intent, topic_id, version=raw, leader_epoch=leader_epoch)
    return KeptEntry(entry, relocation, raw)


def relocation_of(entries: Mapping[TopicPartition, Raw]) -> Relocation | None:
    """Return what a group's entries record of a move; one that comes in goes first.

    A group has no place for a record of its own: it is written into every entry.  The first
    entry with it closes the ledger, and only the last one that loses it opens it.
    """
    relocations = []
    for topic_partition, raw in entries.items():
        with suppress(LedgerCorrupt):  # stops its own partition
            relocations.append(decoded(topic_partition, raw).relocation)
    records = [relocation for relocation in relocations if relocation is not None]
    receiving = [record for record in records if record.direction is Direction.RECEIVING_FROM]
    return next(iter(receiving or records), None)


def check_metadata(topic_partition: TopicPartition, metadata: str) -> None:
    """Raise ``StopPartition`` for a text that brokers refuse."""
    units = len(metadata.encode("utf-16-le")) // 2
    if units > MOST_METADATA:
        raise StopPartition(
            f"{topic_partition}: the intent takes {units} characters in the commit's metadata, "
            f"and brokers take {MOST_METADATA}; shorten the prefix, or use ledger.kind "
            '"zookeeper"'
        )


async def fetch_all(client: Client, group: str, timeout: float) -> dict[TopicPartition, Raw]:
    """Read all entries of the group."""
    return await _fetch(client, group, None, timeout)


async def fetch_one(
    client: Client, group: str, topic_partition: TopicPartition, timeout: float
) -> Raw | None:
    """Read one entry; None where there is none."""
    return (await _fetch(client, group, topic_partition, timeout)).get(topic_partition)


async def fetch_members(client: Client, group: str, timeout: float) -> list[str]:
    """Return the client ids and addresses of the group's members.

    Source: Kafka protocol, DescribeGroups (15).
    """
    request = DescribeGroupsRequest(groups=[group], max_version=_LATEST_DESCRIPTION)
    node = await _coordinator(client, timeout)
    sent = client.manager.send(request, node_id=node)
    (described,) = (await client.manager.wait_for(sent, timeout * 1000)).groups
    if described.error_code == kafka_errors.GroupIdNotFoundError.errno:
        return []
    _raise_for(client, described.error_code)
    return [f"{member.client_id}{member.client_host}" for member in described.members]


async def _fetch(
    client: Client, group: str, topic_partition: TopicPartition | None, timeout: float
) -> dict[TopicPartition, Raw]:
    topic = OffsetFetchRequest.OffsetFetchRequestTopic
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    names = None
    if topic_partition is not None:
        names = [(topic_partition.topic, [topic_partition.partition])]
    request = OffsetFetchRequest(
        group_id=group,
        topics=names and [topic(name=n, partition_indexes=p) for n, p in names],
        groups=[
            of_group(
                group_id=group,
                topics=names
                and [
                    of_group.OffsetFetchRequestTopics(name=n, partition_indexes=p) for n, p in names
                ],
            )
        ],
        # Offsets of a transaction that is still open do not count: without this, an old value may
        # be read just after the transaction's commit.
        require_stable=True,
        # Asking for all offsets of a group exists since version 2.
        min_version=0 if names else 2,
        max_version=_LATEST,
    )
    node = await _coordinator(client, timeout)
    answer = await client.manager.wait_for(
        client.manager.send(request, node_id=node), timeout * 1000
    )
    return _fetched(client, answer)


def _fetched(client: Client, answer: Any) -> dict[TopicPartition, Raw]:
    part = answer.groups[0] if answer.API_VERSION >= _LATEST else answer
    _raise_for(client, part.error_code)
    offsets: dict[TopicPartition, Raw] = {}
    for topic in part.topics:
        for partition in topic.partitions:
            if partition.error_code != kafka_errors.UnknownTopicOrPartitionError.errno:
                _raise_for(client, partition.error_code)
                if partition.committed_offset >= 0:
                    key = TopicPartition(topic.name, partition.partition_index)
                    epoch = partition.committed_leader_epoch
                    offsets[key] = Raw(
                        partition.committed_offset,
                        partition.metadata or "",
                        -1 if epoch is None else epoch,
                    )
    return offsets


async def commit_one(
    client: Client, group: str, topic_partition: TopicPartition, raw: Raw, pin: Pin, timeout: float
) -> None:
    """Write one entry under the pin.

    Raises ``Fenced``, ``StopPartition`` and ``Unavailable`` without effect, ``OutcomeUnknown``.
    """
    node = client.coordinator.coordinator()
    if node is None:
        raise Unavailable(f"{topic_partition}: the group's coordinator is not known for now")
    # No await between this look and the sending: a revocation cannot come between.
    if not pin.alive:
        raise LeaseLost(f"{topic_partition} was revoked")
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    request = OffsetCommitRequest(
        max_version=_LATEST,
        group_id=group,
        generation_id_or_member_epoch=pin.generation,
        member_id=pin.member,
        group_instance_id=None,
        topics=[
            topic(
                name=topic_partition.topic,
                partitions=[
                    topic.OffsetCommitRequestPartition(
                        partition_index=topic_partition.partition,
                        committed_offset=raw.offset,
                        committed_leader_epoch=raw.leader_epoch,
                        committed_metadata=raw.metadata,
                    )
                ],
            )
        ],
    )
    sent = client.manager.send(request, node_id=client.aside(node, "ledger"))
    # The one failure that is certain: nothing was written to the connection.
    if sent.failed() and isinstance(sent.exception, kafka_errors.NodeNotReadyError):
        raise Unavailable(f"{topic_partition}: the coordinator cannot be asked for now")
    try:
        answer = await client.manager.wait_for(sent, timeout * 1000)
    except kafka_errors.KafkaError as error:
        raise _unknown(topic_partition, error) from error
    code = answer.topics[0].partitions[0].error_code
    if code:
        raise _refused(client, topic_partition, code)


def _refused(client: Client, topic_partition: TopicPartition, code: int) -> SecorError:
    error = kafka_errors.for_code(code)()
    what = f"committing {topic_partition}"
    if isinstance(error, _FENCED):
        return Fenced(f"{what}: the group has moved on ({type(error).__name__})")
    if isinstance(error, _TOO_LARGE):
        return StopPartition(
            f"{what}: the broker refuses the metadata as too long; raise its "
            'offset.metadata.max.bytes, or use ledger.kind "zookeeper"'
        )
    if isinstance(error, (*_NO_EFFECT, kafka_errors.AuthorizationError)):
        return translated(error, what)
    if isinstance(error, kafka_errors.NotCoordinatorError):
        client.coordinator.coordinator_dead(error)
    # Among these is "not enough replicas after append": it may yet take effect.
    return _unknown(topic_partition, error)


def _unknown(topic_partition: TopicPartition, error: BaseException) -> OutcomeUnknown:
    return OutcomeUnknown(f"committing {topic_partition}: no sure answer ({error_text(error)})")


def _raise_for(client: Client, code: int | None) -> None:
    if code:
        error = kafka_errors.for_code(code)()
        if isinstance(
            error,
            kafka_errors.NotCoordinatorError | kafka_errors.CoordinatorNotAvailableError,
        ):
            client.coordinator.coordinator_dead(error)
        raise error


async def _coordinator(client: Client, timeout: float) -> Any:
    ready = await client.coordinator.ensure_coordinator_ready_async(timeout_ms=timeout * 1000)
    node = client.coordinator.coordinator() if ready else None
    if node is None:
        raise kafka_errors.CoordinatorNotAvailableError("the group's coordinator is not known")
    return client.aside(node, "ledger")
