"""The archive: what the store holds of a group's topics, listed and read back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

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

    ``info`` is None when it was not asked for, or when the object does not tell (Java
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
        """Whether it is text, which by default has no messages without a value."""
        name, _ = EXTENSIONS.get(self.name.extension, ("", {}))
        return name == "text"

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic partition that its name tells."""
        return TopicPartition(self.topic, self.name.partition)

    @property
    def batch_start(self) -> int:
        """Where its batch begins; as its name says, where it has no metadata."""
        return self.info.batch.start if self.info else self.name.start_offset

    @property
    def first_offset(self) -> int:
        """The offset of its first message; without metadata one that is not above it."""
        return self.info.first_offset if self.info else least_offset(self.name)


@dataclass(frozen=True, slots=True)
class Archive:
    """The objects below one prefix.

    ``formats`` decides how an object is read: from its key and, where the key does not
    tell, its open file.  ``targets`` are the topics to whose directories a route may have
    sent messages.
    """

    store: ObjectStore
    prefix: str
    hashed: bool = False
    formats: Callable[[str, BinaryIO | None], LogFormat] = format_of_key
    targets: tuple[str, ...] = ()

    def root(self, topic: str) -> str:
        """Return the topic's directory."""
        return topic_root(self.prefix, topic, hashed=self.hashed)

    def topics(self) -> list[str]:
        """Return the topics that have objects, by name.  Lists every key of the prefix."""
        return sorted({topic for topic, _ in self._keys()})

    def routes(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by topic, to whose directories routes have brought messages of it.

        Present and earlier ones, as keys tell.  Lists every key of the prefix.
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
        listed = "" if self.hashed or not parts else "/".join(parts) + "/"
        at = len(parts) + int(self.hashed)
        for stored in self.store.list(listed):
            components = stored.key.split("/")
            topic = topic_of(components[at]) if at < len(components) - 1 else None
            if topic is not None:
                yield topic, stored.key, components[at + 1 :]

    def objects(
        self,
        topic: str,
        partitions: Collection[int] | None = None,
        offsets: OffsetRange | None = None,
        generations: Collection[int] | None = None,
        *,
        with_info: bool = False,
    ) -> Iterator[ArchivedObject]:
        """Give the topic's objects, by key; ``with_info`` asks for each one's metadata, too.

        ``offsets`` leaves out the objects that hold none of them; where an object ends is
        only known with its info, so without it those that begin lower are given, too.
        """
        below = self.root(topic)
        yield from self._objects(
            topic, below, partitions, offsets, generations, with_info=with_info
        )

    def _objects(
        self,
        topic: str,
        below: str,
        partitions: Collection[int] | None,
        offsets: OffsetRange | None,
        generations: Collection[int] | None,
        *,
        with_info: bool,
    ) -> Iterator[ArchivedObject]:
        """Give those of the topic's objects that are in a directory ``below`` its own."""
        root = self.root(topic)
        wanted = (
            ArchivedObject(topic, name, stored.size, stored.modified)
            for stored in self.store.list(below + "/")
            if (name := parse_key(root, stored.key)) is not None
            and (partitions is None or name.partition in partitions)
            and (generations is None or name.generation in generations)
            and (offsets is None or name.start_offset < offsets.end)
        )
        for archived in self.described(wanted) if with_info else wanted:
            ends_before = offsets and archived.info and archived.info.batch.end <= offsets.start
            if not ends_before:
                yield archived

    @property
    def quarantine(self) -> Archive:
        """The archive, beside this one, of messages that a parser could not place."""
        inside = [part for part in (self.prefix, QUARANTINE_DIRECTORY) if part]
        return replace(self, prefix="/".join(inside))

    def quarantined(
        self,
        topic: str,
        partitions: Collection[int] | None = None,
        generations: Collection[int] | None = None,
    ) -> Iterator[ArchivedObject]:
        """Give the objects of messages of this topic that a parser could not place."""
        return self.quarantine.objects(topic, partitions, generations=generations, with_info=True)

    def in_quarantine(self, archived: ArchivedObject) -> bool:
        """Tell whether an object holds messages that a parser could not place."""
        return archived.key.startswith(self.quarantine.root(archived.topic) + "/")

    def everything(
        self,
        topic: str,
        partitions: Collection[int] | None = None,
        generations: Collection[int] | None = None,
    ) -> Iterator[ArchivedObject]:
        """Give every object with messages of this topic, with its metadata: also those in
        quarantine, and those that a route sent to another topic's directory.
        """
        for where in dict.fromkeys((topic, *self.targets)):
            root = self.root(where)
            below = root if where == topic else routed_root(root, topic)
            for archived in self._objects(
                where, below, partitions, None, generations, with_info=True
            ):
                source = archived.info.topic_partition.topic if archived.info else where
                if source == topic:
                    yield replace(archived, topic=topic)
        yield from self.quarantined(topic, partitions, generations)

    def read(self, archived: ArchivedObject) -> Iterator[pa.RecordBatch]:
        """Give the object's records.  Raises ``CorruptFile`` naming the key, ``NotFound``."""
        with self.store.open(archived.key) as file:
            yield from self.formats(archived.key, file).read(file, archived.key)

    def format_of(self, archived: ArchivedObject) -> LogFormat:
        """Return the object's format; opens it when the name does not tell."""
        if archived.name.extension in EXTENSIONS:
            return self.formats(archived.key, None)
        with self.store.open(archived.key) as file:
            return self.formats(archived.key, file)

    def describe(self, archived: ArchivedObject) -> ArchivedObject:
        """Return it with what its metadata tells.  Raises ``NotFound``."""
        metadata = self.store.head(archived.key).metadata or {}
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
                if len(asked) == HEADS_AHEAD:
                    yield asked.popleft().result()
            while asked:
                yield asked.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _is_of(info: ObjectInfo, name: ObjectName) -> bool:
    """Tell whether metadata and name agree; the topic may be another, where a route leads."""
    same_partition = info.topic_partition.partition == name.partition
    begins_inside = info.batch.start <= name.start_offset <= info.batch.end
    return same_partition and begins_inside and info.generation == name.generation


@contextmanager
def reading_ahead(archive: Archive, sizes: Mapping[str, int]) -> Iterator[Archive]:
    """Give the archive with a store that fetches small objects before they are opened.

    ``sizes``, in bytes, by key in the order in which the objects will be opened, more or less.
    A server's answer takes its time, so one small object after the other is mostly waiting.
    """
    small = [key for key, size in sizes.items() if size <= MOST_FETCHED]
    pool = ThreadPoolExecutor(FETCHED_AHEAD, thread_name_prefix="ahead")
    try:
        yield replace(archive, store=_ReadAhead(archive.store, small, pool))
    finally:
        pool.shutdown(cancel_futures=True)


class _ReadAhead:
    """A store whose ``open`` fetches the objects that come next; for one thread."""

    def __init__(self, store: ObjectStore, keys: Iterable[str], pool: ThreadPoolExecutor) -> None:
        self._store = store
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
            return file.read()

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
