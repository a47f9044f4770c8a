"""The loop: takes fetched messages into batches and gives events to topic partitions."""

from __future__ import annotations

import pyarrow.compute as pc

from secor.batch.policy import Reason
from secor.batch.sealed import SealedBatch
from secor.batch.workspace import Workspace
from secor.commit.uploader import AbandonedBatch, CommittedBatch, Outcome, Retryable, Uploader
from secor.consume.backpressure import SEAL_SHARE, BufferLimits, apply_limits, is_exempt
from secor.consume.blocking_tasks import BlockingTasks, PositionResult, UploadResult
from secor.consume.lifecycle import ActivePartitions, Lifecycle
from secor.consume.partition import ArrivedChunks, Partition
from secor.consume.partition_states import Event, Reading, Waits
from secor.consume.partition_status import (
    Status,
    Statuses,
    held_by,
    is_at_rest,
    load_of,
    waits_for_time,
)
from secor.consume.positioning import PositionFinder, StartPosition
from secor.core.errors import SchemaGrew, SecorError, StopPartition
from secor.core.model import Chunk, TopicPartition
from secor.core.observer import Observer
from secor.core.pace import Pace
from secor.core.ports import (
    CLOCKS_DIFFER,
    Assigned,
    Clock,
    Executor,
    Fetched,
    MessageSource,
    ReadFailure,
    Revoked,
)

ROUND = 0.5
"""Seconds of appending in one turn.  Then results and due batches come first again."""


THROTTLE_DEBT = 1.0
"""Seconds that reading may be ahead of the throttle's rate; at half of it, it resumes."""


class Consumer:
    """One member of the consumer group.  All of it runs in the caller's thread."""

    def __init__(
        self,
        *,
        source: MessageSource,
        positioning: PositionFinder,
        uploader: Uploader,
        executor: Executor,
        workspace: Workspace,
        limits: BufferLimits,
        clock: Clock,
        observer: Observer,
        waits: Waits | None = None,
        pace: Pace | None = None,
        round_seconds: float = ROUND,
    ) -> None:
        """Read nothing yet.  ``round_seconds`` bounds the reading of one ``run_once``.

        ``pace`` is the throttle of the process; without one, it reads as fast as it can.
        """
        waits = waits if waits is not None else Waits()
        self._source = source
        self._tasks = BlockingTasks(executor, positioning, uploader, clock)
        self._limits = limits
        self._clock = clock
        self._observer = observer
        self._assignment = ActivePartitions(waits)
        self._lifecycle = Lifecycle(
            self._assignment, source, self._tasks, workspace, clock, observer, waits
        )
        self._arrived: dict[TopicPartition, ArrivedChunks] = {}
        self._round = round_seconds
        self._pace = pace if pace is not None else Pace(clock)
        self._throttled = False
        self._limited = False
        self._sharing = 1
        self._draining = False
        self._quiet = False  # all were at rest in the last round, and nothing has come since
        self._statuses = Statuses()

    # ---------------------------------------------------------------- public

    def run_once(self, timeout: float) -> None:
        """Handle results, then messages (waiting up to ``timeout`` seconds), then what is due."""
        # Results come first: a commit frees local files and lets a full partition seal, and a new
        # position takes messages from this very poll on.
        for result in self._tasks.finished():
            self._quiet = False
            self._handle_result(result)
        self._receive(timeout)
        # It resumes before all is made up, so that the rate is reached.
        most = THROTTLE_DEBT / 2 if self._throttled else THROTTLE_DEBT
        self._throttled = self._pace.debt() > most
        limited = self._throttled or self._limited
        # Of thousands of partitions at rest nothing can be due: they are not even looked at.
        if self._quiet and not limited:
            return
        for partition in self._assignment:
            if not limited and is_at_rest(partition):
                continue
            if partition.states.is_reading:
                self._seal_if_due(partition)
            if waits_for_time(partition.states) and not self._assignment.must_wait(partition):
                self._lifecycle.on(partition, Event.ROUND)
        # Retired partitions have sealed batches that are still to be uploaded, or tried again.
        for partition in self._assignment.retired:
            self._lifecycle.on(partition, Event.ROUND)
        self._apply_limits()
        # Last: the group may give a revoked partition to its next owner only when nothing of it is
        # in work here any more.
        released = self._assignment.forget_ended()
        if released:
            self._source.release(released)

    def drain(self) -> None:
        """Read no more; seal what the plans upload on shutdown, drop the rest."""
        # Set first: what the group assigns from here on is left alone. It would begin a batch that
        # nobody seals.
        self._draining, self._quiet = True, False
        self._lifecycle.drain()

    def seal(self, topic_partition: TopicPartition) -> None:
        """Seal its open batch, if it may be cut where it is: somebody waits for it."""
        partition = self._assignment.get(topic_partition)
        load = load_of(partition) if partition is not None else None
        if partition is not None and load is not None and load.may_seal:
            self._lifecycle.on(partition, Event.SEAL, reason=Reason.CYCLE)

    @property
    def drained(self) -> bool:
        """Nothing is in work and nothing waits."""
        return self._draining and not self._assignment.retired

    def status(self) -> list[Status]:
        """Return the state of every assigned topic partition."""
        source = self._source
        return self._statuses.of_all(
            self._assignment, source.known_end, source.withheld, throttled=self._throttled
        )

    # ---------------------------------------------------------------- events

    def _receive(self, timeout: float) -> None:
        """Read what has arrived, for a limited time; the rest waits for the next call.

        No topic partition is in two events of one poll, so their order does not matter.
        """
        if not self._arrived:
            self._poll(timeout)
        self._take_waiting()
        # From here, not from the beginning of the call: an idle loop waits in the poll, and what
        # came of it must still get its share of appending.
        until = self._clock.monotonic() + self._round
        # A copy: reading takes entries out and puts rests back. They go to the end, so that a
        # partition with much to read does not starve the others.
        for topic_partition in list(self._arrived):
            self._read(topic_partition, until)
            if self._clock.monotonic() >= until:
                break

    def _poll(self, timeout: float) -> None:
        # Apart: no name holds an event, and what was fetched with it, while that is read.
        for event in self._source.poll(timeout):
            self._quiet = False
            self._handle(event)

    def _handle(self, event: Assigned | Revoked | Fetched | ReadFailure) -> None:
        match event:
            case Assigned(partitions):
                # A process that ends takes no partition any more; the group gives them to others
                # soon.
                for topic_partition in () if self._draining else sorted(partitions):
                    self._lifecycle.assign(topic_partition)
            case Revoked(partitions):
                for topic_partition in sorted(partitions):
                    self._lifecycle.revoke(topic_partition)
            case Fetched():
                # Nothing of it can be left from an earlier poll: the next poll comes when all is
                # read.
                self._arrived[event.topic_partition] = ArrivedChunks(event)
            case ReadFailure(topic_partition, error):
                partition = self._assignment.get(topic_partition)
                if partition is not None and partition.states.is_reading:
                    # What came before the failure is good, and is sealed and stored.
                    self._lifecycle.fail(partition, error, keep=True)

    def _read(self, topic_partition: TopicPartition, until: float) -> None:
        """Read what has arrived; after ``until`` the rest waits behind other topic partitions."""
        arrived = self._arrived.pop(topic_partition)
        partition = self._assignment.get(topic_partition)
        if partition is None:
            return
        if partition.waiting is not None:  # it was fetched before the pause
            partition.waiting.extend(arrived)
            return
        try:
            while partition.states.is_reading and (chunk := arrived.next()) is not None:
                rest = self._append(partition, chunk)
                if partition.states.is_reading:
                    self._seal_if_due(partition)
                # The batch is full and the one before it is not uploaded: what is left waits with
                # the partition, in order, and not in ``_arrived``, where the loop would try it
                # again in every turn.
                if partition.states.is_reading and rest is not None:
                    arrived.put_back(rest)
                    partition.waiting = arrived
                    return
                if partition.states.is_reading and self._clock.monotonic() >= until:
                    self._arrived[topic_partition] = arrived
                    return
        except StopPartition as error:
            self._lifecycle.fail(partition, error, keep=True)

    def _take_waiting(self) -> None:
        """Have what waited behind a full batch read now, if that batch is sealed."""
        for partition in self._assignment:
            if partition.waiting is None or not partition.states.is_reading:
                partition.waiting = None
            elif partition.batch is not None and not partition.batch.full:
                partition.waiting.extend(self._arrived.get(partition.topic_partition))
                self._arrived[partition.topic_partition] = partition.waiting
                partition.waiting = None

    def _append(self, partition: Partition, chunk: Chunk) -> Chunk | None:
        """Append to the open batch.  An append that fails half way makes the batch useless.

        Return what has to wait: the batch is full, and the one before it is not uploaded yet.

        ``SchemaGrew`` is raised before anything is appended: the messages before the one that
        needs a wider schema are still stored under the present one.
        """
        batch = partition.batch
        assert batch is not None
        messages = batch.messages
        try:
            rest = batch.append(chunk)
        except SchemaGrew as grew:
            # Appended, then sealed by the failure: the batch ends exactly where the wider schema
            # begins, in every process that reads the range. If the append itself failed, there is
            # nothing to fail.
            self._append(partition, chunk.until(grew.offset))
            if partition.states.is_reading:
                self._lifecycle.fail(partition, grew, keep=True)
            return None
        except SecorError as error:
            self._lifecycle.fail(partition, error, keep=False)
            return None
        added = batch.messages - messages
        size = chunk.records.nbytes - (rest.records.nbytes if rest is not None else 0)
        self._observer.consumed(partition.topic_partition, added, size)
        appended = chunk.records.num_rows - (rest.records.num_rows if rest is not None else 0)
        self._report_future(chunk, appended)
        self._pace.took(size, added)
        if batch.last_timestamp is not None:
            partition.last_timestamp = batch.last_timestamp
        # The rest of the chunk belongs to the next batch.  If the batch before is still uploading,
        # this one cannot be sealed: the rest waits, and reading pauses.
        if rest is None or not partition.states.may_seal:
            return rest
        self._lifecycle.on(partition, Event.SEAL, reason=batch.due() or Reason.INTENT)
        return self._append(partition, rest) if partition.states.is_reading else None

    def _report_future(self, chunk: Chunk, appended: int) -> None:
        """Report messages, of the first ``appended`` ones, with timestamps in the future."""
        timestamps = chunk.records.column("timestamp").slice(0, appended)
        latest = int((self._clock.now() + CLOCKS_DIFFER) * 1000)
        greatest = pc.max(timestamps).as_py()
        if greatest is not None and greatest > latest:
            messages = pc.sum(pc.greater(timestamps, latest)).as_py()
            self._observer.from_future(chunk.topic_partition, messages, greatest)

    # --------------------------------------------------------------- results

    def _handle_result(self, result: object) -> None:
        match result:
            case PositionResult(partition, position):
                self._handle_position(partition, position)
            case UploadResult(partition, batch, outcome):
                self._handle_outcome(partition, batch, outcome)
            case _:
                raise AssertionError(f"an unknown result: {result!r}")

    def _handle_position(self, partition: Partition, result: StartPosition | SecorError) -> None:
        # It was revoked while its position was looked for. Nothing may begin now; only from here on
        # the partition may be released.
        if partition.states.reading is Reading.LEAVING:
            self._lifecycle.on(partition, Event.SEARCH_ENDED)
            return
        if isinstance(result, SecorError):
            self._lifecycle.fail(partition, result, keep=False)
            return
        partition.position = result
        partition.committed = result.committed
        # The age counts from here: a partition that was just taken over would else be reported as
        # one that has not committed for as long as nobody had it.
        partition.committed_at, partition.stopped_at = self._clock.monotonic(), None
        # Nothing fetched for an earlier start may be appended; the source drops its part.
        self._arrived.pop(partition.topic_partition, None)
        self._lifecycle.on(partition, Event.LOCATED)

    def _handle_outcome(self, partition: Partition, batch: SealedBatch, outcome: Outcome) -> None:
        seconds = self._clock.monotonic() - batch.opened
        match outcome:
            case CommittedBatch():
                self._observer.uploaded(batch.topic_partition, "committed", seconds)
                self._observer.committed(
                    batch.topic_partition,
                    batch.range,
                    len(batch.files),
                    batch.size,
                    batch.losses,
                    seconds,
                )
                if batch.first_timestamp is not None and batch.first_timestamp >= 0:
                    delay = self._clock.now() - batch.first_timestamp / 1000
                    self._observer.ready(batch.topic_partition, delay)
                # One that came back, or began again, waits for this upload and has no position.
                for reading in (partition, self._assignment.get(batch.topic_partition)):
                    if reading is not None:
                        reading.committed = batch.range.end
                        reading.committed_at = self._clock.monotonic()
                # Counted before the event: its command takes the committed batch out.
                event = Event.COMMITTED_FIRST if len(partition.sealed) > 1 else Event.COMMITTED
                self._lifecycle.on(partition, event)
            case Retryable():
                self._observer.uploaded(batch.topic_partition, "later", seconds)
                self._lifecycle.on(partition, Event.UPLOAD_RETRYABLE)
            case AbandonedBatch(error):
                kind = "stop" if isinstance(error, StopPartition) else "restart"
                self._observer.uploaded(batch.topic_partition, kind, seconds)
                # Before the partition fails: a restart finds an upload that is on its way, and
                # would wait for a thread that has come back already.
                self._lifecycle.on(partition, Event.UPLOAD_ABANDONED)
                if partition.states.is_reading:
                    self._lifecycle.fail(partition, error, keep=False)

    # ---------------------------------------------------------------- limits

    def _seal_if_due(self, partition: Partition) -> None:
        """Seal the open batch if it is due; pause reading while it may not be sealed."""
        assert partition.batch is not None
        reason = partition.batch.due()
        if reason is not None and partition.states.may_seal:
            self._lifecycle.on(partition, Event.SEAL, reason=reason)
            reason = None
        if partition.states.is_reading:
            # All reasons to wait together: with an event for each, one would resume what another
            # has paused.
            hold = reason is not None or self._throttled or self._is_limited(partition)
            if hold is not (partition.states.reading is Reading.PAUSED):
                self._lifecycle.on(partition, Event.HOLD if hold else Event.GO)

    def _is_limited(self, partition: Partition) -> bool:
        """Return whether a limit pauses it.  One that follows an open intent must reach its end."""
        batch = partition.batch
        if not self._limited or batch is None or batch.end is not None:
            return False
        load = load_of(partition)
        return load is not None and not is_exempt(self._limits, load, self._sharing)

    def _apply_limits(self) -> None:
        # Partitions at rest hold nothing: of thousands only the number is looked at.
        busy = [partition for partition in self._assignment if not is_at_rest(partition)]
        at_rest = len(self._assignment) - len(busy)
        self._quiet = not (busy or self._assignment.retired or self._arrived)
        # Retired ones count: their sealed batches take local files until they are stored.
        holders = [*busy, *self._assignment.retired]
        sealed = sum(batch.size for partition in holders for batch in partition.sealed)
        self._sharing = max(sum(partition.batch is not None for partition in busy) + at_rest, 1)
        if not self._limited and self._limits.share(*held_by(busy, sealed)) < SEAL_SHARE:
            return  # nothing to seal and nothing to pause, as nearly always
        loads = [load for partition in busy if (load := load_of(partition)) is not None]
        backpressure = apply_limits(
            self._limits, loads, sealed=sealed, paused=self._limited, at_rest=at_rest
        )
        # Used from the next round on: batches that are sealed now free nothing before they are
        # uploaded.
        self._limited = backpressure.pause
        for topic_partition in backpressure.seal:
            partition = self._assignment.get(topic_partition)
            assert partition is not None
            self._lifecycle.on(partition, Event.SEAL, reason=Reason.PRESSURE)
