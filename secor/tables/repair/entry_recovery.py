"""Rebuilds the ledger entry of a table group's topic partition."""

from __future__ import annotations

from collections.abc import Sequence

from secor.archive.objects import Archive
from secor.archive.repair.recover_ledger import RecoveredEntry, intent_of
from secor.archive.repair.stored_ranges import StoredRange, extents_of
from secor.core.errors import ConfigurationError
from secor.tables.repair.lost_entries import Proof, quarantined_after


def plan_table_recovery(
    proof: Proof,
    archive: Archive,
    *,
    generation: int,
    log_end: int,
    owner: str,
    now: float,
) -> RecoveredEntry | None:
    """Return the entry to make; None where nothing is there.

    ``archive`` has what is in quarantine; ``owner`` and ``now`` (seconds since the epoch) are of
    the intent by which the service completes the last batch there.  Raises
    ``ConfigurationError`` where what is there contradicts itself, or the log.
    """
    topic_partition = proof.topic_partition
    extents = _of_topic(extents_of(archive, topic_partition), generation, proof.topic_id)
    reached = proof.reached[0] if proof.reached is not None else 0
    unknown = [
        extent.archived
        for extent in extents
        if extent.archived.info is None and extent.reaches(reached)
    ]
    if unknown:
        raise ConfigurationError(
            f"{topic_partition}: {unknown[0].fault or unknown[0].key}: nothing says which messages"
            " it holds; delete it if it is none of this group's, or set the offset with"
            " 'secor offsets set'"
        )
    batches = [extent.archived.info.batch for extent in extents if extent.archived.info is not None]
    proven = quarantined_after(proof, batches)
    if proven is None:
        return None
    committed, open_batch = proven
    end = committed if open_batch is None else open_batch.end
    if end > log_end:
        raise ConfigurationError(
            f"{topic_partition}: there are messages up to {end}, and the log ends at {log_end}: it"
            " has lost messages; set the offset with 'secor offsets set'"
        )
    if open_batch is None:
        said_by = proof.reached[1] if proof.reached is not None else ""
        return RecoveredEntry(
            topic_partition, committed, proof.topic_id, remarks=(f"as {said_by} says",)
        )
    of_last = [
        extent
        for extent in extents
        if extent.archived.info and extent.archived.info.batch == open_batch
    ]
    intent = intent_of(archive, topic_partition, open_batch, of_last, owner, now)
    remark = f"only quarantine has the last batch {open_batch}: the service completes it"
    return RecoveredEntry(topic_partition, committed, proof.topic_id, intent, (remark,))


def _of_topic(
    extents: Sequence[StoredRange], generation: int, topic_id: str | None
) -> list[StoredRange]:
    """Leave out other generations, and what a topic of this name had that was deleted since."""
    return [
        extent
        for extent in extents
        if extent.archived.name.generation == generation
        and (
            extent.archived.info is None
            or topic_id is None
            or extent.archived.info.topic_id in (None, topic_id)
        )
    ]
