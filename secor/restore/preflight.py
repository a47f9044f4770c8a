"""Faults of a job, found before anything is written: pure rules over what was looked up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from secor.core.text import how_many
from secor.restore.model import SourceExtent
from secor.restore.new_topics import NO_LIMIT, NewTopic

SEE_SETTINGS = "DESCRIBE_CONFIGS"


class Severity(Enum):
    """Meanings of a finding for the job."""

    REFUSE = "refuse"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class JobFinding:
    """One sentence about one topic, and whether the job may begin all the same."""

    severity: Severity
    topic: str
    what: str


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A target as it is, or would be made: no ``partitions`` where it does not exist yet.

    ``messages`` are offsets that its logs hold, ``settings`` the topic's own and inherited.
    """

    name: str
    partitions: int
    messages: int
    settings: Mapping[str, str]
    rights: frozenset[str] | None = None
    """What this user may do with it, such as ``WRITE``; None where that was not asked."""


@dataclass(frozen=True, slots=True)
class JobLimits:
    """The rules' view of the job; ``now`` in milliseconds since the epoch.

    ``same_partitions`` says whether a message's partition is known from that of its archive,
    which ``mapping`` gives another number.  ``own`` says whether what the target holds is the
    job's own, ``written`` whether the job has offsets of this topic's source partitions.
    """

    append: bool
    own: bool
    written: bool
    same_partitions: bool
    holes: bool
    batch_bytes: int
    now: int
    mapping: Mapping[int, int] = field(default_factory=dict)

    def needed(self, extents: Iterable[SourceExtent]) -> int:
        """Return how many partitions a target must have for these source partitions."""
        numbers = (extent.source.partition for extent in extents)
        # Partitions are counted from zero and have no gaps: the highest one says how many there
        # must be.
        return max((self.mapping.get(number, number) for number in numbers), default=-1) + 1


def findings(
    extents: Iterable[SourceExtent], target: TargetTopic, limits: JobLimits
) -> list[JobFinding]:
    """Return everything worth knowing about one target topic and what is written to it."""
    known = list(extents)
    return [
        *_archive(known, limits),
        *_left_out(known, limits),
        *_partitions(known, target, limits),
        *_content(target, limits),
        *_times(known, target, limits),
        *_sizes(target, limits),
        *_policy(target),
        *_rights(target),
    ]


def refused(findings: Sequence[JobFinding]) -> list[JobFinding]:
    """Return those that a job must not begin with."""
    return [finding for finding in findings if finding.severity is Severity.REFUSE]


def _archive(extents: Sequence[SourceExtent], limits: JobLimits) -> Iterator[JobFinding]:
    for extent in extents:
        for fault in extent.faults:
            yield JobFinding(Severity.REFUSE, extent.source.topic, f"{extent.source}: {fault}")
        for hole in extent.holes:
            what = f"{extent.source}: no object has the offsets {hole}; "
            if limits.holes:
                what += "the job goes on without them, as source.holes = true says"
            else:
                what += "bring the missing objects back, or set source.holes = true"
            severity = Severity.WARN if limits.holes else Severity.REFUSE
            yield JobFinding(severity, extent.source.topic, what)


def _left_out(extents: Sequence[SourceExtent], limits: JobLimits) -> Iterator[JobFinding]:
    """Text has no messages without a value, unless its group writes them as empty ones."""
    topic = extents[0].source.topic if extents else ""
    left_out = sum(extent.left_out for extent in extents)
    if left_out:
        what = (
            f"{how_many(left_out, 'message')} without a value are not in its text objects"
            ' (output.null_values = "skip"), and are not restored: keys that they deleted come back'
        )
        yield JobFinding(Severity.WARN, topic, what)
    uncounted = [key for extent in extents for key in extent.uncounted]
    if uncounted:
        what = (
            f"{how_many(len(uncounted), 'text object')} of an earlier version, the first of them"
            f" {uncounted[0]}, may have left out messages without a value; the job "
        )
        if limits.holes:
            what += "goes on without those, as source.holes = true says"
        else:
            what += "stops at the first that did, unless source.holes = true"
        yield JobFinding(Severity.WARN, topic, what)


def _partitions(
    extents: Sequence[SourceExtent], target: TargetTopic, limits: JobLimits
) -> Iterator[JobFinding]:
    needed = limits.needed(extents)
    if limits.same_partitions and 0 < target.partitions < needed:
        yield JobFinding(
            Severity.REFUSE,
            target.name,
            f"has {how_many(target.partitions, 'partition')}, and needs {needed}: add"
            ' partitions, or set target.partitioning = "key"',
        )


def _content(target: TargetTopic, limits: JobLimits) -> Iterator[JobFinding]:
    # The job's offsets say that all of this is written: made anew, the topic would begin in the
    # middle.
    if limits.written and not target.partitions:
        yield JobFinding(
            Severity.REFUSE,
            target.name,
            "is gone, though the job has written to it and would go on where it was: give the job"
            " another name, or 'secor restore stop' it and 'secor restore offsets reset'",
        )
    elif limits.written and not target.messages:
        yield JobFinding(
            Severity.WARN,
            target.name,
            "is empty, though the job has committed offsets: unless all of it was filtered out,"
            " 'secor restore stop' the job and 'secor restore offsets reset'",
        )
    # Messages of others: behind them the target would not be the archived topic.
    if target.messages and not limits.append and not limits.own:
        yield JobFinding(
            Severity.REFUSE,
            target.name,
            f"is not empty ({how_many(target.messages, 'offset')}), and the job has no offsets of"
            " what it holds: delete it, choose another target.topic, or set target.append = true",
        )


def _times(
    extents: Sequence[SourceExtent], target: TargetTopic, limits: JobLimits
) -> Iterator[JobFinding]:
    if target.settings.get("message.timestamp.type") == "LogAppendTime":
        yield JobFinding(
            Severity.WARN,
            target.name,
            "message.timestamp.type is LogAppendTime: the archived times are replaced; set it to"
            " CreateTime for the time of the restore",
        )
        return
    yield from _time_limits(extents, target, limits)
    # A policy may be both, "compact,delete".
    deletes = "delete" in target.settings.get("cleanup.policy", "delete")
    oldest = min((extent.oldest for extent in extents if extent.oldest is not None), default=None)
    if oldest is None or not deletes:
        return
    age = limits.now - oldest
    retention = int(target.settings.get("retention.ms", "-1"))
    if 0 <= retention < age:
        yield JobFinding(
            Severity.REFUSE,
            target.name,
            f"retention.ms = {retention} would delete the oldest messages at once"
            f" ({age // 86_400_000} days old): set it to -1 for the time of the restore",
        )
    if int(target.settings.get("retention.bytes", "-1")) >= 0:
        yield JobFinding(
            Severity.WARN,
            target.name,
            f"retention.bytes = {target.settings['retention.bytes']} deletes the oldest messages"
            " of larger partitions: set it to -1 for the time of the restore",
        )


def _time_limits(
    extents: Sequence[SourceExtent], target: TargetTopic, limits: JobLimits
) -> Iterator[JobFinding]:
    """Brokers refuse messages that are further from their clock than these settings allow."""
    ages = [limits.now - extent.oldest for extent in extents if extent.oldest is not None]
    leads = [extent.newest - limits.now for extent in extents if extent.newest is not None]
    for name, distances, which in (
        ("message.timestamp.before.max.ms", ages, "oldest"),
        ("message.timestamp.after.max.ms", leads, "newest"),
        ("message.timestamp.difference.max.ms", [*ages, *leads], "oldest or newest"),
    ):
        limit = int(target.settings.get(name, NO_LIMIT))
        if max(distances, default=0) > limit:
            yield JobFinding(
                Severity.REFUSE,
                target.name,
                f"{name} = {limit} refuses the {which} messages: set it to {NO_LIMIT} for the time"
                " of the restore",
            )


def _sizes(target: TargetTopic, limits: JobLimits) -> Iterator[JobFinding]:
    # Settings that cannot be seen refuse nothing here: _rights warns of them.
    largest = int(target.settings.get("max.message.bytes", str(2**31)))
    if largest < limits.batch_bytes:
        yield JobFinding(
            Severity.REFUSE,
            target.name,
            f"max.message.bytes = {largest} is less than writing.batch_bytes ="
            f" {limits.batch_bytes}: lower the one, or raise the other",
        )


def _rights(target: TargetTopic) -> Iterator[JobFinding]:
    if target.rights is None:
        return
    missing = [name for name in ("WRITE", "DESCRIBE") if name not in target.rights]
    if missing:
        names = " and ".join(name.capitalize() for name in missing)
        yield JobFinding(Severity.REFUSE, target.name, f"allow this user {names} on the topic")
    if SEE_SETTINGS not in target.rights:
        yield JobFinding(
            Severity.WARN,
            target.name,
            "its settings cannot be looked at, so whether they delete or refuse messages is not"
            " known: allow this user DescribeConfigs on the topic",
        )


def making(target: str, new: NewTopic, refusal: str | None) -> Iterator[JobFinding]:
    """Return what a person should know of a topic that the job is going to make.

    ``refusal`` is why the brokers would not make it.
    """
    if refusal is not None:
        yield JobFinding(Severity.REFUSE, target, f"does not exist, and cannot be made: {refusal}")
    if new.later:
        yield JobFinding(
            Severity.WARN,
            target,
            f"is made without {_listed(new.later)}, which would delete, replace or refuse restored"
            " messages: set them again when the restore is verified",
        )
    if new.left_out:
        yield JobFinding(
            Severity.WARN,
            target,
            f"is made without {_listed(new.left_out)}, which were for the cluster that it came"
            " from: name them in target.settings if they fit here",
        )


def _listed(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(settings.items()))


def _policy(target: TargetTopic) -> Iterator[JobFinding]:
    if "compact" in target.settings.get("cleanup.policy", ""):
        yield JobFinding(
            Severity.WARN,
            target.name,
            "is compacted: the brokers refuse messages without a key, and older messages of a key"
            " vanish, so secor restore verify will miss them; set cleanup.policy=delete for the"
            " time of the restore",
        )
