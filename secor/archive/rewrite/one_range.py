"""One range of a plan: its objects made, compared and put, looked at again, the old ones deleted.

Every step can be repeated, and done by several at the same time; each range is by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import pyarrow as pa

from secor.archive.erasures import (
    NO_ERASURES,
    Erasures,
    LogErasures,
    Secret,
    list_key,
    read_erasures,
)
from secor.archive.evidence.chain import COMPACT, ERASE, Rewriting, link_key, put_link
from secor.archive.evidence.digests import Digest, digest_of_bytes
from secor.archive.objects import Archive, reading_ahead
from secor.archive.rewrite.planning import JoinedRange, NewObject, Plan, superseded
from secor.batch.local_file import LocalFile
from secor.batch.workspace import Workspace
from secor.core.errors import (
    AlreadyExists,
    ConfigurationError,
    CorruptFile,
    NotFound,
    ObjectConflict,
)
from secor.core.naming import rewrites_root
from secor.core.object_info import ObjectInfo
from secor.core.small_objects import read_bytes, without_sha256
from secor.formats.joining import (
    Inputs,
    NumberedLines,
    differ,
    extension_of,
    join,
    write_changed,
)

LISTED_AGAIN = 5

Looked = TypeVar("Looked")


def plan_key(root: str, number: int) -> str:
    """Return the key of a plan; ``root`` is the directory of the topic's rewrites."""
    return f"{root}/{number:08d}.json"


def done_key(root: str, number: int) -> str:
    """Return the key that says that nothing of a plan is left to do."""
    return f"{root}/{number:08d}.done"


class RangeOutcome(Enum):
    """Results of the work at a range."""

    DONE = "done"
    FAILED = "failed"
    """It stays as it is."""
    NOTHING_LEFT = "nothing left"
    """All of it has expired since it was planned."""
    BY_OTHERS = "by others"
    """Another run has done all of the plan."""


@dataclass(frozen=True, slots=True)
class RangeResult:
    """The result for one range, and ``why`` it stays as it is."""

    range: JoinedRange
    ended: RangeOutcome
    why: str = ""


class _Faster(Exception):
    """Another run has done all of this plan."""


@dataclass(frozen=True, slots=True)
class RangeRewriter:
    """Rewrites ranges of the plan with a number; ``erasures`` are the lists that it erases by."""

    archive: Archive
    topic: str
    workspace: Workspace
    number: int
    plan: Plan
    erasures: Erasures

    @classmethod
    def of(
        cls, archive: Archive, workspace: Workspace, number: int, plan: Plan, secret: Secret | None
    ) -> RangeRewriter:
        """Return it; the plan's own ranges are not looked at.

        Raises ``ConfigurationError`` without a list that the plan erases by, or its secret.
        """
        erasures = NO_ERASURES
        if plan.erasure is not None:
            known = read_erasures(archive.store, archive.root(plan.topic), secret)
            if plan.erasure not in known.lists:
                key = list_key(known.root, plan.erasure)
                raise ConfigurationError(f"{key}: is gone, and what was to be erased is not known")
            erasures = known.upto(plan.erasure).require()
        return cls(archive, plan.topic, workspace, number, plan, erasures)

    def run(self, part: JoinedRange) -> RangeResult:
        """Rewrite a range, or what others have left of it.

        Raises ``ObjectConflict``, ``Unavailable``, ``LocalFilesExhausted``: doing it again is
        always right.
        """
        try:
            self._rewrite(part)
        except _Faster:
            return RangeResult(part, RangeOutcome.BY_OTHERS)
        except (CorruptFile, ConfigurationError) as error:
            return RangeResult(part, RangeOutcome.FAILED, str(error))
        except ObjectConflict:
            expired = self._expired(part)
            if expired is None:
                raise
            return expired
        return RangeResult(part, RangeOutcome.DONE)

    def _expired(self, part: JoinedRange) -> RangeResult | None:
        """Return the result where objects went because the archive begins behind a range's start.

        What is left of it is for the next plan: what was put of this one must not count without
        the others.
        """
        info = ObjectInfo.of(part.objects[0].metadata, part.objects[0].key)
        beginning = self.archive.beginnings(self.topic).of(part.partition, info.generation)
        if beginning <= part.start:
            return None
        if beginning >= part.end:
            return RangeResult(part, RangeOutcome.NOTHING_LEFT)
        self._delete([new.key for new in part.objects])
        why = f"the archive begins at {beginning} since it was planned: run it again"
        return RangeResult(part, RangeOutcome.FAILED, why)

    def _rewrite(self, part: JoinedRange) -> None:
        new_objects = [new for new in part.objects if not self._is_there(new)]
        read: dict[str, Digest] = {}
        self._put_all(new_objects, read)
        # From the last put on, readers read the new objects.  The old ones go only after a look at
        # what the store has of all of them: also of those that another run has put.
        missing = [new.key for new in part.objects if not self._is_there(new)]
        if (new_objects or missing) and self._is_done():
            self._take_back(part)
        if missing:
            raise ObjectConflict(f"{missing[0]}: was put, and is gone; nothing was deleted")
        # Before the first delete, while old and new can both be read.
        self._carry_evidence_on(part, read)
        # Last. Until here readers were already switched by the names; what a crash leaves behind is
        # superseded and nobody reads it.
        self._delete(part.inputs)

    def _carry_evidence_on(self, part: JoinedRange, read: Mapping[str, Digest]) -> None:
        erasure = self.erasures.newest or None
        why = COMPACT if erasure is None else ERASE
        rewriting = Rewriting(self.topic, part.partition, part.start, part.end, why, erasure)
        key = link_key(self.archive.root(self.topic), self.number, part.partition, part.start)
        new = [new.key for new in part.objects]
        put_link(self.archive.store, key, rewriting, part.inputs, new, read)

    def _take_back(self, part: JoinedRange) -> None:
        """Delete what was put of a range that others have written, and perhaps written again.

        Raises ``_Faster``.
        """
        objects = again_where_objects_go(
            lambda: list(self.archive.everything(self.topic, superseded=True))
        )
        late = {archived.key for archived in superseded(objects)}
        self._delete([new.key for new in part.objects if new.key in late])
        raise _Faster

    def _put_all(self, objects: Sequence[NewObject], read: dict[str, Digest]) -> None:
        """Make all objects of a range, and then put them: where one cannot be, none is.

        Hashes of inputs that were fetched as a whole are added to ``read``.
        """
        made: list[tuple[NewObject, LocalFile]] = []
        try:
            for new in objects:
                local = self.workspace.create()
                made.append((new, local))
                self._make(new, local, self._left_out(new), read)
            # Only when all are made and compared: readers switch at the last put, and a range of
            # which some objects cannot be made must not begin to switch.
            for new, local in made:
                self._put(new, local)
        # An input is gone: another run has finished this plan, or a person has deleted it.
        except NotFound as error:
            if self._is_done():
                raise _Faster from error
            absent = next((new.key for new in objects if not self._is_there(new)), None)
            if absent is not None:
                raise ObjectConflict(
                    f"{error}, and {absent}, which takes its place, is not there: was it deleted"
                    " by hand, or replaced by a backfill? Bring it back, or delete"
                    f" {plan_key(self._root, self.number)}"
                ) from error
        finally:
            for _, local in made:
                local.delete()

    def _is_there(self, new: NewObject) -> bool:
        try:
            stored = self.archive.store.head(new.key)
        except NotFound:
            return False
        # The metadata is a function of the plan, so an equal one is ours, from whichever run.
        if without_sha256(stored.metadata) != dict(new.metadata):
            raise ObjectConflict(
                f"{new.key}: another object is where one that joins"
                f" {len(new.inputs)} others belongs; nothing was overwritten"
            )
        return True

    def _make(
        self,
        new: NewObject,
        local: LocalFile,
        erased: LogErasures | None,
        read: dict[str, Digest],
    ) -> None:
        def seen(key: str, data: bytes) -> None:
            read[key] = digest_of_bytes(data)

        with reading_ahead(self.archive, new.inputs, seen) as ahead:
            inputs = Inputs(tuple(new.inputs), ahead.store.open, self._numbered(new))
            if erased is None:
                source = extension_of(next(iter(new.inputs)))
                join(inputs, source, local, new.key.encode(), self.plan.target)
            else:
                write_changed(inputs, new.extension, local, new.key.encode(), erased.without)
        local.finish()
        # Read back from the local file before the put: a fault of the writer costs a try, not the
        # old objects.
        self._compare(new, local, erased)

    def _put(self, new: NewObject, local: LocalFile) -> None:
        try:
            self.archive.store.put(new.key, local.content(), local.crc32c, new.metadata)
        except AlreadyExists:
            self._is_there(new)

    def _compare(self, new: NewObject, local: LocalFile, erased: LogErasures | None) -> None:
        """Read what was written and compare it with the old objects, message by message.

        Where some are ``erased``, none of these may be in it, and all others must.
        """
        rows = 0

        def written() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            with local.open() as file:
                for batch in self.archive.formats(new.key, file).read(file, new.key):
                    rows += batch.num_rows
                    yield batch

        old = self._old(new)
        if erased is not None:
            old = map(erased.without, old)
        first = differ(old, written())
        if first is not None:
            raise CorruptFile(f"{new.key}: message {first} is not that of the objects it joins")
        # A line of text need not be a message.
        if not new.extension.startswith(".txt") and rows != int(new.metadata["records"]):
            raise CorruptFile(
                f"{next(iter(new.inputs))} and the {len(new.inputs) - 1} objects behind it hold"
                f" {rows} messages, and their metadata says {new.metadata['records']}: see secor"
                " verify"
            )

    def _old(self, new: NewObject) -> Iterator[pa.RecordBatch]:
        numbered = self._numbered(new)
        with reading_ahead(self.archive, new.inputs) as ahead:
            for key in new.inputs:
                with ahead.store.open(key) as file:
                    reader = numbered or self.archive.formats(key, file)
                    yield from reader.read(file, key)

    def _numbered(self, new: NewObject) -> NumberedLines | None:
        """Return what reads text that becomes messages; None for all else.

        Raises ``ConfigurationError`` where the offsets of its lines are not known.
        """
        first = next(iter(new.inputs))
        if not extension_of(first).startswith(".txt") or new.extension.startswith(".txt"):
            return None
        info = ObjectInfo.of(new.metadata, new.key)
        # One line for each offset: no hole, nothing left out, all in one object. That a message is
        # not two lines is seen when they are counted.
        if info.left_out != 0 or info.records != info.batch.end - info.batch.start:
            raise ConfigurationError(
                f"{first}: its lines do not become messages, because their offsets are not known:"
                f" {info.records} messages are in it of the offsets {info.batch}"
                + ("" if info.left_out == 0 else ", and some without a value may be left out")
            )
        return NumberedLines(self.archive.formats(first, None), info.batch.start)

    def _left_out(self, new: NewObject) -> LogErasures | None:
        """Return what is not taken over into a new object; None where all is."""
        if not self.erasures:
            return None
        info = ObjectInfo.of(new.metadata, new.key)
        return self.erasures.of(info.topic_partition.partition, info.generation, info.topic_id)

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.archive.store.delete(key)

    def _is_done(self) -> bool:
        return read_bytes(self.archive.store, done_key(self._root, self.number)) is not None

    @property
    def _root(self) -> str:
        return rewrites_root(self.archive.root(self.topic))


def again_where_objects_go(look: Callable[[], Looked]) -> Looked:
    """Return what a look at the objects gives; look again where another run deletes some.

    Raises ``NotFound`` if that never ends.
    """
    for _ in range(LISTED_AGAIN):
        # Another run deletes what it has replaced, between our listing and our look at the
        # metadata.
        with suppress(NotFound):
            return look()
    return look()
