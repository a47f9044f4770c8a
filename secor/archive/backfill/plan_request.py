"""From what a person names, offsets, times or wrong objects, to ranges of offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from secor.archive.backfill.coverage import covers_of, merged
from secor.archive.backfill.existing_objects import ExistingObjects, described, roots_of
from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import ConfigurationError, NotFound
from secor.core.model import OffsetRange
from secor.core.naming import parse_key


@dataclass(frozen=True, slots=True)
class RequestedMessages:
    """A selection to do again: ranges of offsets by partition, a span of message times in
    milliseconds (the end excluded), or keys of objects that are wrong.
    """

    offsets: Mapping[int, Sequence[OffsetRange]] = field(default_factory=dict)
    times: tuple[int, int] | None = None
    keys: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class OffsetSearch:
    """Finds the offsets in one topic's ``backup`` and in ``archive``, the group's objects."""

    topic: str
    backup: Archive
    archive: Archive
    committed: Callable[[int], int | None]

    def offsets(
        self, wanted: RequestedMessages, raw: Mapping[int, Sequence[ArchivedObject]]
    ) -> dict[int, list[OffsetRange]]:
        """Return the ranges of each partition; ``raw`` are the backup's objects by partition.

        Raises ``ConfigurationError`` for keys that are no objects of the group.
        """
        if wanted.offsets:
            return {number: merged(ranges) for number, ranges in wanted.offsets.items()}
        if wanted.times is not None:
            return self._at_times(wanted.times, raw)
        by_partition: dict[int, list[OffsetRange]] = {}
        roots = roots_of(self.archive, self.topic)
        for key in wanted.keys:
            partition, batch = self._batch_of(key, roots)
            by_partition.setdefault(partition, []).append(batch)
        return {number: merged(ranges) for number, ranges in by_partition.items()}

    def _at_times(
        self, times: tuple[int, int], raw: Mapping[int, Sequence[ArchivedObject]]
    ) -> dict[int, list[OffsetRange]]:
        """Return the offsets of backup objects that may have messages of these times."""
        by_partition = {}
        for partition, objects in raw.items():
            known = {archived.key: archived for archived in described(self.backup, objects)}
            hit = [
                OffsetRange(cover.start, cover.end)
                for cover in covers_of(known.values())
                if _may_hold(known[cover.key], times)
            ]
            if hit:
                by_partition[partition] = merged(hit)
        return by_partition

    def _batch_of(self, key: str, roots: Sequence[str]) -> tuple[int, OffsetRange]:
        if not any(parse_key(root, key) for root in roots):
            raise ConfigurationError(
                f"{key}: is no object of topic {self.topic} of this group (below {roots[0]}/)"
            )
        name = next(name for root in roots if (name := parse_key(root, key)))
        old = ExistingObjects(self.archive, self.topic, {name.partition}, self.committed)
        try:
            batch = old.range_of(ArchivedObject(self.topic, name, 0, 0.0))
        except NotFound as error:
            raise ConfigurationError(f"{key}: there is no such object") from error
        if batch is None:
            raise ConfigurationError(f"{key}: its metadata do not name topic {self.topic}")
        return name.partition, batch


def _may_hold(archived: ArchivedObject, times: tuple[int, int]) -> bool:
    info = archived.info
    if info is None or info.least_timestamp is None or info.greatest_timestamp is None:
        return True
    return info.least_timestamp < times[1] and info.greatest_timestamp >= times[0]
