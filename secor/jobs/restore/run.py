"""One daemon of a restore, ready to run."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType

from secor.core.errors import Unavailable
from secor.core.pace import Pace
from secor.core.ports import MessageSource
from secor.jobs.restore.offsets import copy_writer
from secor.jobs.restore.plan import all_written, prepare_topic
from secor.restore.boundaries import Boundaries
from secor.restore.control import JobControl, JobRecord, RequestedState
from secor.restore.copies import OffsetCopies
from secor.restore.engine import Ended, Engine
from secor.restore.model import SourcePartition
from secor.restore.opening import Opener
from secor.restore.routing import Routing
from secor.restore.schedule import Schedule
from secor.restore.sources.archive import ArchiveSource
from secor.restore.target_ids import TargetGuard
from secor.restore.targets import Targets
from secor.restore.task import TaskObserver, TaskSettings
from secor.service.monitoring.restore_telemetry import RestoreTelemetry
from secor.wiring.restore import Job

POLL = 0.25
"""Seconds that the main thread waits for the group."""
POLL_TO_END = 0.05
"""The same of a job that ends: it notices that all is written only between two waits."""
STUCK = 120.0
"""Seconds without a turn of the main thread after which the process says that it is not alive."""
REPORT_EVERY = 1.0
IDLE = 0.1
"""Seconds that a worker without work waits."""
JOIN_WITHIN = 15.0
"""Seconds that workers have to end: longer than a request takes by default."""


@dataclass(frozen=True, slots=True)
class RestoreDaemon:
    """The parts of a daemon; ``copies`` is None where offsets are not copied."""

    engine: Engine
    copies: OffsetCopies | None
    guard: TargetGuard


@contextmanager
def daemon_of(job: Job, telemetry: RestoreTelemetry) -> Iterator[RestoreDaemon]:
    """Give the daemon of a job with existing targets; leave the group at the end."""
    source = job.source
    if isinstance(source, ArchiveSource):
        telemetry.known_end = lambda partition: source.known.of(partition).end
    # First: the group reads this topic, and the job's record is in it.
    partitions = job.ensure_offsets_topic()
    # First of all: brokers let the first member of a group wait for others, three seconds by
    # default, in which everything else is looked up.
    with closing(job.membership()) as membership:
        yield _daemon(job, telemetry, membership, partitions)


def _daemon(
    job: Job, telemetry: RestoreTelemetry, membership: MessageSource, partitions: int
) -> RestoreDaemon:
    writing = job.config.writing
    writer = copy_writer(job)
    copies = None if writer is None else OffsetCopies(writer, job.clock, telemetry)
    control = job.control(partitions)
    route = job.routing()
    guard = _start(job, control, partitions, sorted(route.partitions))
    pace = Pace(job.clock, writing.bytes_per_second, writing.messages_per_second)
    schedule = Schedule(
        clock=job.clock,
        rng=random.Random(),
        look_again=writing.look_again if writing.follow else None,
    )
    observer = _Committed(telemetry, pace, copies)

    def read_record() -> JobRecord | None:
        # Before the record: a target that was made anew ends the job, whatever state is requested.
        guard.look()
        return control.read()

    def running() -> bool:
        known = read_record()
        return known is not None and known.requested is RequestedState.RUNNING

    tasks = _task_settings(job, route, guard, observer)
    engine = Engine(
        membership=membership,
        schedule=schedule,
        opener=Opener(tasks, job.log, job.make_writer, running),
        read_record=read_record,
        sources=lambda: job.sources_by_partition(partitions),
        written=partial(all_written, job, partitions),
        pace=pace,
        clock=job.clock,
        observer=telemetry,
        follow=writing.follow,
        # How a plug-in opens its source is not known.
        read_ahead=0 if job.config.source.kind == "plugin" else writing.workers,
    )
    return RestoreDaemon(engine, copies, guard)


def _start(job: Job, control: JobControl, partitions: int, topics: Sequence[str]) -> TargetGuard:
    """Begin the job, or go on with it, over target topics.  Raises ``TargetRemade``."""
    spec = job.spec

    def record(ids: Mapping[str, str]) -> Mapping[str, str]:
        return control.start(spec.hash, partitions, targets=ids, archive=spec.archive).targets

    guard = TargetGuard(record, job.log.topic_ids, job.clock)
    guard.keep(topics)
    return guard


def _task_settings(
    job: Job, route: Routing, guard: TargetGuard, observer: TaskObserver
) -> TaskSettings:
    writing = job.config.writing
    targets = Targets(
        route,
        {source.topic for source in job.sources()},
        partial(prepare_topic, job),
        lambda name: len(job.log.partitions(name)),
        lambda name: guard.keep([name]),
    )
    return TaskSettings(
        spec=job.spec,
        source=job.source,
        route=targets,
        boundaries=Boundaries(
            writing.boundary, writing.interval, writing.max_bytes, writing.max_messages
        ),
        clock=job.clock,
        observer=observer,
        ready=targets.ready,
        places=targets.places,
    )


class _Committed:
    """An observer that also informs the pace and the copies."""

    def __init__(
        self, telemetry: RestoreTelemetry, pace: Pace, copies: OffsetCopies | None
    ) -> None:
        self._telemetry = telemetry
        self._pace = pace
        self._copies = copies

    def began(self, source: SourcePartition) -> None:
        self._telemetry.began(source)

    def committed(
        self, source: SourcePartition, next_offset: int, records: int, size: int, seconds: float
    ) -> None:
        self._pace.took(size, records)
        self._copy(source, next_offset)
        self._telemetry.committed(source, next_offset, records, size, seconds)

    def skipped(self, source: SourcePartition, next_offset: int) -> None:
        self._copy(source, next_offset)
        self._telemetry.skipped(source, next_offset)

    def aborted(self, source: SourcePartition) -> None:
        self._telemetry.aborted(source)

    def _copy(self, source: SourcePartition, next_offset: int) -> None:
        if self._copies is not None:
            self._copies.committed(source, next_offset)


class Workers:
    """Threads that work until they are stopped; ``crashed`` is what they let escape."""

    def __init__(self, work_once: Callable[[], bool], count: int) -> None:
        self._work_once = work_once
        self._over = threading.Event()
        self._wake = threading.Event()
        self.crashed: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._work, name=f"restore-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Let workers without work look for some now."""
        self._wake.set()

    def stop(self, within: float) -> None:
        """Wait, for at most so many seconds, until what is in work has ended."""
        self._over.set()
        self._wake.set()
        deadline = time.monotonic() + within
        for thread in self._threads:
            # One deadline for all: with a time for each, many threads would exceed what the service
            # manager allows.
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        try:
            while not self._over.is_set():
                self._wake.clear()
                if not self._work_once():
                    self._wake.wait(IDLE)
        except BaseException as error:
            self.crashed.append(error)
            # A late thread finds the connections closed: that is no fault of its own.
            if not self._over.is_set():
                raise


def run(
    daemon: RestoreDaemon, workers: int, telemetry: RestoreTelemetry, show: Callable[[], None]
) -> Ended:
    """Run until the job has ended, or SIGTERM or SIGINT came; ``show`` is called every second.

    Transactions in work are committed first.  Whatever a worker lets escape ends the process.
    """
    engine = daemon.engine

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        engine.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    # After the signal handlers: a signal in between would end the process with a transaction open.
    threads = Workers(engine.work_once, workers)
    report_at = 0.0
    try:
        while True:
            ended = engine.run_once(POLL if engine.follows else POLL_TO_END)
            threads.wake()
            # Threads are daemons and end alone; only here does the process notice.
            if threads.crashed:
                raise threads.crashed[0]
            now = time.monotonic()
            if now >= report_at or ended is not None:
                report_at = now + REPORT_EVERY
                telemetry.report(engine.assigned)
                if daemon.copies is not None:
                    # In the main thread, after what it copies is committed: copies may be late,
                    # never ahead.
                    daemon.copies.write()
                show()
            if ended is not None:
                with suppress(Unavailable):
                    # The last look: a topic that was deleted and made anew during the last seconds
                    # has lost messages that count as written.
                    daemon.guard.look_now()
                return ended
    finally:
        # Before the connections are closed, which the workers use.
        engine.stop()
        threads.stop(JOIN_WITHIN)
