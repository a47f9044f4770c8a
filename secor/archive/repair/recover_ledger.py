"""Rebuilding of lost ledger entries from the objects' names and metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from secor.archive.objects import Archive
from secor.archive.repair.move_offset import LEASE_TIMEOUT, entry_or_none
from secor.archive.repair.stored_ranges import StoredRange, batches_of, extents_of
from secor.core.errors import ConfigurationError, Refused, TopicRecreated
from secor.core.model import Entry, Intent, LogRange, OffsetRange, TopicPartition
from secor.core.naming import further_roots
from secor.core.ports import Log, OffsetLedger
from secor.core.text import how_many


@dataclass(frozen=True, slots=True)
class RecoveredEntry:
    """The entry that the objects prove.

    With ``intent`` the last batch may not be complete: the service completes it, and
    takes over the objects that are there.
    """

    topic_partition: TopicPartition
    committed: int
    topic_id: str | None
    intent: Intent | None = None
    remarks: tuple[str, ...] = ()


def plan_recovery(
    ledger: OffsetLedger,
    archive: Archive,
    topic_partition: TopicPartition,
    *,
    generation: int,
    log: Log,
    owner: str,
    now: float,
) -> RecoveredEntry | None:
    """Return the entry to make; None where there is a readable one, or there are no objects.

    It is the end of the last batch, each of them beginning where another ended.  That
    this batch has all its objects is seen by counting the log's messages; when they are
    more, the batch is left open, as an intent made by ``owner`` at ``now`` (seconds since
    the epoch), unless it was rewritten.  Raises ``ConfigurationError`` when the objects have no
    range, or leave a hole where the log has messages.
    """
    before = entry_or_none(lambda: ledger.read(topic_partition))
    if before is not None and before.committed is not None:
        return None
    extents = [
        extent
        for extent in extents_of(archive, topic_partition)
        if extent.archived.name.generation == generation
    ]
    if not extents:
        return None
    batches = _batches(topic_partition, extents, generation)
    log_range = log.log_range(topic_partition)
    last, remarks = _chain(topic_partition, batches, log, log_range)
    _refuse_unknown(topic_partition, extents, last)
    if last.end > log_range.last > 0:
        raise ConfigurationError(
            f"{topic_partition}: the objects end with {last}, and the log ends at {log_range.last}:"
            " the log has lost messages, or the metadata is wrong; look at the objects, then set"
            " the offset with 'secor offsets set'"
        )
    of_last = [
        of_batch
        for of_batch in extents
        if of_batch.archived.info and of_batch.archived.info.batch == last
    ]
    topic_id = of_last[0].archived.info.topic_id if of_last[0].archived.info else None
    stored = sum(extent.archived.info.records for extent in of_last if extent.archived.info)
    if any(extent.archived.name.end is not None for extent in of_last):
        # Only what was committed is rewritten: what it lacks was erased, and must not come back.
        pass
    elif log_range.start <= last.start and last.end <= log_range.end:
        # Counted in the log: a process that was killed between two puts leaves a batch whose range
        # is in the names of those that are there, and whose other objects are missing.
        there = _count(log, topic_partition, last.start, last.end)
        if there > stored:
            remarks.append(
                f"the last batch {last} has {stored} of {there} messages: the service completes it"
            )
            intent = intent_of(archive, topic_partition, last, of_last, owner, now)
            return RecoveredEntry(topic_partition, last.start, topic_id, intent, tuple(remarks))
    else:
        remarks.append(f"the log no longer has {last}: that it is complete cannot be proved")
    return RecoveredEntry(topic_partition, last.end, topic_id, None, tuple(remarks))


def refuse_earlier_topic(planned: RecoveredEntry, topic_id: str | None) -> None:
    """Raise ``TopicRecreated`` when the objects are of a topic that was deleted since.

    Its offsets say nothing of the present one with the id ``topic_id``.
    """
    if topic_id is None or planned.topic_id in (None, topic_id):
        return
    raise TopicRecreated(
        f"{planned.topic_partition}: the objects are of a topic that was deleted (id"
        f" {planned.topic_id}, now {topic_id}): raise output.generation in the configuration and"
        " restart; without an entry the new topic is stored from its start"
    )


def _batches(
    topic_partition: TopicPartition, extents: Sequence[StoredRange], generation: int
) -> Sequence[OffsetRange]:
    batches = batches_of(extents, generation)
    if not batches:
        silent = how_many(
            len(extents),
            "object says nothing of its range",
            "objects say nothing of their ranges",
        )
        raise ConfigurationError(
            f"{topic_partition}: {silent} (Java Secor's do not); give the entry a value with"
            " 'secor offsets set'"
        )
    return batches


def recover(ledger: OffsetLedger, planned: RecoveredEntry) -> Entry:
    """Make the entry, if there is still none.  Raises ``Refused``, ``LeaseLost``."""
    lease = ledger.lease(planned.topic_partition, LEASE_TIMEOUT)
    try:
        before = entry_or_none(lease.read)
        if before is None:
            entry = lease.overwrite(planned.committed, planned.topic_id)
        elif before.committed is None:
            entry = lease.commit(before, planned.committed, planned.topic_id)
        else:
            raise Refused(f"{planned.topic_partition}: meanwhile it has an entry")
        # The entry first: an intent without a committed offset stops the partition.
        return lease.record(entry, planned.intent) if planned.intent else entry
    finally:
        lease.release()


def _chain(
    topic_partition: TopicPartition, batches: Sequence[OffsetRange], log: Log, log_range: LogRange
) -> tuple[OffsetRange, list[str]]:
    """Return the last batch; between two batches the log must have no messages to store.

    Going back to a hole would store what lies behind it twice, passing it by would lose
    what the log still has in it: that is for a person to decide.
    """
    last, remarks = batches[0], []
    for batch in batches[1:]:
        if batch.start > last.end:
            hole = OffsetRange(last.end, batch.start)
            lost = _count(
                log, topic_partition, max(hole.start, log_range.start), min(hole.end, log_range.end)
            )
            if lost:
                raise ConfigurationError(
                    f"{topic_partition}: no object has {hole}, and the log has {lost} messages"
                    f" there; store again from it by 'secor offsets set' to {hole.start} with"
                    f" --delete-objects, or leave it out by setting {batches[-1].end}"
                )
            remarks.append(f"no object has {hole}, and the log has no messages there")
        if batch.start < last.end:
            raise ConfigurationError(
                f"{topic_partition}: objects have {last} and {batch}, which overlap: one of"
                " them is wrong; look at the objects, then set the offset with 'secor offsets set'"
            )
        last = batch
    return last, remarks


def _refuse_unknown(
    topic_partition: TopicPartition, extents: Sequence[StoredRange], last: OffsetRange
) -> None:
    """Raise where objects behind the last batch may hold messages that would be stored twice."""
    unknown = [
        extent.archived
        for extent in extents
        if extent.archived.info is None and extent.archived.name.start_offset >= last.end
    ]
    if unknown:
        first = unknown[0]
        raise ConfigurationError(
            f"{topic_partition}: {how_many(len(unknown), 'object')} from offset {last.end} on"
            f" do not say which messages they hold ({first.fault or first.key}): delete those"
            " that are none of this group's, or set the offset with 'secor offsets set'"
        )


def _count(log: Log, topic_partition: TopicPartition, start: int, end: int) -> int:
    if start >= end:
        return 0
    chunks = log.read(topic_partition, start, end)
    return sum(chunk.since(start).until(end).records.num_rows for chunk in chunks)


def intent_of(
    archive: Archive,
    topic_partition: TopicPartition,
    batch: OffsetRange,
    objects: Sequence[StoredRange],
    owner: str,
    now: float,
) -> Intent:
    """Return the intent that completes a batch with the present ``objects``."""
    info = objects[0].archived.info
    assert info is not None
    root = archive.root(topic_partition.topic)
    also = further_roots(root, [extent.archived.name.root for extent in objects])
    return Intent(batch.start, batch.end, info.fingerprint, owner, now, root, also=also)
