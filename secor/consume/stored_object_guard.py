"""Objects of a topic partition that its ledger entry knows nothing of: reading must not begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from secor.batch.plan import TopicPlan
from secor.consume.ttl_cache import AskedOnce
from secor.core.errors import LedgerLost, ObjectConflict
from secor.core.model import TopicPartition
from secor.core.naming import ObjectName, parse_key
from secor.core.ports import Clock, ObjectStore

LISTING_LIFETIME = 60.0
"""Seconds; an entry that is lost after it was listed is noticed by nobody else."""

Greatest = Mapping[tuple[int, int], int]
"""The greatest first offset below a directory, by partition and generation."""


class AlreadyStored:
    """Looks into the store before messages are stored a second time.

    A topic's directory is listed once for all partitions that are looked for together; only
    where that shows an object in question its names are looked at.
    """

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._greatest = AskedOnce(self._list, clock, LISTING_LIFETIME)

    def refuse_any(self, topic_partition: TopicPartition, plan: TopicPlan, since: float) -> None:
        """Raise ``LedgerLost`` if there are objects, for which there must be an entry."""
        for name in self._from(0, topic_partition, plan, plan.roots, since):
            if not self._of_another_topic(name.key, topic_partition.topic):
                raise LedgerLost(
                    f"{topic_partition}: the group has no offset, yet {name.key} exists; rebuild"
                    " it with 'secor offsets recover', or begin a new output.generation"
                )

    def refuse_uncommitted(
        self, topic_partition: TopicPartition, plan: TopicPlan, committed: int, since: float
    ) -> None:
        """Raise ``ObjectConflict`` for what Java Secor uploaded and was killed before it
        committed: it would be stored again.
        """
        for name in self._from(committed, topic_partition, plan, (plan.root,), since):
            if "fingerprint" not in (self._store.head(name.key).metadata or {}):
                raise ObjectConflict(
                    f"{topic_partition}: {name.key} is not ours and begins at or above the"
                    f" committed offset {committed}: Java Secor was killed between upload and"
                    " commit, and its messages would be stored twice. Delete such objects (secor"
                    " verify calls them extra), or begin a new output.generation"
                )

    def _from(
        self,
        offset: int,
        topic_partition: TopicPartition,
        plan: TopicPlan,
        roots: Iterable[str],
        since: float,
    ) -> Iterator[ObjectName]:
        """Give the objects of this partition and generation that begin there or later."""
        mine = (topic_partition.partition, plan.generation)
        for root in roots:
            if self._greatest.get(root, since).get(mine, -1) < offset:
                continue
            for name in self._names(root):
                if (name.partition, name.generation) == mine and name.first_offset >= offset:
                    yield name

    def _list(self, root: str) -> Greatest:
        found: dict[tuple[int, int], int] = {}
        for name in self._names(root):
            mine = (name.partition, name.generation)
            found[mine] = max(name.first_offset, found.get(mine, 0))
        return found

    def _names(self, root: str) -> Iterator[ObjectName]:
        for stored in self._store.list(f"{root}/"):
            name = parse_key(root, stored.key)
            if name is not None:
                yield name

    def _of_another_topic(self, key: str, topic: str) -> bool:
        """Tell whether a route brought an object here with another topic's messages."""
        metadata = self._store.head(key).metadata or {}
        return metadata.get("topic", topic) != topic
