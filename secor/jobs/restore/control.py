"""Changes by a person: fencing, offsets while a job is stopped, and the end of a drill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from secor.core.errors import ConfigurationError
from secor.core.model import TopicPartition
from secor.jobs.restore.offsets import copy_writer, pair_keys, read_all_offsets, read_shared
from secor.jobs.restore.plan import written_ids
from secor.restore.control import JobControl, RequestedState, check_record
from secor.restore.model import SourceExtent, SourcePartition, transactional_id
from secor.restore.offsets import (
    OffsetTable,
    StoredOffset,
    offset_key,
    offsets_topic,
    partition_of,
    record,
    tombstones,
)
from secor.wiring.restore import Job


def fence_all(job: Job) -> int:
    """Initialise every transactional id of the job; return how many.

    Those that the brokers know count, too: a daemon may still write a source partition if its
    objects have vanished, or that the file does not select any more.  Without transactions there
    are none, and nobody can be fenced.
    """
    if not job.transactional:
        return 0
    ids = {transactional_id(job.name, source) for source in job.sources()}.union(written_ids(job))
    for name in sorted(ids):
        job.make_writer(name).initialise()
    return len(ids)


def not_started(job: Job) -> str:
    """Return what to say of a job without an offsets topic: it may have lost it."""
    ids = written_ids(job)
    if not ids:
        return f"job {job.name} was not started: see secor restore run"
    return (
        f"the offsets topic {offsets_topic(job.name)} is gone, and job {job.name} has written"
        f" before (the brokers know {ids[0]}): 'secor restore plan' says what can be done"
    )


def check_offset(extent: SourceExtent, offset: int, *, beyond: bool) -> None:
    """Refuse an offset that would leave out messages which are not archived yet.

    Raises ``ConfigurationError``, unless ``beyond`` says that it is meant.
    """
    if offset > extent.range.end and not beyond:
        raise ConfigurationError(
            f"{extent.source}: the archive has {extent.range}, and {offset} is beyond its end:"
            f" {extent.range.end} leaves out all that is there; with --beyond, messages that are"
            " archived later are left out, too"
        )


def change_offsets(
    job: Job,
    control: JobControl,
    partitions: int,
    offsets: Mapping[SourcePartition, int | None],
    forgotten: Mapping[SourcePartition, Sequence[bytes]] = MappingProxyType({}),
) -> None:
    """Write offsets, None to forget one, each under its own transactional id.

    ``forgotten`` are keys of other records of these source partitions, which are deleted.

    So a daemon that missed the stop is fenced.  Raises ``ConfigurationError`` unless the job
    is stopped, and ``SpecChanged`` where offsets would be written under another spec than the
    job's: every daemon would refuse them.
    """
    known = control.read()
    if known is not None and known.requested is not RequestedState.STOPPED:
        raise ConfigurationError(
            f"job {job.name} is {known.requested.value}: offsets change only while it is stopped,"
            " see secor restore stop"
        )
    if known is not None and any(offset is not None for offset in offsets.values()):
        check_record(job.name, known, job.spec.hash, partitions, job.spec.archive)
    now = int(job.clock.now() * 1000)
    for source, next_offset in offsets.items():
        where = TopicPartition(offsets_topic(job.name), partition_of(job.name, source, partitions))
        value = None
        if next_offset is not None:
            value = StoredOffset(next_offset, job.spec.hash).encode()
        writer = job.make_writer(transactional_id(job.name, source))
        # Initialising is what fences: a daemon that missed the stop cannot commit its offset over
        # this one.
        writer.initialise()
        writer.begin()
        writer.write(where, record(offset_key(job.name, source), value, now))
        keys = forgotten.get(source, ())
        if keys:
            writer.write(where, tombstones(keys, now))
        writer.commit()
    copies = copy_writer(job)
    if copies is not None and offsets:
        copies.put(offsets)


def reset_offsets(job: Job, control: JobControl, partitions: int) -> int:
    """Forget the offsets of all source partitions, and the spec; return how many there were."""
    known = read_all_offsets(job, partitions).offsets
    pairs: dict[SourcePartition, list[bytes]] = {}
    for source, key in pair_keys(job, partitions):
        pairs.setdefault(source, []).append(key)
    change_offsets(job, control, partitions, dict.fromkeys({*known, *pairs}, None), pairs)
    # Last: what fails before this leaves the old spec, which daemons with the new file refuse, and
    # the reset can be repeated.
    control.adopt(job.spec.hash, job.spec.archive)
    return len(known)


def recover_offsets(job: Job) -> Mapping[SourcePartition, int]:
    """Take the copies of those offsets that the job's own topic has lost; return them.

    Makes the topic anew if it is gone; the job is stopped then.  What was committed after the
    copies were written is written again.  Raises ``ConfigurationError``, ``SpecChanged``.
    """
    copies = OffsetTable(job.name, dict(read_shared(job)))
    if not copies.offsets:
        raise ConfigurationError(
            f"there are no copies of the offsets of job {job.name}: writing.shared_offsets_topic"
            " names the topic that has them"
        )
    partitions = job.ensure_offsets_topic()
    control = job.control(partitions)
    # Stopped before an offset is written, so that no daemon begins at zero in between.
    control.start(job.spec.hash, partitions, RequestedState.STOPPED, archive=job.spec.archive)
    known = read_all_offsets(job, partitions).offsets
    lost = sorted(copies.offsets.keys() - known.keys())
    offsets = {source: copies.next_offset(source, job.spec.hash) for source in lost}
    change_offsets(job, control, partitions, offsets)
    return offsets
