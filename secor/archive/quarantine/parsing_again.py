"""The messages of an object in quarantine, parsed into local files of the batch they are of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from secor.archive.objects import Archive, ArchivedObject
from secor.archive.quarantine.listing import messages
from secor.batch.archived_batch import ArchivedBatchWriter
from secor.batch.batch import Batch
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.batch.sealed import BatchFile, SealedBatch
from secor.batch.workspace import Workspace
from secor.core.errors import SchemaGrew
from secor.core.model import QUARANTINE, Chunk, next_offset
from secor.core.ports import Clock
from secor.parsing.parts import quarantine_part, release_part

REPLAYED = "replay-of"
"""Metadata of the objects put: the quarantined object's output partition and name."""


def parse_again(
    archive: Archive,
    archived: ArchivedObject,
    plan: TopicPlan,
    workspace: Workspace,
    clock: Clock,
    forget: Callable[[], None] | None = None,
) -> tuple[SealedBatch, int] | None:
    """Return the messages parsed, and their number; None where the schema has to grow.

    The object must have metadata of Secor's.  Messages that no file can hold are bad.
    To find them, messages are parsed again: ``forget`` is called before, for what was counted.
    """
    info = archived.info
    assert info is not None
    start, topic_id = info.batch.start, info.topic_id

    def begin(plan: TopicPlan) -> Batch:
        if forget is not None:
            forget()
        return Batch(
            archived.topic_partition,
            start,
            plan=plan,
            workspace=workspace,
            clock=clock,
            topic_id=topic_id,
        )

    writing = ArchivedBatchWriter(
        plan,
        lambda: _chunks(archive, archived),
        begin,
        info.batch.end,
        quarantine_part,
        workspace,
        clock,
    )
    try:
        return writing.seal(Reason.RETIRED)
    except SchemaGrew:
        return None


def _chunks(archive: Archive, archived: ArchivedObject) -> Iterator[Chunk]:
    for records, _ in messages(archive, archived):
        if records.num_rows:
            end = next_offset(records.column("offset")[-1].as_py())
            yield Chunk(archived.topic_partition, records, end)


def bad_files(sealed: SealedBatch) -> list[BatchFile]:
    """Return the files of messages that are still bad."""
    root = sealed.plan.stream(QUARANTINE).root
    return [file for file in sealed.files if file.name.root == root]


def reasons_of(sealed: SealedBatch) -> Counter[str]:
    """Count why messages are still bad."""
    reasons: Counter[str] = Counter()
    log_format = sealed.plan.stream(QUARANTINE).log_format
    for file in bad_files(sealed):
        with file.local.open() as opened:
            for records in log_format.read(opened, file.key):
                reasons.update(release_part(records)[1])
    return reasons


def name_of(archived: ArchivedObject) -> str:
    """Return the object's name below its topic's directory in quarantine."""
    return archived.key.removeprefix(archived.name.root + "/")
