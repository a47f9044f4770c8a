"""One batch of a plan to staged objects: the daemon's own code on the backup's messages.

The objects are a function of the plan's batch and the group's settings, named and written as
they will be in the end; only their keys have another prefix.  Every put is put-if-absent, so
a task that runs twice, or at the same time as its double, changes nothing.  The receipt is
put last: what it names is staged, whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from secor.archive.backfill.model import (
    NewFile,
    PlanHead,
    PlannedBatch,
    Receipt,
    Segment,
    decode_receipt,
    encode,
)
from secor.archive.backfill.paths import MARK, BackfillPaths
from secor.archive.derived_objects import put_derived
from secor.archive.erasures import NO_ERASURES, Erasures
from secor.archive.objects import Archive, reading_ahead
from secor.batch.archived_batch import ArchivedBatchWriter, QuarantiningParser
from secor.batch.batch import Batch
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.batch.sealed import BatchFile, SealedBatch
from secor.batch.workspace import Workspace
from secor.core.errors import ConfigurationError, CorruptFile
from secor.core.model import QUARANTINE, Chunk, TopicPartition, next_offset
from secor.core.ports import Clock, ObjectStore
from secor.core.small_objects import put_bytes, read_bytes
from secor.parsing.parts import quarantine_part


@dataclass(frozen=True, slots=True)
class BackfillJob:
    """The common part of all batches of a backfill.

    ``topic_plan`` has the new generation; ``archive`` is the partition group's; ``erasures`` are
    the backup's.
    """

    plan: PlanHead
    backup: Archive
    archive: Archive
    topic_plan: TopicPlan
    workspace: Workspace
    clock: Clock
    erasures: Erasures = NO_ERASURES

    def __post_init__(self) -> None:
        if self.topic_plan.fingerprint != self.plan.fingerprint:
            raise ConfigurationError(
                f"backfill {self.plan.id}: the settings of topic {self.plan.topic} are not those"
                " that it was planned with (parser, layout, format, prefix or plug-ins): plan again"
            )

    @property
    def store(self) -> ObjectStore:
        """The store of the new objects."""
        return self.archive.store

    @property
    def places(self) -> BackfillPaths:
        """The keys of this backfill."""
        return BackfillPaths.of(self.plan)

    def receipt(self, batch: PlannedBatch) -> Receipt | None:
        """Return what a batch gave, if it is done."""
        data = read_bytes(self.store, self.places.receipt(batch))
        return None if data is None else decode_receipt(data)


def run_batch(job: BackfillJob, batch: PlannedBatch) -> Receipt:
    """Stage the objects of a batch, unless they are.

    Raises ``ObjectConflict``, ``CorruptFile``, ``NotFound`` (a backup object is gone), what
    parsing raises, ``Unavailable``, ``LocalFilesExhausted``: doing it again is always right.
    """
    done = job.receipt(batch)
    if done is not None:
        return done
    with parsed(job, batch) as (sealed, read):
        for file in sealed.files:
            _stage(job, file)
        receipt = receipt_of(sealed, read)
        # Last: it says that all files that it names are staged, and a task that sees it does
        # nothing.
        put_bytes(job.store, job.places.receipt(batch), encode(receipt))
    return receipt


@contextmanager
def parsed(job: BackfillJob, batch: PlannedBatch) -> Iterator[tuple[SealedBatch, int]]:
    """Give the local files of a batch, made as the daemon makes them, and the messages read."""
    topic_partition = job.plan.topic_partition(batch)

    def begin(plan: TopicPlan) -> Batch:
        return Batch(
            topic_partition,
            batch.start,
            plan=plan,
            workspace=job.workspace,
            clock=job.clock,
            topic_id=batch.topic_id,
            # With an end the batch seals exactly there, as one that follows an open intent: no
            # policy cuts it.
            end=batch.end,
        )

    sealed, read = ArchivedBatchWriter(
        job.topic_plan,
        partial(chunks, job, batch),
        begin,
        batch.end,
        quarantine_part,
        job.workspace,
        job.clock,
    ).seal(Reason.INTENT)
    try:
        yield sealed, read
    finally:
        sealed.delete()


def chunks(job: BackfillJob, batch: PlannedBatch) -> Iterator[Chunk]:
    """Give a batch's messages from the backup, as the daemon had them from Kafka.

    Those that are erased are left out.  Raises ``CorruptFile``, ``NotFound`` naming the object.
    """
    topic_partition = job.plan.topic_partition(batch)
    erased = job.erasures.of(batch.partition, None, batch.topic_id)
    with reading_ahead(job.backup, {part.key: part.size for part in batch.inputs}) as ahead:
        for segment in batch.inputs:
            for chunk in _segment(ahead, topic_partition, segment):
                yield replace(chunk, records=erased.without(chunk.records)) if erased else chunk


def _segment(backup: Archive, topic_partition: TopicPartition, segment: Segment) -> Iterator[Chunk]:
    last = segment.start - 1
    with backup.store.open(segment.key) as file:
        for records in backup.formats(segment.key, file).read(file, segment.key):
            column = records.column("offset")
            if column.null_count:
                raise CorruptFile(f"{segment.key}: has messages without an offset")
            offsets = column.to_numpy()
            low, high = offsets.searchsorted([segment.start, segment.end])
            if low == high:
                continue
            # The daemon got increasing offsets from Kafka. Others would give a file that no daemon
            # writes, under the daemon's name and fingerprint.
            if offsets[low] <= last or (offsets[low + 1 : high] <= offsets[low : high - 1]).any():
                raise CorruptFile(f"{segment.key}: its offsets go back, or repeat")
            last = int(offsets[high - 1])
            yield Chunk(topic_partition, records.slice(low, high - low), next_offset(last))


def receipt_of(sealed: SealedBatch, read: int) -> Receipt:
    """Return what a sealed batch gives: the same for the same batch and settings."""
    quarantine, parser = sealed.plan.streams.get(QUARANTINE), sealed.plan.parser
    files = tuple(
        NewFile(
            key=file.key,
            size=file.local.size,
            crc32c=file.local.crc32c,
            records=file.info.records,
            output_partition=file.name.output_partition,
            quarantine=quarantine is not None and file.name.root == quarantine.root,
        )
        # Sorted, so that a repeated task makes the same receipt, byte for byte.
        for file in sorted(sealed.files, key=lambda file: file.key)
    )
    return Receipt(
        partition=sealed.topic_partition.partition,
        start=sealed.range.start,
        end=sealed.range.end,
        read=read,
        filtered=read - sum(file.records for file in files),
        quarantined=sum(file.records for file in files if file.quarantine),
        files=files,
        unwritable=tuple(sorted(parser.reasons)) if isinstance(parser, QuarantiningParser) else (),
    )


def _stage(job: BackfillJob, file: BatchFile) -> None:
    key = job.places.staged(file.key)
    conflict = (
        f"{key}: another object is where a backfill stages its own; roll it back and run it again"
    )
    put_derived(job.store, key, file, (MARK, job.plan.id), conflict)
