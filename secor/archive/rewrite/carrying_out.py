"""A plan agreed on and carried out: join, compare, put, look again, delete; every step repeatable.

``<prefix>/_backfill/_rewrites/<topic>/<number>.json`` is a plan, put if absent: all who run at the
same time carry out the same one.  ``<number>.done`` says that nothing of it is left to do, and
only then the next number is put.  Objects are listed for it after the look at the numbers, so a
plan never rests on what an earlier plan was still changing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec
import pyarrow as pa

from secor.archive.backfill.paths import MARK
from secor.archive.backfill.run_journal import BEGUN, CLEANED, DONE, ROLLBACK
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
from secor.archive.objects import Archive, ArchivedObject, reading_ahead, visible
from secor.archive.rewrite.planning import (
    FailedRange,
    JoinedRange,
    NewObject,
    Plan,
    RewriteResult,
    superseded,
)
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
from secor.core.small_objects import put_bytes, read_bytes, without_sha256
from secor.formats.joining import Inputs, Target, differ, extension_of, join, write_changed

_JOURNAL = re.compile(r"([^/]+)/_journal/([^/]+)\.json")
_NUMBER = re.compile(r"([0-9]{8})\.(json|done)")

LISTED_AGAIN = 5

Looked = TypeVar("Looked")

Progress = Callable[[int], None]
"""Told how many bytes of inputs were just replaced."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The next step: a plan, which is in the store if it is ``under_way``.

    ``late`` are the keys of objects that were replaced and are there again, such as a put of a
    process that had slept.
    """

    number: int
    plan: Plan
    under_way: bool = False
    late: Sequence[str] = ()


class _Faster(Exception):
    """Another run has done all of this plan."""


Choose = Callable[[list[ArchivedObject], list[ArchivedObject]], Plan]
"""Makes a plan of a topic's described objects, and of those in its quarantine."""


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites objects of one topic; any number of them may work at the same time.

    ``secret`` is what a plan that erases needs, also a plan of others.
    """

    archive: Archive
    topic: str
    workspace: Workspace
    choose: Choose
    secret: Secret | None = None
    progress: Progress = lambda _: None

    def planned(self) -> Plan:
        """Return what is to do now: the plan under way, else a new one, which is not put yet.

        Raises ``ConfigurationError`` for a plan of another version, ``Unavailable``.
        """
        return self._next().plan

    def run(self) -> list[RewriteResult]:
        """Finish the plan under way, then make one and carry it out.

        Raises ``ObjectConflict``, ``Unavailable``, ``LocalFilesExhausted``: doing it again is
        always right.
        """
        outcomes: list[RewriteResult] = []
        while True:
            step = self._next()
            number, plan = step.number, step.plan
            if not plan.ranges:
                # What another run is about to delete, it has to read once more before.
                if step.late and read_bytes(self.archive.store, self._key(number, "json")) is None:
                    self._delete(step.late)
                return outcomes
            if not step.under_way:
                put_bytes(self.archive.store, self._key(number, "json"), _encoded(plan))
                plan = self._read(number)  # what was put first holds
            outcomes.append(self._carried_out(number, plan))
            if not step.under_way:
                self._delete(step.late)
                return outcomes

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.archive.store.delete(key)

    def _next(self) -> _Step:
        return again_where_objects_go(self._look)

    def _look(self) -> _Step:
        kinds: dict[int, set[str]] = {}
        root = self._root()
        for stored in self.archive.store.list(f"{root}/"):
            match = _NUMBER.fullmatch(stored.key.removeprefix(f"{root}/"))
            if match:
                kinds.setdefault(int(match[1]), set()).add(match[2])
        newest = max(kinds, default=0)
        # Only the newest: a number is put when the one before it has its ".done".
        if newest and "done" not in kinds[newest]:
            return _Step(newest, self._read(newest), under_way=True)
        # After the look at the numbers, never before: objects listed earlier may be of a plan that
        # was still deleting, and the new plan would join what is gone.
        everything = list(self.archive.everything(self.topic, superseded=True))
        waiting = [archived for archived in everything if self.archive.in_quarantine(archived)]
        objects = [archived for archived in everything if not self.archive.in_quarantine(archived)]
        plan = self._without_backfilled(self.choose(visible(objects), waiting))
        late = [archived.key for archived in superseded(objects)]
        return _Step(newest + 1, plan, late=late)

    def _without_backfilled(self, plan: Plan) -> Plan:
        """Leave out what a rollback of a backfill would look for.

        Raises ``ConfigurationError`` while one is published or rolled back: it deletes old
        objects by their names.
        """
        notes: dict[str, set[str]] = {}
        staged = self._root().rpartition("/_rewrites/")[0]
        for stored in self.archive.store.list(f"{staged}/"):
            match = _JOURNAL.fullmatch(stored.key.removeprefix(f"{staged}/"))
            if match:
                notes.setdefault(match[1], set()).add(match[2])
        for backfill, steps in notes.items():
            if ROLLBACK in steps or (BEGUN in steps and DONE not in steps):
                raise ConfigurationError(
                    f"backfill {backfill} is being published or rolled back: finish that first"
                )
        kept = {backfill for backfill, steps in notes.items() if CLEANED not in steps}
        if not kept:
            return plan
        ranges = (part for part in plan.ranges if not self._made_by(part, kept))
        return replace(plan, ranges=tuple(ranges))

    def _made_by(self, part: JoinedRange, backfills: set[str]) -> bool:
        heads = (self.archive.store.head(key) for key in part.inputs)
        return any((stored.metadata or {}).get(MARK) in backfills for stored in heads)

    def _carried_out(self, number: int, plan: Plan) -> RewriteResult:
        outcome = RewriteResult(plan)
        erasures = self._erasures(plan)
        for part in plan.ranges:
            try:
                self._rewrite(number, part, erasures, plan.target)
            except _Faster:
                break
            except (CorruptFile, ConfigurationError) as error:
                outcome.failed.append(FailedRange(part, str(error)))
                continue
            outcome.done.append(part)
            self.progress(part.size)
        # Also where ranges failed: they stay as they were and come into the next plan. Without it
        # no further plan would ever be made.
        put_bytes(self.archive.store, self._key(number, "done"), b"")
        return outcome

    def _erasures(self, plan: Plan) -> Erasures:
        """Return the lists that a plan erases by.

        Raises ``ConfigurationError`` without it, or without its secret.
        """
        if plan.erasure is None:
            return NO_ERASURES
        known = read_erasures(self.archive.store, self.archive.root(self.topic), self.secret)
        if plan.erasure not in known.lists:
            key = list_key(known.root, plan.erasure)
            raise ConfigurationError(f"{key}: is gone, and what was to be erased is not known")
        return known.upto(plan.erasure).require()

    def _rewrite(self, number: int, part: JoinedRange, erasures: Erasures, target: Target) -> None:
        new_objects = [new for new in part.objects if not self._is_there(new)]
        read: dict[str, Digest] = {}
        self._put_all(number, new_objects, erasures, target, read)
        # From the last put on, readers read the new objects.  The old ones go only after a look at
        # what the store has of all of them: also of those that another run has put.
        missing = [new.key for new in part.objects if not self._is_there(new)]
        if (new_objects or missing) and self._is_done(number):
            self._take_back(part)
        if missing:
            raise ObjectConflict(f"{missing[0]}: was put, and is gone; nothing was deleted")
        # Before the first delete, while old and new can both be read.
        self._carry_evidence_on(number, part, erasures, read)
        # Last. Until here readers were already switched by the names; what a crash leaves behind is
        # superseded and nobody reads it.
        self._delete(part.inputs)

    def _carry_evidence_on(
        self, number: int, part: JoinedRange, erasures: Erasures, read: Mapping[str, Digest]
    ) -> None:
        erasure = erasures.newest or None
        why = COMPACT if erasure is None else ERASE
        rewriting = Rewriting(self.topic, part.partition, part.start, part.end, why, erasure)
        key = link_key(self.archive.root(self.topic), number, part.partition, part.start)
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

    def _put_all(
        self,
        number: int,
        objects: Sequence[NewObject],
        erasures: Erasures,
        target: Target,
        read: dict[str, Digest],
    ) -> None:
        """Make all objects of a range, and then put them: where one cannot be, none is.

        Hashes of inputs that were fetched as a whole are added to ``read``.
        """
        made: list[tuple[NewObject, LocalFile]] = []
        try:
            for new in objects:
                local = self.workspace.create()
                made.append((new, local))
                self._make(new, local, _left_out(erasures, new), target, read)
            # Only when all are made and compared: readers switch at the last put, and a range of
            # which some objects cannot be made must not begin to switch.
            for new, local in made:
                self._put(new, local)
        # An input is gone: another run has finished this plan, or a person has deleted it.
        except NotFound as error:
            if self._is_done(number):
                raise _Faster from error
            absent = next((new.key for new in objects if not self._is_there(new)), None)
            if absent is not None:
                raise ObjectConflict(
                    f"{error}, and {absent}, which takes its place, is not there: was it deleted"
                    " by hand, or replaced by a backfill? Bring it back, or delete"
                    f" {self._key(number, 'json')}"
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
        target: Target,
        read: dict[str, Digest],
    ) -> None:
        def seen(key: str, data: bytes) -> None:
            read[key] = digest_of_bytes(data)

        with reading_ahead(self.archive, new.inputs, seen) as ahead:
            inputs = Inputs(tuple(new.inputs), ahead.store.open)
            if erased is None:
                source = extension_of(next(iter(new.inputs)))
                join(inputs, source, local, new.key.encode(), target)
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
        with reading_ahead(self.archive, new.inputs) as ahead:
            for key in new.inputs:
                with ahead.store.open(key) as file:
                    yield from self.archive.formats(key, file).read(file, key)

    def _is_done(self, number: int) -> bool:
        return read_bytes(self.archive.store, self._key(number, "done")) is not None

    def _read(self, number: int) -> Plan:
        key = self._key(number, "json")
        data = read_bytes(self.archive.store, key)
        try:
            plan = msgspec.json.decode(data or b"", type=Plan)
        except msgspec.DecodeError as error:
            raise ConfigurationError(f"{key}: is no plan of a rewrite ({error})") from error
        if plan.version != plan.expected_version:
            raise ConfigurationError(
                f"{key}: a plan of version {plan.version}: finish it with the version of Secor that"
                " made it"
            )
        return plan

    def _root(self) -> str:
        return rewrites_root(self.archive.root(self.topic))

    def _key(self, number: int, kind: str) -> str:
        return f"{self._root()}/{number:08d}.{kind}"


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


def _left_out(erasures: Erasures, new: NewObject) -> LogErasures | None:
    """Return what is not taken over into a new object; None where all is."""
    if not erasures:
        return None
    info = ObjectInfo.of(new.metadata, new.key)
    return erasures.of(info.topic_partition.partition, info.generation, info.topic_id)


def _encoded(plan: Plan) -> bytes:
    return msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"
