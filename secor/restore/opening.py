"""Taking over source partitions: initialise, read the offsets, check, run.

The order is what makes it exactly once.  Initialising fences every earlier owner and ends its
transaction; so what is read after it is final, and whoever initialises last goes on rightly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from secor.core.model import TopicPartition
from secor.restore.model import SourcePartition, transactional_id
from secor.restore.offsets import read_offsets
from secor.restore.ports import TargetLog
from secor.restore.task import Task, TaskSettings
from secor.restore.writer.writer import TransactionalWriter


class Assignment(Protocol):
    """What this daemon knows of its partitions of the offsets topic."""

    def owns(self, offsets: TopicPartition) -> bool:
        """Tell whether one is still assigned to it."""

    def stopping(self, offsets: TopicPartition) -> bool:
        """Tell whether transactions of one are to end now."""


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
    ) -> list[Task]:
        """Return a task for each source partition; none when the job is stopped, or they moved.

        All of them are initialised before offsets are read: the open transaction of a dead
        owner would hold back the reading of the others.
        """
        if not self._mine(offsets, assignment):
            return []
        job = self.settings.spec.job
        writers = {}
        for source in sources:
            writer = self.make_writer(transactional_id(job, source))
            writer.initialise()
            writers[source] = writer
        table = read_offsets(self.log, offsets, job)
        # A stop, or a new owner, between the assignment and here: without this look two
        # daemons would fence each other in turns.
        if not self._mine(offsets, assignment):
            return []
        stopping = partial(assignment.stopping, offsets)
        spec = self.settings.spec.hash
        return [
            Task(
                self.settings,
                source,
                writers[source],
                offsets,
                table.next_offset(source, spec),
                stopping,
            )
            for source in sources
        ]

    def _mine(self, offsets: TopicPartition, assignment: Assignment) -> bool:
        return assignment.owns(offsets) and self.may_run()
