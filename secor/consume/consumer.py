"""The loop: events in, chunks into batches, sealed batches to the uploader, results back."""

from __future__ import annotations

from secor.batch.batch import Batch, SealedBatch
from secor.batch.policy import Reason
from secor.batch.workspace import Workspace
from secor.commit.uploader import Committed, Dropped, Later, Outcome, Uploader
from secor.consume.assignment import Assignment, Pauses
from secor.consume.backpressure import Limits, relieve, spares
from secor.consume.blocking_tasks import Errands, Positioned, Uploaded
from secor.consume.partition import Partition, State, Status
from secor.consume.positioning import Position, Positioning
from secor.core.errors import LocalFilesExhausted, SchemaGrew, SecorError, StopPartition
from secor.core.model import Chunk, TopicPartition
from secor.core.observer import Observer
from secor.core.ports import (
    Assigned,
    Clock,
    Executor,
    Failed,
    Fetched,
    MessageSource,
    Revoked,
)

ROUND = 0.5
"""Seconds; then messages that have arrived wait, for what has finished and what is due."""


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
        round_seconds: float = ROUND,
    ) -> None:
        """Read nothing yet.  ``round_seconds`` bounds the reading of one ``run_once``."""
        self._source = source
        self._errands = Errands(executor, positioning, uploader, clock)
        self._workspace = workspace
        self._limits = limits
        self._clock = clock
        self._observer = observer
        self._assignment = Assignment(
            source, self._errands, clock, observer, pauses if pauses is not None else Pauses()
        )
        self._arrived: dict[TopicPartition, Fetched] = {}
        self._round = round_seconds
        self._held = False
        self._sharing = 1
        self._draining = False

    # ---------------------------------------------------------------- public

    def run_once(self, timeout: float) -> None:
        """Take what has finished and what has arrived (waiting ``timeout`` seconds), then act."""
        for result in self._errands.finished():
            self._finished(result)
        self._receive(timeout)
        for partition in self._assignment:
            self._advance(partition)
        for partition in self._assignment.retired:
            self._errands.upload(partition)
        self._relieve()
        self._assignment.forget_drained()

    def drain(self) -> None:
        """Read no more; seal what the plans upload on shutdown, drop the rest."""
        self._draining = True
        self._assignment.drain()

    @property
    def drained(self) -> bool:
        """Nothing is in work and nothing waits."""
        return self._draining and not self._assignment.retired

    def status(self) -> list[Status]:
        """Return the state of every assigned topic partition."""
        return [
            partition.status(self._source.known_end(partition.topic_partition))
            for partition in self._assignment
        ]

    # ---------------------------------------------------------------- events

    def _receive(self, timeout: float) -> None:
        """Read what has arrived, for a limited time; the rest waits for the next call.

        No topic partition is in two events of one poll, so their order does not matter.
        """
        if not self._arrived:
            for event in self._source.poll(timeout):
                self._handle(event)
        until = self._clock.monotonic() + self._round
        while self._arrived:
            self._fetched(self._arrived.pop(next(iter(self._arrived))))
            if self._clock.monotonic() >= until:
                break

    def _handle(self, event: Assigned | Revoked | Fetched | Failed) -> None:
        match event:
            case Assigned(partitions):
                for topic_partition in () if self._draining else sorted(partitions):
                    self._assignment.assign(topic_partition)
            case Revoked(partitions):
                for topic_partition in sorted(partitions):
                    self._assignment.revoke(topic_partition)
            case Fetched():
                self._arrived[event.topic_partition] = event
            case Failed(topic_partition, error):
                partition = self._assignment.get(topic_partition)
                if partition is not None and partition.reading:
                    self._assignment.fail(partition, error, keep=True)

    def _fetched(self, event: Fetched) -> None:
        partition = self._assignment.get(event.topic_partition)
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
            self._assignment.fail(partition, error, keep=True)

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
                self._assignment.fail(partition, grew, keep=True)
            return
        except SecorError as error:
            self._assignment.fail(partition, error, keep=False)
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
            self._assignment.fail(partition, found, keep=False)
            return
        partition.plan = found.plan
        partition.committed = found.committed
        partition.committed_at = self._clock.monotonic()
        partition.read_from = found.read_from
        partition.batch = self._open(partition, found.committed, found.topic_id, found.end)
        partition.become(State.READING)
        self._observer.running(partition.topic_partition)
        # As the source does: nothing of an earlier start comes any more.
        self._arrived.pop(partition.topic_partition, None)
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
                self._assignment.later(partition)
            case Dropped(error):
                kind = "stop" if isinstance(error, StopPartition) else "restart"
                self._observer.uploaded(batch.topic_partition, kind, seconds)
                partition.drop_queue()
                if partition.reading:
                    self._assignment.fail(partition, error, keep=False)

    # ----------------------------------------------------------- transitions

    def _advance(self, partition: Partition) -> None:
        """Do what is due for one topic partition."""
        now = self._clock.monotonic()
        match partition.state:
            case State.WAITING:
                if now >= partition.not_before and not self._assignment.predecessor(partition):
                    partition.become(State.POSITIONING)
                    self._errands.position(partition)
            case State.READING:
                self._seal_if_due(partition)
            case State.STOPPED:
                if now >= partition.retry_at and partition.drained:
                    self._assignment.restart(partition, 0.0)
            case State.POSITIONING | State.RETIRED:
                pass
        self._errands.upload(partition)

    def _seal_if_due(self, partition: Partition) -> None:
        assert partition.batch is not None
        reason = partition.batch.due()
        if reason is not None and partition.may_seal:
            self._seal(partition, reason)
            reason = None
        following = partition.batch is not None and partition.batch.end is not None
        pause = reason is not None or (self._held and not following and not self._spared(partition))
        if partition.reading and pause is not partition.paused:
            partition.paused = pause
            (self._source.pause if pause else self._source.resume)(partition.topic_partition)

    def _seal(self, partition: Partition, reason: Reason) -> bool:
        """Seal and open the next batch; False if that fails and the partition restarts."""
        assert partition.batch is not None
        topic_id, end = partition.batch.topic_id, partition.batch.next_offset
        try:
            partition.seal(reason)
        except LocalFilesExhausted as error:
            self._assignment.fail(partition, error, keep=False)
            return False
        partition.batch = self._open(partition, end, topic_id)
        self._errands.upload(partition)
        return True

    # ---------------------------------------------------------------- limits

    def _spared(self, partition: Partition) -> bool:
        load = partition.load
        return load is not None and spares(self._limits, load, self._sharing)

    def _relieve(self) -> None:
        loads = [load for p in self._assignment if (load := p.load) is not None]
        self._sharing = max(len(loads), 1)
        holders = [*self._assignment, *self._assignment.retired]
        sealed = sum(batch.size for p in holders for batch in p.queue)
        relief = relieve(self._limits, loads, sealed=sealed, held=self._held)
        self._held = relief.hold
        for topic_partition in relief.seal:
            partition = self._assignment.get(topic_partition)
            assert partition is not None
            self._seal(partition, Reason.PRESSURE)
