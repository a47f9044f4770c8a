"""Erasure from one topic: the list agreed on, then what it names looked for and written again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from secor.archive.erasures import (
    ErasedLog,
    ErasedOffsets,
    Erasure,
    Erasures,
    Secret,
    agree,
    erasure_of,
    read_erasures,
)
from secor.archive.objects import Archive, ArchivedObject, visible
from secor.archive.rewrite.carrying_out import InTasks, Rewriter
from secor.archive.rewrite.carrying_out import Progress as Rewritten
from secor.archive.rewrite.erasure_search import (
    ErasureSearch,
    Progress,
    Searched,
    SearchInTasks,
    order_of_logs,
)
from secor.archive.rewrite.field_search import FieldSearch
from secor.archive.rewrite.one_range import again_where_objects_go
from secor.archive.rewrite.planning import Plan, RewriteResult, superseded
from secor.batch.workspace import Workspace
from secor.core.errors import ConfigurationError
from secor.core.model import Entry, TopicPartition
from secor.core.naming import is_copy, parse_key
from secor.core.ports import OldVersion, VersionedStore

Entries = Callable[[TopicPartition], Entry]
"""Reads the ledger."""


def logs_of(objects: Iterable[ArchivedObject], topic: str, entries: Entries) -> list[ErasedLog]:
    """Return the logs of a topic's described objects, each up to what is settled of it.

    Raises ``ConfigurationError`` where the ledger has no entry for a partition with objects.
    """
    ends: dict[tuple[int, int, str | None], int] = {}
    known: dict[int, Entry] = {}
    for archived in objects:
        partition = archived.name.partition
        if partition not in known:
            known[partition] = entries(TopicPartition(topic, partition))
        committed = known[partition].committed
        if committed is None:
            raise ConfigurationError(
                f"{topic}/{partition}: has objects, and the ledger has no entry: what is settled is"
                " not known; see secor offsets recover"
            )
        topic_id = archived.info.topic_id if archived.info else None
        end, present = committed, known[partition].topic_id
        if archived.info and None not in (topic_id, present) and topic_id != present:
            end = archived.info.batch.end  # of an earlier topic: nobody writes it any more
        log = partition, archived.name.generation, topic_id
        ends[log] = max(end, ends.get(log, 0))
    return [ErasedLog(*log, end) for log, end in sorted(ends.items(), key=order_of_logs)]


@dataclass(frozen=True, slots=True)
class Eraser:
    """Erases messages of keys from one topic; any number may work at the same time.

    ``at`` and ``by`` are for people, who read the list.  With a ``search`` messages are chosen by a
    field instead of keys: they are looked for first, and the list has their offsets.  ``in_tasks``
    and ``rewritten`` are those of the ``Rewriter``: where ranges are rewritten, and how many are;
    ``search_in_tasks`` looks for messages by their keys elsewhere.
    """

    archive: Archive
    topic: str
    secret: Secret
    entries: Entries
    at: str
    by: str
    progress: Progress = lambda _: None
    search: FieldSearch | None = None
    in_tasks: InTasks | None = None
    rewritten: Rewritten = lambda _, __: None
    search_in_tasks: SearchInTasks | None = None

    def look(self, keys: Collection[bytes | None], *, tombstones: bool) -> Searched:
        """Search, and put nothing.  Raises as ``run``."""

        def searched() -> Searched:
            objects = self._objects()
            wanted = self._wanted(objects, keys, tombstones=tombstones)
            erasures = self._known().and_also(wanted)
            search = self._search_of(erasures)
            return search.run(visible(objects))

        return again_where_objects_go(searched)

    def run(
        self, keys: Collection[bytes | None], workspace: Workspace, *, tombstones: bool
    ) -> tuple[Searched, list[RewriteResult]]:
        """Put the list of the keys, then rewrite what holds messages of them.

        What was found, and what became of it, also of plans that others had begun.  Raises
        ``ConfigurationError``, ``ObjectConflict``, ``Unavailable``, ``LocalFilesExhausted``:
        doing it again is always right.
        """
        objects, wanted = again_where_objects_go(lambda: self._both(keys, tombstones=tombstones))
        erasures = self._known()
        if wanted.hashes or wanted.offsets:
            # The list is put before anything is searched or rewritten: from here on readers leave
            # the messages out, and a crash loses no request.
            erasures = agree(self.archive.store, erasures, wanted)
        search = self._search_of(erasures)
        result = Searched()

        def choose(objects: list[ArchivedObject], _: list[ArchivedObject]) -> Plan:
            nonlocal result
            result = search.run(objects)
            return search.plan(result)

        rewriter = Rewriter(
            self.archive,
            self.topic,
            workspace,
            choose,
            self.secret,
            self.rewritten,
            self.in_tasks,
        )
        outcomes: list[RewriteResult] = []
        # The first plan may be one that another run had begun, under an earlier list: then ours
        # follows.
        while not outcomes or outcomes[-1].plan.erasure != erasures.newest:
            done = rewriter.run()
            outcomes += done
            if not done:
                break
        # What nobody reads any more, such as a late put of a process that had slept.
        for archived in superseded(objects):
            self.archive.store.delete(archived.key)
        return result, outcomes

    def note(self, keys: Collection[bytes | None], *, tombstones: bool) -> Searched:
        """Put the list alone; return what of it is in quarantine, and stays.  Raises as ``run``."""
        _, wanted = again_where_objects_go(lambda: self._both(keys, tombstones=tombstones))
        search = self._search_of(agree(self.archive.store, self._known(), wanted))
        return again_where_objects_go(lambda: search.run(self.archive.quarantined(self.topic)))

    def copies(self) -> list[str]:
        """Return files next to the topic's objects that are called as copies of them."""
        listed = self.archive.store.list(f"{self.archive.root(self.topic)}/")
        return [stored.key for stored in listed if is_copy(stored.key)]

    def old_versions(self, store: VersionedStore) -> list[OldVersion]:
        """Return the noncurrent versions of the topic's objects, which may hold anything.

        Raises ``AccessDenied`` without the right to list versions, ``Unavailable``.
        """
        root = self.archive.root(self.topic)
        versions = store.noncurrent(f"{root}/")
        return [version for version in versions if parse_key(root, version.key) is not None]

    def _search_of(self, erasures: Erasures) -> ErasureSearch:
        return ErasureSearch(
            self.archive, self.topic, erasures, self.progress, self.search_in_tasks
        )

    def _objects(self) -> list[ArchivedObject]:
        return list(self.archive.everything(self.topic, superseded=True))

    def _both(
        self, keys: Collection[bytes | None], *, tombstones: bool
    ) -> tuple[list[ArchivedObject], Erasure]:
        objects = self._objects()
        return objects, self._wanted(objects, keys, tombstones=tombstones)

    def _known(self) -> Erasures:
        root = self.archive.root(self.topic)
        return read_erasures(self.archive.store, root, self.secret).require()

    def _wanted(
        self,
        objects: Sequence[ArchivedObject],
        keys: Collection[bytes | None],
        *,
        tombstones: bool,
    ) -> Erasure:
        logs = logs_of(objects, self.topic, self.entries)
        offsets: list[ErasedOffsets] = []
        if self.search is not None:
            offsets = self.search.run(self.archive, visible(objects), logs)
        return erasure_of(
            self.topic,
            self.secret,
            keys,
            logs,
            tombstones=tombstones,
            at=self.at,
            by=self.by,
            offsets=offsets,
        )
