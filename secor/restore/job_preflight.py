"""Faults of a job as a whole, found before anything is written: pure rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from secor.core.errors import ConfigurationError, SpecChanged
from secor.restore.control import JobRecord, RequestedState, check_record
from secor.restore.ports import RestoreSource
from secor.restore.preflight import JobFinding, Severity, TargetTopic

_RECOVER = "see 'secor restore offsets recover'"


def lost_offsets(
    offsets_topic: str, ids: Sequence[str], targets: Iterable[TargetTopic], shared: str | None
) -> Iterator[JobFinding]:
    """Return what is wrong where a job has no offsets topic, though it has written already.

    ``ids`` are those of its source partitions that the brokers know, ``shared`` is the topic
    of copies.
    """
    written = [target.name for target in targets if target.messages]
    if ids and written:
        yield JobFinding(
            Severity.REFUSE,
            offsets_topic,
            f"is gone, and the job has written before (the brokers know {ids[0]}): all would be"
            f" written again to {', '.join(written)}; delete the targets, or, if what they hold"
            " is not this job's, give the job another name"
            + (f"; or take the copies in {shared}: {_RECOVER}" if shared else ""),
        )


def record_findings(
    known: JobRecord | None, job: str, spec: str, partitions: int, archive: str | None
) -> Iterator[JobFinding]:
    """Return what the record of a started job says against going on with this file.

    ``partitions`` are those of its offsets topic, ``archive`` is the store that the file names.
    """
    if known is None:
        return
    try:
        check_record(job, known, spec, partitions, archive)
    except (SpecChanged, ConfigurationError) as error:
        yield JobFinding(Severity.REFUSE, job, str(error))
    if known.requested is not RequestedState.RUNNING:
        yield JobFinding(
            Severity.WARN,
            job,
            f"the job is {known.requested.value}, and writes nothing until 'secor restore resume'",
        )


def source_findings(
    source: RestoreSource, *, required: bool, boundary: str
) -> Iterator[JobFinding]:
    """Return what a source cannot do of what the job wants.

    ``required`` says whether each message has to be written once; ``boundary`` is the job's.
    """
    answer = source.exactly_once()
    if required and answer is not True:
        does = "does not give" if answer is False else "does not say whether it gives"
        yield JobFinding(
            Severity.REFUSE,
            "source",
            f"{does} the same records each time, so that messages may be missing or twice: set"
            ' writing.exactly_once = "disabled" if that is all right',
        )
    if boundary == "source" and not source.defines_transactions():
        yield JobFinding(
            Severity.REFUSE,
            "source",
            'defines no transactions: set writing.boundary = "interval" or "poll"',
        )


def promise_findings(*, transactional: bool, interval: float) -> Iterator[JobFinding]:
    """Return what it means that a job writes without transactions; ``interval`` in seconds."""
    if not transactional:
        yield JobFinding(
            Severity.WARN,
            "writing.exactly_once",
            "is disabled: messages are visible at once, and those since the last offset"
            f" (writing.interval = {interval:g} s) are written again after a crash, or by two"
            " daemons at the same time when a partition moves",
        )


def space_findings(needed: int, free: int | None) -> Iterator[JobFinding]:
    """Return whether the target's disks have room; both in bytes, None where it is not known."""
    if free is not None and needed > free:
        yield JobFinding(
            Severity.WARN,
            "disks",
            f"the brokers have {free:,} bytes free, and what is left of the archive takes"
            f" {needed:,} with all replicas, compressed as it is there: make room, or the job"
            " waits when they are full",
        )
