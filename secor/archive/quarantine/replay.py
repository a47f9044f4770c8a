"""Parsing quarantined messages again, each into its right place exactly once.

For one object in quarantine, in this order:

1. Its messages are parsed into local files: those that are good now, and perhaps a successor
   in quarantine with those that are still bad.  The plan is the present one; where a replay
   was started under an earlier version of the kept schema, it is of that version.
2. The **marker** next to the object is put-if-absent: the plan's fingerprint, and every key
   and number of messages to be put.  A replay that finds another marker goes no further, unless
   an operator says ``--take-over``: then its objects are deleted, then it, and this is put.
3. The files are put-if-absent.  Their names begin as those of the batch's other objects and
   say which replayed message is the first, which no other object has.
4. The object in quarantine is deleted.  The marker stays for ever, so that a process which
   slept since step 1 cannot place the messages once more under another plan.

Files are a function of the object and the plan, so after a crash anywhere the same command
goes on where it ended.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from secor.archive.derived_objects import put_derived
from secor.archive.objects import Archive, ArchivedObject
from secor.archive.quarantine.listing import ReplayMarker, marker_key, read_marker, successor
from secor.archive.quarantine.parsing_again import (
    REPLAYED,
    bad_files,
    name_of,
    parse_again,
    reasons_of,
)
from secor.batch.plan import OutputStream, TopicPlan
from secor.batch.sealed import BatchFile, SealedBatch
from secor.batch.workspace import Workspace
from secor.core.errors import (
    ConfigurationError,
    NotFound,
    ObjectConflict,
)
from secor.core.model import QUARANTINE
from secor.core.naming import ObjectName, replayed_name
from secor.core.ports import Clock, ObjectStore, OffsetLedger
from secor.core.small_objects import put_bytes

ALL_STILL_BAD = "every message is still bad"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result for one object: messages ``placed``, ``filtered``, and still ``bad``.

    ``skipped`` says why nothing was done, ``reasons`` why messages are still bad; ``gone``
    says that the object was deleted meanwhile, by another replay say.
    """

    archived: ArchivedObject
    placed: int = 0
    filtered: int = 0
    bad: int = 0
    keys: tuple[str, ...] = ()
    reasons: Counter[str] = field(default_factory=Counter)
    skipped: str | None = None
    gone: bool = False


Adapt = Callable[[TopicPlan], TopicPlan]
PlansFor = Callable[[Adapt, int], Callable[[str | None], TopicPlan]]
"""Gives, for one object of a generation, its plans: a topic's, adapted; by fingerprint, as
``plan.Plans`` does.
Where a message needs a wider schema, the next one asked for has it."""


def fixed_plan(plan: TopicPlan) -> PlansFor:
    """Return the plans of a topic with a fixed schema."""
    return lambda adapt, _generation: lambda _fingerprint: adapt(plan)


class Replay:
    """Replays the quarantine of one topic with one configuration."""

    def __init__(
        self,
        archive: Archive,
        plans: PlansFor,
        ledger: OffsetLedger,
        workspace: Workspace,
        clock: Clock,
    ) -> None:
        """``ledger`` is only read: what is not committed yet is left alone."""
        self._archive = archive
        self._store: ObjectStore = archive.store
        self._plans = plans
        self._ledger = ledger
        self._workspace = workspace
        self._clock = clock

    def replay(
        self, archived: ArchivedObject, *, dry_run: bool = False, take_over: bool = False
    ) -> ReplayResult:
        """Replay one object.

        ``take_over`` gives up what an earlier replay under another configuration has started.
        Raises ``ConfigurationError`` without it, ``ObjectConflict``, ``Unavailable``,
        ``OutcomeUnknown``: saying it again is always right.
        """
        reason = self._not_yet(archived)
        if reason is not None:
            return ReplayResult(archived, skipped=reason)
        try:
            return self._replay(archived, dry_run=dry_run, take_over=take_over)
        except NotFound:
            if self._exists(archived.key):
                raise
            return ReplayResult(archived, gone=True)

    def _replay(self, archived: ArchivedObject, *, dry_run: bool, take_over: bool) -> ReplayResult:
        marker = read_marker(self._archive, archived)
        with self._sealed(archived, marker) as (sealed, read):
            result = _result(archived, sealed, reasons_of(sealed), read)
            if dry_run:
                return result
            if marker is None and result.bad == read:
                return replace(result, skipped=ALL_STILL_BAD)
            body = _body(archived, sealed)
            if marker is not None and marker.body != body:
                self._give_up(archived, marker, take_over=take_over)
            # Before the first put: another replay, under another plan, sees what this one is about
            # to put.
            self._mark(archived, body)
            for file in sealed.files:
                self._put(file, archived)
            # Last: until here a crash leaves the object, and the same command finishes.
            self._store.delete(archived.key)
            return result

    def _not_yet(self, archived: ArchivedObject) -> str | None:
        if archived.info is None:
            return archived.fault or "it has no metadata of Secor's"
        entry = self._ledger.read(archived.topic_partition)
        committed, ids = entry.committed, {entry.topic_id, archived.info.topic_id} - {None}
        if len(ids) > 1:
            return None  # it is of a topic that was deleted: nobody will commit it any more
        if committed is None or committed < archived.info.batch.end:
            return f"its batch {archived.info.batch} is not committed yet (committed: {committed})"
        return None

    def _exists(self, key: str) -> bool:
        try:
            self._store.head(key)
        except NotFound:
            return False
        return True

    @contextmanager
    def _sealed(
        self, archived: ArchivedObject, marker: ReplayMarker | None
    ) -> Iterator[tuple[SealedBatch, int]]:
        """Give the local files of the messages, and how many were read.

        Under the plan of the replay that was started, if it is one of this configuration.
        """
        plans = self._plans(lambda plan: _into_same_batch(plan, archived), archived.name.generation)
        tried = None if marker is None else marker.fingerprint
        parsed = self._parse(archived, plans(tried))
        while parsed is None:
            parsed = self._parse(archived, plans(None))
        batch, read = parsed
        sealed = _named_apart(batch)
        try:
            yield sealed, read
        finally:
            sealed.delete()

    def _parse(self, archived: ArchivedObject, plan: TopicPlan) -> tuple[SealedBatch, int] | None:
        return parse_again(self._archive, archived, plan, self._workspace, self._clock)

    def _mark(self, archived: ArchivedObject, body: bytes) -> None:
        key = marker_key(archived.name)
        # There is one already. The same content is that of an earlier attempt of this plan.
        if not put_bytes(self._store, key, body, {REPLAYED: name_of(archived)}):
            other = read_marker(self._archive, archived)
            if other is None or other.body != body:
                raise _other(archived)

    def _give_up(self, archived: ArchivedObject, marker: ReplayMarker, *, take_over: bool) -> None:
        """Delete what a replay under another configuration has put, then its marker."""
        if not take_over:
            raise _other(archived)
        for key in marker.keys:
            try:
                metadata = self._store.head(key).metadata or {}
            except NotFound:
                continue
            if metadata.get(REPLAYED) != name_of(archived):
                raise ObjectConflict(f"{key}: is no result of replaying {archived.key}; look at it")
            self._store.delete(key)
        # After the objects that it names: without it nobody would know them any more.
        self._store.delete(marker_key(archived.name))

    def _put(self, file: BatchFile, archived: ArchivedObject) -> None:
        conflict = (
            f"{file.key}: another object is where messages of {archived.key} belong;"
            " nothing was overwritten"
        )
        put_derived(self._store, file.key, file, (REPLAYED, name_of(archived)), conflict)


def _into_same_batch(plan: TopicPlan, archived: ArchivedObject) -> TopicPlan:
    """Put the results next to the other objects of the same generation and batch."""
    stream = plan.stream(QUARANTINE)
    root = f"{stream.root}/{successor(archived.name)}"
    streams = {**plan.streams, QUARANTINE: OutputStream(root, stream.log_format)}
    return replace(plan, generation=archived.name.generation, streams=streams)


def _named_apart(sealed: SealedBatch) -> SealedBatch:
    """Give the files names of their own: an object of the same batch may be in their place."""
    files = tuple(
        replace(file, name=replayed_name(file.name, file.info.first_offset))
        if isinstance(file.name, ObjectName)
        else file
        for file in sealed.files
    )
    return replace(sealed, files=files)


def _other(archived: ArchivedObject) -> ConfigurationError:
    return ConfigurationError(
        f"{archived.key}: a replay under another configuration was started and not finished; finish"
        " it with that one, or add --take-over to delete what it has put and begin anew"
    )


def _result(
    archived: ArchivedObject, sealed: SealedBatch, reasons: Counter[str], read: int
) -> ReplayResult:
    bad = sum(file.info.records for file in bad_files(sealed))
    kept = sum(file.info.records for file in sealed.files)
    keys = tuple(file.key for file in sealed.files)
    return ReplayResult(archived, kept - bad, read - kept, bad, keys, reasons)


def _body(archived: ArchivedObject, sealed: SealedBatch) -> bytes:
    """Return the marker's content: the same for the same messages and plan."""
    content = {
        "replayed": archived.key,
        "fingerprint": sealed.fingerprint,
        "objects": {file.key: file.info.records for file in sealed.files},
    }
    return json.dumps(content, sort_keys=True, indent=1).encode() + b"\n"
