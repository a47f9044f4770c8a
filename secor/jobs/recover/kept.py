"""Groups, ACLs and quotas of one lost cluster, as its archive has kept them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from secor.adapters.kafka.cluster_admin import AccessRule, Quota
from secor.archive.cluster_journal import ClusterJournal, JournalState, kept_clusters, seconds_of
from secor.core.errors import ConfigurationError, CorruptFile
from secor.core.naming import CLUSTER_DIRECTORY, topic_root
from secor.core.ports import ObjectStore
from secor.core.text import iso_time
from secor.restore.groups import GroupOffset
from secor.wiring.kept_groups import decode_offsets

_OFFSETS = "offset="
"""Begins the directories of objects in that of a topic."""
KINDS_OF_A_CLUSTER = ("groups", "acls", "quotas")


@dataclass(frozen=True, slots=True)
class KeptCluster:
    """The state of one cluster; of a kind without a state nothing was kept.

    ``others`` are further clusters that the archive knows, with the time of their newest entry.
    """

    cluster: str | None
    states: Mapping[str, JournalState]
    others: Mapping[str, str]

    def looked_at(self, kind: str) -> str | None:
        """Return when a kind was looked at, in ISO 8601; None where nothing was kept."""
        state = self.states.get(kind)
        return None if state is None else state.looked_at

    def damaged(self, kind: str) -> tuple[str, ...]:
        """Return the keys of entries of a kind that cannot be read."""
        state = self.states.get(kind)
        return () if state is None else state.damaged

    def group_offsets(self) -> list[GroupOffset]:
        """Return all offsets of all groups.  Raises ``CorruptFile``."""
        return [
            GroupOffset(group, place, committed.offset, committed.metadata)
            for group, content in self._contents("groups")
            for place, committed in sorted(decode_offsets(group, content).items())
        ]

    def access_rules(self) -> list[AccessRule]:
        """Return all ACLs.  Raises ``CorruptFile``."""
        try:
            return [
                AccessRule(**rule) for _, rules in self._contents("acls") for rule in _listed(rules)
            ]
        except (TypeError, ValueError) as error:
            raise CorruptFile(f"kept ACLs of cluster {self.cluster}: {error}") from error

    def quotas(self) -> list[Quota]:
        """Return all client quotas.  Raises ``CorruptFile``."""
        try:
            return [_quota(content) for _, content in self._contents("quotas")]
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise CorruptFile(f"kept quotas of cluster {self.cluster}: {error}") from error

    def _contents(self, kind: str) -> Iterator[tuple[str, object]]:
        state = self.states.get(kind)
        return iter(()) if state is None else state.contents()


def kept_cluster(
    store: ObjectStore, prefix: str, *, until: float | None, wanted: str | None, target: str
) -> KeptCluster:
    """Return what was kept of one cluster, never a mixture: ``wanted``, or the newest.

    The newest is that whose last entry of any kind is the latest, without ``target`` where
    another one is known.  ``until`` is in seconds since 1970, None for the newest state.
    Raises ``ConfigurationError`` for a cluster that is not known.
    """
    newest: dict[str, str] = {}
    for kind in KINDS_OF_A_CLUSTER:
        for cluster, minute in kept_clusters(store, prefix, kind).items():
            name = unquote(cluster)
            # Minutes are written so that their order as text is that of the times.
            newest[name] = max(minute, newest.get(name, ""))
    if wanted is not None and wanted not in newest:
        known = ", ".join(sorted(newest)) or "none"
        raise ConfigurationError(
            f"--cluster: nothing is kept of cluster {wanted}; kept are: {known}"
        )
    # A backup of the new cluster may have begun already, and is newer than all of the lost one.
    candidates = {cluster: newest[cluster] for cluster in newest if cluster != target} or newest
    chosen = wanted or max(candidates, key=lambda cluster: candidates[cluster], default=None)
    if chosen is None:
        return KeptCluster(None, {}, {})
    states = {}
    for kind in KINDS_OF_A_CLUSTER:
        state = ClusterJournal(store, prefix, kind, chosen).state(until)
        if state.minute is not None:
            states[kind] = state
    others = {
        cluster: iso_time(seconds_of(minute))
        for cluster, minute in sorted(newest.items())
        if cluster not in (chosen, target)
    }
    return KeptCluster(chosen, states, others)


def check_prefix(store: ObjectStore, prefix: str, topics: Iterable[str]) -> None:
    """Refuse a prefix above that of the group, whose directories would be taken for topics.

    Raises ``ConfigurationError`` with the right one.
    """
    for topic in topics:
        root = topic_root(prefix, topic)
        first = next(iter(store.list(f"{root}/")), None)
        parts = [] if first is None else first.key.removeprefix(f"{root}/").split("/")
        is_below = any(part.startswith(_OFFSETS) for part in parts[1:-1])
        if is_below or parts[:1] == [CLUSTER_DIRECTORY]:
            raise ConfigurationError(
                f'source.prefix = "{prefix}": {root} is no topic, for the archive of a backup group'
                f' is inside: set source.prefix = "{root}"'
            )


def _listed(rules: object) -> list[dict[str, str]]:
    if not isinstance(rules, list):
        raise ValueError(f"no list of rules: {rules!r}")
    return rules


def _quota(content: object) -> Quota:
    if not isinstance(content, dict):
        raise ValueError(f"no quota: {content!r}")
    values = {str(key): float(value) for key, value in content["values"].items()}
    return Quota(tuple(sorted(content["entity"].items())), values)
