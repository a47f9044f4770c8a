"""Expiry: the oldest objects of each log go, after the new beginning of the archive is agreed.

A *log* is a topic partition of one topic id.  Of a log only a prefix goes, and never its newest
batch: by that a lost ledger entry is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from secor.archive.beginning import Agreement, Beginning, Beginnings, read_beginnings
from secor.archive.objects import Archive, ArchivedObject
from secor.archive.rewrite.one_range import again_where_objects_go
from secor.core.model import TopicPartition

WORKERS = 8


@dataclass(frozen=True, slots=True)
class ExpiryUnit:
    """Objects whose ranges ``[start, end)`` overlap: they go together, or stay.

    ``time`` is in seconds since the epoch: that of the newest message, but not later than that
    of the last upload, since producers may give messages any time.  Where metadata has none, that
    of the upload.
    """

    start: int
    end: int
    objects: tuple[ArchivedObject, ...]

    @property
    def size(self) -> int:
        """Bytes in the store."""
        return sum(archived.size for archived in self.objects)

    @property
    def messages(self) -> int:
        """Messages, as far as metadata counts them."""
        return sum(archived.info.records for archived in self.objects if archived.info)

    @property
    def time(self) -> float:
        """When its newest message was written."""
        return max(_time(archived) for archived in self.objects)

    @property
    def day(self) -> str:
        """That time's day, UTC."""
        return datetime.fromtimestamp(max(self.time, 0.0), UTC).date().isoformat()


def _time(archived: ArchivedObject) -> float:
    greatest = archived.info.greatest_timestamp if archived.info else None
    return archived.modified if greatest is None else min(greatest / 1000, archived.modified)


@dataclass(slots=True)
class LogExpiry:
    """The expiry of one log: the first ``count`` of its units go, and ``leftovers``.

    ``leftovers`` begin below an earlier beginning ``before``; the command that agreed to it did
    not come to its end.
    """

    topic_partition: TopicPartition
    topic_id: str | None
    generations: tuple[int, int]
    before: int
    units: Sequence[ExpiryUnit]
    leftovers: Sequence[ArchivedObject] = ()
    count: int = 0

    @property
    def removed(self) -> Sequence[ExpiryUnit]:
        """The units that go."""
        return self.units[: self.count]

    @property
    def beginning(self) -> int:
        """The offset at which the log begins afterwards."""
        return self.units[self.count].start if self.count else self.before

    @property
    def agreed(self) -> Beginning:
        """The beginning, as it is agreed."""
        return Beginning(self.topic_partition.partition, *self.generations, self.beginning)

    @property
    def head(self) -> ExpiryUnit | None:
        """The unit that would go next; None when only the newest is left."""
        # The newest unit always stays: by it one sees that there was an entry, should the ledger be
        # lost.
        return self.units[self.count] if self.count < len(self.units) - 1 else None


def logs_of(
    topic: str, objects: Iterable[ArchivedObject], beginnings: Beginnings
) -> list[LogExpiry]:
    """Return the logs of a topic's objects, before anything goes."""
    by_log: dict[tuple[int, str | None], list[ArchivedObject]] = {}
    for archived in objects:
        topic_id = archived.info.topic_id if archived.info else None
        by_log.setdefault((archived.name.partition, topic_id), []).append(archived)
    logs = []
    for (partition, topic_id), of_log in sorted(
        _with_unknown(by_log).items(), key=lambda item: (item[0][0], item[0][1] or "")
    ):
        leftovers = [unit for unit in of_log if beginnings.is_expired(unit.name)]
        present = [unit for unit in of_log if not beginnings.is_expired(unit.name)]
        generations = [unit.name.generation for unit in of_log]
        least, greatest = min(generations), max(generations)
        logs.append(
            LogExpiry(
                TopicPartition(topic, partition),
                topic_id,
                (least, greatest),
                max(beginnings.of(partition, generation) for generation in set(generations)),
                units_of(present),
                leftovers,
            )
        )
    return logs


def _with_unknown(
    by_log: dict[tuple[int, str | None], list[ArchivedObject]],
) -> dict[tuple[int, str | None], list[ArchivedObject]]:
    """Join objects without a topic id with the only log of their partition that has one."""
    joined = dict(by_log)
    for partition in {partition for partition, _ in by_log}:
        ids = [topic_id for number, topic_id in by_log if number == partition and topic_id]
        unknown = joined.get((partition, None))
        if len(ids) == 1 and unknown is not None:
            joined[partition, ids[0]] = [*joined[partition, ids[0]], *unknown]
            del joined[partition, None]
    return joined


def units_of(objects: Iterable[ArchivedObject]) -> list[ExpiryUnit]:
    """Group a log's objects by overlapping ranges, in order.

    One without metadata reaches to the next.
    """
    units: list[ExpiryUnit] = []
    for archived in sorted(objects, key=lambda stored: (_start(stored), stored.key)):
        start = _start(archived)
        end = archived.info.batch.end if archived.info else start
        # Overlapping ranges (two generations, or a repeated batch) go together: of a message in
        # both, one copy alone would look like a hole.
        if units and (start < units[-1].end or start == units[-1].start):
            last = units[-1]
            objects_of_both = (*last.objects, archived)
            units[-1] = replace(last, end=max(last.end, end), objects=objects_of_both)
        else:
            units.append(ExpiryUnit(start, end, (archived,)))
    return units


def _start(archived: ArchivedObject) -> int:
    """Where its range begins; its name may be one of an earlier version and begin later."""
    return min(archived.batch_start, archived.name.start_offset)


def choose_by_age(logs: Iterable[LogExpiry], before: float) -> None:
    """Let all go that is wholly older than ``before`` (seconds since the epoch).

    Behind a unit that is not, none goes, however old its messages say they are.
    """
    for log in logs:
        # Only from the front, and not beyond the first that is young: an archive with holes in the
        # middle could not be restored or verified.
        while log.head is not None and log.head.time < before:
            log.count += 1


def choose_by_size(logs: Sequence[LogExpiry], keep: int) -> None:
    """Let the oldest units of a topic's logs go until ``keep`` bytes are left."""
    size = sum(unit.size for log in logs for unit in log.units[log.count :])
    while size > keep:
        waiting = [(log.head.time, log.topic_partition, log) for log in logs if log.head]
        if not waiting:
            return
        _, _, log = min(waiting, key=lambda candidate: candidate[:2])
        size -= log.units[log.count].size
        log.count += 1


def note_removed(logs: Iterable[LogExpiry]) -> list[LogExpiry]:
    """Return the logs whose first object begins above their beginning: others were removed.

    Nothing goes: only what exists says where an archive begins.
    """
    return [
        replace(log, before=log.units[0].start, leftovers=())
        for log in logs
        if log.units and log.units[0].start > log.before
    ]


@dataclass(frozen=True, slots=True)
class Expiry:
    """Carries out what was chosen for one topic; ``by`` and ``why`` are for people."""

    archive: Archive
    topic: str
    by: str
    why: str
    now: Callable[[], str]

    def logs(self) -> list[LogExpiry]:
        """List the topic's objects with their metadata, expired and superseded ones, too."""

        def listed() -> list[LogExpiry]:
            objects = self.archive.everything(self.topic, superseded=True, expired=True)
            return logs_of(self.topic, objects, self.archive.beginnings(self.topic))

        return again_where_objects_go(listed)

    def run(
        self, logs: Iterable[LogExpiry], progress: Callable[[int], None] = lambda _: None
    ) -> None:
        """Agree to each new beginning, then delete what begins below it.

        ``progress`` is called with how many objects were just deleted.  Interrupted anywhere, the
        same command comes to the same end.  Raises ``OutcomeUnknown``, ``Unavailable``,
        ``AccessDenied``.
        """
        for log in logs:
            # The agreement comes first: from then on nobody reads what goes, and nothing that
            # is gone is missing.
            if log.count:
                self.agree(log)
            self._delete(log, progress)

    def agree(self, log: LogExpiry) -> None:
        """Put the record of a log's beginning, unless it is not above the one that is there."""
        agreement = Agreement(log.agreed, self.topic, log.topic_id, self.now(), self.by, self.why)
        agreement.put(self.archive.store, self.archive.root(self.topic))

    def _delete(self, log: LogExpiry, progress: Callable[[int], None]) -> None:
        # Read back from the store: only what is agreed there lets an object go, not what we meant
        # to put.
        agreed = read_beginnings(self.archive.store, self.archive.root(self.topic))
        going = [*log.leftovers, *(stored for unit in log.removed for stored in unit.objects)]
        keys = list(_allowed(going, agreed))
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="expire") as pool:
            for _ in pool.map(self.archive.store.delete, keys):
                progress(1)


def _allowed(objects: Iterable[ArchivedObject], agreed: Beginnings) -> Iterator[str]:
    """Give the keys of the objects that the store's own records let go."""
    for archived in objects:
        beginning = agreed.of(archived.name.partition, archived.name.generation)
        end = archived.info.batch.end if archived.info else archived.name.start_offset
        # Both ends: an object that reaches over the beginning has messages that stay.
        if archived.name.start_offset < beginning and end <= beginning:
            yield archived.key
