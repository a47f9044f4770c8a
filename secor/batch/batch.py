"""An open batch: divides chunks into a local file per output partition, seals or drops them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from secor.batch.cut import ParsedChunk, cut_of, divide
from secor.batch.framing import Framing
from secor.batch.open_file import OpenFile
from secor.batch.parse_trail import guarded
from secor.batch.plan import LastFile, TopicPlan, WrittenBatch, WrittenFile
from secor.batch.policy import BatchFacts, Policy, Reason, due
from secor.batch.sealed import BatchFile, SealedBatch
from secor.batch.workspace import Workspace
from secor.core.model import Chunk, OffsetRange, Part, TopicPartition
from secor.core.naming import ObjectName, UniqueName
from secor.core.object_info import ObjectInfo
from secor.core.ports import Clock

OPEN_FILE = 1536
"""Bytes of memory that an open file costs without its writer; measured."""

LOOK_AHEAD = 0.001
"""Seconds before its age at which a batch is looked at again: sums of times are rounded."""


class BatchState(Enum):
    """Life of a batch; ``TRANSITIONS`` is the whole of it."""

    OPEN = "open"
    SEALED = "sealed"
    DROPPED = "dropped"


TRANSITIONS = {
    BatchState.OPEN: frozenset({BatchState.SEALED, BatchState.DROPPED}),
    BatchState.SEALED: frozenset({BatchState.DROPPED}),
    BatchState.DROPPED: frozenset[BatchState](),
}


class Batch:
    """An open batch: chunks go in, sealed files come out.

    It begins at the ledger's offset ``start``; reading may begin later (``skip``), where
    the log no longer has what lies between.  With ``end`` it seals exactly there.
    ``max_files`` bounds its files; a batch with an end has them all, however many they are.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        start: int,
        *,
        plan: TopicPlan,
        workspace: Workspace,
        clock: Clock,
        topic_id: str | None = None,
        end: int | None = None,
        max_files: int | None = None,
    ) -> None:
        """Open without any file; the first message of an output partition makes one."""
        self.topic_partition = topic_partition
        self.start = start
        self.end = end
        self.full = False
        self.next_offset = start
        self.leader_epoch: int | None = None
        self.messages = 0
        self.state = BatchState.OPEN
        self.topic_id = topic_id
        self.first_timestamp: int | None = None
        self.last_timestamp: int | None = None
        self._greatest_timestamp: int | None = None
        self._max_files = max_files if end is None else None
        self._plan = plan
        # Once for the batch: the plan hashes all its settings each time it is asked.
        self._fingerprint = plan.fingerprint
        self._workspace = workspace
        self._clock = clock
        self._files: dict[tuple[str, str], OpenFile] = {}
        self._opened: float | None = None
        self._opened_at = 0.0
        self._youngest = 0.0
        self._framing = Framing()
        self._counted_bytes: tuple[int, int] | None = None
        self._not_due_before = 0.0

    def skip(self, offset: int) -> None:
        """Go on at ``offset`` (at most ``end``): the log has nothing before it."""
        if offset > self.next_offset:
            self._advance(offset if self.end is None else min(offset, self.end))

    def append(self, chunk: Chunk) -> Chunk | None:
        """Take what belongs in; return the rest of the chunk, if any: it is for the next batch.

        It is what lies beyond ``end``, or from the first message on that needs a file more
        than ``max_files``: then the batch is ``full``.
        Raises ``LocalFilesExhausted``, ``RecordRefused``, ``MessagesUnwritable``, also for
        messages of earlier chunks: the batch must then be dropped.
        """
        assert self.state is BatchState.OPEN
        assert not self.full
        self._counted_bytes = None
        self._not_due_before = 0.0
        rest: Chunk | None = None
        # The end of an open intent: exactly there, whatever the policy and the chunks say.
        if self.end is not None and chunk.next_offset > self.end:
            chunk, rest = chunk.until(self.end), chunk.since(self.end)
        parts = self._parts(chunk)
        cut = cut_of(parts, self._files.keys(), self._max_files)
        if cut is not None:
            self.full = True
            (chunk, parts), rest = divide(chunk, parts, cut)
        # From the batch's start: writers keep rows of earlier chunks, so an error here may be
        # theirs.
        offsets = OffsetRange(self.start, max(chunk.next_offset, self.next_offset))
        with guarded(self.topic_partition, offsets, self._plan.trail):
            self._framing.append([self._file(part) for part in parts], parts)
        if chunk.records.num_rows:
            timestamps = chunk.records.column("timestamp")
            if not self.messages:
                self.first_timestamp = timestamps[0].as_py()
            self.last_timestamp = timestamps[-1].as_py()
            if self._plan.last_file is not None:
                self._greatest_timestamp = _greater(self._greatest_timestamp, timestamps)
            self.messages += chunk.records.num_rows
        if chunk.next_offset > self.next_offset:
            self._advance(chunk.next_offset)
            # Only with the offset: the entry's epoch is that of the last record below
            # ``committed``.
            self.leader_epoch = chunk.leader_epoch
        return rest

    def _parts(self, chunk: Chunk) -> Sequence[Part]:
        if isinstance(chunk, ParsedChunk):
            return chunk.parts
        # Without the trail: the watched parser notes smaller ranges itself, and a note of this one
        # would take their place.
        with guarded(self.topic_partition, OffsetRange(self.next_offset, chunk.next_offset)):
            return self._plan.parser.split(chunk)

    def _file(self, part: Part) -> OpenFile:
        file = self._files.get((part.stream, part.output_partition))
        if file is None:
            stream = self._plan.stream(part.stream)
            name = self._plan.object_name(self.topic_partition, self.start, part)
            file = OpenFile(name, stream.log_format, self._workspace.create())
            self._files[part.stream, part.output_partition] = file
            self._youngest = self._clock.monotonic()
        return file

    def _advance(self, offset: int) -> None:
        self.next_offset = offset
        if self._opened is None:
            self._opened = self._clock.monotonic()
            self._opened_at = self._clock.now()
            self._youngest = self._opened

    @property
    def empty(self) -> bool:
        """Nothing to commit: not an offset further than its start."""
        return self.next_offset == self.start

    @property
    def complete(self) -> bool:
        """It has reached the end of the open intent that it follows."""
        return self.end is not None and self.next_offset >= self.end

    @property
    def opened(self) -> float | None:
        """Monotonic seconds of the first progress, None while empty."""
        return self._opened

    @property
    def buffered(self) -> int:
        """Bytes in memory."""
        return self.held[0]

    @property
    def size(self) -> int:
        """Bytes of the files, in memory and on disk."""
        return self.held[1]

    @property
    def held(self) -> tuple[int, int]:
        """Bytes in memory, and those of the files.

        The loop asks in every round, and there may be hundreds of files: counted once after
        each change.
        """
        if self._counted_bytes is None:
            in_memory = size = 0
            for file in self._files.values():
                buffered = file.writer.buffered()
                in_memory += buffered
                size += buffered + file.written
            in_memory += self._framing.waiting + OPEN_FILE * len(self._files)
            self._counted_bytes = in_memory, size
        return self._counted_bytes

    @property
    def files(self) -> int:
        """The number of files."""
        return len(self._files)

    def due(self) -> Reason | None:
        """Return why it should be sealed now.  An open intent's end overrules the policy."""
        if self.end is not None:
            return Reason.INTENT if self.complete else None
        if self._opened is None:
            return None
        if self.full:
            return Reason.FILES
        # The loop asks in every round, of thousands of batches that only time can make due.
        monotonic = self._clock.monotonic()
        if monotonic < self._not_due_before:
            return None
        facts = BatchFacts(self.size, self.messages, self._opened, self._youngest, self._opened_at)
        reason = due(self._plan.policy, facts, monotonic=monotonic, now=self._clock.now())
        if reason is None:
            self._not_due_before = _due_by_time(self._plan.policy, self._opened) - LOOK_AHEAD
        return reason

    def seal(self, reason: Reason) -> SealedBatch:
        """Close the files.

        Raises ``LocalFilesExhausted``, ``RecordRefused``, ``MessagesUnwritable``: the batch must
        then be dropped.
        """
        self._counted_bytes = None
        batch_range = OffsetRange(self.start, self.next_offset)
        with guarded(self.topic_partition, batch_range, self._plan.trail):
            for file in self._files.values():
                file.close()
            files = [
                self._batch_file(file, stream, batch_range)
                for (stream, _), file in self._files.items()
            ]
            last = self._plan.last_file
            last_object = None if last is None else self._write_last_file(last, batch_range, files)
        # After all files are closed: a failure before this leaves an open batch, which can be
        # dropped.
        self._become(BatchState.SEALED)
        return SealedBatch(
            topic_partition=self.topic_partition,
            range=batch_range,
            plan=self._plan,
            fingerprint=self._fingerprint,
            topic_id=self.topic_id,
            files=tuple(files),
            reason=reason,
            opened=self._clock.monotonic() if self._opened is None else self._opened,
            first_timestamp=self.first_timestamp,
            last=last_object,
            losses=self._losses(),
            leader_epoch=self.leader_epoch,
        )

    def _losses(self) -> Counter[str]:
        losses: Counter[str] = Counter()
        for file in self._files.values():
            losses.update(file.writer.losses)
        return losses

    def _batch_file(self, file: OpenFile, stream: str, batch_range: OffsetRange) -> BatchFile:
        info = replace(
            self._info(batch_range),
            first_offset=file.first_offset,
            records=file.records,
            least_timestamp=file.least,
            greatest_timestamp=file.greatest,
            left_out=file.writer.losses.get("no_value"),
        )
        return BatchFile(self._name(file, stream), info, file.local)

    def _info(self, batch_range: OffsetRange) -> ObjectInfo:
        """Return what metadata says of the whole batch."""
        return ObjectInfo(
            topic_partition=self.topic_partition,
            batch=batch_range,
            first_offset=self.start,
            records=self.messages,
            generation=self._plan.generation,
            fingerprint=self._fingerprint,
            topic_id=self.topic_id,
            greatest_timestamp=self._greatest_timestamp,
        )

    def _name(self, file: OpenFile, stream: str) -> ObjectName | UniqueName:
        """Return the object's name; a unique one is made of range, settings and content."""
        directory = self._plan.stream(stream).directory
        if directory is None:
            return file.name
        place = file.name.output_partition
        source = f"{self._plan.group}-{self.topic_partition.topic}-{self.topic_partition.partition}"
        # The end, too: an intent that was given up may have had these very rows.
        offsets = f"{self.start:020d}-{self.next_offset:020d}"
        content = f"{offsets}-{self._fingerprint}-{file.local.crc32c:08x}"
        key = f"{directory(place)}/{source}-{content}{file.name.extension}"
        return UniqueName(file.name.root, place, key)

    def _write_last_file(
        self, last: LastFile, batch_range: OffsetRange, files: Sequence[BatchFile]
    ) -> BatchFile:
        written = [
            # ``files`` was made of ``self._files`` in its order, so that the two can be zipped.
            WrittenFile(stream, place, file.key, file.local.size, opened.writer)
            for ((stream, place), opened), file in zip(self._files.items(), files, strict=True)
        ]
        body = last.body(
            WrittenBatch(
                topic_partition=self.topic_partition,
                range=batch_range,
                fingerprint=self._fingerprint,
                topic_id=self.topic_id,
                greatest_timestamp=self._greatest_timestamp,
                files=written,
            )
        )
        # Made when all others are closed: it lists their final sizes, and is put last.
        local = self._workspace.create()
        local.write(body)
        local.finish()
        key = last.key(self.topic_partition, batch_range)
        name = UniqueName(key.rpartition("/")[0], "", key)
        return BatchFile(name, replace(self._info(batch_range), group=self._plan.group), local)

    def drop(self) -> None:
        """Delete the local files without storing them: they are read again from Kafka."""
        self._become(BatchState.DROPPED)
        for file in self._files.values():
            file.discard()

    def _become(self, state: BatchState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"a batch does not go from {self.state} to {state}")
        self.state = state


def _due_by_time(policy: Policy, opened: float) -> float:
    """Return the monotonic seconds before which time alone makes a batch due by no rule."""
    if policy.minute_mark is not None:
        return opened  # by the wall clock, which may be set
    # The age of the youngest file begins later still.
    return math.inf if policy.max_age is None else opened + policy.max_age


def _greater(greatest: int | None, timestamps: pa.Array) -> int | None:
    known = [item for item in (greatest, pc.max(timestamps).as_py()) if item is not None]
    return max(known, default=None)
