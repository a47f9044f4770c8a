"""A client for the brokers' metadata: where a log begins and ends, which topics there are."""

from __future__ import annotations

import base64
import itertools
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafka import errors as kafka_errors

from secor.adapters.kafka.client import Client, to_client
from secor.adapters.kafka.insides import (
    IsolationLevel,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    OffsetSpec,
)
from secor.adapters.kafka.open_transactions import first_open_transactions
from secor.core.model import LogRange, OpenTransaction, TopicPartition
from secor.core.text import error_text

_log = logging.getLogger(__name__)

_UNKNOWN_TOPIC = 3
_TRIES_UNKNOWN = 8
_FIRST_RETRY, _RETRY = 0.02, 0.2
"""Seconds until the first attempts and the later ones: about 0.9 for a topic that is unknown."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the metadata shows it; ``id`` None from brokers before 2.8."""

    name: str
    id: str | None
    partitions: int
    internal: bool


class MetadataClient:
    """Blocking requests through a client; ``timeout`` in seconds bounds each request."""

    def __init__(self, client: Client, timeout: float) -> None:
        self._client = client
        self._timeout = timeout
        self._said_unknown = False

    def log_range(self, topic_partition: TopicPartition) -> LogRange:
        """Ask for the log's start and its last stable offset."""
        what = f"the log of {topic_partition}"
        start, end = self._client.call(
            self._log_range,
            to_client(topic_partition),
            self._timeout,
            timeout=3 * self._timeout + 1,
            what=what,
        )
        return _range(start, end)

    def whole_log_range(self, topic_partition: TopicPartition) -> LogRange:
        """Ask for the log's start, its high watermark, and then its last stable offset."""
        # First: a transaction that ends between the two must not look like an open one.
        end = self.high_watermark(topic_partition)
        return replace(self.log_range(topic_partition), high_watermark=end)

    def log_ranges(
        self, topic_partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LogRange]:
        """Ask the leader of the first of them; what it does not lead or know is left out."""
        ranges: dict[TopicPartition, LogRange] = self._client.call(
            self._log_ranges,
            topic_partitions,
            self._timeout,
            timeout=3 * self._timeout + 1,
            what=f"the logs of {len(topic_partitions)} partitions",
        )
        return ranges

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Ask the leaders, each once, where these leader epochs end in their logs.

        What a leader does not know, or refuses to say, is left out.  Raises ``Unavailable``.
        """
        ends: dict[TopicPartition, int] = self._client.call(
            self._epoch_ends,
            epochs,
            self._timeout,
            timeout=3 * self._timeout + 1,
            what=f"the leader epochs of {len(epochs)} partitions",
        )
        return ends

    def offset_at(self, topic_partition: TopicPartition, timestamp: int) -> int | None:
        """Ask for the first offset of a time in milliseconds or later; None if there is none."""
        what = f"the log of {topic_partition} at a time"
        (answer,) = self._client.call(
            self._list_all,
            to_client(topic_partition),
            (timestamp,),
            self._timeout,
            timeout=3 * self._timeout + 1,
            what=what,
        )
        return int(answer.offset) if answer.offset >= 0 else None

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """Ask where the log ends, open transactions included."""
        return self.end(topic_partition, committed=False)

    def end(self, topic_partition: TopicPartition, *, committed: bool) -> int:
        """Ask for the last stable offset, or for the high watermark."""
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        return self._one_offset(topic_partition, OffsetSpec.LATEST, isolation)

    def start(self, topic_partition: TopicPartition) -> int:
        """Ask where the log begins."""
        return self._one_offset(topic_partition, OffsetSpec.EARLIEST, IsolationLevel.READ_COMMITTED)

    def _one_offset(self, topic_partition: TopicPartition, spec: Any, isolation: Any) -> int:
        (answer,) = self._client.call(
            self._list_all,
            to_client(topic_partition),
            (spec,),
            self._timeout,
            isolation,
            timeout=3 * self._timeout + 1,
            what=f"the log of {topic_partition}",
        )
        return int(answer.offset)

    async def _log_range(self, tp: Any, timeout: float) -> list[Any]:
        return await self._list_all(tp, (OffsetSpec.EARLIEST, OffsetSpec.LATEST), timeout)

    async def _log_ranges(
        self, topic_partitions: Sequence[TopicPartition], timeout: float
    ) -> dict[TopicPartition, LogRange]:
        leader_of = self._client.cluster.leader_for_partition
        keys = [to_client(topic_partition) for topic_partition in topic_partitions]
        leader = leader_of(keys[0])
        if leader in (None, -1):
            return {}
        led = [key for key in keys if leader_of(key) == leader]
        starts = await self._list_offsets(leader, led, OffsetSpec.EARLIEST, timeout)
        ends = await self._list_offsets(leader, led, OffsetSpec.LATEST, timeout)
        return {
            key: _range(start, ends[key])
            for key, start in starts.items()
            if not start.error_code and key in ends and not ends[key].error_code
        }

    async def _list_all(
        self,
        tp: Any,
        specs: Sequence[Any],
        timeout: float,
        isolation: Any = IsolationLevel.READ_COMMITTED,
    ) -> list[Any]:
        """Ask for an offset of each kind or time; what may pass is asked again."""
        deadline = time.monotonic() + timeout
        for tries in itertools.count(1):
            try:
                return [await self._list_offset(tp, spec, timeout, isolation) for spec in specs]
            except kafka_errors.RetriableError as error:
                unknown = isinstance(error, kafka_errors.UnknownTopicOrPartitionError)
                if time.monotonic() >= deadline or (unknown and tries == _TRIES_UNKNOWN):
                    raise
                if tries == 1:
                    # A topic that was made just now is known as soon as the metadata are here.
                    await self._client.look_up([tp.topic])
                    continue
                # A topic that nobody has asked for is not in the metadata, so it has no leader
                # here.
                self._client.cluster.add_topic(tp.topic)
                self._client.cluster.request_update()
                await self._client.net.sleep(min(_RETRY, _FIRST_RETRY * 2 ** (tries - 1)))
        raise AssertionError("counting ended")

    async def _list_offset(self, tp: Any, spec: Any, timeout: float, isolation: Any) -> Any:
        leader = self._client.cluster.leader_for_partition(tp)
        if leader in (None, -1):
            raise kafka_errors.UnknownTopicOrPartitionError(f"{tp.topic}/{tp.partition}")
        (answer,) = (await self._list_offsets(leader, [tp], spec, timeout, isolation)).values()
        if answer.error_code:
            raise kafka_errors.for_code(answer.error_code)(f"{tp.topic}/{tp.partition}")
        return answer

    async def _epoch_ends(
        self, epochs: Mapping[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, int]:
        leader_of = self._client.cluster.leader_for_partition
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for topic_partition, epoch in epochs.items():
            leader = leader_of(to_client(topic_partition))
            if leader in (None, -1):
                # Not left out: "no answer" would count as "the log was not cut".
                raise kafka_errors.LeaderNotAvailableError(str(topic_partition))
            by_leader.setdefault(leader, {})[topic_partition] = epoch
        ends: dict[TopicPartition, int] = {}
        for leader, led in by_leader.items():
            ends |= await self._epoch_ends_of(leader, led, timeout)
        return ends

    async def _epoch_ends_of(
        self, leader: int, epochs: Mapping[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, int]:
        """Source: Kafka protocol, OffsetForLeaderEpoch (23), KIP-320."""
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        wanted: dict[str, list[Any]] = {}
        for topic_partition, epoch in epochs.items():
            wanted.setdefault(topic_partition.topic, []).append(
                topic.OffsetForLeaderPartition(
                    partition=topic_partition.partition,
                    # Without an epoch of ours: the metadata may be older than the leader's, and
                    # would be refused.
                    current_leader_epoch=-1,
                    leader_epoch=epoch,
                )
            )
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[topic(topic=name, partitions=asked) for name, asked in wanted.items()],
            min_version=3,  # consumers may ask from this one on
        )
        try:
            # On a connection of its own: a broker answers one request after the other, and a fetch
            # may wait for seconds.
            node = self._client.aside(leader, "questions")
            answer = await self._client.manager.wait_for(
                self._client.manager.send(request, node_id=node), timeout * 1000
            )
        except kafka_errors.IncompatibleBrokerVersion as error:
            self._say_unknown(f"brokers are too old to say it ({error_text(error)})")
            return {}
        ends = {}
        for described_topic in answer.topics:
            for part in described_topic.partitions:
                key = TopicPartition(described_topic.topic, part.partition)
                fault = kafka_errors.for_code(part.error_code)
                if issubclass(fault, kafka_errors.RetriableError):
                    self._client.cluster.request_update()
                    raise fault(str(key))
                if part.error_code:
                    self._say_unknown(f"the broker refuses to say it: {fault.__name__}")
                elif part.end_offset >= 0:
                    ends[key] = int(part.end_offset)
        return ends

    def _say_unknown(self, why: str) -> None:
        if not self._said_unknown:
            self._said_unknown = True
            _log.info("whether logs were cut below committed offsets is not known: %s", why)

    async def ends(
        self,
        leader: int,
        partitions: Sequence[TopicPartition],
        *,
        earliest: bool = False,
        committed: bool = True,
    ) -> dict[TopicPartition, int]:
        """Ask a leader for last stable offsets, on the IO thread; refused ones are left out.

        With ``earliest`` for the offsets at which the logs begin; unless ``committed`` for high
        watermarks.
        """
        keys = [to_client(topic_partition) for topic_partition in partitions]
        spec = OffsetSpec.EARLIEST if earliest else OffsetSpec.LATEST
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        answers = await self._list_offsets(leader, keys, spec, self._timeout, isolation)
        return {key: int(answer.offset) for key, answer in answers.items() if not answer.error_code}

    async def open_transactions(
        self, topic_partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OpenTransaction]:
        """Find what holds last stable offsets back; on the IO thread."""
        return await first_open_transactions(self._client, topic_partitions, self._timeout)

    async def _list_offsets(
        self,
        leader: int,
        keys: Sequence[Any],
        spec: Any,
        timeout: float,
        isolation: Any = IsolationLevel.READ_COMMITTED,
    ) -> dict[TopicPartition, Any]:
        topic = ListOffsetsRequest.ListOffsetsTopic
        wanted: dict[str, list[Any]] = {}
        for tp in keys:
            wanted.setdefault(tp.topic, []).append(
                topic.ListOffsetsPartition(
                    partition_index=tp.partition, current_leader_epoch=-1, timestamp=spec
                )
            )
        request = ListOffsetsRequest(
            isolation_level=isolation,
            topics=[topic(name=name, partitions=asked) for name, asked in wanted.items()],
            # The first that knows isolation levels; the last with answers that need no more care.
            min_version=2,
            max_version=6,
        )
        # On a connection of its own, as above.
        sent = self._client.manager.send(request, node_id=self._client.aside(leader, "questions"))
        answer = await self._client.manager.wait_for(sent, timeout * 1000)
        return {
            TopicPartition(
                described_topic.name, described_partition.partition_index
            ): described_partition
            for described_topic in answer.topics
            for described_partition in described_topic.partitions
        }

    def topics(self, names: list[str] | None) -> dict[str, Topic]:
        """Ask for the topics' ids and partitions; all topics for None, absent ones left out."""
        described = self._client.call(
            self._topics, names, self._timeout, timeout=self._timeout + 1, what="the topics"
        )
        return {topic.name: topic for topic in described}

    def cluster_id(self) -> str:
        """Ask for the id of the cluster."""
        answer = self._client.call(
            self._metadata, [], self._timeout, timeout=self._timeout + 1, what="the cluster"
        )
        return str(answer.cluster_id)

    async def _topics(self, topics: list[str] | None, timeout: float) -> list[Topic]:
        asked = (
            None
            if topics is None
            else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        )
        answer = await self._metadata(asked, timeout)
        return [_topic(topic) for topic in answer.topics if _exists(topic)]

    async def _metadata(self, asked: list[Any] | None, timeout: float) -> Any:
        request = MetadataRequest(
            topics=asked,
            # A question must not make a topic.
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        node = self._client.manager.least_loaded_node()
        sent = self._client.manager.send(request, node_id=self._client.aside(node, "questions"))
        return await self._client.manager.wait_for(sent, timeout * 1000)


def _range(start: Any, end: Any) -> LogRange:
    """Return the range that two answers of ListOffsets mean."""
    epoch = getattr(end, "leader_epoch", None)
    known = None if epoch is None or epoch < 0 else int(epoch)
    return LogRange(int(start.offset), int(end.offset), known)


def id_text(topic_id: uuid.UUID | None) -> str | None:
    """Return a topic's id as Kafka's own tools print it; None for the id of zeros."""
    if topic_id is None or not topic_id.int:
        return None
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def _exists(described: Any) -> bool:
    if described.error_code == _UNKNOWN_TOPIC:
        return False
    error = kafka_errors.for_code(described.error_code)
    if issubclass(error, kafka_errors.AuthorizationError):
        raise error(described.name)
    return True


def _topic(described: Any) -> Topic:
    return Topic(
        described.name,
        id_text(described.topic_id),
        len(described.partitions),
        described.is_internal,
    )
