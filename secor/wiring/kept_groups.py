"""Consumer groups' offsets as a backup keeps them, for the journal and for its readers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import groupby
from urllib.parse import unquote

from secor.adapters.kafka.group_admin import GroupAdmin
from secor.archive.cluster_journal import Item, kept_clusters
from secor.config.model import Config
from secor.core.errors import ConfigurationError, CorruptFile
from secor.core.model import Committed, TopicPartition
from secor.core.ports import ObjectStore

GROUPS_AT_ONCE = 100
_OWN = "secor-restore-"
_LEDGER = re.compile(r'\{"secor":')
"""How the metadata of a Secor group's own commits begin."""


def group_items(
    config: Config, admin: GroupAdmin, denied: Callable[[Collection[str]], None]
) -> Iterator[Item]:
    """Give the groups' offsets: ``{topic: {partition: offset or [offset, metadata]}}``.

    ``denied`` is called with the groups that this user may not see.
    """
    wanted = re.compile(config.kafka.keep_groups or "")
    left_out = re.compile(config.kafka.keep_groups_exclude or "(?!)")
    names = sorted(
        name
        for name in admin.states()
        if wanted.fullmatch(name)
        and not left_out.fullmatch(name)
        and name != config.group.name
        and not name.startswith(_OWN)
    )
    refused: list[str] = []
    for begin in range(0, len(names), GROUPS_AT_ONCE):
        offsets, more = admin.offsets_of(names[begin : begin + GROUPS_AT_ONCE])
        refused += more
        for name, places in sorted(offsets.items()):
            # A Secor group's ledger is no consumer's offset: restored, it would say things about
            # objects and topics of the lost cluster.
            if places and not any(_LEDGER.match(place.metadata) for place in places.values()):
                yield name, encode_offsets(places)
    denied(refused)


def encode_offsets(places: Mapping[TopicPartition, Committed]) -> dict[str, dict[str, object]]:
    """Return a group's offsets as the journal has them."""
    by_topic = groupby(sorted(places), key=lambda place: place.topic)
    return {
        topic: {
            str(place.partition): (
                [places[place].offset, places[place].metadata]
                if places[place].metadata
                else places[place].offset
            )
            for place in partitions
        }
        for topic, partitions in by_topic
    }


def decode_offsets(name: str, content: object) -> dict[TopicPartition, Committed]:
    """Read what ``encode_offsets`` returned.  Raises ``CorruptFile`` naming the group."""
    try:
        assert isinstance(content, dict)
        return {
            TopicPartition(topic, int(partition)): (
                Committed(int(stored[0]), str(stored[1]))
                if isinstance(stored, list)
                else Committed(int(stored))
            )
            for topic, partitions in content.items()
            for partition, stored in partitions.items()
        }
    except (AssertionError, AttributeError, TypeError, ValueError, IndexError) as error:
        raise CorruptFile(f"kept group {name}: these are no offsets ({error!r})") from error


def choose_cluster(
    store: ObjectStore, prefix: str, kind: str, wanted: str | None, target: str | None = None
) -> str:
    """Return the cluster of the wanted journal: ``wanted``, or the newest but ``target``.

    ``target`` is a cluster that is only restored to.  Raises ``ConfigurationError``.
    """
    newest = {
        unquote(cluster): minute for cluster, minute in kept_clusters(store, prefix, kind).items()
    }
    if wanted is not None:
        if wanted in newest:
            return wanted
        raise ConfigurationError(
            f"nothing is kept of {kind} of cluster {wanted}; kept are: {', '.join(sorted(newest))}"
        )
    others = {cluster: minute for cluster, minute in newest.items() if cluster != target} or newest
    if not others:
        raise ConfigurationError(
            f"the archive {prefix!r} has no {kind}: a backup group keeps them within minutes"
            " (docs/recovery.md); its log says cluster_not_kept where it may not"
        )
    return max(others, key=lambda other: others[other])
