"""Up to which time a topic partition has been stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from secor.archive.finalize.periods import Periods
from secor.consume.positioning import check
from secor.core.errors import RestartPartition, StopPartition
from secor.core.model import QUARANTINE, Chunk, LogRange, TopicPartition
from secor.core.ports import Log, MessageParser, OffsetLedger

UP_TO_DATE = "is up to date"


class UncommittedLog(Log, Protocol):
    """A log that also gives what is behind an open transaction.  Raises ``Unavailable``."""

    def read_uncommitted(
        self, topic_partition: TopicPartition, start: int, end: int
    ) -> Iterator[Chunk]:
        """Give all messages of ``[start, end)``; ``end`` is at most the high watermark."""


@dataclass(frozen=True, slots=True)
class StoredTime:
    """Nothing is to come of before ``through`` (seconds since the epoch), but stragglers.

    None: unknown, and ``why`` says why.
    """

    topic_partition: TopicPartition
    committed: int | None
    through: float | None
    why: str


def progress_of(
    topic_partition: TopicPartition,
    topic_id: str | None,
    *,
    ledger: OffsetLedger,
    log: UncommittedLog,
    parser: MessageParser,
    periods: Periods,
    now: Callable[[], float],
) -> StoredTime:
    """Return how far a topic partition has come; ``topic_id`` is Kafka's, if known.

    All is stored: up to date, now.  Else it is the least of the times of the next messages
    to store: Kafka's timestamps and the output partitions that they are going to.  Messages
    behind an open transaction are among them, whether they will count or not: so a transaction
    that hangs holds back what came after it began, and short ones hold back nothing that is old.
    Times from the future say nothing of what comes behind them, so the next messages are looked
    at, too; ``through`` is never later than now.  It is unknown where the daemon would stop,
    or where the log was cut meanwhile.  Raises ``Unavailable``.
    """
    # Before anything is asked: what is stored meanwhile may be newer, never older.
    before = now()
    try:
        entry = ledger.read(topic_partition)
        if entry.committed is None:
            return StoredTime(topic_partition, None, None, "has never committed")
        log_range = log.log_range(topic_partition)
        committed = check(topic_partition, entry, log_range, topic_id)
        why = _why(committed, log_range)
        from_future = False
        for chunk in _next_chunks(topic_partition, committed, log, log_range):
            if not chunk.records.num_rows:
                continue
            through = _least(chunk, parser, periods)
            # One producer with a wrong clock must not end all waiting: the messages behind it
            # count.
            if through is not None and through > before:
                from_future = True
                continue
            if through is None:
                why += ", where messages have no timestamps"
            return StoredTime(topic_partition, committed, through, why)
        if from_future:
            why += ", with times from the future alone"
            return StoredTime(topic_partition, committed, before, why)
    except (StopPartition, RestartPartition) as error:
        why = str(error).removeprefix(f"{topic_partition}: ")
        return StoredTime(topic_partition, None, None, f"is held up: {why}")
    return StoredTime(topic_partition, committed, before, UP_TO_DATE)


def _next_chunks(
    topic_partition: TopicPartition, committed: int, log: UncommittedLog, log_range: LogRange
) -> Iterator[Chunk]:
    """Give what is not stored yet, and then what is behind an open transaction."""
    start = max(committed, log_range.start)
    yield from log.read(topic_partition, start, log_range.end)
    if log_range.withheld:
        start = max(start, log_range.end)
        yield from log.read_uncommitted(topic_partition, start, log_range.last)


def _why(committed: int, log_range: LogRange) -> str:
    behind = max(0, log_range.end - committed)
    why = f"waits at offset {committed}, {behind} behind"
    if log_range.withheld:
        why += f", and {log_range.withheld} behind an open transaction"
    return why


def _least(chunk: Chunk, parser: MessageParser, periods: Periods) -> float | None:
    timestamps = chunk.records.column("timestamp").to_pylist()
    times = [timestamp / 1000 for timestamp in timestamps if timestamp is not None]
    try:
        parts = parser.split(chunk)
    except StopPartition:
        return min(times, default=None)  # it is not stored either, until a person has looked
    part_periods = [
        periods.of(part.output_partition) for part in parts if part.stream != QUARANTINE
    ]
    times += [period.start for period in part_periods if period is not None]
    return min(times, default=None)


def slowest(all_of_them: Sequence[StoredTime]) -> StoredTime | None:
    """Return the one that holds the others back; None of none."""

    def through(progress: StoredTime) -> float:
        return float("-inf") if progress.through is None else progress.through

    return min(all_of_them, key=through, default=None)


def offsets(all_of_them: Iterable[StoredTime]) -> dict[str, dict[str, int]]:
    """Return committed offsets by topic and partition, for the marker."""
    by_topic: dict[str, dict[str, int]] = {}
    for progress in all_of_them:
        if progress.committed is not None:
            where = progress.topic_partition
            by_topic.setdefault(where.topic, {})[str(where.partition)] = progress.committed
    return by_topic
