"""Moving a group's ledger: all its entries from one ledger to another, which then is the only one.

Each ledger has a record that closes it: a process that is started with its configuration refuses.
The order of the steps makes the promise that the two are never open with different offsets:

1. close the new ledger, 2. copy every entry, which is closed itself, 3. read back and compare,
4. close the old ledger, each entry as it was copied, 5. open the entries of the new one, then it.

A crash leaves the old one open, or both closed, or the new one open.  Each step leaves out what
is done, so the same command finishes it.  Closed entries keep their offsets: nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from secor.core.errors import ConfigurationError, Refused, StopPartition
from secor.core.model import Entry, TopicPartition
from secor.core.relocation import Direction, KeptEntry, LedgerPlace, Relocation

_NAMED = 5
"""Most topic partitions that an error names."""


class MovableLedger(Protocol):
    """A group's ledger as a move sees it, whether it is open or closed.

    All raise ``Unavailable`` and ``AccessDenied``; writes raise ``Refused``, ``LeaseLost`` and
    ``OutcomeUnknown`` as those of a ``Lease``.
    """

    @property
    def needs_topics(self) -> bool:
        """Entries of topics that do not exist cannot be kept there."""

    def place(self) -> LedgerPlace:
        """Return which ledger it is."""

    def identify(self) -> LedgerPlace:
        """Return which ledger it is; it gets an id where it has none."""

    def users(self) -> Sequence[str]:
        """Return the processes that use it now."""

    def record(self) -> Relocation | None:
        """Return the record that closes it; None while it is open."""

    def write_record(self, relocation: Relocation | None) -> None:
        """Replace the record; nothing where the entries are the record."""

    def kept(self) -> Mapping[TopicPartition, KeptEntry]:
        """Return all entries.  Raises ``LedgerCorrupt``."""

    def check(
        self, topic_partition: TopicPartition, entry: Entry, relocation: Relocation | None
    ) -> None:
        """Raise ``StopPartition`` if the entry cannot be kept there."""

    def keep(
        self,
        topic_partition: TopicPartition,
        before: KeptEntry | None,
        entry: Entry,
        relocation: Relocation | None,
    ) -> None:
        """Replace an entry that is still ``before`` (None: that is not there)."""


@dataclass(frozen=True, slots=True)
class RelocationPlan:
    """Entries to carry over, and what is to be known before; ``done`` if it was all done before.

    ``unknown`` are partitions that Kafka does not have (any more) and the new ledger cannot keep;
    ``replaced`` have another entry in the new ledger; ``reopened`` only the new ledger has, as it
    had them before an earlier move, and Kafka does not know them.
    """

    source: LedgerPlace
    target: LedgerPlace
    entries: Mapping[TopicPartition, Entry]
    unknown: tuple[TopicPartition, ...] = ()
    replaced: tuple[TopicPartition, ...] = ()
    reopened: Mapping[TopicPartition, Entry] = field(default_factory=dict)
    resumed: bool = False
    done: bool = False


def plan_relocation(
    source: MovableLedger,
    target: MovableLedger,
    places: tuple[LedgerPlace, LedgerPlace],
    exists: Callable[[TopicPartition], bool],
    *,
    replace: bool = False,
) -> RelocationPlan:
    """Return what moving the ledger takes; changes nothing.

    ``exists`` says whether Kafka has a partition; ``replace`` allows that other entries of the
    new ledger are lost.  Raises ``ConfigurationError`` that says what to do first.
    """
    here, there = places
    if here.id == there.id and (here.id is not None or here.name == there.name):
        raise ConfigurationError(
            f"OLD and NEW have the same ledger, {here.name}: nothing to move (variables"
            " SECOR_LEDGER__… count for both)"
        )
    source_record, target_record = source.record(), target.record()
    _refuse_records(here, there, source_record, target_record, replace=replace)
    kept, other = source.kept(), target.kept()
    moved = source_record is not None
    if moved and target_record is None and other.keys() & kept.keys():
        _refuse_holes(there, [key for key in kept if key not in other and exists(key)])
        return RelocationPlan(here, there, {}, done=True)
    if not kept:
        raise ConfigurationError(
            f"{here.name} has no entry of this group: look at group.name and [ledger] of"
            " OLD; a group that has stored nothing begins with NEW"
        )
    lost = tuple(key for key in kept if target.needs_topics and not exists(key))
    entries = {key: kept[key].entry for key in kept if key not in lost}
    _refuse_entries((source, target), entries)
    alone = [key for key in other if key not in kept]
    _refuse_alone(here, there, [key for key in alone if exists(key)])
    reopened = {key: other[key].entry for key in alone if other[key].relocation is not None}
    differing = tuple(
        key
        for key, entry in entries.items()
        if key in other and other[key].relocation is None and not _same(other[key].entry, entry)
    )
    if differing and not replace and not moved:
        raise ConfigurationError(
            f"{there.name} has other offsets of {_names(differing)}: does another"
            " program, or another group, use it? To replace them, add --replace"
        )
    resumed = moved or _concerns(target_record, _FROM, here)
    return RelocationPlan(here, there, entries, lost, differing, reopened, resumed)


_TO, _FROM = Direction.MOVED_TO, Direction.RECEIVING_FROM


def _refuse_records(
    here: LedgerPlace,
    there: LedgerPlace,
    source: Relocation | None,
    target: Relocation | None,
    *,
    replace: bool,
) -> None:
    """Raise where a record says that another ledger is, or becomes, the group's."""
    if source is not None and not source.concerns(_TO, there):
        what = "moved to" if source.direction is _TO else "being moved from"
        raise ConfigurationError(
            f"the offsets of OLD's ledger, {here.name}, were {what} {source.ledger} on {source.at}"
            f" by {source.by}: "
            + (
                "give the configuration of that ledger as OLD"
                if source.direction is _TO
                else "finish that first, by 'secor offsets move' from that ledger to this one"
            )
        )
    if target is None or target.ledger_id == here.id or replace:
        return
    what = "were moved to" if target.direction is _TO else "are being moved there from"
    raise ConfigurationError(
        f"the offsets of NEW's ledger, {there.name}, {what} {target.ledger} on {target.at} by"
        f" {target.by}, which is not OLD's ledger: is OLD's really the group's? Then add --replace"
    )


def _refuse_entries(
    ledgers: tuple[MovableLedger, MovableLedger], entries: Mapping[TopicPartition, Entry]
) -> None:
    """Raise for entries that cannot be carried over as they are, or closed where they are."""
    # A Kafka ledger keeps record and intent in one string of limited length. Tried here with the
    # longest names, before anything is closed, instead of failing half way.
    longest = Relocation(_FROM, "x" * 200, "x" * 40, "x" * 20, "x" * 100)
    for topic_partition, entry in entries.items():
        if entry.committed is None:
            raise ConfigurationError(
                f"{topic_partition}: an intent is open without a committed offset: settle it with"
                " 'secor offsets set' in OLD first"
            )
        try:
            for ledger in ledgers:
                ledger.check(topic_partition, entry, longest)
        except StopPartition as error:
            raise ConfigurationError(
                f"{topic_partition}: its open intent is too long to be moved: start a process"
                " with OLD until 'secor offsets show' has no intent there, stop it, then"
                f" say this again ({error})"
            ) from error


def _refuse_holes(there: LedgerPlace, topic_partitions: Collection[TopicPartition]) -> None:
    if topic_partitions:
        raise ConfigurationError(
            f"the ledger was moved before, but {there.name} has no entry of"
            f" {_names(topic_partitions)}: rebuild it by 'secor offsets recover' with NEW"
        )


def _refuse_alone(
    here: LedgerPlace, there: LedgerPlace, topic_partitions: Collection[TopicPartition]
) -> None:
    if topic_partitions:
        raise ConfigurationError(
            f"{there.name} has entries of {_names(topic_partitions)}, and {here.name} has none:"
            " make them in OLD by 'secor offsets recover' or 'secor offsets set', or delete them in"
            " NEW's ledger if they are not this group's"
        )


def relocate(
    source: MovableLedger,
    target: MovableLedger,
    plan: RelocationPlan,
    refuse_running: Callable[[], None],
    *,
    time: str,
    by: str,
) -> None:
    """Move the ledger as planned; ``refuse_running`` raises while a process uses either ledger.

    Raises ``Refused`` where something has changed meanwhile: nothing is lost, plan again.
    """
    arriving = Relocation(_FROM, plan.source.name, str(plan.source.id), time, by)
    gone = Relocation(_TO, plan.target.name, str(plan.target.id), time, by)
    if not (_is_closed(source, plan) and _concerns(target.record(), _FROM, plan.source)):
        # 1. Before its first entry is there: a process would begin the others anew.
        if not _concerns(target.record(), _FROM, plan.source):
            target.write_record(arriving)
        # 2. and 3.
        _copy(target, plan, arriving)
        _compare(target, plan.entries)
        # 4. An entry that has changed since it was read is refused, so is a running process.
        refuse_running()
        if not _concerns(source.record(), _TO, plan.target):
            source.write_record(gone)
        _close(source, plan, gone)
    # 5. Last of all, when nobody can use the old one any more.
    _compare(target, plan.entries)
    for topic_partition, kept in target.kept().items():
        if kept.relocation is not None:
            # Entries first, the record last: as long as the record is there, no process uses the
            # ledger.
            target.keep(topic_partition, kept, kept.entry, None)
    if target.record() is not None:
        target.write_record(None)


def _concerns(record: Relocation | None, direction: Direction, place: LedgerPlace) -> bool:
    return record is not None and record.concerns(direction, place)


def _is_closed(source: MovableLedger, plan: RelocationPlan) -> bool:
    """Return whether the old ledger and all its entries are closed: all before was done."""
    if not _concerns(source.record(), _TO, plan.target):
        return False
    return all(_concerns(kept.relocation, _TO, plan.target) for kept in source.kept().values())


def _copy(target: MovableLedger, plan: RelocationPlan, arriving: Relocation) -> None:
    before = target.kept()
    for topic_partition, entry in {**plan.entries, **plan.reopened}.items():
        kept = before.get(topic_partition)
        if (
            kept is None
            or not _same(kept.entry, entry)
            or not _concerns(kept.relocation, _FROM, plan.source)
        ):
            target.keep(topic_partition, kept, entry, arriving)


def _close(source: MovableLedger, plan: RelocationPlan, gone: Relocation) -> None:
    for topic_partition, kept in source.kept().items():
        copied = plan.entries.get(topic_partition)
        if topic_partition not in plan.unknown and (
            copied is None or not _same(copied, kept.entry)
        ):
            raise Refused(
                f"{topic_partition}: its entry in {plan.source.name} has changed while it was moved"
                " (does a process still run?): stop all, then say the same again"
            )
        if not _concerns(kept.relocation, _TO, plan.target):
            source.keep(topic_partition, kept, kept.entry, gone)


def _compare(target: MovableLedger, entries: Mapping[TopicPartition, Entry]) -> None:
    """Raise unless the new ledger has exactly these entries; old brokers return no epochs."""
    kept = target.kept()
    for topic_partition, entry in entries.items():
        copy = None if topic_partition not in kept else kept[topic_partition].entry
        if copy != entry or copy.leader_epoch not in (entry.leader_epoch, None):
            raise Refused(
                f"{topic_partition}: {copy} was read back from the new ledger, not {entry}: does"
                " another program write there? Look for it, then say the same again"
            )


def _same(entry: Entry, other: Entry) -> bool:
    return entry == other and entry.leader_epoch == other.leader_epoch


def _names(topic_partitions: Collection[TopicPartition]) -> str:
    names = [str(key) for key in sorted(topic_partitions)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
