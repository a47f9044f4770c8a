"""Reading without a group: what a topic has, and a range of a partition."""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from secor.adapters.kafka import insides
from secor.adapters.kafka.batches import Fetch, decode
from secor.adapters.kafka.client import Client, from_client, to_client
from secor.adapters.kafka.failures import translated
from secor.adapters.kafka.metadata_queries import MetadataClient, Topic
from secor.adapters.kafka.topics import topic_pattern
from secor.core.errors import RestartPartition, Unavailable
from secor.core.model import Chunk, LogRange, OpenTransaction, TopicPartition

_log = logging.getLogger(__name__)

_ROUND = 0.5
_LEADERS_WITHIN = 1.0
_LOOK_AGAIN = 0.05


class KafkaReader:
    """Small questions to the brokers, and ranges of messages; one thread at a time.

    ``options`` are kafka-python's; ``timeout`` in seconds bounds every answer.
    Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        max_partition_fetch_bytes: int = 1 << 20,
        timeout: float = 30.0,
        committed: bool = True,
    ) -> None:
        """Unless ``committed``, ``read`` gives what is open and aborted, too."""
        self._timeout = timeout
        self._client = Client(
            options,
            timeout=timeout,
            committed=committed,
            group_id=None,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            fetch_max_wait_ms=250,
        )
        self._metadata = MetadataClient(self._client, timeout)
        self._uncommitted: KafkaReader | None = None
        # A client of its own: no answer to one may be taken for one to the other.
        self._open_uncommitted = partial(
            KafkaReader,
            options,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            timeout=timeout,
            committed=False,
        )

    def topics(self, pattern: str | None = None, exclude: str | None = None) -> list[str]:
        """Return the names of all topics, but internal ones, that the patterns let through."""
        wanted = re.compile(topic_pattern(pattern or ".*", exclude))
        topics = self._metadata.topics(None)
        return sorted(
            name for name, topic in topics.items() if not topic.internal and wanted.match(name)
        )

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return the topic's partitions; none when it does not exist."""
        described = self._topic(topic)
        return [
            TopicPartition(topic, number)
            for number in range(described.partitions if described else 0)
        ]

    def cluster_id(self) -> str:
        """Return the cluster's id.  Raises ``Unavailable``, ``AccessDenied``."""
        return self._metadata.cluster_id()

    def topic_id(self, topic: str) -> str | None:
        """Return the topic's id; None when it does not exist, or the broker has no ids."""
        described = self._topic(topic)
        return described.id if described else None

    def log_range(self, topic_partition: TopicPartition) -> LogRange:
        """Return the log's start, its last stable offset and its high watermark."""
        return self._metadata.whole_log_range(topic_partition)

    def open_transactions(
        self, topic_partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OpenTransaction]:
        """Return the transactions that hold last stable offsets back, if this user may see them."""
        opened: dict[TopicPartition, OpenTransaction] = {}
        try:
            opened = self._client.call(
                self._open_transactions,
                topic_partitions,
                timeout=3 * self._timeout + 1,
                what=f"the open transactions of {len(topic_partitions)} partitions",
            )
        except Unavailable as error:
            _log.debug("%s", error)
        return opened

    def epoch_end(self, topic_partition: TopicPartition, leader_epoch: int) -> int | None:
        """Return where a leader epoch ends in the log; None where its leader does not say."""
        return self._metadata.epoch_ends({topic_partition: leader_epoch}).get(topic_partition)

    def offset_at(self, topic_partition: TopicPartition, timestamp: int) -> int | None:
        """Return the first offset with a message of ``timestamp`` (milliseconds) or later.

        None where there is none: the log ends before that time.
        """
        return self._metadata.offset_at(topic_partition, timestamp)

    def group_partitions(
        self, names: Sequence[str], pattern: str | None, exclude: str | None
    ) -> frozenset[TopicPartition]:
        """Return the partitions of the topics of these names, or of those that a pattern names."""
        return frozenset(
            TopicPartition(name, number)
            for name, topic in self._group_topics(names, pattern, exclude).items()
            for number in range(topic.partitions)
        )

    def group_topic_ids(
        self, names: Sequence[str], pattern: str | None, exclude: str | None
    ) -> dict[str, str | None]:
        """Return the ids of these topics by name; None where the broker has no ids."""
        topics = self._group_topics(names, pattern, exclude)
        return {name: topic.id for name, topic in topics.items()}

    def _group_topics(
        self, names: Sequence[str], pattern: str | None, exclude: str | None
    ) -> dict[str, Topic]:
        wanted = re.compile(topic_pattern(".*" if names else pattern or ".*", exclude))
        known = self._metadata.topics(list(names) or None)
        return {
            name: topic
            for name, topic in known.items()
            if not topic.internal and wanted.match(name)
        }

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the last stable offsets; what no leader answers for now is left out.

        Waits up to a second for the metadata that names the leaders.
        """
        return self._ask(partitions, "the ends of the logs")

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets at which the logs begin, as ``ends`` does."""
        return self._ask(partitions, "the starts of the logs", earliest=True)

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where the logs end, open transactions included, as ``ends`` does."""
        return self._ask(partitions, "the high watermarks of the logs", committed=False)

    def _ask(
        self,
        partitions: Iterable[TopicPartition],
        what: str,
        *,
        earliest: bool = False,
        committed: bool = True,
    ) -> dict[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = self._client.call(
            self._ends_of_logs,
            sorted(partitions),
            earliest,
            committed,
            timeout=self._timeout + 1,
            what=what,
        )
        return offsets

    async def _ends_of_logs(
        self, partitions: list[TopicPartition], earliest: bool, committed: bool
    ) -> dict[TopicPartition, int]:
        await self._find_leaders(partitions)
        leaders: dict[Any, list[TopicPartition]] = {}
        for topic_partition in partitions:
            leader = self._client.cluster.leader_for_partition(to_client(topic_partition))
            leaders.setdefault(leader, []).append(topic_partition)
        ends: dict[TopicPartition, int] = {}
        for leader, of_leader in leaders.items():
            if leader in (None, -1):
                continue
            try:
                ends |= await self._metadata.ends(
                    leader, of_leader, earliest=earliest, committed=committed
                )
            except kafka_errors.RetriableError:
                continue  # the next question may find another leader
        return ends

    async def _open_transactions(
        self, topic_partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OpenTransaction]:
        await self._find_leaders(topic_partitions)
        return await self._metadata.open_transactions(topic_partitions)

    async def _find_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        deadline = time.monotonic() + min(_LEADERS_WITHIN, self._timeout)
        if unknown := self._without_leader(partitions):
            await self._client.look_up(unknown)
        while self._request_leaders(partitions) and time.monotonic() < deadline:
            await self._client.net.sleep(_LOOK_AGAIN)

    def _request_leaders(self, partitions: Iterable[TopicPartition]) -> bool:
        """Request metadata for partitions whose leader is unknown; return whether there are any."""
        topics = self._without_leader(partitions)
        for topic in topics:
            self._client.cluster.add_topic(topic)
        if topics:
            self._client.cluster.request_update()
        return bool(topics)

    def _without_leader(self, partitions: Iterable[TopicPartition]) -> set[str]:
        leader_of = self._client.cluster.leader_for_partition
        return {
            topic_partition.topic
            for topic_partition in partitions
            if leader_of(to_client(topic_partition)) in (None, -1)
        }

    def end(self, topic_partition: TopicPartition, *, committed: bool) -> int:
        """Return the log's last stable offset, or its high watermark."""
        return self._metadata.end(topic_partition, committed=committed)

    def start(self, topic_partition: TopicPartition) -> int:
        """Return the offset at which the log begins."""
        return self._metadata.start(topic_partition)

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        """Give the committed messages of ``[start, end)``; ``end`` is at most the log's.

        Raises ``RestartPartition`` where ``start`` is not in the log, ``CorruptBatch``,
        ``Unavailable`` when nothing has come for ``timeout`` seconds.
        """
        position, heard = start, time.monotonic()
        self._assign(topic_partition, start)
        while position < end:
            fetch = self._client.call(
                self._round,
                topic_partition,
                timeout=self._timeout,
                what=f"reading {topic_partition}",
            )
            if fetch is not None:
                heard = time.monotonic()
                for chunk in decode(topic_partition, fetch):
                    # A batch goes on beyond ``end``: brokers send whole ones.
                    yield chunk.until(end)
                    if chunk.next_offset >= end:
                        return
                if fetch.error is not None:
                    raise fetch.error
                position = fetch.next_offset
            elif time.monotonic() - heard > self._timeout:
                raise Unavailable(
                    f"{topic_partition}: nothing came at offset {position} for "
                    f"{self._timeout:g} s, though messages up to {end} were expected"
                )

    def read_uncommitted(
        self, topic_partition: TopicPartition, start: int, end: int
    ) -> Iterator[Chunk]:
        """Give all messages of ``[start, end)``, open and aborted ones, too; see ``read``.

        ``end`` is at most the high watermark.  What an open transaction has may never count.
        """
        if self._uncommitted is None:
            self._uncommitted = self._open_uncommitted()
        return self._uncommitted.read(topic_partition, start, end)

    def close(self) -> None:
        """End the connections."""
        self._client.close()
        if self._uncommitted is not None:
            self._uncommitted.close()

    def _topic(self, topic: str) -> Topic | None:
        return self._metadata.topics([topic]).get(topic)

    def _assign(self, topic_partition: TopicPartition, start: int) -> None:
        self._client.consumer.assign([to_client(topic_partition)])
        self._client.consumer.seek(to_client(topic_partition), start)

    async def _round(self, topic_partition: TopicPartition) -> Fetch | None:
        fetcher = self._client.fetcher
        completed: deque[Any] = insides.completed_fetches(fetcher)
        if not completed:
            # Or those of an earlier round: a fetch that was under way then is not sent again.
            for sent in await insides.send_fetches(fetcher) or insides.sent_fetches(fetcher):
                await self._answered(sent)
        if not completed:
            await self._client.net.sleep(0.05)
        while completed:
            fetch = self._parsed(completed.popleft())
            if fetch is not None:
                return fetch
        return None

    async def _answered(self, sent: Any) -> None:
        try:
            await self._client.manager.wait_for(sent, _ROUND * 1000)
        except kafka_errors.RetriableError:
            # The next round asks again; time is counted by the caller.
            await self._client.net.sleep(0.05)

    def _parsed(self, completed: Any) -> Fetch | None:
        where = from_client(completed.topic_partition)
        try:
            records = insides.parse_fetch(self._client.fetcher, completed)
        except kafka_errors.OffsetOutOfRangeError as error:
            raise RestartPartition(
                f"{where}: the log has no offset {completed.fetched_offset}"
            ) from error
        except kafka_errors.KafkaError as error:
            raise translated(error, f"reading {where}") from error
        if records is None:
            return None
        fetch: Fetch = records.read()
        if fetch.next_offset > fetch.start:
            state = self._client.subscription.assignment[to_client(where)]
            # The client moves its position only for records that it decodes itself: without this it
            # would fetch the same again.
            state.position = OffsetAndMetadata(fetch.next_offset, "", fetch.leader_epoch)
            return fetch
        return fetch if fetch.error is not None else None
