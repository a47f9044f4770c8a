"""Fetching the assigned partitions, on the client's IO thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from secor.adapters.kafka import insides
from secor.adapters.kafka.batches import BatchRecords, Fetch, decode
from secor.adapters.kafka.client import Client, from_client, to_client
from secor.adapters.kafka.events import EventQueue
from secor.adapters.kafka.failures import FetchErrors, is_fatal
from secor.adapters.kafka.fetch_requests import FetchRequests
from secor.adapters.kafka.log_ends import LogEnds
from secor.adapters.kafka.replicas import RackReplicas
from secor.adapters.kafka.stalls import StallDetector
from secor.core.errors import CorruptBatch, RestartPartition, SecorError, TopicRecreated
from secor.core.model import TopicPartition
from secor.core.ports import Fetched, ReadFailure
from secor.core.text import error_text
from secor.wire import MAX_UNCOMPRESSED, PASS_BYTES

IDLE_WAIT = 2.0
"""Seconds that a broker may keep a request for which it has no messages, while all is quiet.

It answers at once when a message comes.  But what is started or resumed meanwhile is only asked
for in the next request to its broker, so while anything goes on brokers keep requests for less.
"""

QUIET_AFTER = 5.0
"""Seconds without messages, starts and pauses after which all is quiet."""


class FetchPace:
    """Decides whether to batch requests, and how long brokers may keep them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.requests = FetchRequests(client.fetcher)
        self._wait = insides.fetch_wait(client.fetcher)
        self._busy_at = time.monotonic()
        self._brokers: frozenset[int | None] | None = None

    def busy(self) -> None:
        """Take note that something goes on."""
        self._busy_at = time.monotonic()
        insides.set_fetch_wait(self._client.fetcher, self._wait)

    def brokers_may_differ(self) -> None:
        """Take note that partitions, metadata or the replicas that are read have changed."""
        self._brokers = None
        self.requests.anything_may_differ()

    def is_due(self, partitions: Iterable[object]) -> bool:
        """Return whether a broker could be asked; ``partitions`` are the client's assigned ones.

        A broker that has a request of ours already is not asked again.  To find that out, the
        client would go through all partitions, ten times a second.
        """
        if time.monotonic() - self._busy_at > QUIET_AFTER:
            insides.set_fetch_wait(self._client.fetcher, max(self._wait, IDLE_WAIT))
        if self._brokers is None:
            find = partial(insides.read_replica, self._client.fetcher)
            self._brokers = frozenset(map(find, partitions))
        # A partition without a leader is among what is asked for, so that the client looks for one.
        return not self._brokers or not self._brokers <= insides.asked_nodes(self._client.fetcher)


Stalled = Callable[[TopicPartition, int, int, float, str], None]
"""Called when a fetch restarts: partition, from and to offset, seconds, and reason."""


@dataclass(slots=True)
class _Reading:
    """Reasons to read a partition, or not; only being held back ends without the core's doing.

    ``held_back_at`` is in monotonic seconds; ``refused`` names the error that a broker answered
    last, empty after an answer without one.
    """

    epoch: int
    paused: bool = False
    failed: bool = False
    held_back_at: float | None = None
    refused: str = ""

    @property
    def wanted(self) -> bool:
        """The core wants its messages."""
        return not (self.paused or self.failed)

    @property
    def fetched(self) -> bool:
        """Brokers are asked for it."""
        return self.wanted and self.held_back_at is None


class FetchHandler:
    """Turns the client's fetch responses into events of the queue."""

    def __init__(
        self,
        client: Client,
        queue: EventQueue,
        ends: LogEnds,
        detector: StallDetector,
        stalled: Stalled,
        max_uncompressed: int = MAX_UNCOMPRESSED,
        pass_bytes: int = PASS_BYTES,
        rack: str = "",
    ) -> None:
        self._client = client
        self._queue = queue
        self._ends = ends
        self._detector = detector
        self._stalled = stalled
        self._max_uncompressed = max_uncompressed
        self._pass_bytes = pass_bytes
        self._readings: dict[TopicPartition, _Reading] = {}
        self._refusals = FetchErrors()
        self._sessions_to_reset: set[Any] = set()
        self._pace = FetchPace(client)
        self._replicas = RackReplicas(client, rack)
        insides.report_fetch_failures(client.fetcher, self._unanswered)

    def assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """Read nothing of these before they are started.

        With eager assignors the client keeps the old position of what comes back to us.
        """
        self._pace.busy()
        self._pace.brokers_may_differ()
        for topic_partition in partitions:
            self._client.subscription.pause(to_client(topic_partition))

    def revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """Forget these."""
        self._pace.brokers_may_differ()
        for topic_partition in partitions:
            self._readings.pop(topic_partition, None)

    def start(self, topic_partition: TopicPartition, offset: int, epoch: int) -> None:
        """Read from ``offset`` on, unless something newer happened to the partition."""
        state = self._client.subscription.assignment.get(to_client(topic_partition))
        # The post may be late: a rebalance or another start since has the later word.
        if state is not None and self._queue.epoch(topic_partition) == epoch:
            # ``seek`` marks the position as the caller's, so that an answer to an earlier request
            # is dropped.
            state.seek(offset)
            self._pace.requests.position_was_set()
            self._readings[topic_partition] = _Reading(epoch)
            self._apply(topic_partition)

    def pause(self, topic_partition: TopicPartition, paused: bool) -> None:
        """Stop, or go on where it stopped."""
        reading = self._readings.get(topic_partition)
        if reading is not None:
            reading.paused = paused
            self._apply(topic_partition)

    def assigned_topics(self) -> set[str]:
        """Return the topics of all assigned partitions."""
        return {tp.topic for tp in self._client.subscription.assignment}

    def recreated(self, topics: set[str]) -> None:
        """Stop reading these topics: they are not what they were."""
        for topic_partition in [tp for tp in self._readings if tp.topic in topics]:
            self._fail(
                topic_partition,
                TopicRecreated(
                    f"{topic_partition}: the topic was deleted and recreated while it was "
                    "read; accept the new one with 'secor offsets accept CONFIG"
                    f" {topic_partition.topic}'"
                ),
            )

    def known_to_be(self, topics: set[str], asked_at: float) -> None:
        """Go on with what was held back: these are the topics that they were at ``asked_at``."""
        self._pace.brokers_may_differ()
        for topic_partition, reading in self._readings.items():
            since = reading.held_back_at
            if since is not None and since < asked_at and topic_partition.topic in topics:
                reading.held_back_at = None
                self._apply(topic_partition)

    def take(self) -> None:
        """Move what was fetched into the queue, as far as there is room."""
        completed = insides.completed_fetches(self._client.fetcher)
        # What does not fit stays with the client; ``_fetch`` asks for nothing more meanwhile.
        while completed and not self._queue.full:
            self._take(completed.popleft())
        self._refusals.warn()

    def watch(self, now: float) -> None:
        """Once a second, begin the fetch of what has stalled anew; ``now`` is monotonic."""
        if not self._detector.is_due(now):
            return
        if any(reading.held_back_at is not None for reading in self._readings.values()):
            # An answer that was on its way already has used up the earlier request.
            self._client.cluster.request_update()
        reading = self._positions()
        for stall in self._detector.look(now, reading, has_room=not self._queue.full):
            where = stall.topic_partition
            self._stalled(where, stall.offset, stall.end, stall.seconds, self._why(where))
            self._restart(where)

    async def send(self, notify: Callable[[object], None]) -> None:
        """Ask every broker that has no request of ours for more; ``notify`` when one answers."""
        fetcher = self._client.fetcher
        if not self._pace.is_due(self._client.subscription.assignment):
            return
        self._replicas.set_rack()
        try:
            self._pace.requests.validate()
        except kafka_errors.LogTruncationError as error:
            for truncated in error.divergent_offsets:
                self._fail(
                    from_client(truncated), _out_of_range(from_client(truncated), "was truncated")
                )
        # A session restarts between two requests, not under one.
        idle = self._sessions_to_reset - insides.asked_nodes(fetcher)
        insides.reset_sessions(fetcher, idle)
        self._sessions_to_reset -= idle
        for sent in await insides.send_fetches(fetcher):
            sent.add_both(notify)

    def forget_sent(self) -> None:
        """Count no broker as being asked: ``send`` failed, perhaps before it had asked."""
        insides.forget_asked_nodes(self._client.fetcher)

    def _take(self, completed: Any) -> None:
        topic_partition = from_client(completed.topic_partition)
        reading = self._readings.get(topic_partition)
        if reading is None:
            return
        answer = completed.partition_data
        if answer.preferred_read_replica >= 0:
            self._pace.brokers_may_differ()
        records = self._parsed(topic_partition, completed)
        if answer.error_code:
            self._hold_back(topic_partition, reading, answer.error_code)
        else:
            reading.refused = ""
            if answer.last_stable_offset >= 0:
                self._ends.heard(topic_partition, answer.last_stable_offset, answer.high_watermark)
                if not answer.records:
                    self._detector.answered_empty(
                        topic_partition, completed.fetched_offset, answer.last_stable_offset
                    )
        if records is not None:
            self._give(topic_partition, reading.epoch, records.read())

    def _hold_back(self, topic_partition: TopicPartition, reading: _Reading, code: int) -> None:
        """Fetch it again when its topic's id was seen.

        Perhaps the topic was deleted, and was made again before the metadata shows it: its offsets
        mean nothing until then.
        """
        error = kafka_errors.for_code(code)
        # That one is a failure of its own, which the core hears of.
        reported = error is kafka_errors.OffsetOutOfRangeError or reading.refused == error.__name__
        if not reported:
            self._refusals.add(error, topic_partition)
        reading.refused = error.__name__
        reading.held_back_at = time.monotonic()
        # The answer may name a new leader.
        self._pace.requests.anything_may_differ()
        self._apply(topic_partition)
        self._client.cluster.request_update()

    def _parsed(self, topic_partition: TopicPartition, completed: Any) -> BatchRecords | None:
        """Return the batches; None when there are none, or the client asks again anyway."""
        try:
            records: BatchRecords | None = insides.parse_fetch(self._client.fetcher, completed)
        except kafka_errors.OffsetOutOfRangeError:
            position = completed.fetched_offset
            self._fail(topic_partition, _out_of_range(topic_partition, f"has no offset {position}"))
        except kafka_errors.KafkaError as error:
            if is_fatal(error):
                raise
            if completed.partition_data.error_code == 0:
                self._fail(topic_partition, CorruptBatch(f"{topic_partition}: {error_text(error)}"))
        else:
            return records
        return None

    def _give(self, topic_partition: TopicPartition, epoch: int, fetch: Fetch) -> None:
        if fetch.next_offset > fetch.start:
            self._pace.busy()
            state = self._client.subscription.assignment[to_client(topic_partition)]
            # The batch's next offset, not the last record's plus one: behind it there may be
            # transaction markers and offsets that compaction removed.
            state.position = OffsetAndMetadata(fetch.next_offset, "", fetch.leader_epoch)
            queue, most, passes = self._queue, self._max_uncompressed, self._pass_bytes

            def chunks() -> Any:
                # The partition may have been started anew since the loop took the event.
                current = queue.epoch(topic_partition) == epoch
                return decode(topic_partition, fetch, most, passes) if current else iter(())

            queue.deliver(Fetched(topic_partition, fetch.size, chunks), epoch)
        if fetch.error is not None:
            self._fail(topic_partition, fetch.error)

    def _fail(self, topic_partition: TopicPartition, error: SecorError) -> None:
        reading = self._readings.get(topic_partition)
        if reading is not None and not reading.failed:
            reading.failed = True
            self._apply(topic_partition)
            self._queue.deliver(ReadFailure(topic_partition, error), reading.epoch)

    def _apply(self, topic_partition: TopicPartition) -> None:
        self._pace.busy()
        state = self._client.subscription.assignment.get(to_client(topic_partition))
        if state is not None:
            state.paused = not self._readings[topic_partition].fetched

    def _positions(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return the next offset and the known end of all that the core wants."""
        positions: dict[TopicPartition, tuple[int, int]] = {}
        for topic_partition, reading in self._readings.items():
            state = self._client.subscription.assignment.get(to_client(topic_partition))
            end = self._ends.get(topic_partition)
            if reading.wanted and end is not None and state is not None and state.position:
                positions[topic_partition] = (state.position.offset, end)
        return positions

    def _restart(self, topic_partition: TopicPartition) -> None:
        """Fetch from the same offset with nothing left of the earlier tries."""
        key = to_client(topic_partition)
        replica = insides.read_replica(self._client.fetcher, key)
        self._sessions_to_reset.add(replica)
        self._unanswered(replica)
        # The client forgets which replica it read: the leader is asked next.
        state = self._client.subscription.assignment[key]
        state.seek(state.position)
        self._pace.brokers_may_differ()
        self._client.cluster.request_update()

    def _unanswered(self, broker: Any) -> None:
        if self._replicas.left(broker):
            self._pace.brokers_may_differ()
            self._pace.busy()

    def _why(self, topic_partition: TopicPartition) -> str:
        """Return what is known of why nothing came."""
        reading = self._readings[topic_partition]
        broker = insides.read_replica(self._client.fetcher, to_client(topic_partition))
        if reading.held_back_at is not None:
            return f"broker answered {reading.refused}; no metadata has shown the topic since"
        if broker in (None, -1):
            return "it has no leader"
        if self._client.subscription.assignment[to_client(topic_partition)].awaiting_validation:
            return f"broker {broker} was asked whether the offset is its own; no answer"
        return f"broker {broker} has answered no error, and nothing of it"


def _out_of_range(topic_partition: TopicPartition, what: str) -> RestartPartition:
    return RestartPartition(f"{topic_partition}: the log {what}; looking at its range again")
