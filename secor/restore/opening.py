"""Taking over source partitions: initialise, read the offsets, check, run.

The order is what makes it exactly once.  Initialising fences every earlier owner and ends its
transaction; so what is read after it is final, and the last to initialise goes on rightly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from secor.core.errors import SecorError, SpecChanged, Unavailable
from secor.core.model import TopicPartition
from secor.restore.model import SourcePartition, transactional_id
from secor.restore.offsets import read_offsets, rows_of
from secor.restore.pairs import pairs_of
from secor.restore.ports import TargetLog
from secor.restore.task import Task, TaskSettings
from secor.restore.writer.writer import TransactionalWriter


class Assignment(Protocol):
    """This daemon's view of its partitions of the offsets topic."""

    def owns(self, offsets: TopicPartition) -> bool:
        """Return whether one is still assigned to it."""

    def stopping(self, offsets: TopicPartition) -> bool:
        """Return whether transactions of one are to end now."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Tasks that can be run, and by source partition why others cannot."""

    tasks: list[Task] = field(default_factory=list)
    failed: dict[SourcePartition, SecorError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens the source partitions of one partition of the offsets topic together.

    ``may_run`` asks, anew each time, whether the job is running.
    """

    settings: TaskSettings
    log: TargetLog
    make_writer: Callable[[str], TransactionalWriter]
    may_run: Callable[[], bool]

    def open(
        self, offsets: TopicPartition, sources: Sequence[SourcePartition], assignment: Assignment
    ) -> Opened:
        """Return a task or an error for each source partition.

        There is neither when the job is stopped, or they moved.  All of them are initialised
        before offsets are read: the open transaction of a dead owner would hold back the reading
        of the others.  Raises ``Unavailable``, and what keeps all the offsets from being read.
        """
        opened = Opened()
        if not self._mine(offsets, assignment):
            return opened
        # First of all: this fences every earlier owner and ends its transaction, so what is read
        # next can no longer change under us.
        writers = self._initialised(sources, opened.failed)
        if not writers:
            return opened
        # After all ids are initialised, never before: an offset that was read while an old owner
        # could still commit would have its messages written twice.
        table = read_offsets(self.log, offsets, self.settings.spec.job)
        # A stop, or a new owner, between the assignment and here: without this look two
        # daemons would fence each other in turns.
        if not self._mine(offsets, assignment):
            return Opened()
        self._end_lost(offsets, writers)
        stopping = partial(assignment.stopping, offsets)
        for source, writer in writers.items():
            try:
                start = table.next_offset(source, self.settings.spec.hash)
            except SpecChanged as error:
                opened.failed[source] = error
                continue
            opened.tasks.append(Task(self.settings, source, writer, offsets, start, stopping))
        return opened

    def _initialised(
        self, sources: Sequence[SourcePartition], failed: dict[SourcePartition, SecorError]
    ) -> dict[SourcePartition, TransactionalWriter]:
        """Return writers that may write; put what refused one of them into ``failed``.

        Raises ``Unavailable``: where brokers are away, each further id would wait as long.
        """
        writers = {}
        for source in sources:
            writer = self.make_writer(transactional_id(self.settings.spec.job, source))
            try:
                writer.initialise()
            # Brokers are away: each further id would wait as long for the same answer.
            except Unavailable:
                raise
            except SecorError as error:
                failed[source] = error
            else:
                writers[source] = writer
        return writers

    def _end_lost(
        self, offsets: TopicPartition, writers: Mapping[SourcePartition, TransactionalWriter]
    ) -> None:
        """End transactions that are over, and whose markers a broker lost.

        A broker that restarts may take a partition without a leader for a deleted one, skip its
        marker and call the transaction complete.  The next commit of the same producer would make
        visible what was aborted, and written again: twice.  Whether it was committed says the
        offsets topic, which has the places of each committed batch.
        """
        lost = {
            source: began
            for source, writer in writers.items()
            if (began := writer.open_transactions(self.settings.places(source)))
        }
        if not lost:
            return
        job = self.settings.spec.job
        end = self.log.end(offsets, committed=False)
        committed = {
            (pair.source, pair.placement.topic_partition, pair.placement.base_offset)
            for chunk in self.log.read(offsets, 0, end)
            for pair in pairs_of(job, rows_of(chunk.records))
        }
        for source, began in lost.items():
            for commit in (True, False):
                ended = [
                    place
                    for place, first in began.items()
                    if ((source, place, first) in committed) is commit
                ]
                if ended:
                    writers[source].end_lost(ended, commit=commit)
            # The marker may be lost again.
            if writers[source].open_transactions(list(began)):
                raise Unavailable(f"{source}: a transaction that is over is open at its target")

    def _mine(self, offsets: TopicPartition, assignment: Assignment) -> bool:
        return assignment.owns(offsets) and self.may_run()
