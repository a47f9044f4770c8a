"""The vector of a table: for each source topic partition, the first offset that it does not have.

Its keys are cluster, topic (with the topic's id) and partition.  It is written into the table's
properties in the same commit as the files.  A partition that it does not name has given nothing
to the table yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from secor.core.errors import CorruptFile
from secor.core.model import TopicPartition
from secor.core.text import load_json


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """Next offsets of one topic by partition; ``id`` is Kafka's, None where it is not known."""

    id: str | None = None
    partitions: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vector:
    """``clusters`` holds topics by cluster id and topic name."""

    clusters: Mapping[str, Mapping[str, TopicOffsets]] = field(default_factory=dict)

    def next_offset(self, cluster: str, topic_partition: TopicPartition) -> int | None:
        """Return the first offset that the table does not have; None where it has nothing."""
        topic = self.topic(cluster, topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def topic(self, cluster: str, topic: str) -> TopicOffsets | None:
        """Return what it says of a topic, None if it does not name it."""
        return self.clusters.get(cluster, {}).get(topic)

    def clusters_of(self, topic: str) -> frozenset[str]:
        """Return the clusters that the table has rows of a topic of this name from."""
        return frozenset(name for name, topics in self.clusters.items() if topic in topics)

    def offsets(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """Give cluster, topic partition and next offset of each, in order."""
        for cluster, topics in sorted(self.clusters.items()):
            for topic, offsets in sorted(topics.items()):
                for partition, next_offset in sorted(offsets.partitions.items()):
                    yield cluster, TopicPartition(topic, partition), next_offset

    def with_topic(self, cluster: str, topic: str, offsets: TopicOffsets) -> Vector:
        """Return a vector in which the topic has these offsets and no others."""
        topics = {**self.clusters.get(cluster, {}), topic: offsets}
        return Vector({**self.clusters, cluster: topics})

    def advance(
        self, cluster: str, topic_id: str | None, ends: Mapping[TopicPartition, int], topic: str
    ) -> Vector:
        """Return a vector in which ``topic`` has moved to ``ends``; its id is kept, or set.

        Raises ``ValueError`` for an end below what the vector says: it never goes back.
        """
        known = self.topic(cluster, topic) or TopicOffsets()
        partitions = dict(known.partitions)
        for topic_partition, end in sorted(ends.items()):
            before = partitions.get(topic_partition.partition)
            if before is not None and end < before:
                raise ValueError(f"{topic_partition} would go back from {before} to {end}")
            partitions[topic_partition.partition] = end
        return self.with_topic(cluster, topic, TopicOffsets(known.id or topic_id, partitions))

    def dump(self) -> str:
        """Return compact JSON: the same for the same vector."""
        data = {
            cluster: {
                topic: {
                    "id": offsets.id,
                    "partitions": {str(key): offsets.partitions[key] for key in offsets.partitions},
                }
                for topic, offsets in topics.items()
            }
            for cluster, topics in self.clusters.items()
        }
        # Sorted, so that a vector that has not changed is the same text, and no property changes
        # for it.
        return json.dumps(data, sort_keys=True, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Read it back.  Raises ``CorruptFile`` naming ``where``."""
        try:
            data = load_json(text)
            return cls(
                {
                    cluster: {topic: _offsets(offsets) for topic, offsets in topics.items()}
                    for cluster, topics in data.items()
                }
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFile(f"{where}: no vector of Secor's ({error})") from error


def _offsets(data: Mapping[str, object]) -> TopicOffsets:
    topic_id, partitions = data["id"], data["partitions"]
    if not isinstance(partitions, dict) or not isinstance(topic_id, str | None):
        raise ValueError(f"not the offsets of a topic: {data!r}")
    for offset in partitions.values():
        # ``isinstance`` would take true and false for offsets.
        if type(offset) is not int or not 0 <= offset < 1 << 63:
            raise ValueError(f"no offset: {offset!r}"[:80])
    offsets = {int(partition): offset for partition, offset in partitions.items()}
    if any(partition < 0 for partition in offsets):
        raise ValueError(f"a negative number among {offsets}")
    return TopicOffsets(topic_id, offsets)
