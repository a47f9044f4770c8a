"""Parses quarantined messages again into rows of tables, each exactly once.

For one object in quarantine, in this order:

1. Parse its messages into data files under the present plan.
2. Put the data files; their names are those of no other batch or replay.
3. Put the **manifest of the replay** if absent, below ``_staged``: its files, and the offsets of
   the messages that are still bad.  The key names the object and nothing of the plan, so one
   replay wins; the files of others are orphans.  From here on the coordinator commits it: a
   table notes the key in the same atomic commit as the files, and takes no manifest twice.
4. Put the messages that are still bad into a successor in quarantine, as the manifest says.
5. Delete the object in quarantine.

Messages that were set aside for one table (``set_aside``) become rows of that table alone: the
others that they go to have them.

A process that finds a manifest of the object, or a finished replay of it, continues at step 4
with what that says.  So after a crash anywhere the same command continues where it ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from secor.archive.objects import Archive, ArchivedObject
from secor.archive.quarantine.listing import OF_TABLE, only_table, place_of, successor
from secor.archive.quarantine.parsing_again import (
    REPLAYED,
    bad_files,
    name_of,
    parse_again,
    reasons_of,
)
from secor.archive.quarantine.replay import ALL_STILL_BAD, ReplayResult
from secor.batch.plan import OutputStream, TopicPlan
from secor.batch.sealed import BatchFile, SealedBatch
from secor.batch.workspace import Workspace
from secor.core.errors import AlreadyExists, NotFound
from secor.core.model import QUARANTINE
from secor.core.ports import Clock, ObjectStore, OffsetLedger
from secor.core.small_objects import put_bytes, read_bytes
from secor.parsing.pipeline import FILTERED
from secor.tables.staging.finished_replays import FinishedReplays
from secor.tables.staging.manifest import Manifest, ReplayOf, manifest_key

Plans = Callable[[str | None], TopicPlan]
"""As ``batch.plan.Plans``, of one topic: the next one asked for has what messages needed."""


CHANGES_ROWS = (
    "its messages change rows by their key, which newer messages may have changed since: produce"
    " what is still right to the topic again"
)


class TableReplay:
    """Replays the quarantine of one topic of a table group."""

    def __init__(
        self,
        archive: Archive,
        objects: ObjectStore,
        plans: Plans,
        ledger: OffsetLedger,
        workspace: Workspace,
        clock: Clock,
        filtered: Counter[str],
    ) -> None:
        """``objects`` takes the group's own keys and the URIs of data files.

        The plans count in ``filtered`` what they leave out on purpose.
        ``ledger`` is only read: what is not committed yet is left alone.
        """
        self._archive = archive
        self._objects = objects
        self._plans = plans
        self._ledger = ledger
        self._workspace = workspace
        self._clock = clock
        self._filtered = filtered
        self._finished = FinishedReplays(objects, archive.prefix)

    def replay(self, archived: ArchivedObject, *, dry_run: bool = False) -> ReplayResult:
        """Replay one object.

        Raises ``TableUnusable``, ``Unavailable``, ``OutcomeUnknown``: saying it again is always
        right.
        """
        reason = self._not_yet(archived)
        if reason is not None:
            return ReplayResult(archived, skipped=reason)
        try:
            return self._replay(archived, dry_run=dry_run)
        except NotFound:
            if self._exists(archived.key):
                raise
            return ReplayResult(archived, gone=True)

    def _replay(self, archived: ArchivedObject, *, dry_run: bool) -> ReplayResult:
        replay, result = self._started_replay(archived), None
        if replay is None:
            table = only_table(self._archive, archived)
            with self._sealed(archived, grows=not dry_run) as sealed:
                if sealed is None:
                    why = "a table has to be made or widened before that is known"
                    return ReplayResult(archived, skipped=why)
                manifest = _manifest_of(sealed, table)
                filtered = self._filtered[FILTERED]
                result = _result(archived, sealed, manifest, filtered, table)
                if dry_run or result.skipped is not None:
                    return result
                # What is in the store counts, also where another process was first: its manifest
                # says which messages are still bad.
                replay = self._stage(archived, sealed, manifest)
                self._put_successor(archived, replay, sealed)
        elif dry_run:
            return ReplayResult(archived, skipped="its replay was started, and will be finished")
        else:
            self._put_successor(archived, replay, None)
        # Last: until here the same command finishes, from the object or from the manifest of its
        # replay.
        self._archive.store.delete(archived.key)
        return result or ReplayResult(archived, placed=records_of(archived) - len(replay.bad))

    def _not_yet(self, archived: ArchivedObject) -> str | None:
        if archived.info is None:
            return archived.fault or "it has no metadata of Secor's"
        entry = self._ledger.read(archived.topic_partition)
        ids = {entry.topic_id, archived.info.topic_id} - {None}
        if len(ids) > 1:
            return None  # it is of a topic that was deleted: nobody will commit it any more
        if entry.committed is None or entry.committed < archived.info.batch.end:
            batch = archived.info.batch
            return f"its batch {batch} is not committed yet (committed: {entry.committed})"
        return None

    def _exists(self, key: str) -> bool:
        try:
            self._archive.store.head(key)
        except NotFound:
            return False
        return True

    def _manifest_key(self, archived: ArchivedObject) -> str:
        assert archived.info is not None
        prefix = self._archive.prefix
        return manifest_key(
            prefix, archived.topic_partition, archived.info.batch, _number(archived)
        )

    def _started_replay(self, archived: ArchivedObject) -> ReplayOf | None:
        """Return the manifest of the replay that won, or its finished replay.

        A finished one first: a process that slept may have staged the object again since.
        """
        key = self._manifest_key(archived)
        finished = self._finished.key(key)
        for place in (finished, key, finished):
            body = read_bytes(self._objects, place)
            if body is not None:
                return Manifest.parse(body, place).replay
        return None

    @contextmanager
    def _sealed(self, archived: ArchivedObject, *, grows: bool) -> Iterator[SealedBatch | None]:
        """Give the local files; None where tables have to grow, and may not."""
        while True:
            plan = _apart(self._plans(None), archived)
            parsed = parse_again(
                *(self._archive, archived, plan, self._workspace, self._clock),
                forget=self._filtered.clear,
            )
            if parsed is not None:
                break
            if not grows:
                yield None
                return
        sealed = parsed[0]
        try:
            yield sealed
        finally:
            sealed.delete()

    def _stage(self, archived: ArchivedObject, sealed: SealedBatch, manifest: Manifest) -> ReplayOf:
        """Put data files and manifest; return what the manifest says that won."""
        wanted = {file.path for of_table in manifest.tables for file in of_table.files}
        for file in sealed.files:
            if file.key in wanted:
                self._put(file, archived)
        key = self._manifest_key(archived)
        replay = ReplayOf(archived.key, _number(archived), tuple(_bad_offsets(sealed)))
        put_bytes(self._objects, key, replace(manifest, replay=replay).dump())
        winner = self._started_replay(archived)
        assert winner is not None
        return winner

    def _put_successor(
        self, archived: ArchivedObject, replay: ReplayOf, sealed: SealedBatch | None
    ) -> None:
        """Put the messages that stay in quarantine, with the new reasons where they are known."""
        if not replay.bad:
            return
        if sealed is not None and list(replay.bad) == _bad_offsets(sealed):
            [file] = bad_files(sealed)
            self._put(file, archived)
            return
        plan = _apart(self._plans(None), archived)
        stream = plan.stream(QUARANTINE)
        name = replace(archived.name, root=stream.root, output_partition="")
        local = self._workspace.create()
        try:
            writer = stream.log_format.create(local, name.key.encode())
            parts = [
                batch.filter(pc.is_in(batch.column("offset"), pa.array(replay.bad, pa.int64())))
                for batch in self._archive.read(archived)
            ]
            for part in parts:
                writer.append(part)
            writer.close()
            local.finish()
            assert archived.info is not None
            info = replace(archived.info, first_offset=replay.bad[0], records=len(replay.bad))
            self._put(BatchFile(name, info, local), archived)
        finally:
            local.delete()

    def _put(self, file: BatchFile, archived: ArchivedObject) -> None:
        """Put a file; if it exists already, it is of this object: its name says so."""
        metadata = {**file.info.metadata(), REPLAYED: name_of(archived)}
        table = only_table(self._archive, archived)
        if table is not None:
            metadata[OF_TABLE] = quote(table)
        with suppress(AlreadyExists):
            self._objects.put(file.key, file.local.content(), file.local.crc32c, metadata)


def _number(archived: ArchivedObject) -> str:
    """Return the part of its name that an object in quarantine has alone in its batch."""
    set_aside, times = place_of(archived.name)
    number = f"{archived.name.generation}-{times}"
    return f"{number}-{set_aside}" if set_aside else number


def _apart(plan: TopicPlan, archived: ArchivedObject) -> TopicPlan:
    """Give the files names that no file of a batch or of another replay has."""
    stream = plan.stream(QUARANTINE)
    streams = {
        **plan.streams,
        QUARANTINE: OutputStream(f"{stream.root}/{successor(archived.name)}", stream.log_format),
    }
    group = f"{plan.group}-replay-{_number(archived)}"
    return replace(plan, group=group, generation=archived.name.generation, streams=streams)


def _bad_offsets(sealed: SealedBatch) -> list[int]:
    log_format = sealed.plan.stream(QUARANTINE).log_format
    offsets: list[int] = []
    for file in bad_files(sealed):
        with file.local.open() as opened:
            for records in log_format.read(opened, file.key):
                offsets += records.column("offset").to_pylist()
    return offsets


def _result(
    archived: ArchivedObject,
    sealed: SealedBatch,
    manifest: Manifest,
    filtered: int,
    table: str | None,
) -> ReplayResult:
    bad = len(_bad_offsets(sealed))
    placed = records_of(archived) - bad - filtered
    result = ReplayResult(archived, placed, filtered, bad, reasons=reasons_of(sealed))
    if any(files.operation == "changes" for files in manifest.tables):
        return replace(result, skipped=CHANGES_ROWS)
    rows = sum(file.records for of_table in manifest.tables for file in of_table.files)
    if table is not None and rows != placed:
        why = f"of {placed} messages {placed - rows} are not for {table}, which alone lacks them"
        return replace(result, skipped=why)
    if bad == records_of(archived):
        return replace(result, skipped=ALL_STILL_BAD)
    return result


def _manifest_of(sealed: SealedBatch, table: str | None) -> Manifest:
    """Return the manifest, of one ``table`` alone where that is not None."""
    assert sealed.last is not None
    with sealed.last.local.open() as file:
        manifest = Manifest.parse(file.read(), sealed.last.key)
    tables = tuple(files for files in manifest.tables if table in (None, files.table))
    return replace(manifest, tables=tables)


def records_of(archived: ArchivedObject) -> int:
    """Return how many messages an object in quarantine has."""
    assert archived.info is not None
    return archived.info.records
