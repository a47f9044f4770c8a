"""Keeper of what a backup's cluster has besides messages: offsets, ACLs, quotas, schemas."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

from secor.adapters.kafka import KafkaReader
from secor.adapters.kafka.group_admin import GroupAdmin
from secor.archive.cluster_journal import ClusterJournal, Item, WrittenEntry
from secor.config.cluster import Registry
from secor.config.model import Config
from secor.core.errors import AccessDenied, ConfigurationError, SecorError
from secor.core.model import TopicPartition
from secor.core.ports import Clock, ObjectStore
from secor.service.monitoring.kept_cluster import KeptClusterBoard
from secor.wiring.clients import clear, kafka_options
from secor.wiring.kept_groups import group_items

if TYPE_CHECKING:
    from secor.parsing.registry_server import RegistryServer

EVERY = {"groups": 60.0, "acls": 600.0, "quotas": 600.0, "schemas": 600.0}
"""Least seconds between two looks at each kind."""
SHARE = 20.0
"""A look that took a second is followed by so many seconds without one."""
BYTES_PER_SECOND = 256 * 1024
"""Bytes that the journal grows by, on average, at most."""
TICK = 5.0
_COMPACT_EVERY = 3600.0


class ClusterKeeper:
    """A thread that looks at the cluster while this process has the group's first partition.

    It holds no connection between two looks.  Nothing of it ever delays or ends the daemon: a
    look that fails is logged once, counted, and tried again.
    """

    def __init__(
        self,
        config: Config,
        store: ObjectStore,
        assigned: Callable[[], Collection[TopicPartition]],
        board: KeptClusterBoard,
        clock: Clock,
    ) -> None:
        """Begin; ``assigned`` returns the topic partitions of this process."""
        self._looker = ClusterLooker(config, store, board, clock)
        self._assigned = assigned
        self._over = threading.Event()
        # A daemon thread: a look at a registry that hangs must not hold up the end of the process.
        self._thread = threading.Thread(target=self._run, name="cluster-keeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more; does not wait for a look that is going on."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(TICK):
            self._looker.look(self._assigned(), self._over)


class ClusterLooker:
    """Looks at each kind when it is due."""

    def __init__(
        self, config: Config, store: ObjectStore, board: KeptClusterBoard, clock: Clock
    ) -> None:
        self._config = config
        self._store = store
        self._board = board
        self._clock = clock
        self._due: dict[str, float] = dict.fromkeys(kinds_of(config), 0.0)
        self._journals: dict[str, ClusterJournal] = {}
        self._compacted: dict[str, float] = {}
        self._warned: dict[str, str] = {}
        self._log = structlog.get_logger("secor.cluster")

    def look(self, assigned: Collection[TopicPartition], over: threading.Event) -> None:
        """Look at what is due, if ``assigned`` has the group's first partition."""
        due = [kind for kind, due_time in self._due.items() if self._clock.monotonic() >= due_time]
        if not due:
            return
        if not assigned:
            self._journals.clear()
            self._board.clear()
            return
        try:
            with closing(KafkaReader(kafka_options(self._config))) as reader:
                # Asked anew at each look, as topics come and go: the owner of the first partition
                # is the one that looks, without an election of its own.
                first = first_partition(self._config, reader)
                cluster = reader.cluster_id()
        except SecorError as error:
            for kind in due:
                self._failed(kind, error)
                self._due[kind] = self._clock.monotonic() + EVERY[kind]
            return
        if first not in assigned:
            # Another process looks.  Its journal is read again when that is over.
            self._journals.clear()
            self._board.clear()
            self._due.update(dict.fromkeys(due, self._clock.monotonic() + EVERY["groups"]))
            return
        for kind in due:
            if not over.is_set():
                self._look(kind, cluster)

    def _look(self, kind: str, cluster: str) -> None:
        begin = self._clock.monotonic()
        written = WrittenEntry(0, 0)
        try:
            journal = self._journal(kind, cluster)
            # A function: the journal asks the cluster after it has read its own newest entry, and
            # for a full entry twice.
            written = journal.append(lambda: self._items(kind), self._clock.now)
            self._board.kept(kind, self._clock.now())
            if self._warned.pop(kind, None) is not None:
                self._log.info("cluster_kept_again", kind=kind)
            if written.size:
                self._log.debug("cluster_kept", kind=kind, changes=written.changes)
            self._compact(kind, journal)
        except SecorError as error:
            self._failed(kind, error)
        took = self._clock.monotonic() - begin
        # Large clusters are looked at more seldom: by the load on the brokers, and by what the
        # journal grows by.
        pause = max(EVERY[kind], SHARE * took, written.size / BYTES_PER_SECOND)
        self._due[kind] = begin + pause

    def _journal(self, kind: str, cluster: str) -> ClusterJournal:
        place = cluster
        if kind == "schemas":
            place = urlsplit(self._config.registry.url or "").netloc
        journal = self._journals.get(kind)
        if journal is None or not journal.is_of(place):
            journal = ClusterJournal(self._store, self._config.output.prefix, kind, place)
            self._journals[kind] = journal
        return journal

    def _compact(self, kind: str, journal: ClusterJournal) -> None:
        now = self._clock.monotonic()
        if now >= self._compacted.get(kind, 0.0):
            self._compacted[kind] = now + _COMPACT_EVERY
            journal.compact(self._clock.now())

    def _failed(self, kind: str, error: SecorError) -> None:
        self._board.failed(kind, str(error))
        # Once for each reason: a missing right would otherwise be in the log every minute.
        if self._warned.get(kind) != str(error):
            action = (
                "allow it, or keep less: docs/recovery.md"
                if isinstance(error, AccessDenied)
                else "tried again"
            )
            self._log.warning("cluster_not_kept", kind=kind, why=str(error), next=action)
        self._warned[kind] = str(error)

    def _items(self, kind: str) -> Iterable[Item]:
        config = self._config
        options = kafka_options(config)
        if kind == "groups":
            with closing(GroupAdmin(options)) as admin:
                yield from group_items(config, admin, self._denied)
        elif kind == "schemas":
            from secor.parsing.registry_content import registry_content

            yield from registry_content(registry_server(config.registry))
        else:
            yield from access_items(kind, options)

    def _denied(self, groups: Collection[str]) -> None:
        if groups:
            named = ", ".join(sorted(groups)[:5])
            error = AccessDenied(
                f"the offsets of {len(groups)} groups are not kept ({named}, …): allow this user"
                " Describe on them, or exclude them with kafka.keep_groups_exclude"
            )
            if self._warned.get("denied") != str(error):
                self._log.warning("groups_not_kept", why=str(error))
            self._warned["denied"] = str(error)
            self._board.denied(len(groups))


def kinds_of(config: Config) -> list[str]:
    """Return the kinds that a group is to keep."""
    if config.group.kind != "backup":
        return []
    access = ["acls", "quotas"] if config.kafka.keep_access else []
    groups = ["groups"] if config.kafka.keep_groups is not None else []
    schemas = ["schemas"] if config.registry.url is not None else []
    return [*groups, *access, *schemas]


def first_partition(config: Config, reader: KafkaReader) -> TopicPartition | None:
    """Return the group's first topic partition: its owner looks; None without topics."""
    kafka = config.kafka
    present = reader.topics(kafka.topics_pattern, kafka.topics_exclude)
    topics = [group for group in present if not kafka.topics or group in kafka.topics]
    return TopicPartition(min(topics), 0) if topics else None


def access_items(kind: str, options: Mapping[str, object]) -> Iterator[Item]:
    """Give ACLs by resource, or quotas by entity."""
    from secor.adapters.kafka.cluster_admin import read_access_rules, read_quotas

    if kind == "quotas":
        for quota in read_quotas(options):
            yield quota.name, {"entity": dict(quota.entity), "values": dict(quota.values)}
        return
    rules = read_access_rules(options)
    by_resource = groupby(rules, key=lambda rule: (rule.resource, rule.name, rule.pattern))
    for (resource, name, pattern), same in by_resource:
        yield f"{resource}:{pattern}:{name}", [asdict(entry) for entry in same]


def registry_server(registry: Registry) -> RegistryServer:
    """Return the registry of a configuration.  Raises ``ConfigurationError``."""
    from secor.parsing.registry_server import Credentials, RegistryServer

    if registry.url is None:
        raise ConfigurationError("registry.url is missing: give the address of the schema registry")
    credentials = Credentials(
        registry.username,
        clear(registry.password),
        clear(registry.token),
        registry.cafile,
        registry.certfile,
        registry.keyfile,
    )
    return RegistryServer(registry.url, credentials)
