"""Moving a committed offset, without leaving objects that would hold messages twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from secor.archive.objects import Archive
from secor.archive.quarantine.listing import markers
from secor.archive.repair.stored_ranges import StoredRange, extents_of
from secor.core.errors import ConfigurationError, LedgerCorrupt, Refused
from secor.core.model import Entry, TopicPartition
from secor.core.ports import OffsetLedger

LEASE_TIMEOUT = 10.0
"""Seconds that an operator waits for the service to let a topic partition go."""


@dataclass(frozen=True, slots=True)
class Move:
    """A planned change of an entry; ``remarks`` are sentences for the operator.

    ``before`` is None where the entry cannot be read.
    """

    topic_partition: TopicPartition
    before: Entry | None
    offset: int
    topic_id: str | None
    delete: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def plan_move(
    ledger: OffsetLedger,
    archive: Archive,
    topic_partition: TopicPartition,
    offset: int,
    *,
    generation: int,
    drop_intent: bool = False,
    delete_objects: bool = False,
    new_generation: bool = False,
) -> Move:
    """Return what moving ``committed`` to ``offset`` takes; changes nothing.

    ``generation`` is the configuration's.  Raises ``ConfigurationError`` that names the
    option to add when an intent is open, or objects of this generation exist at or above
    ``offset`` (nothing of an older generation is ever in the way).
    """
    if offset < 0:
        raise ConfigurationError(f"{offset} is no offset: it must be 0 or more")
    if delete_objects and new_generation:
        raise ConfigurationError("--delete-objects and --new-generation exclude each other")
    before = entry_or_none(lambda: ledger.read(topic_partition))
    if before and before.intent and not drop_intent:
        raise ConfigurationError(
            f"{topic_partition}: objects of [{before.intent.start}, {before.intent.end}) are being"
            f" put by {before.intent.owner}; let the service finish them, or add --drop-intent"
        )
    in_the_way = [
        extent
        for extent in extents_of(archive, topic_partition, superseded=True)
        if extent.reaches(offset) and extent.archived.name.generation >= generation
    ]
    if in_the_way and not delete_objects:
        raise ConfigurationError(
            _refusal(topic_partition, offset, in_the_way, generation, warned=new_generation)
        )
    _refuse_straddling(topic_partition, offset, in_the_way)
    # Last, and even if nothing else is left: messages in quarantine may be stored again.
    replayed = (
        markers(archive, topic_partition, start=offset, generation=generation)
        if delete_objects
        else []
    )
    return Move(
        topic_partition,
        before,
        offset,
        before.topic_id if before else None,
        delete=(*(extent.archived.key for extent in reversed(in_the_way)), *replayed),
        remarks=tuple(_remarks(before, offset, in_the_way)),
    )


def move(ledger: OffsetLedger, archive: Archive, planned: Move) -> Entry:
    """Do it, under the lease; return the new entry.

    Objects go first, the last offsets before the others: whatever interrupts this, the
    same command finishes it, and no message is ever stored twice.  Raises ``Refused`` when
    the entry has changed since, ``LeaseLost`` while the service holds it.
    """
    lease = ledger.lease(planned.topic_partition, LEASE_TIMEOUT)
    try:
        # Read again under the lease: the plan was shown to a person, who may have thought about it
        # for minutes.
        before = entry_or_none(lease.read)
        if before != planned.before:
            raise Refused(
                f"{planned.topic_partition}: the entry has changed meanwhile; look again with"
                " 'secor offsets show'"
            )
        # Objects before the entry: after a crash the offset is still the old one, and the same
        # command goes on. The other way round, the daemon would store messages again next to the
        # old objects.
        for key in planned.delete:
            archive.store.delete(key)
        if before is None:
            return lease.overwrite(planned.offset, planned.topic_id)
        return lease.commit(before, planned.offset, planned.topic_id)
    finally:
        lease.release()


def entry_or_none(read: Callable[[], Entry]) -> Entry | None:
    """Return the entry that ``read`` returns; None where it cannot be read as one."""
    try:
        return read()
    except LedgerCorrupt:
        return None


def _refusal(
    topic_partition: TopicPartition,
    offset: int,
    in_the_way: Sequence[StoredRange],
    generation: int,
    *,
    warned: bool,
) -> str:
    newest = max(extent.archived.name.generation for extent in in_the_way)
    start = (
        f"{topic_partition}: objects of generation {newest} hold offsets at or above {offset}"
        f" ({len(in_the_way)} in all, the first is {in_the_way[0].archived.key})"
    )
    if warned:
        return (
            f"{start}; a new generation must be greater than theirs: set output.generation ="
            f" {newest + 1} or more in the configuration (it is {generation}), then say this again"
        )
    return (
        f"{start}, and they would be stored again: add --delete-objects to delete them, or raise"
        " output.generation in the configuration and add --new-generation to keep them"
    )


def _refuse_straddling(
    topic_partition: TopicPartition, offset: int, in_the_way: Sequence[StoredRange]
) -> None:
    across = [extent for extent in in_the_way if extent.straddles(offset)]
    if not across:
        return
    starts = sorted({extent.start for extent in across})
    raise ConfigurationError(
        f"{topic_partition}: {across[0].archived.key} holds offsets below {offset}, too: deleting"
        f" it would lose them; move to {starts[0]}, where its batch begins"
        + (f", or to {across[0].end}, where it ends" if across[0].end is not None else "")
    )


def _remarks(before: Entry | None, offset: int, in_the_way: Sequence[StoredRange]) -> list[str]:
    remarks = []
    if before is None:
        remarks.append("the present entry cannot be read, and is overwritten")
    elif before.committed is None:
        remarks.append("there was no entry")
    elif offset > before.committed:
        remarks.append(f"the messages in [{before.committed}, {offset}) will never be stored")
    if before and before.intent:
        remarks.append(f"the open intent [{before.intent.start}, {before.intent.end}) is dropped")
    if in_the_way:
        remarks.append(f"deletes {len(in_the_way)} of the objects")
    return remarks
