"""Carries out what the state tables command: on source, batches, threads and assignment."""

from __future__ import annotations

from collections.abc import Iterator

from secor.batch.batch import Batch
from secor.batch.policy import Reason
from secor.batch.workspace import Workspace
from secor.consume.blocking_tasks import BlockingTasks
from secor.consume.partition import Partition
from secor.consume.partition_states import Command, Event, PartitionStates, Reading, Waits
from secor.core.errors import (
    LocalFilesExhausted,
    MessagesUnwritable,
    PluginFailed,
    RecordRefused,
    RestartPartition,
    SchemaGrew,
    SecorError,
    StopPartition,
)
from secor.core.model import TopicPartition
from secor.core.observer import Observer
from secor.core.ports import Clock, MessageSource


class ActivePartitions:
    """Assigned partitions, and retired ones whose sealed batches are still on their way."""

    def __init__(self, waits: Waits) -> None:
        """Begin with none."""
        self._waits = waits
        self._assigned: dict[TopicPartition, Partition] = {}
        self._retired: list[Partition] = []
        self._revoked: set[TopicPartition] = set()

    def __iter__(self) -> Iterator[Partition]:
        """Yield the assigned partitions; they may change meanwhile."""
        # A copy: events of the loop's body retire partitions and begin them again.
        return iter(list(self._assigned.values()))

    def __len__(self) -> int:
        """Return the number of the assigned ones."""
        return len(self._assigned)

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        """Return the partition if it is assigned."""
        return self._assigned.get(topic_partition)

    @property
    def retired(self) -> tuple[Partition, ...]:
        """Partitions that are no longer read and had not ended at the last ``forget_ended``."""
        return tuple(self._retired)

    def must_wait(self, partition: Partition) -> bool:
        """Return whether it waits for an earlier reading of the same topic partition to end."""
        key = partition.topic_partition
        # Its position is read from the ledger, which the earlier upload may still move: a position
        # of before would only be found wrong at the end of a whole batch, and be read again.
        return partition.states.reading is Reading.WAITING and any(
            old.topic_partition == key and not old.states.ended for old in self._retired
        )

    def begin(self, topic_partition: TopicPartition, wake_at: float) -> Partition:
        """Add it in its first state, until ``wake_at`` (monotonic seconds)."""
        partition = Partition(topic_partition, PartitionStates(wake_at, self._waits))
        self._assigned[topic_partition] = partition
        return partition

    def retire(self, partition: Partition) -> None:
        """Take it out of the assigned ones."""
        del self._assigned[partition.topic_partition]
        self._retired.append(partition)

    def revoke(self, topic_partition: TopicPartition) -> None:
        """Remember to release it when nothing of it is in work any more."""
        self._revoked.add(topic_partition)

    def forget_ended(self) -> list[TopicPartition]:
        """Forget retired partitions that have ended; return revoked ones to release now."""
        self._retired = [partition for partition in self._retired if not partition.states.ended]
        in_work = {partition.topic_partition for partition in self._retired}
        release = sorted(self._revoked - in_work)
        self._revoked &= in_work
        return release


class Lifecycle:
    """Gives events to topic partitions and does what follows."""

    def __init__(
        self,
        assignment: ActivePartitions,
        source: MessageSource,
        tasks: BlockingTasks,
        workspace: Workspace,
        clock: Clock,
        observer: Observer,
        waits: Waits,
    ) -> None:
        self._assignment = assignment
        self._source = source
        self._tasks = tasks
        self._workspace = workspace
        self._clock = clock
        self._observer = observer
        self._waits = waits

    # ---------------------------------------------------------------- events

    def assign(self, topic_partition: TopicPartition) -> None:
        """Begin to read it; a second assignment is a new beginning."""
        # The group may assign what we never saw revoked, after a lost membership.  What was read
        # under the old assignment may be stored by somebody else by now.
        if self._assignment.get(topic_partition) is not None:
            self.revoke(topic_partition)
        self._assignment.begin(topic_partition, self._clock.monotonic())

    def revoke(self, topic_partition: TopicPartition) -> None:
        """Let it go; it is released when nothing of it is in work any more."""
        partition = self._assignment.get(topic_partition)
        if partition is not None:
            self._leave(partition, Reason.REVOKE, keep=partition.upload_on_revoke)
        # Also where nothing of it is here any more: the source waits for the release of all that it
        # has reported as revoked before it lets the group go on.
        self._assignment.revoke(topic_partition)
        self._observer.left(topic_partition)

    def drain(self) -> None:
        """Retire all: seal what the plans upload on shutdown, drop the rest."""
        for partition in self._assignment:
            self._leave(partition, Reason.SHUTDOWN, keep=partition.upload_on_shutdown)

    def _leave(self, partition: Partition, reason: Reason, *, keep: bool) -> None:
        self.on(partition, Event.LEAVE_KEEPING if keep else Event.LEAVE_DROPPING, reason=reason)

    def fail(self, partition: Partition, error: SecorError, *, keep: bool) -> None:
        """Stop or restart; ``keep`` uploads what was read before the failure."""
        if isinstance(error, MessagesUnwritable) and not self._tasks.suspect(partition, error):
            error = _unwritable(partition.topic_partition, error)
        reason = Reason.SCHEMA if isinstance(error, SchemaGrew) else Reason.RETIRED
        if isinstance(error, StopPartition):
            self._observer.stopped(partition.topic_partition, error)
            partition.error = error
            # One that stops again after the look of each minute has been stopped since the first
            # time: alerts count from there.
            partition.stopped_at = partition.stopped_at or self._clock.monotonic()
            self.on(partition, Event.STOP_KEEPING if keep else Event.STOP_DROPPING, reason=reason)
            return
        self._observer.restarted(partition.topic_partition, error)
        event = Event.RESTART_KEEPING if keep else Event.RESTART_DROPPING
        self.on(partition, event, reason=reason, wait=self._wait_after(partition, error))

    def _wait_after(self, partition: Partition, error: SecorError) -> float:
        match error:
            case LocalFilesExhausted():
                return self._waits.local_files
            # A wider schema is no failure, so reading goes on at once. Behind an open intent it is
            # one: the range was read before and needs no newer schema. Without a wait that would
            # spin.
            case SchemaGrew() if partition.batch is not None and partition.batch.end is None:
                return 0.0
            case RestartPartition():
                return self._waits.restart
            case _:
                return self._waits.retry

    def on(
        self,
        partition: Partition,
        event: Event,
        *,
        reason: Reason = Reason.RETIRED,
        wait: float = 0.0,
    ) -> None:
        """Carry out what ``event`` commands.

        ``reason`` is why a batch is sealed for it, ``wait`` the seconds before it begins again.
        """
        for command in partition.states.on(event, self._clock.monotonic()):
            self._carry_out(command, partition, reason, wait)

    # -------------------------------------------------------------- commands

    def _carry_out(
        self, command: Command, partition: Partition, reason: Reason, wait: float
    ) -> None:
        key = partition.topic_partition
        match command:
            case Command.LOCATE:
                self._tasks.locate(partition)
            case Command.READ:
                self._read(partition)
            case Command.PAUSE:
                self._source.pause(key)
            case Command.RESUME:
                self._source.resume(key)
            case Command.RETIRE:
                self._assignment.retire(partition)
            case Command.BEGIN_AGAIN:
                if partition.unkept is not None:
                    self._observer.restarted(key, partition.unkept)
                    wait = max(wait, self._wait_after(partition, partition.unkept))
                # A new object in its first state, so that nothing of the old reading remains.  Only
                # what is reported goes on, or lag and ages would jump at each restart.
                self._assignment.begin(key, self._clock.monotonic() + wait).report_as(partition)
            case Command.UPLOAD:
                self._tasks.upload(partition)
            case _:
                self._change_batches(command, partition, reason)

    def _change_batches(self, command: Command, partition: Partition, reason: Reason) -> None:
        match command:
            case Command.SEAL:
                self._seal(partition, reason)
            case Command.SEAL_REST:
                self._seal_rest(partition, reason)
            case Command.DROP_OPEN:
                partition.drop_batch()
            case Command.FORGET:
                # The last step of a commit: before the ledger has moved, another attempt needs the
                # files.
                partition.sealed.popleft().delete()
            case Command.DROP_QUEUED:
                # A thread reads the files of the first one. They are deleted when it comes back.
                partition.drop_sealed(keep=1)
            case Command.DROP_SEALED:
                partition.drop_sealed()
            case _:
                raise AssertionError(f"nobody carries out {command}")

    def _read(self, partition: Partition) -> None:
        position = partition.position
        assert position is not None
        # The batch comes before the fetching: a chunk that arrives must find it.
        partition.batch = self._open(partition, position.committed, position.topic_id, position.end)
        self._observer.running(partition.topic_partition)
        self._source.start(partition.topic_partition, position.read_from)

    def _open(
        self, partition: Partition, start: int, topic_id: str | None, end: int | None = None
    ) -> Batch:
        assert partition.position is not None
        batch = Batch(
            partition.topic_partition,
            start,
            plan=partition.position.plan,
            workspace=self._workspace,
            clock=self._clock,
            topic_id=topic_id,
            end=end,
            max_files=partition.position.plan.policy.max_files,
        )
        # Not only the first: what the log lost may go on beyond an open intent's end.
        batch.skip(partition.position.read_from)
        return batch

    def _seal(self, partition: Partition, reason: Reason) -> None:
        assert partition.batch is not None
        # Taken before the seal: it takes the batch out of the partition.
        topic_id, end = partition.batch.topic_id, partition.batch.next_offset
        try:
            partition.seal(reason)
        except SecorError as error:
            self.fail(partition, error, keep=False)
            return
        # The next batch begins exactly at the end of this one: the ranges of batches leave no hole.
        partition.batch = self._open(partition, end, topic_id)
        self.on(partition, Event.SEALED)

    def _seal_rest(self, partition: Partition, reason: Reason) -> None:
        batch = partition.batch
        assert batch is not None
        # A batch that follows an open intent is stored whole or not at all: the intent fixes its
        # end.
        if batch.empty or (batch.end is not None and not batch.complete):
            partition.drop_batch()
            return
        try:
            partition.seal(reason)
        except SecorError as error:
            partition.unkept = error
            if isinstance(error, MessagesUnwritable):
                self._tasks.suspect(partition, error)
            partition.drop_batch()  # a cache: it is read again from Kafka
            return
        self.on(partition, Event.SEALED)


def _unwritable(topic_partition: TopicPartition, error: MessagesUnwritable) -> StopPartition:
    if isinstance(error.__cause__, PluginFailed):
        return error.__cause__
    refused = RecordRefused(
        f"{topic_partition}: messages in [{error.start}, {error.end}) cannot be written, and no"
        f" single one is known to be the cause: {error.why}; another format may take them; report"
        " this with them"
    )
    refused.__cause__ = error.__cause__
    return refused
