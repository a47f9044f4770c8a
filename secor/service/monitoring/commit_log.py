"""One log line for each committed batch; when there are many, sums."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from secor.consume.partition_status import ReadingState, Status
from secor.core.model import OffsetRange, TopicPartition
from secor.core.ports import Clock
from secor.core.text import how_many
from secor.service.monitoring.lag import lag_offsets


def status_line(statuses: Sequence[Status]) -> str:
    """Return one line for people: what this process does, or why it does nothing."""
    if not statuses:
        return "no topic partitions assigned"
    states = Counter(status.state for status in statuses)
    parts = [f"{states[state]} {state}" for state in ReadingState if states[state]]
    lag = sum(lag_offsets(status) or 0 for status in statuses)
    partitions = f"{how_many(len(statuses), 'topic partition')} ({', '.join(parts)})"
    withheld = sum(status.withheld.offsets for status in statuses if status.withheld is not None)
    more = f", {withheld:,} more behind open transactions" if withheld else ""
    return f"{partitions}, {how_many(lag, 'message')} behind{more}"


LINES = 10
"""Batches logged one by one in each ``PERIOD``; the others are summed up."""

PERIOD = 10.0
"""Seconds between two sums."""


@dataclass
class _Sum:
    batches: int = 0
    objects: int = 0
    size: int = 0


class CommitLog:
    """A log of stored batches, at most ``LINES`` and a sum in ``PERIOD`` seconds.  Thread safe."""

    def __init__(self, clock: Clock) -> None:
        """Say nothing yet."""
        self._clock = clock
        self._lock = threading.Lock()
        self._log = structlog.get_logger("secor.partition")
        self._began = clock.monotonic()
        self._lines = 0
        self._rest = _Sum()

    def committed(
        self,
        topic_partition: TopicPartition,
        batch: OffsetRange,
        objects: int,
        size: int,
        seconds: float,
    ) -> None:
        """Log a batch of ``size`` bytes that is ``seconds`` old, or count it for the sum."""
        self.look()
        with self._lock:
            self._lines += 1
            logged = self._lines <= LINES
            if not logged:
                self._rest.batches += 1
                self._rest.objects += objects
                self._rest.size += size
        if logged:
            self._log.info(
                "committed",
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                start=batch.start,
                end=batch.end,
                objects=objects,
                bytes=size,
                seconds=round(seconds, 1),
            )

    def look(self) -> None:
        """Log the sum, if it is time and there is one."""
        with self._lock:
            now = self._clock.monotonic()
            if now - self._began < PERIOD:
                return
            # Taken under the lock, logged outside of it: a log that blocks must not hold up upload
            # threads.
            rest, self._rest = self._rest, _Sum()
            seconds, self._began, self._lines = now - self._began, now, 0
        if rest.batches:
            self._log.info(
                "committed_more",
                batches=rest.batches,
                objects=rest.objects,
                bytes=rest.size,
                seconds=round(seconds, 1),
            )
