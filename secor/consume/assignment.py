"""The topic partitions of this member: how each comes, fails, begins again and goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from secor.batch.policy import Reason
from secor.consume.blocking_tasks import Errands
from secor.consume.partition import Partition, State
from secor.core.errors import (
    LocalFilesExhausted,
    RestartPartition,
    SchemaGrew,
    SecorError,
    StopPartition,
)
from secor.core.model import TopicPartition
from secor.core.observer import Observer
from secor.core.ports import Clock, MessageSource


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds to wait: before a restart, a further ritual, a look at a stopped partition."""

    restart: float = 1.0
    later: float = 5.0
    stopped: float = 60.0
    disk_full: float = 10.0


class Assignment:
    """Assigned partitions, and retired ones whose sealed batches are still on their way."""

    def __init__(
        self,
        source: MessageSource,
        errands: Errands,
        clock: Clock,
        observer: Observer,
        pauses: Pauses,
    ) -> None:
        """Begin with none."""
        self._source = source
        self._errands = errands
        self._clock = clock
        self._observer = observer
        self._pauses = pauses
        self._partitions: dict[TopicPartition, Partition] = {}
        self._retired: list[Partition] = []
        self._leaving: set[TopicPartition] = set()

    def __iter__(self) -> Iterator[Partition]:
        """Give the assigned ones; they may change meanwhile."""
        return iter(list(self._partitions.values()))

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        """Return an assigned one."""
        return self._partitions.get(topic_partition)

    @property
    def retired(self) -> tuple[Partition, ...]:
        """Those that are read no more, and were not drained when that was last looked at."""
        return tuple(self._retired)

    def predecessor(self, partition: Partition) -> bool:
        """Tell whether an earlier reading of the same topic partition is still in work."""
        tp = partition.topic_partition
        return any(old.topic_partition == tp and not old.drained for old in self._retired)

    # ----------------------------------------------------------- coming, going

    def assign(self, topic_partition: TopicPartition) -> None:
        """Begin to read it; a second assignment is a new beginning."""
        if topic_partition in self._partitions:
            self.revoke(topic_partition)
        self._begin(topic_partition, 0.0)

    def _begin(self, topic_partition: TopicPartition, pause: float) -> None:
        not_before = self._clock.monotonic() + pause
        self._partitions[topic_partition] = Partition(topic_partition, not_before)

    def revoke(self, topic_partition: TopicPartition) -> None:
        """Let it go; the source is told when nothing of it is in work any more."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            self._retire(partition, Reason.REVOKE if partition.upload_on_revoke else None)
        self._leaving.add(topic_partition)
        self._observer.left(topic_partition)

    def drain(self) -> None:
        """Retire all: seal what the plans upload on shutdown, drop the rest."""
        for partition in self:
            self._retire(partition, Reason.SHUTDOWN if partition.upload_on_shutdown else None)

    def forget_drained(self) -> None:
        """Forget retired ones without work, and release what has left."""
        self._retired = [partition for partition in self._retired if not partition.drained]
        if self._leaving:
            working = {partition.topic_partition for partition in self._retired}
            self._source.released(sorted(self._leaving - working))
            self._leaving &= working

    # ---------------------------------------------------------------- failing

    def fail(self, partition: Partition, error: SecorError, *, keep: bool) -> None:
        """Stop or restart; ``keep`` uploads what was read before the failure."""
        kept = Reason.SCHEMA if isinstance(error, SchemaGrew) else Reason.RETIRED
        reason = kept if keep else None
        if isinstance(error, StopPartition):
            self._observer.stopped(partition.topic_partition, error)
            self._finish_reading(partition, reason)
            partition.error = error
            partition.become(State.STOPPED)
            partition.retry_at = self._clock.monotonic() + self._pauses.stopped
            self._errands.upload(partition)
            return
        self._observer.restarted(partition.topic_partition, error)
        self.restart(partition, self._pause_after(partition, error), reason)

    def _pause_after(self, partition: Partition, error: SecorError) -> float:
        match error:
            case LocalFilesExhausted():
                return self._pauses.disk_full
            case SchemaGrew() if partition.batch is not None and partition.batch.end is None:
                return 0.0
            case RestartPartition():
                return self._pauses.restart
            case _:
                return self._pauses.later

    def later(self, partition: Partition) -> None:
        """Let its next ritual wait; what nobody wants any more is dropped."""
        partition.not_before = self._clock.monotonic() + self._pauses.later
        if not partition.wanted:
            partition.drop_queue()

    def restart(self, partition: Partition, pause: float, reason: Reason | None = None) -> None:
        """Read it again from the ledger's entry, after ``pause`` seconds."""
        self._retire(partition, reason)
        self._begin(partition.topic_partition, pause)

    def _retire(self, partition: Partition, reason: Reason | None) -> None:
        """Take it out; with a ``reason`` its open batch is sealed and uploaded."""
        self._finish_reading(partition, reason)
        if reason is None:
            partition.wanted = False
            partition.drop_queue()
        partition.become(State.RETIRED)
        del self._partitions[partition.topic_partition]
        self._retired.append(partition)
        self._errands.upload(partition)

    def _finish_reading(self, partition: Partition, reason: Reason | None) -> None:
        """Seal the open batch for upload if there is a reason and it may be cut here."""
        batch = partition.batch
        if batch is None:
            return
        self._source.pause(partition.topic_partition)
        may_cut = not batch.empty and (batch.end is None or batch.complete)
        if reason is None or not may_cut:
            partition.drop_batch()
            return
        try:
            partition.seal(reason)
        except LocalFilesExhausted:
            partition.drop_batch()  # a cache: it is read again from Kafka
