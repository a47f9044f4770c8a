"""Why a topic partition stops, found as the service finds it: without asking a process."""

from __future__ import annotations

from collections.abc import Callable

from secor.archive.objects import Archive
from secor.consume.positioning import check, refuse_diverged
from secor.core.errors import (
    DataLost,
    LedgerEdited,
    LedgerLost,
    LogDiverged,
    StopPartition,
    no_starting_offset,
)
from secor.core.model import Entry, LogRange, TopicPartition


def stop_reason(
    topic_partition: TopicPartition,
    entry: Entry,
    log: LogRange,
    topic_id: str | None,
    *,
    first_object: Callable[[], str | None],
    stops_at_loss: bool,
    starts: bool = True,
) -> StopPartition | None:
    """Return what stops this topic partition, or will when it is assigned; None if nothing.

    ``topic_id`` is the broker's.  ``first_object`` returns the key of one of its objects; it is
    asked only where there is no entry.  ``stops_at_loss`` is ``kafka.on_data_loss = "stop"``;
    ``starts`` says that ``kafka.reset`` gives partitions without an entry one.
    """
    if entry.committed is None:
        if entry.intent is not None:
            return LedgerEdited(
                f"{topic_partition}: an intent is open without a committed offset; settle it with"
                " 'secor offsets set'"
            )
        key = first_object()
        if key is None:
            return None if starts else no_starting_offset(topic_partition)
        return LedgerLost(
            f"{topic_partition}: the group has no offset, yet {key} exists; rebuild it with"
            " 'secor offsets recover', or begin a new output.generation"
        )
    try:
        committed = check(topic_partition, entry, log, topic_id)
    except StopPartition as error:
        return error
    if stops_at_loss and committed < log.start:
        return DataLost(
            f"{topic_partition}: the log begins at {log.start}, committed is {committed}; accept"
            f" that with 'secor offsets set CONFIG {topic_partition.topic}"
            f" {topic_partition.partition} {log.start}'"
        )
    return None


def divergence(
    topic_partition: TopicPartition,
    entry: Entry,
    log: LogRange,
    epoch_end: Callable[[TopicPartition, int], int | None],
) -> LogDiverged | None:
    """Return the error of a log that was cut below the committed offset and has grown again."""
    try:
        refuse_diverged(topic_partition, entry, log, epoch_end)
    except LogDiverged as error:
        return error
    return None


def first_object(archive: Archive, topic_partition: TopicPartition, generation: int) -> str | None:
    """Return the key of an object of this partition and generation; None without one."""
    topic, partition = topic_partition.topic, topic_partition.partition
    stored_objects = archive.everything(topic, partitions=[partition], generations=[generation])
    return next((archived.key for archived in stored_objects), None)
