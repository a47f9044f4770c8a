"""The report of a verification, for people and for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from secor.core.model import TopicPartition, next_offset
from secor.core.text import how_many, withheld_text
from secor.verify.archive.inventory import Inventory
from secor.verify.finding import LINES, LISTED, Finding, FindingKind

BACK_AGAIN = "erased, and there again: see secor archive erase"
"""Of messages that somebody has brought back."""

_COUNTED = (
    'only counted: the objects record no offsets; with "_partition" and "_offset" in'
    " output.metadata_columns each is compared in what is stored from then on"
)

_REMARKS = (
    ("below_log", "is", "are", "older than what the log still has: nothing to compare with"),
    ("unlogged", "is", "are", "in objects but no longer in the log (compaction, deleted records)"),
    ("values_only", "was", "were", "compared by payload only: nothing else is in the objects"),
    ("quarantined", "is", "are", "in quarantine; see secor quarantine ls"),
    (
        "passed_over",
        "is",
        "are",
        "in no object of the connector: without a value, or not readable with this configuration",
    ),
    ("filtered", "is", "are", "left out by the present configuration, so in no object"),
    ("erased", "was", "were", "erased, as the archive's lists of erased keys say"),
    ("by_offset", "was", "were", "compared by offset only: the objects have decoded fields"),
    ("counted", "was", "were", _COUNTED),
    ("superseded", "has", "have", "a newer generation, which was compared"),
    ("in_progress", "belongs", "belong", "to batches that are being uploaded"),
)
"""What a number of messages is, by the counter's name."""


KINDS = (
    *(FindingKind.MISSING, FindingKind.TWICE, FindingKind.DIFFERENT, FindingKind.EXTRA),
    *(FindingKind.CORRUPT, FindingKind.LEDGER),
)
"""What is counted; all are messages, except ``CORRUPT``: objects, ``LEDGER``: entries."""


def finding_of(
    topic_partition: TopicPartition,
    kind: FindingKind,
    start: int,
    end: int,
    count: int,
    key: str | None,
    text: str,
) -> Finding:
    """Return the finding that ``count`` offsets of ``[start, end)`` have the same trouble."""
    span = f"offset {start}" if end - start <= 1 else f"offsets [{start}, {end})"
    counted = count > 1 and kind is not FindingKind.CORRUPT
    many = f" ({how_many(count, 'message')})" if counted else ""
    of_object = f" in {key}" if key else ""
    rest = f": {text}" if text else ""
    line = f"{kind} {span}{many}{of_object}{rest}"
    if kind is FindingKind.LEDGER:
        line = f"unreadable entry: {text}"
    details = {
        "kind": kind.value,
        "start": start,
        "end": end,
        "count": count,
        "key": key,
        "text": text,
    }
    return Finding(kind, str(topic_partition), line, details)


@dataclass(slots=True)
class PartitionReport:
    """The result for one topic partition.

    ``compared`` counts messages found equal or different in log and objects,
    ``values_only`` those of them if the object records nothing but payloads (or was not
    written by Secor in Python), ``offsets_only`` those in objects with decoded fields and
    the offset, ``counted`` those in objects with decoded fields only, so that no more than
    their number was compared; ``filtered`` messages that the parser leaves out on purpose,
    ``erased`` those that a list of erased keys names; ``quarantined`` messages in quarantine;
    ``passed_over`` messages that a connector has not stored, and that would be in quarantine here;
    ``below_log`` messages older than the log's start,
    ``unlogged`` messages that the log has deleted since, ``superseded`` messages of an
    older generation than the one compared, ``in_progress`` messages of an open intent;
    ``behind`` offsets of the log that are not committed, ``withheld`` those behind an open
    transaction.  ``inventory`` is taken where evidence is wanted.
    """

    topic_partition: TopicPartition
    objects: int = 0
    compared: int = 0
    values_only: int = 0
    offsets_only: int = 0
    counted: int = 0
    filtered: int = 0
    erased: int = 0
    quarantined: int = 0
    passed_over: int = 0
    below_log: int = 0
    unlogged: int = 0
    superseded: int = 0
    in_progress: int = 0
    behind: int = 0
    withheld: int = 0
    counts: Counter[FindingKind] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    inventory: Inventory | None = None

    @property
    def by_offset(self) -> int:
        """Messages of ``offsets_only`` compared by offset, not only by number."""
        return self.offsets_only - self.counted

    def note(
        self, kind: FindingKind, offsets: np.ndarray, *, key: str | None = None, text: str = ""
    ) -> None:
        """Note sorted ``offsets`` with one trouble."""
        if not len(offsets):
            return
        start, end = int(offsets[0]), next_offset(int(offsets[-1]))
        self.found_range(kind, start, end, count=len(offsets), key=key, text=text)

    def found_range(
        self,
        kind: FindingKind,
        start: int,
        end: int,
        *,
        count: int = 1,
        key: str | None = None,
        text: str = "",
    ) -> None:
        """Note ``count`` troubles in ``[start, end)``; joins the one before where they meet."""
        # The count goes on behind LISTED findings.
        self.counts[kind] += count
        self._list(kind, start, end, count, key, text)

    def _list(
        self, kind: FindingKind, start: int, end: int, count: int, key: str | None, text: str
    ) -> None:
        whole = (self.topic_partition, kind, start, end, count, key, text)
        numbers = range(len(self.findings) - 1, -1, -1)
        last = next((n for n in numbers if self.findings[n].kind is kind), None)
        before = self.findings[last].details if last is not None else {}
        joins = (before.get("key"), before.get("text"), before.get("end")) == (key, text, start)
        # Objects are counted one by one, and two of them may be damaged side by side.
        if last is not None and joins and kind is not FindingKind.CORRUPT:
            whole = (*whole[:2], before["start"], end, before["count"] + count, key, text)
            self.findings[last] = finding_of(*whole)
        elif len(self.findings) < LISTED:
            self.findings.append(finding_of(*whole))

    def add(self, other: PartitionReport) -> None:
        """Add the findings of a part of the comparison, and what it has counted."""
        self.counts += other.counts
        self.findings += other.findings[: max(0, LISTED - len(self.findings))]
        self.counted += other.counted

    def extend(self, other: PartitionReport) -> None:
        """Add the report of the piece of the topic partition that comes next."""
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.counts += other.counts
        for finding in other.findings:
            details = finding.details
            places = (details[name] for name in ("start", "end", "count", "key", "text"))
            self._list(finding.kind, *places)
        self.notes += other.notes

    def as_json(self) -> dict[str, object]:
        """Return it for ``--json``."""
        return {
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "objects": self.objects,
            "messages": self.compared,
            "values_only": self.values_only,
            "offsets_only": self.by_offset,
            "counted": self.counted,
            "filtered": self.filtered,
            "erased": self.erased,
            "quarantined": self.quarantined,
            "passed_over": self.passed_over,
            "below_log": self.below_log,
            "unlogged": self.unlogged,
            "superseded": self.superseded,
            "in_progress": self.in_progress,
            "behind": self.behind,
            "withheld": self.withheld,
            "counts": {kind.value: self.counts[kind] for kind in KINDS},
            "findings": [finding.as_json() for finding in self.findings],
            "notes": self.notes,
        }


COUNTERS = (
    *("objects", "compared", "values_only", "offsets_only", "counted", "filtered", "erased"),
    *("quarantined", "passed_over", "below_log", "unlogged", "superseded", "in_progress"),
    *("behind", "withheld"),
)
"""Names of what a ``PartitionReport`` counts, besides findings."""


@dataclass(slots=True)
class ArchiveReport:
    """The result of one verification."""

    partitions: list[PartitionReport] = field(default_factory=list)
    with_topic: bool = True

    @property
    def counts(self) -> Counter[FindingKind]:
        """All troubles by kind."""
        return sum((partition.counts for partition in self.partitions), Counter[FindingKind]())

    @property
    def is_right(self) -> bool:
        """Return whether nothing was found.

        A comparison of nothing is right only where there is nothing: a topic that is empty.
        """
        # Nothing compared must not look like nothing wrong, as after a mistake in the name of a
        # topic.
        unchecked = self.nothing is not None and not self.partitions_are_empty
        return not self.counts.total() and not unchecked

    @property
    def partitions_are_empty(self) -> bool:
        """Return whether there are partitions, and all that their logs have is compared."""
        return bool(self.partitions) and not any(
            partition.behind or partition.withheld for partition in self.partitions
        )

    @property
    def nothing(self) -> str | None:
        """The reason why nothing was compared; None where something was, or something is wrong."""
        seen = sum(
            owner.compared + owner.filtered + owner.erased + owner.quarantined
            for owner in self.partitions
        )
        if seen or self.counts.total():
            return None
        if not self.with_topic:
            return None if self.partitions else "there are no objects"
        if not self.partitions:
            return "there is no topic partition"
        behind = sum(partition.behind for partition in self.partitions)
        if behind:
            offsets = how_many(behind, "offset waits", "offsets wait")
            return f"nothing that the logs have is committed, and {offsets}"
        withheld = any(partition.withheld for partition in self.partitions)
        return "nothing can be read yet" if withheld else "the logs are empty"

    @property
    def summary(self) -> str:
        """One line for people."""
        if self.nothing is not None:
            return f"nothing was compared: {self.nothing}{self._waiting}"
        messages = sum(partition.compared for partition in self.partitions)
        objects = sum(partition.objects for partition in self.partitions)
        what = "verified" if self.with_topic else "read (archive only)"
        kinds = (
            [FindingKind.MISSING, FindingKind.TWICE, FindingKind.DIFFERENT]
            if self.with_topic
            else ([FindingKind.MISSING, FindingKind.TWICE])
        )
        counts = self.counts
        parts = [
            f"{counts[kind]:,} {kind}" if counts[kind] else f"nothing {kind}" for kind in kinds
        ]
        if counts[FindingKind.DIFFERENT] and not self.with_topic:
            parts.append(f"{counts[FindingKind.DIFFERENT]:,} different")
        if counts[FindingKind.EXTRA]:
            parts.append(f"{counts[FindingKind.EXTRA]:,} extra")
        if counts[FindingKind.CORRUPT]:
            parts.append(f"{how_many(counts[FindingKind.CORRUPT], 'object')} corrupt")
        if counts[FindingKind.LEDGER]:
            entries = how_many(counts[FindingKind.LEDGER], "ledger entry", "ledger entries")
            parts.append(f"{entries} unreadable")
        compared = f"{what} {how_many(messages, 'message')} in {how_many(objects, 'object')}"
        return f"{compared}: {', '.join(parts)}{self._waiting}"

    @property
    def _waiting(self) -> str:
        return withheld_text(sum(partition.withheld for partition in self.partitions))

    @property
    def remarks(self) -> Sequence[str]:
        """Sentences about what could not be compared, and why."""
        remarks = []
        for name, verb, verbs, rest in _REMARKS:
            number = sum(getattr(partition, name) for partition in self.partitions)
            if number:
                messages = how_many(number, f"message {verb}", f"messages {verbs}")
                remarks.append(f"{messages} {rest}")
        for partition in self.partitions:
            remarks += [f"{partition.topic_partition}: {note}" for note in partition.notes]
        return remarks

    def lines(self) -> Iterator[str]:
        """Give what is printed."""
        for partition in self.partitions:
            yield from map(str, partition.findings[:LINES])
            if len(partition.findings) > LINES:
                yield f"{partition.topic_partition}: … (--json shows more)"
        yield from self.remarks
        yield self.summary

    def as_json(self) -> dict[str, object]:
        """Return it for ``--json``."""
        return {
            "summary": self.summary,
            "counts": {kind.value: self.counts[kind] for kind in KINDS},
            "partitions": [partition.as_json() for partition in self.partitions],
        }
