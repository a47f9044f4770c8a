"""How far behind a topic partition is, in offsets and in seconds."""

from __future__ import annotations

from secor.consume.partition_status import State, Status


def lag_offsets(status: Status) -> int | None:
    """Return the offsets between the committed one and the log's end; None if not known.

    A stopped partition whose log ends below its committed offset has another log.
    """
    if status.known_end is None or status.committed is None:
        return None
    behind = status.known_end - status.committed
    return None if behind < 0 and status.state is State.STOPPED else max(0, behind)


def lag_seconds(status: Status, now: float, monotonic: float) -> float:
    """Return how old the last message read is, in seconds; 0 at the end of the log.

    ``now`` is in seconds since 1970.  Of a stopped partition for which messages wait, at least
    since when it is stopped.
    """
    read = 0.0
    if status.last_timestamp is not None:
        read = max(0.0, now - status.last_timestamp / 1000)
    if status.stopped_at is not None:
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
