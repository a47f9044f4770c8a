"""From what a person asks for to a plan: nothing is written."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from secor.archive.backfill.coverage import (
    chosen_by_name,
    covers_of,
    cut,
    gaps,
    merged,
    segments_of,
    within,
)
from secor.archive.backfill.existing_objects import ExistingObjects, described
from secor.archive.backfill.model import BackfillPlan, OldObject, PlannedBatch, Segment
from secor.archive.backfill.plan_request import OffsetSearch, RequestedMessages
from secor.archive.objects import Archive, ArchivedObject
from secor.batch.plan import TopicPlan
from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange
from secor.formats.text import TextFormat

MOST_ASKED = 4096
"""Of more backup objects in a partition's range no metadata are asked for: names suffice."""


@dataclass(frozen=True, slots=True)
class BackfillPlanner:
    """Plans the backfill of one topic.

    ``backup`` has the raw records, ``archive`` the objects of the partition group,
    ``topic_plan`` is the group's present one.  ``committed`` says what the group has
    committed of a partition; None where that is not known: then nothing is touched beyond
    the batches of its objects.  ``schema`` is the one kept with them, as it is now.
    """

    topic: str
    backup: Archive
    archive: Archive
    topic_plan: TopicPlan
    committed: Callable[[int], int | None]
    allow_gaps: bool = False
    schema: str | None = None

    def plan(self, wanted: RequestedMessages, generation: int | None = None) -> BackfillPlan:
        """Return the plan.  Raises ``ConfigurationError`` where there is none."""
        raw = _by_partition(self.backup.objects(self.topic))
        if not raw:
            raise ConfigurationError(
                f"no backup objects of topic {self.topic} below {self.backup.prefix!r}: name the"
                " configuration of the group that backs it up"
            )
        self._check_format(raw)
        asking = OffsetSearch(self.topic, self.backup, self.archive, self.committed)
        asked = asking.offsets(wanted, raw)
        old = ExistingObjects(self.archive, self.topic, asked, self.committed)
        drafts: list[PlannedBatch] = []
        notes: list[str] = []
        for partition in sorted(asked):
            reach = self._reach(partition, asked[partition], old)
            drafts += self._batches(partition, reach, raw.get(partition, []), old, notes)
        if not drafts:
            raise ConfigurationError(
                f"nothing of topic {self.topic} to do again there: the group has stored nothing of"
                f" these {'times' if wanted.times is not None else 'offsets'} yet"
            )
        unknown = sum(
            1 for draft in drafts for old_object in draft.replaces if old_object.records == 0
        )
        if unknown:
            notes.append(
                f"{unknown:,} objects that are replaced have no metadata, as Java Secor's: their"
                " batches are known by their names, and their messages are not counted"
            )
        chosen = self._generation(generation, drafts)
        return BackfillPlan(
            topic=self.topic,
            generation=chosen,
            fingerprint=replace(self.topic_plan, generation=chosen).fingerprint,
            prefix=self.archive.prefix,
            hashed=self.archive.hashed,
            batches=tuple(drafts),
            notes=tuple(notes),
            schema=self.schema,
        )

    def _check_format(self, raw: Mapping[int, Sequence[ArchivedObject]]) -> None:
        archived = next(iter(raw.values()))[0]
        if isinstance(self.backup.format_of(archived), TextFormat):
            raise ConfigurationError(
                f"{archived.key}: text records no offsets, so a backup in it cannot be parsed"
                " again; back up as sequencefile or parquet"
            )

    # ---------------------------------------------------------- what is replaced

    def _reach(
        self, partition: int, asked: Sequence[OffsetRange], old: ExistingObjects
    ) -> list[OffsetRange]:
        """Widen what is asked to whole batches of old objects, within what is committed."""
        limit = self.committed(partition)
        reach = merged(asked)
        while True:
            batches = [
                batch
                for batch in old.batches(partition, reach)
                # Above the committed offset the daemon may be putting objects of its own at this
                # moment.
                if limit is None or batch.end <= limit
            ]
            if limit is None:
                reach = [
                    kept for offset_range in reach if (kept := _inside_of(offset_range, batches))
                ]
            else:
                reach = [
                    OffsetRange(offset_range.start, min(offset_range.end, limit))
                    for offset_range in reach
                    if offset_range.start < min(offset_range.end, limit)
                ]
            # Until nothing changes: an old batch that is drawn in may overlap others, of another
            # generation, and these again.
            wider = merged([*reach, *batches])
            if wider == reach:
                return reach
            reach = wider

    def _batches(
        self,
        partition: int,
        reach: Sequence[OffsetRange],
        raw: Sequence[ArchivedObject],
        old: ExistingObjects,
        notes: list[str],
    ) -> Iterator[PlannedBatch]:
        for whole in reach:
            segments, topic_ids = self._inputs(partition, whole, raw, notes)
            replaced = old.objects(partition, [whole])
            ranges = [archived.info.batch for archived in replaced if archived.info]
            batches = cut(whole, ranges, segments)
            of_batch = _by_batch(replaced, batches)
            for batch in batches:
                inputs = within(segments, batch)
                yield PlannedBatch(
                    partition=partition,
                    start=batch.start,
                    end=batch.end,
                    inputs=tuple(inputs),
                    replaces=tuple(
                        _as_old(archived, old.quarantine) for archived in of_batch.get(batch, ())
                    ),
                    topic_id=self._topic_id(partition, batch, inputs, topic_ids),
                )

    def _inputs(
        self,
        partition: int,
        whole: OffsetRange,
        raw: Sequence[ArchivedObject],
        notes: list[str],
    ) -> tuple[list[Segment], dict[str, str | None]]:
        """Return which backup objects hold a range, and their topic ids."""
        chosen, covers = chosen_by_name(raw, whole)
        ids: dict[str, str | None] = {}
        if len(chosen) <= MOST_ASKED:
            known = list(described(self.backup, chosen))
            covers = covers_of(known)
            ids = {
                archived.key: archived.info.topic_id if archived.info else None
                for archived in known
            }
        else:
            notes.append(
                f"{self.topic}/{partition} {whole}: {len(chosen):,} backup objects, chosen by"
                " their names; that nothing of them is missing was not looked at"
            )
        segments = segments_of(covers)
        self._check_whole(partition, whole, segments, notes)
        return segments, ids

    def _check_whole(
        self,
        partition: int,
        whole: OffsetRange,
        segments: Sequence[Segment],
        notes: list[str],
    ) -> None:
        end = max((part.end for part in segments), default=0)
        if end < whole.end:
            raise ConfigurationError(
                f"{self.topic}/{partition}: the backup has offsets below {end} only, and {whole}"
                " is to be done again: let the backup group catch up"
            )
        for gap in gaps(segments, whole):
            text = f"{self.topic}/{partition}: no backup object has offsets {gap}"
            if not self.allow_gaps:
                raise ConfigurationError(
                    f"{text}; if the log never had them (see secor verify), say --allow-gaps"
                )
            notes.append(text)

    def _topic_id(
        self,
        partition: int,
        batch: OffsetRange,
        inputs: Iterable[Segment],
        ids: Mapping[str, str | None],
    ) -> str | None:
        known = {topic_id for part in inputs if (topic_id := ids.get(part.key)) is not None}
        if len(known) > 1:
            raise ConfigurationError(
                f"{self.topic}/{partition} {batch}: the backup has messages of two topics of this"
                f" name ({', '.join(sorted(known))}): choose a range of one of them"
            )
        return next(iter(known), None)

    def _generation(self, asked: int | None, drafts: Iterable[PlannedBatch]) -> int:
        newest = max(
            (old_object.generation for draft in drafts for old_object in draft.replaces), default=-1
        )
        if asked is None:
            # Higher than all that is replaced: readers of the time in between distinguish new from
            # old by it.
            return max(self.topic_plan.generation, newest + 1)
        if asked <= newest:
            raise ConfigurationError(
                f"--generation {asked}: objects of generation {newest} are replaced; the new ones"
                " need a higher number, which readers distinguish them by"
            )
        return asked


def _by_batch(
    objects: Iterable[ArchivedObject], batches: Sequence[OffsetRange]
) -> dict[OffsetRange, list[ArchivedObject]]:
    """Return by batch, of those in order, the objects that begin in it, by key."""
    by_batch: dict[OffsetRange, list[ArchivedObject]] = {}
    starts = [batch.start for batch in batches]
    for archived in sorted(objects, key=lambda archived: archived.key):
        if archived.info is None:
            continue
        index = bisect_right(starts, archived.info.batch.start) - 1
        if index >= 0 and archived.info.batch.start in batches[index]:
            by_batch.setdefault(batches[index], []).append(archived)
    return by_batch


def _by_partition(objects: Iterable[ArchivedObject]) -> dict[int, list[ArchivedObject]]:
    by_partition: dict[int, list[ArchivedObject]] = {}
    for archived in objects:
        by_partition.setdefault(archived.name.partition, []).append(archived)
    return by_partition


def _inside_of(offset_range: OffsetRange, batches: Iterable[OffsetRange]) -> OffsetRange | None:
    """Return the part of a range up to the last batch that has some of it."""
    ends = [
        batch.end
        for batch in batches
        if batch.start < offset_range.end and batch.end > offset_range.start
    ]
    end = min(offset_range.end, max(ends, default=offset_range.start))
    return OffsetRange(offset_range.start, end) if end > offset_range.start else None


def _as_old(archived: ArchivedObject, quarantine: str) -> OldObject:
    assert archived.info is not None
    return OldObject(
        key=archived.key,
        size=archived.size,
        records=archived.info.records,
        generation=archived.name.generation,
        output_partition=archived.name.output_partition,
        quarantine=archived.name.root == quarantine,
    )
