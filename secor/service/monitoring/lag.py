"""Lag of topic partitions in offsets and in seconds, and what open transactions withhold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from secor.consume.partition_status import ReadingState, Status
from secor.core.model import OpenTransaction, TopicPartition, Withheld
from secor.core.ports import Clock
from secor.core.text import how_many

LONG = 60.0
"""Seconds after which an open transaction is named: what producers give it by default."""

TOO_LONG = 900.0
"""Seconds after which a person should look: the most that brokers grant it by default."""


def lag_offsets(status: Status) -> int | None:
    """Return the offsets between the committed one and the last stable one; None if not known.

    A stopped partition whose log ends below its committed offset has another log.
    """
    if status.known_end is None or status.committed is None:
        return None
    behind = status.known_end - status.committed
    # A log that ends below the committed offset is another log, unless the end was asked a moment
    # before the commit: then the lag is 0.
    return None if behind < 0 and status.state is ReadingState.STOPPED else max(0, behind)


def lag_seconds(status: Status, now: float, monotonic: float) -> float:
    """Return how old the last message read is, in seconds; 0 at the end of the log.

    ``now`` is in seconds since 1970.  Of a stopped partition for which messages wait, at least
    since when it is stopped.
    """
    read = 0.0
    if status.last_timestamp is not None:
        read = max(0.0, now - status.last_timestamp / 1000)
    if status.stopped_at is not None:
        # A stopped partition reads no timestamps: without this its lag in seconds would stay where
        # it was, and no alert would rise.
        return 0.0 if lag_offsets(status) == 0 else max(read, monotonic - status.stopped_at)
    if status.next_offset is None:
        return 0.0
    if status.known_end is not None and status.next_offset >= status.known_end:
        return 0.0
    return read


def waiting_seconds(status: Status, monotonic: float) -> float | None:
    """Return how long the oldest message that was read waits for its commit; None without one.

    Of a stopped partition for which messages wait: since when it is stopped.
    """
    if status.oldest_batch is not None:
        return max(0.0, monotonic - status.oldest_batch)
    if status.stopped_at is not None and lag_offsets(status) != 0:
        return monotonic - status.stopped_at
    return None


def withheld_seconds(status: Status, now: float) -> float:
    """Return how long offsets have been waiting for a transaction to end; 0 without any.

    ``now`` is in seconds since 1970.
    """
    return 0.0 if status.withheld is None else max(0.0, now - status.withheld.began)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Offsets of a topic partition that have been waiting for so many seconds."""

    topic_partition: TopicPartition
    withheld: Withheld
    seconds: float


class OpenTransactions:
    """Messages that wait long behind open transactions: a remark for probes, a log line."""

    def __init__(self, clock: Clock) -> None:
        """Begin with none."""
        self._clock = clock
        self._log = structlog.get_logger("secor.partition")
        self._warned = False

    def look(self, statuses: Sequence[Status]) -> list[str]:
        """Return remarks without names; log once when messages wait too long, and when none do."""
        now = self._clock.now()
        waiting = [
            _Waiting(status.topic_partition, status.withheld, withheld_seconds(status, now))
            for status in statuses
            if status.withheld is not None
        ]
        self._report([part for part in waiting if part.seconds >= TOO_LONG])
        waiting = [part for part in waiting if part.seconds >= LONG]
        if not waiting:
            return []
        offsets = sum(part.withheld.offsets for part in waiting)
        longest = max(part.seconds for part in waiting)
        behind = f"wait{'s' if offsets == 1 else ''} behind open transactions"
        return [f"{how_many(offsets, 'offset')} {behind}, for up to {longest:.0f} s"]

    def _report(self, waiting: Sequence[_Waiting]) -> None:
        if waiting and not self._warned:
            longest = max(waiting, key=lambda part: part.seconds)
            where, withheld = longest.topic_partition, longest.withheld
            self._log.warning(
                "messages_withheld",
                topic=where.topic,
                partition=where.partition,
                offsets=withheld.offsets,
                seconds=round(longest.seconds),
                partitions=len(waiting),
                behind=str(withheld.transaction or OpenTransaction()),
                next="end the transaction: see SecorMessagesWithheld in docs/runbook.md",
            )
        elif self._warned and not waiting:
            self._log.info("messages_withheld_no_more")
        self._warned = bool(waiting)
