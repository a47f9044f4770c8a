"""The messages of an object in quarantine, parsed into local files of the batch they are of."""

from __future__ import annotations

from collections import Counter

from secor.archive.objects import Archive, ArchivedObject
from secor.archive.quarantine.listing import messages
from secor.batch.batch import Batch
from secor.batch.plan import TopicPlan
from secor.batch.sealed import BatchFile, SealedBatch
from secor.batch.workspace import Workspace
from secor.core.errors import SchemaGrew
from secor.core.model import QUARANTINE, Chunk, next_offset
from secor.core.ports import Clock
from secor.parsing.parts import release_part

REPLAYED = "replay-of"
"""Metadata of the objects put: the quarantined object's output partition and name."""


def parse_again(
    archive: Archive, archived: ArchivedObject, plan: TopicPlan, workspace: Workspace, clock: Clock
) -> tuple[Batch, int] | None:
    """Return the messages parsed, and their number; None where the schema has to grow.

    The object must have metadata of Secor's.
    """
    info = archived.info
    assert info is not None
    batch = Batch(
        archived.topic_partition,
        info.batch.start,
        plan=plan,
        workspace=workspace,
        clock=clock,
        topic_id=info.topic_id,
    )
    read = 0
    try:
        for records, _ in messages(archive, archived):
            if records.num_rows:
                end = next_offset(records.column("offset")[-1].as_py())
                batch.append(Chunk(archived.topic_partition, records, end))
                read += records.num_rows
    except SchemaGrew:
        batch.drop()
        return None
    except BaseException:
        batch.drop()
        raise
    batch.skip(info.batch.end)
    return batch, read


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
