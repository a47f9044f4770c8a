"""The loop: events in, chunks into batches, sealed batches to the uploader, results back."""

from __future__ import annotations

from dataclasses import dataclass

from secor.batch import Batch, SealedBatch
from secor.errands import Errands, Positioned, Uploaded
from secor.errors import (
    DiskFull,
    RestartPartition,
    SchemaGrew,
    SecorError,
    StopPartition,
)
from secor.model import Chunk, TopicPartition
from secor.observer import Observer
from secor.partition import Partition, State, Status
from secor.policy import Reason
from secor.ports import (
    Assigned,
    Clock,
    Executor,
    Failed,
    Fetched,
    MessageSource,
    Revoked,
)
from secor.positioning import Position, Positioning
from secor.pressure import Limits, Load, relieve
from secor.uploader import Committed, Dropped, Later, Outcome, Uploader
from secor.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds to wait: before a restart, a further ritual, a look at a stopped partition."""

    restart: float = 1.0
    later: float = 5.0
    stopped: float = 60.0
    disk_full: float = 10.0


class Consumer:
    """One member of the group.  Everything here runs in one thread: the caller's."""

    def __init__(
        self,
        *,
        source: MessageSource,
        positioning: Positioning,
        uploader: Uploader,
        executor: Executor,
        workspace: Workspace,
        limits: Limits,
        clock: Clock,
        observer: Observer,
        pauses: Pauses | None = None,
    ) -> None:
        """Read nothing yet."""
        self._source = source
        self._errands = Errands(executor, positioning, uploader, clock)
        self._workspace = workspace
        self._limits = limits
        self._clock = clock
        self._observer = observer
        self._pauses = pauses if pauses is not None else Pauses()
        self._partitions: dict[TopicPartition, Partition] = {}
        self._retired: list[Partition] = []
        self._leaving: set[TopicPartition] = set()
        self._held = False
        self._draining = False

    # ---------------------------------------------------------------- public

    def run_once(self, timeout: float) -> None:
        """Take what has finished and what has arrived (waiting ``timeout`` seconds), then act."""
        for result in self._errands.finished():
            self._finished(result)
        for event in self._source.poll(timeout):
            self._handle(event)
        for partition in list(self._partitions.values()):
            self._advance(partition)
        for partition in self._retired:
            self._errands.upload(partition)
        self._relieve()
        self._forget_drained()

    def drain(self) -> None:
        """Read no more; seal what the plans upload on shutdown, drop the rest."""
        self._draining = True
        for partition in list(self._partitions.values()):
            self._retire(partition, Reason.SHUTDOWN if partition.upload_on_shutdown else None)

    @property
    def drained(self) -> bool:
        """Nothing is in work and nothing waits."""
        return self._draining and not self._retired

    def status(self) -> list[Status]:
        """Return the state of every assigned topic partition."""
        return [
            partition.status(self._source.known_end(topic_partition))
            for topic_partition, partition in self._partitions.items()
        ]

    # ---------------------------------------------------------------- events

    def _handle(self, event: Assigned | Revoked | Fetched | Failed) -> None:
        match event:
            case Assigned(partitions):
                for topic_partition in sorted(partitions):
                    self._assign(topic_partition)
            case Revoked(partitions):
                for topic_partition in sorted(partitions):
                    self._revoke(topic_partition)
            case Fetched():
                self._fetched(event)
            case Failed(topic_partition, error):
                partition = self._partitions.get(topic_partition)
                if partition is not None and partition.reading:
                    self._fail(partition, error, keep=True)

    def _assign(self, topic_partition: TopicPartition) -> None:
        if self._draining:
            return
        if topic_partition in self._partitions:
            self._revoke(topic_partition)
        self._begin(topic_partition, self._clock.monotonic())

    def _begin(self, topic_partition: TopicPartition, not_before: float) -> None:
        self._partitions[topic_partition] = Partition(topic_partition, not_before)

    def _revoke(self, topic_partition: TopicPartition) -> None:
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            self._retire(partition, Reason.REVOKE if partition.upload_on_revoke else None)
        self._leaving.add(topic_partition)
        self._observer.left(topic_partition)

    def _fetched(self, event: Fetched) -> None:
        partition = self._partitions.get(event.topic_partition)
        if partition is None:
            return
        try:
            for chunk in event.chunks() if partition.reading else ():
                self._append(partition, chunk)
                if partition.reading:
                    self._seal_if_due(partition)
                if not partition.reading:
                    return
        except StopPartition as error:
            self._fail(partition, error, keep=True)

    def _append(self, partition: Partition, chunk: Chunk) -> None:
        """Append; what fails in the middle of an append leaves the batch of no use.

        A schema that has to grow is noticed before: what comes earlier is stored by it yet.
        """
        batch = partition.batch
        assert batch is not None
        messages = batch.messages
        try:
            rest = batch.append(chunk)
        except SchemaGrew as grew:
            self._append(partition, chunk.until(grew.offset))
            if partition.reading:
                self._fail(partition, grew, keep=True)
            return
        except SecorError as error:
            self._fail(partition, error, keep=False)
            return
        added = batch.messages - messages
        self._observer.consumed(partition.topic_partition, added, chunk.records.nbytes)
        if batch.last_timestamp is not None:
            partition.last_timestamp = batch.last_timestamp
        if rest is None:
            return
        if self._seal(partition, Reason.INTENT):
            self._append(partition, rest)

    # --------------------------------------------------------------- results

    def _finished(self, result: object) -> None:
        match result:
            case Positioned(partition, found):
                self._positioned(partition, found)
            case Uploaded(partition, batch, outcome):
                self._uploaded(partition, batch, outcome)
            case _:
                raise AssertionError(f"not a result of ours: {result!r}")

    def _positioned(self, partition: Partition, found: Position | SecorError) -> None:
        partition.in_work = False
        if partition.state is not State.POSITIONING:
            return
        if isinstance(found, SecorError):
            self._fail(partition, found, keep=False)
            return
        partition.plan = found.plan
        partition.committed = found.committed
        partition.committed_at = self._clock.monotonic()
        partition.read_from = found.read_from
        partition.batch = self._open(partition, found.committed, found.topic_id, found.end)
        partition.become(State.READING)
        self._observer.running(partition.topic_partition)
        self._source.start(partition.topic_partition, found.read_from)

    def _open(
        self, partition: Partition, start: int, topic_id: str | None, end: int | None = None
    ) -> Batch:
        assert partition.plan is not None
        batch = Batch(
            partition.topic_partition,
            start,
            plan=partition.plan,
            workspace=self._workspace,
            clock=self._clock,
            topic_id=topic_id,
            end=end,
        )
        # Not only the first: what the log lost may go on beyond an open intent's end.
        batch.skip(partition.read_from)
        return batch

    def _uploaded(self, partition: Partition, batch: SealedBatch, outcome: Outcome) -> None:
        partition.in_work = False
        seconds = self._clock.monotonic() - batch.opened
        match outcome:
            case Committed():
                self._observer.uploaded(batch.topic_partition, "committed", seconds)
                if batch.first_timestamp is not None and batch.first_timestamp >= 0:
                    delay = self._clock.now() - batch.first_timestamp / 1000
                    self._observer.ready(batch.topic_partition, delay)
                partition.committed = batch.range.end
                partition.committed_at = self._clock.monotonic()
                partition.queue.popleft()
                batch.delete()
            case Later():
                self._observer.uploaded(batch.topic_partition, "later", seconds)
                partition.not_before = self._clock.monotonic() + self._pauses.later
                if not partition.wanted:
                    partition.drop_queue()
            case Dropped(error):
                kind = "stop" if isinstance(error, StopPartition) else "restart"
                self._observer.uploaded(batch.topic_partition, kind, seconds)
                partition.drop_queue()
                if partition.reading:
                    self._fail(partition, error, keep=False)

    # ----------------------------------------------------------- transitions

    def _advance(self, partition: Partition) -> None:
        """Do what is due for one topic partition."""
        now = self._clock.monotonic()
        match partition.state:
            case State.WAITING:
                if now >= partition.not_before and not self._predecessor(partition):
                    partition.become(State.POSITIONING)
                    self._errands.position(partition)
            case State.READING:
                self._seal_if_due(partition)
            case State.STOPPED:
                if now >= partition.retry_at and partition.drained:
                    self._restart(partition, 0.0)
            case State.POSITIONING | State.RETIRED:
                pass
        self._errands.upload(partition)

    def _predecessor(self, partition: Partition) -> bool:
        """Tell whether an earlier reading of the same topic partition is still in work."""
        tp = partition.topic_partition
        return any(old.topic_partition == tp and not old.drained for old in self._retired)

    def _seal_if_due(self, partition: Partition) -> None:
        assert partition.batch is not None
        reason = partition.batch.due()
        if reason is not None and partition.may_seal:
            self._seal(partition, reason)
            reason = None
        following = partition.batch is not None and partition.batch.end is not None
        pause = reason is not None or (self._held and not following)
        if partition.reading and pause is not partition.paused:
            partition.paused = pause
            (self._source.pause if pause else self._source.resume)(partition.topic_partition)

    def _seal(self, partition: Partition, reason: Reason) -> bool:
        """Seal and open the next batch; False if the disk is full and the partition restarts."""
        assert partition.batch is not None
        topic_id, end = partition.batch.topic_id, partition.batch.next_offset
        try:
            partition.seal(reason)
        except DiskFull as error:
            self._fail(partition, error, keep=False)
            return False
        partition.batch = self._open(partition, end, topic_id)
        self._errands.upload(partition)
        return True

    def _fail(self, partition: Partition, error: SecorError, *, keep: bool) -> None:
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
        self._restart(partition, self._pause_after(partition, error), reason)

    def _pause_after(self, partition: Partition, error: SecorError) -> float:
        match error:
            case DiskFull():
                return self._pauses.disk_full
            case SchemaGrew() if partition.batch is not None and partition.batch.end is None:
                return 0.0
            case RestartPartition():
                return self._pauses.restart
            case _:
                return self._pauses.later

    def _restart(self, partition: Partition, pause: float, reason: Reason | None = None) -> None:
        self._retire(partition, reason)
        self._begin(partition.topic_partition, self._clock.monotonic() + pause)

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
        except DiskFull:
            partition.drop_batch()  # a cache: it is read again from Kafka

    # ---------------------------------------------------------------- limits

    def _relieve(self) -> None:
        loads = [
            Load(p.topic_partition, p.batch.buffered, p.batch.size, _may_seal_early(p))
            for p in self._partitions.values()
            if p.batch is not None
        ]
        sealed = sum(
            batch.size for p in [*self._partitions.values(), *self._retired] for batch in p.queue
        )
        relief = relieve(self._limits, loads, sealed=sealed, held=self._held)
        self._held = relief.hold
        for topic_partition in relief.seal:
            self._seal(self._partitions[topic_partition], Reason.PRESSURE)

    def _forget_drained(self) -> None:
        self._retired = [partition for partition in self._retired if not partition.drained]
        if self._leaving:
            working = {partition.topic_partition for partition in self._retired}
            self._source.released(sorted(self._leaving - working))
            self._leaving &= working


def _may_seal_early(partition: Partition) -> bool:
    batch = partition.batch
    return partition.may_seal and batch is not None and batch.end is None and not batch.empty
