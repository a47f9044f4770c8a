"""The consumer: one member of a group, its thread, and the loop's side of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kafka import errors as kafka_errors

from secor.adapters.kafka import insides
from secor.adapters.kafka.agreement import Uses
from secor.adapters.kafka.client import Client
from secor.adapters.kafka.events import EventQueue
from secor.adapters.kafka.failures import is_fatal, translated
from secor.adapters.kafka.fetching import FetchHandler, Stalled
from secor.adapters.kafka.insides import WakeupNotifier
from secor.adapters.kafka.log_ends import LogEnds
from secor.adapters.kafka.log_ranges import EpochEnds, LogRangeCache
from secor.adapters.kafka.membership import GroupMembership
from secor.adapters.kafka.metadata_queries import MetadataClient
from secor.adapters.kafka.stalls import StallDetector
from secor.adapters.kafka.topics import TopicWatch, named_topics, topic_pattern
from secor.core.errors import SecorError, Unavailable
from secor.core.model import LogRange, TopicPartition, Withheld
from secor.core.ports import Assigned, Event, Revoked
from secor.core.retry import RepeatedErrors
from secor.core.text import error_text
from secor.wire import MAX_UNCOMPRESSED, PASS_BYTES

_log = logging.getLogger(__name__)

MIB = 1 << 20
_TICK = 0.1
_BACKOFF = 1.0

STALL_PATIENCE = 15.0
"""Seconds without a message of a growing log, before its fetch restarts."""


class KafkaSource:
    """A ``MessageSource`` over kafka-python; sizes in bytes, times in seconds.

    ``options`` are kafka-python's own: ``bootstrap_servers``, ``client_id``, the security.
    Give ``topics`` by name or a ``pattern`` for whole names; ``exclude`` is a pattern too.
    ``release_wait`` is how long a revocation waits for ``release``; ``timeout`` bounds every
    question to the brokers, the first contact included; ``end_max_age`` how old ``known_end`` is.
    ``client_rack`` names the rack of this process: brokers that know racks let it read from a
    replica in its own (KIP-392).  ``group_instance_id`` makes it a static member of the group
    (KIP-345): a restart within ``session_timeout`` moves no partition; one process each.
    ``rebalances`` counts how often the group has settled with us in it.
    ``stalled`` is called, on the client's thread, with a partition whose log grew for
    ``stall_patience`` seconds without a message reaching us, and why; its fetch restarts.
    ``uses`` is said to the other members; where theirs differs, ``poll`` raises it.
    Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        group: str,
        topics: Sequence[str] = (),
        pattern: str | None = None,
        exclude: str | None = None,
        assignment: str = "cooperative-sticky",
        session_timeout: float = 45.0,
        heartbeat_interval: float = 3.0,
        max_poll_interval: float = 300.0,
        max_partition_fetch_bytes: int = MIB,
        fetch_max_bytes: int = 8 * MIB,
        fetch_max_wait: float = 0.25,
        queue_bytes: int = 16 * MIB,
        max_uncompressed: int = MAX_UNCOMPRESSED,
        pass_bytes: int = PASS_BYTES,
        metadata_max_age: float = 20.0,
        client_rack: str = "",
        group_instance_id: str | None = None,
        end_max_age: float = 15.0,
        receive_buffer_bytes: int = MIB,
        release_wait: float = 0.0,
        timeout: float = 30.0,
        stall_patience: float = STALL_PATIENCE,
        stalled: Stalled | None = None,
        uses: Uses | None = None,
    ) -> None:
        wanted = topic_pattern(pattern, exclude) if pattern else None
        named = [] if pattern else named_topics(topics, exclude)
        self.session_timeout = session_timeout
        self._closing = False
        self.membership = GroupMembership(
            strategy=assignment,
            release_wait=release_wait,
            assigned=self._assigned,
            revoked=self._revoked,
            group=group,
            uses=uses,
            refused=self._ended,
        )
        self.client = Client(
            options,
            timeout=timeout,
            receive_buffer_bytes=receive_buffer_bytes,
            metadata_max_age=metadata_max_age,
            topics=named if wanted is None else None,
            group_id=group,
            partition_assignment_strategy=[self.membership.assignor],
            session_timeout_ms=int(session_timeout * 1000),
            heartbeat_interval_ms=int(heartbeat_interval * 1000),
            max_poll_interval_ms=int(max_poll_interval * 1000),
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            fetch_max_bytes=fetch_max_bytes,
            fetch_max_wait_ms=int(fetch_max_wait * 1000),
            client_rack=client_rack,
            group_instance_id=group_instance_id,
        )
        self.membership.attach(self.client)
        self._metadata = MetadataClient(self.client, timeout)
        self._queue = EventQueue(queue_bytes, self._notify)
        self._ranges = LogRangeCache(self._metadata.whole_log_range, self._metadata.log_ranges)
        self._epoch_ends = EpochEnds(self._metadata.epoch_ends)
        self._ends = LogEnds(self.client, self._metadata, end_max_age)
        self._fetching = FetchHandler(
            self.client,
            self._queue,
            self._ends,
            StallDetector(stall_patience),
            _warn_of_stall if stalled is None else stalled,
            max_uncompressed,
            pass_bytes,
            client_rack,
        )
        self._watch = TopicWatch(self.client.cluster, named)
        self._wakeup = WakeupNotifier(self.client.net)
        self._tick = WakeupNotifier(self.client.net)
        self.client.consumer.subscribe(topics=named, pattern=wanted, listener=self.membership)
        # Three tasks of one thread: none of them may block, or the heartbeats stop with it.
        self.client.spawn(self._stay_member, self._ended)
        self.client.spawn(self._keep_fetching, self._ended)
        self.client.spawn(self._ends.keep, self._ended)

    # ---------------------------------------------------------- the loop's side

    @property
    def rebalances(self) -> int:
        """The number of times the group has settled with this member in it."""
        return self.membership.rebalances

    def poll(self, timeout: float) -> Sequence[Event]:
        """Return what has happened, in order; no partition is in more than one event.

        Raises ``AccessDenied`` and ``ConfigurationError`` when waiting cannot help.
        """
        return self._queue.poll(timeout)

    def start(self, topic_partition: TopicPartition, offset: int) -> None:
        """Deliver from ``offset`` on; nothing of an earlier start comes any more."""
        # In the loop's thread, at once: from here on nothing of an earlier start is delivered,
        # however late the client's thread gets to it.
        epoch = self._queue.begin(topic_partition)
        if epoch is not None:
            self._post(partial(self._fetching.start, topic_partition, offset, epoch))

    def pause(self, topic_partition: TopicPartition) -> None:
        """Fetch no more of it for now; what is already queued may still come."""
        self._post(partial(self._fetching.pause, topic_partition, True))

    def resume(self, topic_partition: TopicPartition) -> None:
        """Go on where ``pause`` stopped."""
        self._post(partial(self._fetching.pause, topic_partition, False))

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that nothing of these revoked partitions is in work any more."""
        self._post(partial(self.membership.release, frozenset(partitions)))

    def known_end(self, topic_partition: TopicPartition) -> int | None:
        """Return the last stable offset as last heard of, whether it is fetched or not."""
        return self._ends.get(topic_partition)

    def withheld(self, topic_partition: TopicPartition) -> Withheld | None:
        """Return what waits behind an open transaction, as last heard of; None for nothing."""
        return self._ends.withheld(topic_partition)

    def trouble(self) -> str | None:
        """Return why brokers do not answer, as far as is known here, without asking; else None."""
        if self.client.coordinator.coordinator_id is None:
            return "no broker answers as the coordinator of the group"
        return self._ends.trouble()

    def log_range(self, topic_partition: TopicPartition, since: float | None = None) -> LogRange:
        """Ask the broker for the log's start and its last stable offset; see ``LogRangeCache``."""
        return self._ranges.get(topic_partition, since)

    def epoch_end(self, topic_partition: TopicPartition, leader_epoch: int) -> int | None:
        """Ask the leader where an epoch ends in its log (blocks).  Raises ``Unavailable``."""
        return self._epoch_ends.get(topic_partition, leader_epoch)

    def cluster_id(self) -> str:
        """Ask the broker for the cluster's id (blocks).  Raises ``Unavailable``."""
        return self._metadata.cluster_id()

    def topics(self) -> frozenset[str]:
        """Ask for the names of all topics that this user sees (blocks).  Raises ``Unavailable``."""
        known = self._metadata.topics(None)
        return frozenset(name for name, topic in known.items() if not topic.internal)

    def topic_id(self, topic: str) -> str | None:
        """Ask for the topic's id; None when it does not exist, or the broker has no ids."""
        described = self._metadata.topics([topic]).get(topic)
        return described.id if described else None

    def close(self) -> None:
        """Leave the group and end the thread; waits for no release."""
        if self._closing:
            return
        self._closing = True
        # A thread that has ended waits for nothing.
        with suppress(Unavailable):
            self._post(self.membership.stop_waiting)
        # A JoinGroup that is answered now must not be followed by another.
        self.client.coordinator.need_rejoin = _never
        self._tick.notify()
        self.client.close()

    def _post(self, task: Any) -> None:
        self.client.spawn(task, self._ended)
        self._notify()

    def _notify(self, _answer: object = None) -> None:
        self._wakeup.notify()

    # ------------------------------------------------------ on the IO thread

    def _assigned(self, partitions: frozenset[TopicPartition]) -> None:
        # Paused before the loop hears of it: the client would fetch from a position of its own.
        self._fetching.assigned(partitions)
        self._ends.assigned(partitions)
        self._ranges.assigned(partitions)
        self._watch.assigned({topic_partition.topic for topic_partition in partitions})
        self._queue.rebalanced(Assigned(partitions))

    def _revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._fetching.revoked(partitions)
        self._ends.revoked(partitions)
        self._ranges.revoked(partitions)
        self._queue.rebalanced(Revoked(partitions))

    async def _stay_member(self) -> None:
        """Join whenever that is needed, with all the time it takes.

        The client gives up a join that is answered between two polls, and then disturbs the
        group with another: here a join always has somebody waiting for it.
        """
        coordinator = self.client.coordinator
        while not self._closing:
            pause = _TICK
            try:
                if coordinator.need_rejoin():
                    # Also when the reason is new metadata: a join that fails in its middle
                    # has taken note of it already, and nothing else would ask for another.
                    coordinator.request_rejoin()
                    await self._refresh_topics()
                    # Without a limit: a join that is given up in the middle is begun again, and
                    # rebalances everybody once more.
                    await coordinator.ensure_active_group_async(timeout_ms=None)
                coordinator.poll_heartbeat()
                if insides.is_fenced(coordinator):
                    raise kafka_errors.FencedInstanceIdError(coordinator.group_instance_id)
            except kafka_errors.KafkaError as error:
                if is_fatal(error):
                    raise
                pause = _BACKOFF
            await self._tick(pause)

    async def _refresh_topics(self) -> None:
        # A pattern means the topics of now, not those of the last refresh.
        if self.client.subscription.subscribed_pattern:
            await self.client.manager.wait_for(self.client.cluster.request_update(), 5000)

    async def _keep_fetching(self) -> None:
        repeated = RepeatedErrors(time.monotonic)
        while not self._closing:
            pause = _TICK
            try:
                await self._fetch()
            except kafka_errors.KafkaError as error:
                if is_fatal(error):
                    raise
                begins = repeated.failed("fetch", type(error).__name__)
                level = logging.WARNING if begins else logging.DEBUG
                _log.log(level, "fetching: %s; trying again", error_text(error))
                self._fetching.forget_sent()
                pause = _BACKOFF
            else:
                ended = repeated.ended("fetch")
                if ended is not None:
                    _log.info("fetching goes on: %d errors in %.0f s", ended.times, ended.seconds)
            await self._wakeup(pause)

    async def _fetch(self) -> None:
        looked = self._watch.look(self._fetching.assigned_topics)
        if looked is not None:
            self._fetching.recreated(looked.anew)
            self._fetching.known_to_be(looked.same, looked.asked_at)
        # What was fetched first, then requests: these are not sent while the queue is full.
        self._fetching.take()
        self._fetching.watch(time.monotonic())
        if not self._queue.full:
            await self._fetching.send(self._notify)

    def _ended(self, error: BaseException) -> None:
        """Pass the error to the loop: a source that does not read must not look idle."""
        if self._closing:
            return
        if isinstance(error, SecorError | kafka_errors.KafkaError):
            error = translated(error, "reading from Kafka")
        elif isinstance(error, GeneratorExit):
            error = Unavailable("the Kafka client was closed")
        self._queue.fail(error)


def _warn_of_stall(
    topic_partition: TopicPartition, offset: int, end: int, seconds: float, cause: str
) -> None:
    _log.warning(
        "%s: nothing was fetched from offset %d on for %.0f s, though the log goes on to %d"
        " (%s); its fetch begins anew",
        topic_partition,
        offset,
        seconds,
        end,
        cause,
    )


def _never() -> bool:
    return False
