"""Lost ledger entries of a table group: how far tables and manifests prove that they had come.

A table has everything below its vector, and a manifest all files of its range.  Manifests stay
until every table has them.  So below the greatest of these offsets nothing is missing: a message
that no table and no manifest has was filtered, or is in quarantine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from secor.core.errors import (
    ConfigurationError,
    CorruptFile,
    LedgerLost,
    NotFound,
    UnsupportedTable,
)
from secor.core.model import OffsetRange, TopicPartition
from secor.tables.catalog import Catalog
from secor.tables.commit.group_record import GroupRecord
from secor.tables.commit.vector import Vector
from secor.tables.staging.staged_manifests import ListedManifest, Staged, Staging

REBUILD = "rebuild it with 'secor offsets recover'"


@dataclass(frozen=True, slots=True)
class Proof:
    """The evidence for one topic partition: its next offset by table, and its manifests.

    ``topic_id`` is the topic's, where something of these names it.
    """

    topic_partition: TopicPartition
    tables: Mapping[str, int]
    manifests: Sequence[Staged]
    topic_id: str | None = None

    @property
    def reached(self) -> tuple[int, str] | None:
        """Up to which offset nothing is missing, and what says so; None where nothing does.

        The last manifest counts, though its batch may not have been committed: it was put after
        all of its files.
        """
        offsets = [(end, f"the table {table}") for table, end in self.tables.items()]
        offsets += [(manifest.range.end, manifest.listed.key) for manifest in self.manifests]
        return max(offsets, default=None)

    def check_manifests(self) -> None:
        """Raise ``ConfigurationError`` for a manifest that is not this group's, or unreadable."""
        for item in self.manifests:
            if item.manifest is None:
                remedy = "" if item.foreign else "; delete it if it is none of this group's"
                raise ConfigurationError(f"{self.topic_partition}: {item.fault}{remedy}")

    def check(self) -> None:
        """Raise ``ConfigurationError`` where it is unknown which manifests are right."""
        self.check_manifests()
        for before, item in pairwise(sorted(self.manifests, key=lambda manifest: manifest.range)):
            if item.range.start < before.range.end:
                raise ConfigurationError(
                    f"{self.topic_partition}: {before.listed.key} and {item.listed.key} overlap:"
                    " delete the one that was never committed"
                )


@dataclass(frozen=True, slots=True)
class GroupProof:
    """The evidence of a group's tables and manifests, as they were when they were read."""

    vectors: Mapping[str, Vector]
    listed: Mapping[TopicPartition, Sequence[ListedManifest]]


class ProofReader:
    """Reads what proves entries; ``cluster`` is Kafka's id of the cluster that is read now."""

    def __init__(
        self,
        catalog: Catalog,
        staging: Staging,
        *,
        group: str,
        tables: Callable[[], Iterable[str]],
        cluster: Callable[[], str],
    ) -> None:
        """``tables`` gives the tables that the group has rows in."""
        self._catalog = catalog
        self._staging = staging
        self._group = group
        self._tables = tables
        self._cluster = cluster

    def read_group(self) -> GroupProof:
        """Read the vectors, and list the manifests.

        Raises ``Unavailable``, ``AccessDenied``, ``CorruptFile``, ``UnsupportedTable``.
        """
        listed: dict[TopicPartition, list[ListedManifest]] = {}
        for item in self._staging.find():
            # Replays lie below what was committed long ago: they prove nothing about the end.
            if not item.replay:
                listed.setdefault(item.topic_partition, []).append(item)
        vectors = {}
        for table in self._tables():
            try:
                vectors[table] = GroupRecord.of(self._catalog.load_table(table), self._group).vector
            except NotFound:
                continue  # not made yet, or dropped: what was staged for it is still listed
        return GroupProof(vectors, listed)

    def read(
        self, group: GroupProof, topic_partition: TopicPartition, topic_id: str | None
    ) -> Proof:
        """Return what is known of a topic partition of the topic with this id.

        What is of another topic of this name, or of another cluster, proves nothing.
        """
        cluster = self._cluster()
        tables: dict[str, int] = {}
        ids: set[str] = set()
        for table, vector in group.vectors.items():
            # By cluster and id: a topic of the same name elsewhere has other offsets, which would
            # be a wrong place to go on.
            known = vector.topic(cluster, topic_partition.topic)
            next_offset = vector.next_offset(cluster, topic_partition)
            if known is not None and next_offset is not None and _may_be_same(known.id, topic_id):
                tables[table] = next_offset
                ids |= {known.id} if known.id is not None else set()
        manifests = [
            item
            for item in self._staging.read_listed(group.listed.get(topic_partition, ()))
            if item.manifest is None
            or (item.manifest.cluster == cluster and _may_be_same(item.manifest.topic_id, topic_id))
        ]
        ids |= {
            item.manifest.topic_id
            for item in manifests
            if item.manifest is not None and item.manifest.topic_id is not None
        }
        return Proof(topic_partition, tables, manifests, min(ids, default=None))


def _may_be_same(topic_id: str | None, other: str | None) -> bool:
    return topic_id == other or None in (topic_id, other)


class FirstEntryGuard:
    """Refuses to begin a topic partition that tables or manifests of the group know already."""

    def __init__(self, reader: ProofReader, recent: Callable[[float], GroupProof]) -> None:
        """``recent`` returns a proof that was read later than some monotonic seconds."""
        self._reader = reader
        self._recent = recent

    def __call__(self, topic_partition: TopicPartition, topic_id: str | None, since: float) -> None:
        """Raise ``LedgerLost`` where there must have been an entry."""
        try:
            proof = self._reader.read(self._recent(since), topic_partition, topic_id)
            proof.check_manifests()
            reached = proof.reached
        except (ConfigurationError, CorruptFile, UnsupportedTable) as error:
            why = str(error).removeprefix(f"{topic_partition}: ")
            raise LedgerLost(
                f"{topic_partition}: the group has no offset, and whether it had one cannot be"
                f" seen: {why}"
            ) from error
        if reached is not None:
            end, what = reached
            raise LedgerLost(
                f"{topic_partition}: the group has no offset, yet {what} has messages up to"
                f" {end}: {REBUILD}"
            )


def quarantined_after(
    proof: Proof, quarantined: Iterable[OffsetRange]
) -> tuple[int, OffsetRange | None] | None:
    """Return the offset to go on at, and the batch that may not be complete.

    ``quarantined`` are the batches that objects in quarantine are of.  One of them shows that
    everything before it was committed; the last may be all there is of its batch.  Raises
    ``ConfigurationError`` where batches overlap.
    """
    proof.check()
    reached, what = proof.reached or (0, "")
    # What tables have is proved more strongly: quarantine below that says nothing new.
    later = sorted(offset_range for offset_range in set(quarantined) if offset_range.end > reached)
    for before, after in pairwise([OffsetRange(0, reached), *later]):
        if after.start < before.end:
            of_reached = f"what {what} has, up to {reached}" if before.end == reached else before
            raise ConfigurationError(
                f"{proof.topic_partition}: objects in quarantine are of {after}, which overlaps"
                f" {of_reached}: one of them is wrong; look at the objects, then set the offset"
                " with 'secor offsets set'"
            )
    # Quarantine alone shows that its batch was begun: what else it holds may never have been put.
    if later:
        return later[-1].start, later[-1]
    return (reached, None) if what else None
