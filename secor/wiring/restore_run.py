"""One daemon of a restore, ready to run."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import structlog

from secor.core.errors import SecorError
from secor.core.text import how_many
from secor.restore.boundaries import Boundaries
from secor.restore.control import Wish
from secor.restore.engine import Ended, Engine
from secor.restore.model import SourcePartition
from secor.restore.opening import Opener
from secor.restore.pace import Pace
from secor.restore.schedule import After, Schedule
from secor.restore.task import TaskSettings
from secor.wiring.restore import Job
from secor.wiring.restore_plan import all_written

POLL = 0.25
"""Seconds that the main thread waits for the group."""
IDLE = 0.1
"""Seconds that a worker without work waits."""


class Progress:
    """Counts what this daemon does; also a ``TaskObserver`` and an ``EngineObserver``."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("secor.restore")
        self._lock = threading.Lock()
        self.messages = 0
        self.bytes = 0
        self.transactions = 0
        self.next_offsets: dict[SourcePartition, int] = {}

    def began(self, source: SourcePartition) -> None:
        """Take the beginning of a transaction."""

    def committed(
        self, source: SourcePartition, next_offset: int, records: int, size: int, seconds: float
    ) -> None:
        """Take a commit."""
        with self._lock:
            self.messages += records
            self.bytes += size
            self.transactions += 1
            self.next_offsets[source] = next_offset
        self._log.debug(
            "committed",
            source=str(source),
            next_offset=next_offset,
            messages=records,
            seconds=round(seconds, 3),
        )

    def skipped(self, source: SourcePartition, next_offset: int) -> None:
        """Take a transaction that the source wanted aborted."""
        self._log.warning("skipped", source=str(source), next_offset=next_offset)

    def failed(self, source: SourcePartition, error: SecorError, meaning: After) -> None:
        """Take an error."""
        tell = self._log.error if meaning is After.FAIL else self._log.warning
        tell("failed", source=str(source), then=meaning.value, error=str(error))

    def wished(self, wish: Wish) -> None:
        """Take what the job's record says."""
        self._log.info("job", state=wish.value)

    def assigned(self, sources: int) -> None:
        """Take how much this daemon holds."""
        self._log.info("assigned", sources=how_many(sources, "source partition"))


@contextmanager
def engine_of(job: Job, progress: Progress) -> Iterator[Engine]:
    """Give the engine of a job whose targets exist; leaves the group at the end."""
    writing = job.config.writing
    partitions = job.ensure_offsets_topic()
    control = job.control(partitions)
    control.start(job.spec.hash, partitions)
    pace = Pace(job.clock, writing.bytes_per_second, writing.messages_per_second)
    schedule = Schedule(
        clock=job.clock,
        rng=random.Random(),
        look_again=writing.look_again if writing.follow else None,
    )
    settings = TaskSettings(
        spec=job.spec,
        source=job.source,
        route=job.routing(),
        boundaries=Boundaries(
            writing.boundary, writing.interval, writing.max_bytes, writing.max_messages
        ),
        clock=job.clock,
        observer=_Paced(progress, pace),
    )

    def running() -> bool:
        known = control.read()
        return known is not None and known.wish is Wish.RUNNING

    opener = Opener(settings, job.log, job.make_writer, running)
    membership = job.membership()
    try:
        yield Engine(
            membership=membership,
            schedule=schedule,
            opener=opener,
            read_record=control.read,
            sources=lambda: job.sources_by_partition(partitions),
            written=partial(all_written, job, partitions),
            pace=pace,
            clock=job.clock,
            observer=progress,
            follow=writing.follow,
        )
    finally:
        membership.close()


class _Paced:
    """Counts for the pace, too."""

    def __init__(self, progress: Progress, pace: Pace) -> None:
        self._progress = progress
        self._pace = pace

    def began(self, source: SourcePartition) -> None:
        self._progress.began(source)

    def committed(
        self, source: SourcePartition, next_offset: int, records: int, size: int, seconds: float
    ) -> None:
        self._pace.took(size, records)
        self._progress.committed(source, next_offset, records, size, seconds)

    def skipped(self, source: SourcePartition, next_offset: int) -> None:
        self._progress.skipped(source, next_offset)


def run(engine: Engine, workers: int, shown: Callable[[], None]) -> Ended:
    """Run until the job has ended, or SIGTERM or SIGINT came; ``shown`` is called every turn.

    Transactions in work are committed first.  Whatever a worker lets escape ends the process.
    """
    crashed: list[BaseException] = []
    over = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        engine.stop()

    def work() -> None:
        try:
            while not over.is_set():
                if not engine.work_once():
                    over.wait(IDLE)
        except BaseException as error:
            crashed.append(error)
            raise

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    threads = [
        threading.Thread(target=work, name=f"restore-{number}", daemon=True)
        for number in range(workers)
    ]
    for thread in threads:
        thread.start()
    try:
        while True:
            ended = engine.run_once(POLL)
            if crashed:
                raise crashed[0]
            shown()
            if ended is not None:
                return ended
    finally:
        over.set()
