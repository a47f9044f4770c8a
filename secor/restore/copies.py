"""Copies of committed offsets in a topic that jobs share: for people, and never the authority.

As Kafka Connect's worker-wide offsets topic: a copy is written after its commit returned, so it
may be behind, and no daemon begins where a copy says.  Keys and values are those of the job's
own offsets topic.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from secor.core.errors import SecorError
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.restore.model import SourcePartition
from secor.restore.offsets import OffsetTable, StoredOffset, offset_key, read_offsets, record
from secor.restore.ports import TargetLog
from secor.restore.writer.writer import TransactionalWriter
from secor.wire.murmur2 import murmur2

RETRY_EVERY = 30.0
"""Seconds between two attempts while the shared topic takes nothing."""


class CopiesObserver(Protocol):
    """An observer of copies."""

    def not_copied(self, topic: str, error: SecorError) -> None:
        """The shared topic did not take the newest offsets; it is tried again later."""

    def copied(self, topic: str) -> None:
        """The shared topic took the newest offsets."""


class CopyWriter:
    """Writes copies, for one thread; ``partitions`` are the shared topic's.

    ``make_writer`` gives a writer without transactions.
    """

    def __init__(
        self,
        job: str,
        spec: str,
        partitions: list[TopicPartition],
        make_writer: Callable[[], TransactionalWriter],
        clock: Clock,
    ) -> None:
        self.topic = partitions[0].topic
        self._job = job
        self._spec = spec
        self._partitions = partitions
        self._make_writer = make_writer
        self._clock = clock
        self._writer: TransactionalWriter | None = None

    def put(self, offsets: Mapping[SourcePartition, int | None]) -> None:
        """Write offsets, None to forget one.  Raises ``SecorError``."""
        # Kept only after a success: after an error the writer's state is not known.
        writer, self._writer = self._writer, None
        if writer is None:
            writer = self._make_writer()
            writer.initialise()
        now = int(self._clock.now() * 1000)
        writer.begin()
        for source, next_offset in offsets.items():
            value = None if next_offset is None else StoredOffset(next_offset, self._spec).encode()
            key = offset_key(self._job, source)
            where = self._partitions[(murmur2(key) & 0x7FFFFFFF) % len(self._partitions)]
            writer.write(where, record(key, value, now))
        writer.commit()
        self._writer = writer


class OffsetCopies:
    """Collects what was committed: ``committed`` is for any thread, ``write`` for one."""

    def __init__(self, writer: CopyWriter, clock: Clock, observer: CopiesObserver) -> None:
        self._writer = writer
        self._clock = clock
        self._observer = observer
        self._lock = threading.Lock()
        self._pending: dict[SourcePartition, int] = {}
        self._again_at = 0.0

    def committed(self, source: SourcePartition, next_offset: int) -> None:
        """Take an offset after its commit has returned."""
        with self._lock:
            self._pending[source] = next_offset

    def write(self) -> None:
        """Write what is new; an error leaves it for later, and disturbs nobody."""
        with self._lock:
            if not self._pending or self._clock.monotonic() < self._again_at:
                return
            pending, self._pending = self._pending, {}
        try:
            self._writer.put(pending)
        except SecorError as error:
            self._again_at = self._clock.monotonic() + RETRY_EVERY
            with self._lock:
                # What has been committed meanwhile is newer, and wins.
                self._pending = {**pending, **self._pending}
            self._observer.not_copied(self._writer.topic, error)
        else:
            self._observer.copied(self._writer.topic)


def read_copies(log: TargetLog, partitions: Iterable[TopicPartition], job: str) -> OffsetTable:
    """Read a job's copies; other jobs' records are counted as foreign."""
    copies = OffsetTable(job)
    for where in partitions:
        part = read_offsets(log, where, job, committed=True)
        copies.foreign += part.foreign
        for source, stored in part.offsets.items():
            known = copies.offsets.get(source, stored)
            # Of two, from before and after partitions were added, the lower loses nothing.
            copies.offsets[source] = min(known, stored, key=lambda copy: copy.next_offset)
    return copies
