"""Archives that other tools wrote, as a source: what they share.

A layout knows one tool's names and files; this module puts its objects into order and gives
the messages by offset.  Objects of a source partition must not overlap: their messages could
not be read in the order of their offsets without reading all of them first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import BinaryIO, Protocol

import pyarrow as pa

from secor.core.errors import ArchiveIncomplete, NotFound
from secor.core.model import SCHEMA, OffsetRange, StoredObject, TopicPartition, next_offset
from secor.core.ports import ObjectStore
from secor.restore.model import Boundary, Piece, SourceExtent, SourcePartition
from secor.restore.ports import PieceReader
from secor.restore.reading import ReadAhead
from secor.restore.sources.foreign_files import UNREADABLE

GREATEST_OFFSET = 2**63 - 2

ROWS = 2000
"""Messages of one piece at most."""


@dataclass(frozen=True, slots=True)
class ForeignObject:
    """One object; ``companions`` hold parts of the same messages, by what they hold.

    ``named`` is the offset in its name: of its first message, or of its last.
    """

    key: str
    size: int
    topic: str
    partition: int
    named: int
    companions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ForeignMessage:
    """A message as a tool kept it; ``lost`` says what of it is not as it was, None for nothing."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    lost: str | None = None


def objects_named(pattern: re.Pattern[str], stored: Iterable[StoredObject]) -> list[ForeignObject]:
    """Return the objects with keys that match ``pattern`` whole: topic, partition and offset."""
    return [
        ForeignObject(
            stored_object.key,
            stored_object.size,
            name["topic"],
            int(name["partition"]),
            int(name["offset"]),
        )
        for stored_object in stored
        if (name := pattern.fullmatch(stored_object.key)) is not None
    ]


class ForeignLayout(Protocol):
    """The names and the format of one tool's objects."""

    @property
    def named_by_last(self) -> bool:
        """Return whether names have the offset of the last message, not of the first."""

    def objects(self, stored: Iterable[StoredObject]) -> list[ForeignObject]:
        """Return the objects with messages; leaves out what has another kind of name."""

    def read(
        self, foreign_object: ForeignObject, open_: Callable[[str], BinaryIO]
    ) -> Iterator[ForeignMessage]:
        """Give the messages by rising offset.  Raises ``ArchiveIncomplete``."""


@dataclass(frozen=True, slots=True)
class ForeignSource:
    """A ``RestoreSource`` over the objects below ``prefix`` that ``layout`` understands.

    ``wanted`` chooses topics by name; ``lossy`` takes messages that are not as they were.
    """

    name: str
    store: ObjectStore
    prefix: str
    layout: ForeignLayout
    wanted: Callable[[str], bool]
    lossy: bool = False
    reader: Callable[[Iterator[Piece]], PieceReader] = ReadAhead

    def exactly_once(self) -> bool:
        """Return True: objects do not change, and are read in the order of offsets."""
        return True

    def defines_transactions(self) -> bool:
        """Return True: each object is one."""
        return True

    def partitions(self) -> list[SourcePartition]:
        """List topics and partitions by the names of objects."""
        return sorted(
            {
                SourcePartition(self.name, foreign_object.topic, foreign_object.partition)
                for foreign_object in self._listed()
                if self.wanted(foreign_object.topic)
            }
        )

    def extent(self, source: SourcePartition) -> SourceExtent:
        """Look at the names of all objects; reads the first or the last one."""
        objects = self._objects(source)
        first, last = objects[0], objects[-1]
        start, end = first.named, next_offset(last.named)
        if self.layout.named_by_last:
            start = next((earliest.offset for earliest in self._read(first)), start)
        else:
            for message in self._read(last):
                # Names have only one end of an object: the other one takes reading it.
                end = next_offset(message.offset)
        size = sum(foreign_object.size for foreign_object in objects)
        return SourceExtent(source, OffsetRange(start, end), objects=len(objects), size=size)

    def open(self, source: SourcePartition, next_offset: int) -> PieceReader:
        """Read from an offset on."""
        return self.reader(self.pieces(source, next_offset))

    def pieces(self, source: SourcePartition, start: int) -> Iterator[Piece]:
        """Give the messages from ``start`` on.  Raises ``ArchiveIncomplete``."""
        objects = self._objects(source)
        reached = -1
        for index, foreign_object in enumerate(objects):
            following = objects[index + 1].named if index + 1 < len(objects) else None
            if self._is_below(foreign_object, following, start):
                continue
            messages = self._read(foreign_object)
            while rows := list(islice(messages, ROWS)):
                # Also across objects: the order of names promises nothing about what is inside.
                if rows[0].offset <= reached:
                    raise _overlaps(foreign_object, rows[0].offset)
                reached = rows[-1].offset
                self._check(foreign_object, rows)
                kept = [message for message in rows if message.offset >= start]
                if kept:
                    yield Piece(_records(foreign_object, kept), next_offset(reached))
            if not self.layout.named_by_last and following is not None and reached >= following:
                raise _overlaps(foreign_object, reached)
            # The end of each object ends a transaction, also where all of its messages were below
            # ``start``.
            yield Piece(records_of([]), max(start, next_offset(reached)), Boundary.COMMIT)

    def _is_below(self, foreign_object: ForeignObject, following: int | None, start: int) -> bool:
        """Return whether names alone show that nothing of an object is at ``start`` or above."""
        if self.layout.named_by_last:
            return foreign_object.named < start
        return following is not None and following <= start

    def _check(self, foreign_object: ForeignObject, rows: Sequence[ForeignMessage]) -> None:
        lost = next((message for message in rows if message.lost is not None), None)
        if lost is not None and not self.lossy:
            raise ArchiveIncomplete(
                f"{foreign_object.key}, offset {lost.offset}: {lost.lost}; set source.lossy = true"
                " to restore what was kept"
            )
        for before, after in pairwise(rows):
            if after.offset <= before.offset:
                raise ArchiveIncomplete(
                    f"{foreign_object.key}: offset {after.offset} does not rise"
                )

    def _read(self, foreign_object: ForeignObject) -> Iterator[ForeignMessage]:
        try:
            for message in self.layout.read(foreign_object, self.store.open):
                self._check_name(foreign_object, message.offset)
                yield message
        except NotFound as error:
            raise ArchiveIncomplete(f"{error}; it belongs to {foreign_object.key}") from error
        except UNREADABLE as error:
            raise _unreadable(foreign_object, error) from error

    def _check_name(self, foreign_object: ForeignObject, offset: int) -> None:
        """Raise ``ArchiveIncomplete`` for an offset that cannot be behind that name."""
        least, greatest = foreign_object.named, GREATEST_OFFSET
        if self.layout.named_by_last:
            least, greatest = 0, foreign_object.named
        if not least <= offset <= greatest:
            raise ArchiveIncomplete(
                f"{foreign_object.key}: it has a message of offset {offset}, which its name does"
                " not allow: it was renamed, or is damaged"
            )

    def _objects(self, source: SourcePartition) -> list[ForeignObject]:
        place = (source.topic, source.partition)
        own_objects = [
            foreign_object
            for foreign_object in self._listed()
            if (foreign_object.topic, foreign_object.partition) == place
        ]
        objects = sorted(own_objects, key=lambda foreign_object: foreign_object.named)
        for before, after in pairwise(objects):
            if before.named == after.named:
                raise ArchiveIncomplete(f"{before.key} and {after.key} claim the same offsets")
        if not objects:
            where = TopicPartition(source.topic, source.partition)
            raise ArchiveIncomplete(f"{where}: the archive has no object of it any more")
        return objects

    def _listed(self) -> list[ForeignObject]:
        return self.layout.objects(self.store.list(self.prefix))


def _records(foreign_object: ForeignObject, rows: Sequence[ForeignMessage]) -> pa.RecordBatch:
    try:
        return records_of(rows)
    except UNREADABLE as error:
        raise _unreadable(foreign_object, error) from error


def _unreadable(foreign_object: ForeignObject, error: Exception) -> ArchiveIncomplete:
    return ArchiveIncomplete(
        f"{foreign_object.key}: it cannot be read ({type(error).__name__}: {error}); look"
        " at source.kind, or bring back a good copy of the object"
    )


def records_of(messages: Sequence[ForeignMessage]) -> pa.RecordBatch:
    """Return messages as rows of ``SCHEMA``."""
    rows = [
        {
            "offset": message.offset,
            "timestamp": message.timestamp,
            "timestamp_type": 0,
            "key": message.key,
            "value": message.value,
            "headers": [{"key": name, "value": value} for name, value in message.headers],
        }
        for message in messages
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def as_bytes(value: object) -> bytes | None:
    """Return a value of JSON, Avro or Parquet as a message: JSON where it is no text."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str).encode()


def _overlaps(foreign_object: ForeignObject, offset: int) -> ArchiveIncomplete:
    return ArchiveIncomplete(
        f"{foreign_object.key}: offset {offset} is in another object, too, or belongs between its"
        " messages: only objects with offsets that do not overlap can be restored in order"
    )
