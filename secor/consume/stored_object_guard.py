"""A guard against a lost ledger entry: the store has objects that no entry covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from secor.batch.plan import TopicPlan
from secor.consume.ttl_cache import TtlCache
from secor.core.errors import LedgerLost, ObjectConflict, TopicRecreated
from secor.core.model import TopicPartition
from secor.core.naming import ObjectName, parse_key
from secor.core.ports import Clock, ObjectStore

LISTING_LIFETIME = 60.0
"""Seconds; an entry that is lost after it was listed is noticed by nobody else."""

GreatestOffsets = Mapping[tuple[int, int], int]
"""The greatest start offset below a directory, by partition and generation."""


class StoredObjectGuard:
    """Looks into the store before messages could be stored a second time.

    All partitions that begin together share one listing of the topic's directory.  Only where
    it shows an object in question the directory is listed again for the names.
    """

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._greatest = TtlCache(self._list, clock, LISTING_LIFETIME)

    def refuse_any(
        self,
        topic_partition: TopicPartition,
        plan: TopicPlan,
        topic_id: str | None,
        since: float,
    ) -> None:
        """Raise ``LedgerLost`` if there are objects, for which there must be an entry.

        Raises ``TopicRecreated`` if they are of a topic with another id: with a ledger in
        Kafka a deleted topic takes the group's offsets along.
        """
        for name in self._from(0, topic_partition, plan, plan.roots, since):
            metadata = self._store.head(name.key).metadata or {}
            stored_id = metadata.get("topic-id")
            # A route may have brought an object here with another topic's messages.
            if metadata.get("topic", topic_partition.topic) == topic_partition.topic:
                if stored_id and topic_id and stored_id != topic_id:
                    raise TopicRecreated(
                        f"{topic_partition}: the topic was deleted and created again (id"
                        f" {stored_id} in {name.key}, now {topic_id}); raise output.generation and"
                        " restart: without an entry it is stored from its start"
                    )
                way = "rebuild it with 'secor offsets recover', or begin a new output.generation"
                if name.of_connect and "fingerprint" not in metadata:
                    way = (
                        "take a connector's over: 'secor offsets import --from-group connect-NAME'"
                    )
                raise LedgerLost(
                    f"{topic_partition}: the group has no offset, yet {name.key} exists; {way}"
                )

    def refuse_uncommitted(
        self, topic_partition: TopicPartition, plan: TopicPlan, committed: int, since: float
    ) -> None:
        """Raise ``ObjectConflict`` for an object that Java Secor, or a connector with the same
        names, uploaded and did not commit before it was killed: it would be stored again.
        """
        for name in self._from(committed, topic_partition, plan, (plan.root,), since):
            # Every object of ours has a fingerprint: one without was made by another program.
            if "fingerprint" not in (self._store.head(name.key).metadata or {}):
                raise ObjectConflict(
                    f"{topic_partition}: {name.key} is not ours and begins at or above the"
                    f" committed offset {committed}: its writer (Java Secor, a connector) was"
                    " killed between upload and commit, and its messages would be stored twice."
                    " Delete such objects (secor verify calls them extra), or begin a new"
                    " output.generation"
                )

    def _from(
        self,
        offset: int,
        topic_partition: TopicPartition,
        plan: TopicPlan,
        roots: Iterable[str],
        since: float,
    ) -> Iterator[ObjectName]:
        """Yield the objects of this partition and generation that begin at ``offset`` or later."""
        key = (topic_partition.partition, plan.generation)
        for root in roots:
            # The shared listing answers for nearly all partitions. Only one that it speaks against
            # lists again, for the names.
            if self._greatest.get(root, since).get(key, -1) < offset:
                continue
            for name in self._names(root):
                if (name.partition, name.generation) == key and name.start_offset >= offset:
                    yield name

    def _list(self, root: str) -> GreatestOffsets:
        greatest: dict[tuple[int, int], int] = {}
        for name in self._names(root):
            key = (name.partition, name.generation)
            greatest[key] = max(name.start_offset, greatest.get(key, 0))
        return greatest

    def _names(self, root: str) -> Iterator[ObjectName]:
        for stored in self._store.list(f"{root}/"):
            name = parse_key(root, stored.key)
            if name is not None:
                yield name
