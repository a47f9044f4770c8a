"""Staged manifests in the store: list, read and delete them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from secor.core.errors import CorruptFile, NotFound, Unavailable
from secor.core.model import OffsetRange, TopicPartition
from secor.core.naming import topic_of
from secor.core.ports import ObjectStore
from secor.tables.staging.manifest import Manifest, Statistics, parse_manifest_key, staged_prefix

LARGEST_MANIFEST = 256 << 20
"""Bytes that are read as one: a hundred kilobytes for each of 1,000 files, twice and more."""


@dataclass(frozen=True, slots=True)
class ListedManifest:
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
    """A manifest that was read, or the fault that it has.

    One that is ``outlined`` names its tables, and of each only one file.  One that is ``absent``
    was listed and could not be found, and one that is ``foreign`` is another group's.
    """

    listed: ListedManifest
    manifest: Manifest | None
    fault: str = ""
    outlined: bool = False
    absent: bool = False
    foreign: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic partition of the messages."""
        return self.listed.topic_partition

    @property
    def range(self) -> OffsetRange:
        """The range of their offsets."""
        return self.listed.range


class ManifestNeeded(Unavailable):
    """A manifest was kept as an outline only and is needed after all: read ``key`` again."""

    def __init__(self, table: str, key: str) -> None:
        super().__init__(f"{table}: {key} is needed again; the next cycle reads it")
        self.key = key


Parallel = Callable[
    [Callable[[ListedManifest], Staged], Sequence[ListedManifest]], Iterable[Staged]
]


def one_by_one(
    function: Callable[[ListedManifest], Staged], items: Sequence[ListedManifest]
) -> Iterable[Staged]:
    """Call ``function`` for each item, in order."""
    return map(function, items)


class Staging:
    """The manifests below a group's prefix.

    A manifest never changes, so each is read once; what has gone from the store is forgotten.
    Of those that all tables have, an outline is kept: whole, one with a file for each hour of a
    day takes 100 kB, and each of them stays for an hour.
    """

    def __init__(
        self, store: ObjectStore, prefix: str, group: str, parallel: Parallel = one_by_one
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._group = group
        self._parallel = parallel
        self._read: dict[str, Staged] = {}
        self.sources: frozenset[TopicPartition] = frozenset()
        """Topic partitions that had manifests, counting or not, when they were last read."""

    def find(self) -> list[ListedManifest]:
        """Return all manifests, in order of key.  Raises ``Unavailable``, ``AccessDenied``."""
        return list(self._list())

    def _list(self) -> Iterator[ListedManifest]:
        root = staged_prefix(self._prefix)
        for stored in self._store.list(root):
            topic = topic_of(stored.key[len(root) :].partition("/")[0])
            parsed = parse_manifest_key(self._prefix, topic, stored.key) if topic else None
            if topic is not None and parsed is not None:
                partition, offsets, replay = parsed
                topic_partition = TopicPartition(topic, partition)
                size, modified = stored.size, stored.modified
                yield ListedManifest(stored.key, topic_partition, offsets, size, modified, replay)

    def read(
        self,
        committed: Mapping[TopicPartition, int],
        topic_ids: Mapping[TopicPartition, str | None] = MappingProxyType({}),
    ) -> list[Staged]:
        """List, then return the manifests of offsets below ``committed``, read.

        ``committed`` must have been read from the ledger *before* this call.  Every manifest
        below it was put before it moved there, so none of them can be missing in the listing;
        the other way round one that is put meanwhile could be passed over for ever.
        Manifests of replays always count: only what was committed is replayed.  So do those of
        an earlier topic of the name, by ``topic_ids``, the ids that the entries have, or else the
        topics: the person that accepted the present topic has settled the rest of the earlier.
        """
        listed = self.find()
        self.sources = frozenset(item.topic_partition for item in listed)
        present = {item.key: item for item in listed}
        self._read = {
            key: staged
            for key, staged in self._read.items()
            if key in present
            and not staged.absent
            and (staged.listed == present[key] or not _is_of_another_topic(staged, topic_ids))
        }  # a manifest of the present topic may have taken the name of an earlier one's

        def counts(item: ListedManifest) -> bool:
            return bool(item.replay) or item.range.end <= committed.get(item.topic_partition, 0)

        candidates = [
            listing
            for listing in listed
            if counts(listing) or topic_ids.get(listing.topic_partition)
        ]
        # A manifest never changes: each is fetched once, however many cycles it stays.
        missing = [item for item in candidates if item.key not in self._read]
        for staged in self._parallel(self._read_manifest, missing):
            self._read[staged.listed.key] = staged
        deleted = self._deleted([self._read[item.key] for item in missing])
        left_out = {
            item.key
            for item in candidates
            if item.key in deleted
            or not (counts(item) or _is_of_another_topic(self._read[item.key], topic_ids))
        }
        self.forget(left_out)  # a batch that is given up may have a successor of its name
        return [self._read[item.key] for item in candidates if item.key not in left_out]

    def _deleted(self, read: Sequence[Staged]) -> frozenset[str]:
        """Return the keys of manifests that were deleted since they were listed.

        Another coordinator does that when all their tables have them.  One that is listed again
        and cannot be found is a fault of the store, and stops its partition.
        """
        absent = frozenset(staged.listed.key for staged in read if staged.absent)
        return absent - {item.key for item in self.find()} if absent else absent

    def outline(self, staged: Staged) -> None:
        """Keep only an outline of a manifest: which tables it is for."""
        if staged.manifest is not None:
            outlined = replace(staged, manifest=_outline(staged.manifest), outlined=True)
            self._read[staged.listed.key] = outlined

    def forget(self, keys: Iterable[str]) -> None:
        """Read these manifests again."""
        for key in keys:
            self._read.pop(key, None)

    def read_listed(self, listed: Sequence[ListedManifest]) -> list[Staged]:
        """Read manifests whatever the ledger says of them."""
        return list(self._parallel(self._read_manifest, listed))

    def _read_manifest(self, listed: ListedManifest) -> Staged:
        if listed.size > LARGEST_MANIFEST:
            return Staged(listed, None, f"{listed.key}: {listed.size:,} bytes are no manifest")
        try:
            with self._store.open(listed.key) as file:
                body = file.read()
            manifest = Manifest.parse(body, listed.key)
        except NotFound as error:
            return Staged(listed, None, str(error), absent=True)
        except CorruptFile as error:
            return Staged(listed, None, str(error))
        number = manifest.replay.number if manifest.replay is not None else ""
        # An object that was copied or renamed: its files belong to the range that it had before.
        in_content = (manifest.topic_partition, manifest.range, number)
        if in_content != (listed.topic_partition, listed.range, listed.replay):
            return Staged(listed, None, f"{listed.key}: its content is of another range")
        if manifest.group != self._group:
            why = f"{listed.key}: is of group {manifest.group!r}; give each group its own prefix"
            return Staged(listed, None, why, foreign=True)
        return Staged(listed, manifest)

    def delete_of_earlier_topic(self, staged: Staged) -> None:
        """Remove a manifest, unless one of the present topic has taken its name meanwhile."""
        self.forget([staged.listed.key])
        # Read once more: the present topic's offsets begin at 0, and a batch of it may have put a
        # manifest of this very name since.
        present, was = self._read_manifest(staged.listed).manifest, staged.manifest
        if present is not None and was is not None and present.topic_id == was.topic_id:
            self.delete(staged.listed)

    def delete(self, listed: ListedManifest) -> None:
        """Remove a manifest that no table needs any more."""
        self._store.delete(listed.key)
        self._read.pop(listed.key, None)


def manifests_of_files(staged: Iterable[Staged]) -> dict[str, str]:
    """Return the keys of manifests by the paths of the data files that they name."""
    return {
        file.path: item.listed.key
        for item in staged
        if item.manifest is not None
        for of_table in item.manifest.tables
        for file in of_table.files
    }


def _is_of_another_topic(staged: Staged, topic_ids: Mapping[TopicPartition, str | None]) -> bool:
    """Return whether the ledger's entry is of another topic of the name than a manifest."""
    present = topic_ids.get(staged.topic_partition)
    was = staged.manifest.topic_id if staged.manifest is not None else None
    return None not in (present, was) and present != was


_NO_STATISTICS = Statistics()


def _outline(manifest: Manifest) -> Manifest:
    """Return it with one file of each table at most, and that without statistics."""
    tables = tuple(
        replace(
            table_files,
            files=tuple(replace(file, statistics=_NO_STATISTICS) for file in table_files.files[:1]),
        )
        for table_files in manifest.tables
    )
    return replace(manifest, tables=tables)
