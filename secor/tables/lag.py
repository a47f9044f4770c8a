"""The lag of each table behind the logs of its topics, in offsets; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from secor.core.model import TopicPartition
from secor.tables.commit.backlog import files_by_table
from secor.tables.staging.staged_manifests import Staged

Feeds = Callable[[str, str], bool]
"""Says whether messages of a topic (the second) may become rows of a table (the first)."""


def lag_of(
    ends: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, int],
    lacking: Iterable[Staged],
) -> dict[TopicPartition, int]:
    """Return how many offsets of each log a table does not have, out of those in ``ends``.

    ``committed`` is the ledger's; for a partition without an entry, where reading begins.
    ``lacking`` are the manifests below it with files that the table lacks: it has everything below
    the first of them, and rows of other tables do not count.
    """
    reached = dict(committed)
    for item in lacking:
        before = reached.get(item.topic_partition, item.range.start)
        reached[item.topic_partition] = min(before, item.range.start)
    return {key: max(0, end - reached.get(key, 0)) for key, end in ends.items()}


def lacking_by_table(
    staged: Iterable[Staged], lacks: Callable[[Staged, str], bool]
) -> dict[str, list[Staged]]:
    """Return the manifests of batches that each table still lacks."""
    lacking: dict[str, list[Staged]] = {}
    for item in staged:
        for table in dict.fromkeys(files.table for files in files_by_table(item)):
            if not item.listed.replay and lacks(item, table):
                lacking.setdefault(table, []).append(item)
    return lacking


def lag_by_table(
    tables: Iterable[str],
    feeds: Feeds,
    ends: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, int],
    lacking: Mapping[str, list[Staged]],
) -> dict[str, int]:
    """Return the sum over the topic partitions that may have rows for each table."""
    lags = {}
    for table in tables:
        fed = {
            topic
            for topic in {topic_partition.topic for topic_partition in ends}
            if feeds(table, topic)
        }
        own = {key: end for key, end in ends.items() if key.topic in fed}
        lags[table] = sum(lag_of(own, committed, lacking.get(table, ())).values())
    return lags
