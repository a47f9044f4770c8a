"""Accepting that a topic was deleted and made again."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from secor.archive.objects import Archive
from secor.archive.repair.move_offset import Move, entry_or_none
from secor.core.errors import ConfigurationError
from secor.core.model import Entry, LogRange, TopicPartition
from secor.core.ports import Log, OffsetLedger


def plan_acceptance(
    ledger: OffsetLedger,
    archive: Archive,
    log: Log,
    partitions: Iterable[TopicPartition],
    *,
    generation: int,
    topic_id: str | None = None,
    drop_intent: bool = False,
) -> list[Move]:
    """Return one move for each partition that has an entry: to the new log's start, no topic id.

    Partitions without an entry begin by themselves, and those whose entry has the topic's
    present ``topic_id`` and lies within its log go on as they are.  Raises
    ``ConfigurationError`` while objects of the configuration's ``generation`` exist: their
    offsets would come again, and for an open intent unless it is to be dropped.
    """
    moves = []
    for topic_partition in partitions:
        before = entry_or_none(partial(ledger.read, topic_partition))
        present = log.log_range(topic_partition)
        if before is not None and _goes_on(before, present, topic_id):
            continue
        _refuse_if_stored(archive, topic_partition, generation)
        if before is None:
            remark = "the present entry cannot be read, and is overwritten"
            moves.append(Move(topic_partition, None, present.start, None, remarks=(remark,)))
            continue
        if before.committed is None:
            continue
        if before.intent and not drop_intent:
            raise ConfigurationError(
                f"{topic_partition}: an intent [{before.intent.start}, {before.intent.end}) of the"
                " earlier topic is open and can never be completed; add --drop-intent"
            )
        remark = f"was at {before.committed} of the earlier topic"
        moves.append(Move(topic_partition, before, present.start, None, remarks=(remark,)))
    return moves


def _goes_on(entry: Entry, log: LogRange, topic_id: str | None) -> bool:
    """Return whether the topic is the one that was stored, and has not lost its end."""
    known = topic_id is not None and entry.topic_id == topic_id
    return known and entry.committed is not None and entry.committed <= log.last


def _refuse_if_stored(archive: Archive, topic_partition: TopicPartition, generation: int) -> None:
    stored_objects = archive.everything(
        topic_partition.topic, partitions=[topic_partition.partition]
    )
    newest = max((archived.name.generation for archived in stored_objects), default=None)
    # The new topic's offsets begin at 0 again. Under the same generation their objects would have
    # the names of the old ones.
    if newest is not None and newest >= generation:
        raise ConfigurationError(
            f"{topic_partition}: objects of generation {newest} of the earlier topic exist, and the"
            f" new topic's offsets would meet them: set output.generation = {newest + 1} or more in"
            f" the configuration (it is {generation}), then say this again"
        )
