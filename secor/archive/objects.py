"""The archive: what the store holds of a group's topics, listed and read back."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from secor.archive.beginning import (
    NO_BEGINNINGS,
    Beginning,
    Beginnings,
    parse_beginning,
    read_beginnings,
)
from secor.core.errors import CorruptFile
from secor.core.model import OffsetRange, StoredObject, TopicPartition
from secor.core.naming import (
    QUARANTINE_DIRECTORY,
    ROUTED,
    ObjectName,
    least_offset,
    parse_key,
    routed_root,
    topic_of,
    topic_root,
)
from secor.core.object_info import ObjectInfo
from secor.core.ports import LogFormat, ObjectStore
from secor.formats import EXTENSIONS, format_of_key

HEADS_AT_ONCE = 16
HEADS_AHEAD = 64

FETCHED_AHEAD = 16
MOST_FETCHED = 1 << 20
"""Bytes of an object that is fetched as a whole before it is opened."""


@dataclass(frozen=True, slots=True)
class ArchivedObject:
    """One object of a topic; ``size`` in bytes, ``modified`` in seconds since the epoch.

    ``info`` is None when it was not asked for, or when the object does not say it (Java
    Secor's objects); ``fault`` says what is wrong with metadata that cannot be read.
    """

    topic: str
    name: ObjectName
    size: int
    modified: float
    info: ObjectInfo | None = None
    fault: str | None = None

    @property
    def key(self) -> str:
        """The object's key in the store."""
        return self.name.key

    @property
    def is_text(self) -> bool:
        """True if it is text, which by default has no messages without a value."""
        name, _ = EXTENSIONS.get(self.name.extension, ("", {}))
        return name == "text"

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic partition in its name."""
        return TopicPartition(self.topic, self.name.partition)

    @property
    def batch_start(self) -> int:
        """The beginning of its batch; as its name says, where it has no metadata."""
        return self.info.batch.start if self.info else self.name.start_offset

    @property
    def first_offset(self) -> int:
        """The offset of its first message; without metadata one that is not above it."""
        return self.info.first_offset if self.info else least_offset(self.name)


@dataclass(frozen=True, slots=True)
class Archive:
    """The objects below one prefix.

    ``formats`` decides how an object is read: from its key and, where the key does not
    say it, its open file.  ``targets`` are topics with directories that a route may have
    sent messages.  ``topics_prefix`` is the prefix of the topics' own directories, where this is
    their quarantine.
    """

    store: ObjectStore
    prefix: str
    hashed: bool = False
    formats: Callable[[str, BinaryIO | None], LogFormat] = format_of_key
    targets: tuple[str, ...] = ()
    topics_prefix: str | None = None

    def root(self, topic: str) -> str:
        """Return the topic's directory."""
        return topic_root(self.prefix, topic, hashed=self.hashed)

    def beginnings(self, topic: str) -> Beginnings:
        """Return where the topic's logs begin in the archive, as was agreed."""
        prefix = self.prefix if self.topics_prefix is None else self.topics_prefix
        return read_beginnings(self.store, topic_root(prefix, topic, hashed=self.hashed))

    def topics(self) -> list[str]:
        """Return the topics that have objects, by name.  Lists every key of the prefix."""
        return sorted({topic for topic, _ in self._keys()})

    def routes(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by topic, the topics with directories that routes have brought messages of it to.

        Present and earlier ones, as keys say.  Lists every key of the prefix.
        """
        targets: dict[str, set[str]] = {}
        for topic, inside in self._keys():
            source = topic_of(inside[0].removeprefix(ROUTED))
            if inside[0].startswith(ROUTED) and source is not None:
                targets.setdefault(source, set()).add(topic)
        return {source: tuple(sorted(topics)) for source, topics in targets.items()}

    def topics_with(self, directory: str) -> list[str]:
        """Return the topics that have such a directory, by name.  Lists every key of the prefix.

        A topic without messages has no object, and may have one with its description.
        """
        return sorted(
            {
                topic
                for topic, key, _ in self._files()
                if key.startswith(f"{self.root(topic)}/{directory}/")
            }
        )

    def _keys(self) -> Iterator[tuple[str, list[str]]]:
        """Give the topic of every object's key, and the parts of the key below its directory."""
        for topic, key, inside in self._files():
            if parse_key(self.root(topic), key):
                yield topic, inside

    def _files(self) -> Iterator[tuple[str, str, list[str]]]:
        """Give topic, key, and the key's parts below the topic's directory, of every file."""
        parts = [part for part in self.prefix.split("/") if part]
        # With hashes in front of the prefix, no common beginning of all keys is left.
        listed = "" if self.hashed or not parts else "/".join(parts) + "/"
        level = len(parts) + int(self.hashed)
        for stored in self.store.list(listed):
            components = stored.key.split("/")
            topic = topic_of(components[level]) if level < len(components) - 1 else None
            if topic is not None:
                yield topic, stored.key, components[level + 1 :]

    def objects(
        self,
        topic: str,
        partitions: Collection[int] | None = None,
        offsets: OffsetRange | None = None,
        generations: Collection[int] | None = None,
        *,
        with_info: bool = False,
        expired: bool = False,
    ) -> Iterator[ArchivedObject]:
        """Give the topic's objects, by key; ``with_info`` asks for each one's metadata, too.

        Those that have ``expired`` and are not deleted yet are given if that is asked for.

        ``offsets`` leaves out the objects that hold none of them; where an object ends is
        only known with its info, so without it those that begin lower are given, too.
        """
        agreed: list[Beginning] = []
        # Listed as a whole before the first object is given: which are superseded, and where the
        # archive begins, is only known at the end of the listing.
        named = visible(self._named(topic, self.root(topic), partitions, generations, agreed))
        if expired:
            agreed.clear()
        elif self.topics_prefix is not None:
            agreed = list(self.beginnings(topic).agreed)
        wanted = (
            archived
            for archived in Beginnings(tuple(agreed)).above(named)
            if offsets is None or archived.name.start_offset < offsets.end
        )
        for archived in self.described(wanted) if with_info else wanted:
            ends_before = offsets and archived.info and archived.info.batch.end <= offsets.start
            if not ends_before:
                yield archived

    def _named(
        self,
        topic: str,
        below: str,
        partitions: Collection[int] | None,
        generations: Collection[int] | None,
        agreed: list[Beginning],
    ) -> Iterator[ArchivedObject]:
        """Give those of the topic's objects that are in a directory ``below`` its own, by key.

        The beginnings that the listing shows are added to ``agreed``.
        """
        root = self.root(topic)
        for stored in self.store.list(below + "/"):
            beginning = parse_beginning(root, stored.key)
            if beginning is not None:
                agreed.append(beginning)
                continue
            name = parse_key(root, stored.key)
            if (
                name is not None
                and (partitions is None or name.partition in partitions)
                and (generations is None or name.generation in generations)
            ):
                yield ArchivedObject(topic, name, stored.size, stored.modified)

    @property
    def quarantine(self) -> Archive:
        """The archive, next to this one, of messages that a parser could not place."""
        inside = [part for part in (self.prefix, QUARANTINE_DIRECTORY) if part]
        return replace(self, prefix="/".join(inside), topics_prefix=self.prefix)

    def quarantined(
        self,
        topic: str,
        partitions: Collection[int] | None = None,
        generations: Collection[int] | None = None,
        *,
        expired: bool = False,
    ) -> Iterator[ArchivedObject]:
        """Give the objects of messages of this topic that a parser could not place."""
        return self.quarantine.objects(
            topic, partitions, generations=generations, with_info=True, expired=expired
        )

    def in_quarantine(self, archived: ArchivedObject) -> bool:
        """Return whether an object holds messages that a parser could not place."""
        return archived.key.startswith(self.quarantine.root(archived.topic) + "/")

    def everything(
        self,
        topic: str,
        partitions: Collection[int] | None = None,
        generations: Collection[int] | None = None,
        *,
        superseded: bool = False,
        expired: bool = False,
    ) -> Iterator[ArchivedObject]:
        """Give every object with messages of this topic, with its metadata: also those in
        quarantine, those that a route sent to another topic's directory, and, if asked for,
        those that are ``superseded``, and those that have ``expired`` and are not deleted yet.
        """
        named: list[ArchivedObject] = []
        agreed: list[Beginning] = []
        for where in dict.fromkeys((topic, *self.targets)):
            root = self.root(where)
            below = root if where == topic else routed_root(root, topic)
            named += self._named(where, below, partitions, generations, agreed)
        beginnings = NO_BEGINNINGS if expired else Beginnings(tuple(agreed))
        present = beginnings.above(named if superseded else visible(named), routed=True)
        for archived in self.described(present):
            # A route mixes topics in one directory: only the metadata says whose messages an object
            # has.
            source = archived.info.topic_partition.topic if archived.info else archived.topic
            if source == topic:
                yield replace(archived, topic=topic)
        yield from self.quarantined(topic, partitions, generations, expired=expired)

    def directories(self, topic: str) -> tuple[str, ...]:
        """Return the directories in which ``everything`` of a topic is."""
        places = dict.fromkeys((topic, *self.targets))
        roots = ((where, self.root(where)) for where in places)
        own = [root if where == topic else routed_root(root, topic) for where, root in roots]
        return (*own, self.quarantine.root(topic))

    def read(self, archived: ArchivedObject) -> Iterator[pa.RecordBatch]:
        """Give the object's records.  Raises ``CorruptFile`` naming the key, ``NotFound``."""
        with self.store.open(archived.key) as file:
            yield from self.formats(archived.key, file).read(file, archived.key)

    def format_of(self, archived: ArchivedObject) -> LogFormat:
        """Return the object's format; opens it when the name does not say it."""
        if archived.name.extension in EXTENSIONS:
            return self.formats(archived.key, None)
        with self.store.open(archived.key) as file:
            return self.formats(archived.key, file)

    def describe(self, archived: ArchivedObject) -> ArchivedObject:
        """Return it with its metadata.  Raises ``NotFound``."""
        metadata = self.store.head(archived.key).metadata or {}
        # Not an error: Java Secor's objects, and a connector's, have no metadata of ours.
        if "fingerprint" not in metadata:
            return archived
        try:
            info = ObjectInfo.of(metadata, archived.key)
        except CorruptFile as error:
            return replace(archived, fault=str(error))
        if not _is_of(info, archived.name):
            why = f"its metadata is of {info.topic_partition}, generation {info.generation},"
            why = f"{archived.key}: {why} {info.batch}: it was copied from there, or renamed"
            return replace(archived, fault=why)
        return replace(archived, info=info)

    def described(self, objects: Iterable[ArchivedObject]) -> Iterator[ArchivedObject]:
        """Ask for metadata of several objects at a time; the order stays."""
        asked: deque[Future[ArchivedObject]] = deque()
        pool = ThreadPoolExecutor(HEADS_AT_ONCE, thread_name_prefix="head")
        try:
            for archived in objects:
                asked.append(pool.submit(self.describe, archived))
                # Bounded: a consumer that reads slowly must not have the metadata of a million
                # objects in memory.
                if len(asked) == HEADS_AHEAD:
                    yield asked.popleft().result()
            while asked:
                yield asked.popleft().result()
        finally:
            # Also when the caller stops half way: a generator that is closed must not go on asking.
            pool.shutdown(cancel_futures=True)


def _is_of(info: ObjectInfo, name: ObjectName) -> bool:
    """Return whether metadata and name agree; the topic may be another, where a route leads."""
    same_partition = info.topic_partition.partition == name.partition
    begins_inside = info.batch.start <= name.start_offset <= info.batch.end
    ends_there = name.end is None or name.end == info.batch.end
    same_generation = info.generation == name.generation
    return same_partition and begins_inside and ends_there and same_generation


def visible(objects: Iterable[ArchivedObject]) -> list[ArchivedObject]:
    """Return a listing's objects without those that are superseded, in the same order.

    A rewritten range replaces what begins in it: the objects of its topic partition and
    generation that were rewritten less often.  It counts when all their places have a new
    object, so what is read changes in one put; until then the new ones are left out.  Names
    alone decide: of a part of a topic's directories the answer is right for these.
    """
    listed = list(objects)
    # The usual archive, in which nothing was ever rewritten, costs one look at the names.
    if all(archived.name.end is None for archived in listed):
        return listed
    logs: dict[tuple[str, int, int], list[ArchivedObject]] = {}
    for archived in listed:
        logs.setdefault(_log_of(archived), []).append(archived)
    hidden: set[str] = set()
    for of_log in logs.values():
        if any(archived.name.end is not None for archived in of_log):
            hidden |= _superseded(of_log)
    return [archived for archived in listed if archived.key not in hidden]


def _log_of(archived: ArchivedObject) -> tuple[str, int, int]:
    """Return the log of an object's offsets: those of a route to this topic are another topic's."""
    first = archived.name.output_partition.partition("/")[0]
    topic = first.removeprefix(ROUTED) if first.startswith(ROUTED) else archived.topic
    return topic, archived.name.partition, archived.name.generation


def _superseded(objects: Sequence[ArchivedObject]) -> set[str]:
    """Return the keys of one log's objects that are not read."""
    ranges: dict[int, dict[tuple[int, int], list[ObjectName]]] = {}
    for name in (archived.name for archived in objects):
        if name.end is not None:
            by_range = ranges.setdefault(name.rewrite, {})
            by_range.setdefault((name.start_offset, name.end), []).append(name)
    hidden: set[str] = set()
    for rewrite, by_range in sorted(ranges.items()):
        ordered = sorted(by_range)
        replaced: dict[tuple[int, int], list[ObjectName]] = {}
        for name in (archived.name for archived in objects):
            index = bisect_right(ordered, name.start_offset, key=itemgetter(0)) - 1
            inside = index >= 0 and name.start_offset < ordered[index][1]
            # What a replay put later has messages that were in no object of the range.
            if inside and name.rewrite < rewrite and not name.replayed:
                replaced.setdefault(ordered[index], []).append(name)
        for where, new in by_range.items():
            old = replaced.get(where, [])
            counts = {name.place for name in old} <= {name.place for name in new}
            hidden.update(name.key for name in (old if counts else new))
    return hidden


@contextmanager
def reading_ahead(
    archive: Archive, sizes: Mapping[str, int], seen: Callable[[str, bytes], None] | None = None
) -> Iterator[Archive]:
    """Give the archive with a store that fetches small objects before they are opened.

    ``sizes``, in bytes, by key in the order in which the objects will be opened, more or less.
    ``seen`` is called, in any thread, with what was fetched.
    A server's answer takes its time, so one small object after the other is mostly waiting.
    """
    small = [key for key, size in sizes.items() if size <= MOST_FETCHED]
    pool = ThreadPoolExecutor(FETCHED_AHEAD, thread_name_prefix="ahead")
    try:
        yield replace(archive, store=_ReadAhead(archive.store, small, pool, seen))
    finally:
        pool.shutdown(cancel_futures=True)


class _ReadAhead:
    """A store that fetches the next objects with each ``open``; for one thread."""

    def __init__(
        self,
        store: ObjectStore,
        keys: Iterable[str],
        pool: ThreadPoolExecutor,
        seen: Callable[[str, bytes], None] | None,
    ) -> None:
        self._store = store
        self._seen = seen
        self._following = dict(pairwise(keys))
        self._pool = pool
        self._fetched: dict[str, Future[bytes]] = {}

    def open(self, key: str) -> BinaryIO:
        fetched = self._fetched.pop(key, None)
        following = self._following.get(key)
        for _ in range(FETCHED_AHEAD):
            if following is None:
                break
            if following not in self._fetched:
                self._fetched[following] = self._pool.submit(self._whole, following)
            following = self._following.get(following)
        while len(self._fetched) > 2 * FETCHED_AHEAD:  # those that were passed over
            self._fetched.pop(next(iter(self._fetched))).cancel()
        return self._store.open(key) if fetched is None else BytesIO(fetched.result())

    def _whole(self, key: str) -> bytes:
        with self._store.open(key) as file:
            data = file.read()
        if self._seen is not None:
            self._seen(key, data)
        return data

    def head(self, key: str) -> StoredObject:
        return self._store.head(key)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        return self._store.list(prefix)

    def put(
        self, key: str, content: Path | bytes, crc32c: int, metadata: Mapping[str, str]
    ) -> None:
        self._store.put(key, content, crc32c, metadata)

    def delete(self, key: str) -> None:
        self._store.delete(key)
