"""Is every message of a plan in the staged objects, in quarantine, or filtered: once?

The backup is parsed once more and only its offsets are kept: what each object has to hold.
Each staged object is read whole.  Where its format records offsets they are compared, one
by one; where it does not, its bytes are, with what is written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from crc32c import crc32c

from secor.archive.backfill.model import NewFile, OldObject, PlannedBatch, Receipt
from secor.archive.backfill.running import BackfillJob, chunks, parsed, receipt_of
from secor.batch.archived_batch import QuarantiningParser
from secor.batch.unwritable import UNWRITABLE
from secor.core.errors import CorruptFile, NotFound
from secor.core.model import QUARANTINE, Offsets, next_offset
from secor.core.ports import LogFormat
from secor.parsing.parts import quarantine_part
from secor.verify.archive.report import PartitionReport
from secor.verify.finding import FindingKind

IN_QUARANTINE = "_quarantine"
"""How the summary calls the output partition of what is in quarantine."""

_BLOCK = 1 << 20


@dataclass(slots=True)
class Differences:
    """Old objects against new ones, in messages.

    ``moved`` are in another output partition now, ``left`` came out of quarantine, ``entered``
    are new in it; None where the formats do not record offsets and only counts are known.
    """

    old: Counter[str] = field(default_factory=Counter)
    new: Counter[str] = field(default_factory=Counter)
    moved: int = 0
    left: int = 0
    entered: int = 0
    exact: bool = True

    def add(self, other: Differences) -> None:
        """Add another batch's."""
        self.old += other.old
        self.new += other.new
        self.moved += other.moved
        self.left += other.left
        self.entered += other.entered
        self.exact &= other.exact


@dataclass(frozen=True, slots=True)
class BatchVerification:
    """The result of verifying one batch."""

    report: PartitionReport
    receipt: Receipt | None
    differences: Differences


def verify_batch(job: BackfillJob, batch: PlannedBatch) -> BatchVerification:
    """Verify one batch.  Raises ``CorruptFile``, ``NotFound`` about the backup only."""
    report = PartitionReport(job.plan.topic_partition(batch))
    receipt = job.receipt(batch)
    if receipt is None:
        count = batch.end - batch.start
        text = "this batch was not run: run the backfill again"
        report.found_range(FindingKind.MISSING, batch.start, batch.end, count=count, text=text)
        return BatchVerification(report, None, Differences())
    report.filtered, report.quarantined = receipt.filtered, receipt.quarantined
    expected = _expected(job, batch, receipt, report)
    stored: dict[str, Offsets] = {}
    without = []
    for file in receipt.files:
        report.objects += 1
        offsets = _read(job, file, report)
        if offsets is None:
            without.append(file)
        else:
            stored[file.key] = offsets
    _compare(expected, stored, receipt, report)
    if without:
        _compare_bytes(job, batch, receipt, report)
    for file in without:
        stored[file.key] = expected.get(_directory(file.key), np.zeros(0, np.int64))
    differences = _differences(job, batch, receipt, stored)
    return BatchVerification(report, receipt, differences)


def _expected(
    job: BackfillJob, batch: PlannedBatch, receipt: Receipt, report: PartitionReport
) -> dict[str, Offsets]:
    """Return the offsets that belong into each directory."""
    # Which messages no file could hold is known from the run: only writing again would show it.
    reasons = dict.fromkeys(receipt.unwritable, UNWRITABLE)
    parser = QuarantiningParser(job.topic_plan.parser, reasons, quarantine_part)
    by_directory: dict[str, list[Offsets]] = {}
    for chunk in chunks(job, batch):
        report.compared += chunk.records.num_rows
        for part in parser.split(chunk):
            root = job.topic_plan.stream(part.stream).root
            directory = f"{root}/{part.output_partition}" if part.output_partition else root
            by_directory.setdefault(directory, []).append(part.records.column("offset").to_numpy())
    return {directory: np.concatenate(parts) for directory, parts in by_directory.items()}


def _read(job: BackfillJob, file: NewFile, report: PartitionReport) -> Offsets | None:
    """Read a staged object; None when it has no offsets, or cannot be read."""
    key = job.places.staged(file.key)
    try:
        size, checksum = _bytes_of(job, key)
        # Before it is decoded: of an object that is not as it was written, the content proves
        # nothing.
        if (size, checksum) != (file.size, file.crc32c):
            raise CorruptFile(f"{key}: its bytes are not those that were written")
        return _offsets(job, key, _format_of(job, file))
    except (CorruptFile, NotFound) as error:
        first = _start_offset(file.key)
        report.found_range(
            FindingKind.CORRUPT,
            first,
            next_offset(first),
            key=key,
            text=str(error).removeprefix(f"{key}: "),
        )
        return None


def _bytes_of(job: BackfillJob, key: str) -> tuple[int, int]:
    size = checksum = 0
    with job.store.open(key) as stored:
        while block := stored.read(_BLOCK):
            size += len(block)
            checksum = crc32c(block, checksum)
    return size, checksum


def _format_of(job: BackfillJob, file: NewFile) -> LogFormat:
    return (
        job.topic_plan.stream(QUARANTINE).log_format
        if file.quarantine
        else (job.topic_plan.log_format)
    )


def _offsets(job: BackfillJob, key: str, log_format: LogFormat) -> Offsets | None:
    """Return the offsets of an object; None when its format does not record them."""
    columns: list[Offsets] = []
    with job.store.open(key) as stored:
        for records in log_format.read(stored, key):
            column = records.column("offset")
            if column.null_count:
                return None
            columns.append(column.to_numpy())
    return np.concatenate(columns) if columns else np.zeros(0, np.int64)


def _compare(
    expected: Mapping[str, Offsets],
    stored: Mapping[str, Offsets],
    receipt: Receipt,
    report: PartitionReport,
) -> None:
    named = {_directory(file.key) for file in receipt.files}
    for directory, offsets in expected.items():
        if directory not in named:
            # Looked for by directory: an object that was never put has no key to be found by.
            report.note(FindingKind.MISSING, offsets, key=directory)
    for key, offsets in stored.items():
        wanted = expected.get(_directory(key), np.zeros(0, np.int64))
        report.note(FindingKind.MISSING, np.setdiff1d(wanted, offsets), key=key)
        report.note(FindingKind.EXTRA, np.setdiff1d(offsets, wanted), key=key)
    if stored:
        # Over all objects: a message in two output partitions is in each of them once.
        values, times = np.unique(np.concatenate(list(stored.values())), return_counts=True)
        report.note(FindingKind.TWICE, values[times > 1])


def _compare_bytes(
    job: BackfillJob, batch: PlannedBatch, receipt: Receipt, report: PartitionReport
) -> None:
    """Write the batch again and compare what it gives with the receipt."""
    with parsed(job, batch) as (sealed, read):
        again = receipt_of(sealed, read)
    if again == receipt:
        return
    known = {file.key: file for file in again.files}
    for file in receipt.files:
        if known.get(file.key) != file:
            first = _start_offset(file.key)
            text = "written again it has other bytes: is the parser deterministic?"
            report.found_range(
                FindingKind.DIFFERENT, first, next_offset(first), key=file.key, text=text
            )


# ------------------------------------------------------------- old against new


def _differences(
    job: BackfillJob, batch: PlannedBatch, receipt: Receipt, stored: Mapping[str, Offsets]
) -> Differences:
    differences = Differences()
    old: dict[str, Offsets] = {}
    for old_object in batch.replaces:
        name = IN_QUARANTINE if old_object.quarantine else _shown(job, old_object.key)
        differences.old[name] += old_object.records
        offsets = _old_offsets(job, old_object)
        if offsets is None:
            differences.exact = False
        else:
            old[name] = np.concatenate([old.get(name, np.zeros(0, np.int64)), offsets])
    new: dict[str, Offsets] = {}
    for file in receipt.files:
        name = IN_QUARANTINE if file.quarantine else _shown(job, file.key)
        differences.new[name] += file.records
        offsets = stored[file.key]
        new[name] = np.concatenate([new.get(name, np.zeros(0, np.int64)), offsets])
    for before, was in old.items():
        for after, now in new.items():
            if before != after:
                count = len(np.intersect1d(was, now))
                differences.moved += 0 if IN_QUARANTINE in (before, after) else count
                differences.left += count if before == IN_QUARANTINE else 0
    differences.entered = _entered(old, new)
    return differences


def _entered(old: Mapping[str, Offsets], new: Mapping[str, Offsets]) -> int:
    now = new.get(IN_QUARANTINE)
    if now is None:
        return 0
    was = old.get(IN_QUARANTINE, np.zeros(0, np.int64))
    return len(np.setdiff1d(now, was))


def _old_offsets(job: BackfillJob, old_object: OldObject) -> Offsets | None:
    """Return an old object's offsets; None also when it cannot be read: that is why it goes."""
    try:
        with job.store.open(old_object.key) as file:
            log_format = job.archive.formats(old_object.key, file)
        return _offsets(job, old_object.key, log_format)
    except (CorruptFile, NotFound):
        return None


def _shown(job: BackfillJob, key: str) -> str:
    """Return an object's directory below the prefix: the topic and its output partition."""
    return _directory(key).removeprefix(job.archive.prefix).removeprefix("/")


def _directory(key: str) -> str:
    return key.rpartition("/")[0]


def _start_offset(key: str) -> int:
    return int(key.rpartition("/")[2].split("_")[2].split(".")[0])


@dataclass(slots=True)
class Summary:
    """All verdicts of a plan."""

    reports: list[PartitionReport] = field(default_factory=list)
    differences: Differences = field(default_factory=Differences)
    read: int = 0
    filtered: int = 0
    quarantined: int = 0

    @property
    def right(self) -> bool:
        """Return whether there were batches, and nothing is wrong with them."""
        return bool(self.reports) and not any(report.counts.total() for report in self.reports)


def summary_of(verdicts: Iterable[BatchVerification]) -> Summary:
    """Put the verdicts of all batches together."""
    summary = Summary()
    for verdict in verdicts:
        summary.reports.append(verdict.report)
        summary.differences.add(verdict.differences)
        if verdict.receipt is not None:
            summary.read += verdict.receipt.read
            summary.filtered += verdict.receipt.filtered
            summary.quarantined += verdict.receipt.quarantined
    return summary
