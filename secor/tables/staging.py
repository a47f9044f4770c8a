"""Staged manifests in the store: which there are, what they say, their removal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from secor.core.errors import CorruptFile, NotFound
from secor.core.model import OffsetRange, TopicPartition
from secor.core.naming import topic_of
from secor.core.ports import ObjectStore
from secor.tables.manifest import Manifest, parse_manifest_key, staged_prefix


@dataclass(frozen=True, slots=True)
class Found:
    """A manifest as the listing shows it; ``modified`` in seconds since the epoch."""

    key: str
    topic_partition: TopicPartition
    range: OffsetRange
    size: int
    modified: float
    replay: str = ""
    """The number of the object in quarantine that was replayed; "" for a batch's manifest."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A manifest that was read, or the fault that it has."""

    found: Found
    manifest: Manifest | None
    fault: str = ""

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose messages these are."""
        return self.found.topic_partition

    @property
    def range(self) -> OffsetRange:
        """Which offsets they have."""
        return self.found.range


Parallel = Callable[[Callable[[Found], Staged], Sequence[Found]], Iterable[Staged]]


def one_by_one(function: Callable[[Found], Staged], items: Sequence[Found]) -> Iterable[Staged]:
    """Call ``function`` for each item, in order."""
    return map(function, items)


class Staging:
    """The manifests below a group's prefix.

    A manifest never changes, so each is read once; what has gone from the store is forgotten.
    """

    def __init__(
        self, store: ObjectStore, prefix: str, group: str, parallel: Parallel = one_by_one
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._group = group
        self._parallel = parallel
        self._read: dict[str, Staged] = {}

    def find(self) -> list[Found]:
        """Return all manifests, in order of key.  Raises ``Unavailable``, ``AccessDenied``."""
        return list(self._list())

    def _list(self) -> Iterator[Found]:
        root = staged_prefix(self._prefix)
        for stored in self._store.list(root):
            topic = topic_of(stored.key[len(root) :].partition("/")[0])
            parsed = parse_manifest_key(self._prefix, topic, stored.key) if topic else None
            if topic is not None and parsed is not None:
                partition, offsets, replay = parsed
                topic_partition = TopicPartition(topic, partition)
                size, modified = stored.size, stored.modified
                yield Found(stored.key, topic_partition, offsets, size, modified, replay)

    def read(self, committed: Mapping[TopicPartition, int]) -> list[Staged]:
        """List, then return the manifests of offsets below ``committed``, read.

        ``committed`` must have been read from the ledger *before* this call.  Every manifest
        below it was put before it moved there, so none of them can be missing in the listing;
        the other way round one that is put meanwhile could be passed over for ever.
        Manifests of replays always count: only what was committed is replayed.
        """
        listed = self.find()
        present = {found.key for found in listed}
        self._read = {key: staged for key, staged in self._read.items() if key in present}
        counting = [
            found
            for found in listed
            if found.replay or found.range.end <= committed.get(found.topic_partition, 0)
        ]
        missing = [found for found in counting if found.key not in self._read]
        for staged in self._parallel(self._read_manifest, missing):
            self._read[staged.found.key] = staged
        return [self._read[found.key] for found in counting]

    def _read_manifest(self, found: Found) -> Staged:
        try:
            with self._store.open(found.key) as file:
                body = file.read()
            manifest = Manifest.parse(body, found.key)
        except (CorruptFile, NotFound) as error:
            return Staged(found, None, str(error))
        number = manifest.replay.number if manifest.replay is not None else ""
        said = (manifest.topic_partition, manifest.range, number)
        if said != (found.topic_partition, found.range, found.replay):
            return Staged(found, None, f"{found.key}: its content is of another range")
        if manifest.group != self._group:
            why = f"{found.key}: is of group {manifest.group!r}; give each group its own prefix"
            return Staged(found, None, why)
        return Staged(found, manifest)

    def delete(self, found: Found) -> None:
        """Remove a manifest that no table needs any more."""
        self._store.delete(found.key)
        self._read.pop(found.key, None)
