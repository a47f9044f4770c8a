"""New for old, batch by batch, and back again: every step may be done twice.

Publishing: take the marks away; for each batch, copy the old objects to ``_replaced``, put the
new ones, delete the old ones; put the marks back.  So a message is never missing; while its
own batch is swapped it is there twice, under two generations.  Rolling back does the same
in the other direction, and takes the journal away at its end: the same plan may be run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from secor.archive.backfill.model import (
    BackfillPlan,
    NewFile,
    PlannedBatch,
    Receipt,
    decode_receipt,
)
from secor.archive.backfill.paths import MARK, SUCCESS, BackfillPaths
from secor.archive.backfill.run_journal import (
    BEGUN,
    CLEANED,
    DONE,
    RESTORED,
    ROLLBACK,
    VERIFIED,
    Mark,
    PublicationStart,
    RunJournal,
    swapped,
)
from secor.batch.workspace import Workspace
from secor.core.errors import AlreadyExists, ConfigurationError, NotFound, ObjectConflict
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes, without_sha256

REPLACED = "replaced-by-backfill"
"""Metadata of old objects that are kept: the backfill's id, after their own."""

_BLOCK = 1 << 20

Progress = Callable[[int], None]
"""Called with how many batches were just done."""


@dataclass(slots=True)
class BackfillPublisher:
    """Publishes and rolls back one backfill.

    ``present`` lists the keys of the objects that the plan would replace if it were made
    now.  ``workers`` batches are swapped at a time.
    """

    plan: BackfillPlan
    store: ObjectStore
    workspace: Workspace
    present: Callable[[], Iterable[str]] | None = None
    targets: tuple[str, ...] = ()
    workers: int = 4
    progress: Progress = field(default=lambda _: None)

    places: BackfillPaths = field(init=False)
    journal: RunJournal = field(init=False)

    def __post_init__(self) -> None:
        self.places = BackfillPaths.of(self.plan.head)
        self.journal = RunJournal(self.store, self.places)

    def record_verified(self) -> None:
        """Note that ``verify`` found nothing wrong."""
        self.journal.note(VERIFIED)

    # ---------------------------------------------------------------- publish

    def publish(self) -> None:
        """Put the new objects in place of the old ones, which are kept.

        Raises ``ConfigurationError`` when it was not verified or is rolled back already,
        ``ObjectConflict``, ``Unavailable``: after that and after a crash, do it again.
        """
        if self.journal.finished():
            return
        state = self.journal.state()
        if state == "":
            raise ConfigurationError(
                f"backfill {self.places.id} is not verified: run 'secor backfill verify' first"
            )
        # After a crash, with what was found the first time: the marks are gone from their places by
        # now.
        start = self._begin() if state == VERIFIED else self.journal.start()
        # The marks go first and come back last: between the two, readers that wait for them see
        # nothing half done.
        self._take_marks(start)
        self._each(self._swap)
        self._put_marks(start)
        self.journal.note(DONE)

    def _begin(self) -> PublicationStart:
        self._check_present()
        keys = {old_object.key for old_object in self.plan.replaced}
        for batch in self.plan.batches:
            keys |= {file.key for file in self._receipt(batch).files}
        # A day may be marked while its hours are the output partitions.
        touched = {directory for key in keys for directory in self.places.directories(key)}
        marks = (self._mark(f"{directory}/{SUCCESS}") for directory in sorted(touched))
        start = PublicationStart(tuple(mark for mark in marks if mark is not None))
        # Noted before the first mark is taken away: else a crash would forget which to put back.
        self.journal.note(BEGUN, start)
        # Somebody else may have been first; what was written first holds.
        return self.journal.start()

    def _check_present(self) -> None:
        if self.present is None:
            return
        planned = {old_object.key for old_object in self.plan.replaced}
        present = set(self.present())
        if present != planned:
            changed = ", ".join(sorted(present ^ planned)[:3])
            raise ConfigurationError(
                f"backfill {self.places.id}: the objects to be replaced have changed since it was"
                f" planned ({changed}): roll it back and plan again"
            )

    def _swap(self, batch: PlannedBatch) -> None:
        if self.journal.has(swapped(batch)):
            return
        # Copy, put, delete: at every moment each message is in the archive at least once. For the
        # time between the last two it is there twice, under two generations.
        for old in batch.replaces:
            self._copy(old.key, self.places.replaced(old.key), {REPLACED: self.places.id})
        for new in self._receipt(batch).files:
            self._copy(self.places.staged(new.key), new.key, {})
        for old in batch.replaces:
            self.store.delete(old.key)
        # After the last delete: a batch without the note is swapped again from its beginning, and
        # each step leaves out what is done.
        self.journal.note(swapped(batch))

    # --------------------------------------------------------------- rollback

    def rollback(self) -> bool:
        """Put the old objects back, and take away all that the backfill has made.

        Return whether any were away: one that was never published is given up.  Raises
        ``ConfigurationError`` when the old objects are deleted, else as ``publish``.
        """
        state = self.journal.state()
        if state == CLEANED:
            raise ConfigurationError(
                f"backfill {self.places.id}: the old objects are deleted; it cannot be rolled back"
            )
        # First: from here on ``publish`` refuses, and a compaction leaves the topic alone.
        self.journal.note(ROLLBACK)
        was_published = self.journal.has(BEGUN)
        if was_published and not self.journal.has(RESTORED):
            start = self.journal.start()
            self._take_marks(start)
            self._each(self._swap_back)
            self._put_marks(start)
            self.journal.note(RESTORED)
        self._delete(self.places.replaced(old_object.key) for old_object in self.plan.replaced)
        self._delete_staged()
        # Last of all: as long as something is left, the journal says how to go on.
        self.journal.delete()
        return was_published

    def _swap_back(self, batch: PlannedBatch) -> None:
        for old in batch.replaces:
            self._copy(self.places.replaced(old.key), old.key, {})
        for new in self._receipt(batch).files:
            # Not by its name alone: another backfill of the same generation may have put one there
            # since.
            if self._is_ours(new):
                self.store.delete(new.key)

    def _is_ours(self, new: NewFile) -> bool:
        try:
            metadata = self.store.head(new.key).metadata or {}
        except NotFound:
            return False
        return metadata.get(MARK) == self.places.id

    # ------------------------------------------------------------------ clean

    def clean(self) -> None:
        """Delete the old objects, and what was staged: no rollback after this."""
        state = self.journal.state()
        if state not in (DONE, CLEANED):
            raise ConfigurationError(
                f"backfill {self.places.id} is not published: old objects are deleted after that"
            )
        # Before the first delete: a rollback must not begin with only half of the old objects.
        self.journal.note(CLEANED)
        self._delete(self.places.replaced(old_object.key) for old_object in self.plan.replaced)
        self._delete_staged()

    # -------------------------------------------------------------- the steps

    def _copy(self, source: str, target: str, more: Mapping[str, str]) -> None:
        """Copy an object with its metadata, if it is not there; a source that is gone must be."""
        try:
            stored = self.store.head(source)
        except NotFound as error:
            if self._exists(target):
                return
            raise ObjectConflict(
                f"{source} is gone and {target} is not there: somebody else has changed what"
                f" backfill {self.places.id} is about; look at both, then plan again"
            ) from error
        metadata = {**(stored.metadata or {}), **more}
        if not more:
            metadata.pop(REPLACED, None)
        local = self.workspace.create()
        try:
            # Looked up before the copy is read and written: after a crash, most of them are there.
            if self._exists(target, stored.size, metadata):
                return
            with self.store.open(source) as file:
                while block := file.read(_BLOCK):
                    local.write(block)
            local.finish()
            self.store.put(target, local.content(), local.crc32c, metadata)
        except AlreadyExists:
            self._exists(target, stored.size, metadata)
        finally:
            local.delete()

    def _exists(
        self, key: str, size: int | None = None, metadata: Mapping[str, str] | None = None
    ) -> bool:
        """Return whether an object is there.  Raises ``ObjectConflict`` when it is another one."""
        try:
            stored = self.store.head(key)
        except NotFound:
            return False
        if metadata is not None and (stored.size, without_sha256(stored.metadata)) != (
            size,
            without_sha256(metadata),
        ):
            raise ObjectConflict(
                f"{key}: another object is where backfill {self.places.id} puts one; nothing"
                " was overwritten"
            )
        return True

    def _each(self, step: Callable[[PlannedBatch], None]) -> None:
        def one(batch: PlannedBatch) -> None:
            step(batch)
            self.progress(1)

        if self.workers == 1:
            for batch in self.plan.batches:
                one(batch)
            return
        with ThreadPoolExecutor(self.workers, thread_name_prefix="publish") as pool:
            # All of them: an error is raised when those under way have ended.
            list(pool.map(one, self.plan.batches))

    def _receipt(self, batch: PlannedBatch) -> Receipt:
        data = read_bytes(self.store, self.places.receipt(batch))
        if data is None:
            raise ConfigurationError(
                f"backfill {self.places.id}: batch {batch.name} was not run: run it again"
            )
        return decode_receipt(data)

    def _mark(self, key: str) -> Mark | None:
        body = read_bytes(self.store, key)
        if body is None:
            return None
        try:
            metadata = self.store.head(key).metadata
        except NotFound:  # a directory's file that no Secor put there
            metadata = None
        return Mark(key, body, metadata or {})

    def _take_marks(self, start: PublicationStart) -> None:
        for mark in start.marks:
            self.store.delete(mark.key)

    def _put_marks(self, start: PublicationStart) -> None:
        for mark in start.marks:
            # One that is there is a finalizer's, or of an earlier try.
            put_bytes(self.store, mark.key, mark.body, mark.metadata)

    def _delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.store.delete(key)

    def _delete_staged(self) -> None:
        """Delete everything but the journal."""
        for prefix in self.places.staging(self.targets):
            keys = [stored.key for stored in self.store.list(prefix)]
            # Listed before the first delete: a listing that is changed while it is paged through
            # may skip keys.
            self._delete(key for key in keys if "/_journal/" not in key)
