"""Telemetry of one daemon of a restore: counts, metrics and log lines."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from http import HTTPStatus

import structlog

from secor import __version__
from secor.core.errors import SecorError, StopPartition
from secor.core.ports import Clock
from secor.core.retry import RepeatedErrors
from secor.core.text import how_many
from secor.restore.control import RequestedState
from secor.restore.model import SourcePartition
from secor.restore.schedule import After, AssignedSource, Phase
from secor.service.monitoring.health import Health
from secor.service.monitoring.telemetry import snake
from secor.service.restore_metrics import RestoreMetrics
from secor.service.status.remedies import remedy
from secor.service.status.restore_page import RestoreRow, RestoreStatus

_LISTING = "listing"
"""The key of the archive's listing among errors."""


class RestoreTelemetry:
    """A ``TaskObserver`` and an ``EngineObserver``; for any number of threads.

    ``ends`` are where the archived offsets of each source partition end, as the plan found them;
    ``known_end`` returns how far they are known to reach now, without asking: archives grow.
    """

    def __init__(
        self, metrics: RestoreMetrics, health: Health, clock: Clock, *, transactional: bool = True
    ) -> None:
        self.transactional = transactional
        self.messages = 0
        self.bytes = 0
        self.transactions = 0
        self.ends: Mapping[SourcePartition, int] = {}
        self.known_end: Callable[[SourcePartition], int] = lambda _source: 0
        self.next_offsets: dict[SourcePartition, int] = {}
        self.requested = RequestedState.RUNNING
        self._metrics = metrics
        self._health = health
        self._clock = clock
        self._log = structlog.get_logger("secor.restore")
        self._lock = threading.Lock()
        self._open: dict[SourcePartition, float] = {}
        self._repeated = RepeatedErrors(clock.monotonic)
        self._shown: set[SourcePartition] = set()
        self._rows: tuple[RestoreRow, ...] = ()
        self._began = clock.monotonic()
        metrics.open_transaction.set_function(self._oldest_open)

    # ---------------------------------------------------------- any worker

    def began(self, source: SourcePartition) -> None:
        """Take the beginning of a transaction."""
        with self._lock:
            self._open[source] = self._clock.monotonic()

    def committed(
        self, source: SourcePartition, next_offset: int, records: int, size: int, seconds: float
    ) -> None:
        """Take a commit."""
        metrics = self._metrics
        with self._lock:
            self._open.pop(source, None)
            self.messages += records
            self.bytes += size
            self.transactions += 1
            self.next_offsets[source] = next_offset
        metrics.messages.labels(source.topic).inc(records)
        metrics.bytes.labels(source.topic).inc(size)
        metrics.transactions.labels("committed").inc()
        metrics.transaction_seconds.observe(seconds)
        metrics.transaction_bytes.observe(size)
        metrics.run(source.topic, source.partition)
        self._log.debug(
            "committed",
            source=str(source),
            next_offset=next_offset,
            messages=records,
            seconds=round(seconds, 3),
        )

    def skipped(self, source: SourcePartition, next_offset: int) -> None:
        """Take a transaction that the source wanted aborted."""
        with self._lock:
            self._open.pop(source, None)
            self.next_offsets[source] = next_offset
        self._metrics.transactions.labels("skipped").inc()
        self._log.warning("skipped", source=str(source), next_offset=next_offset)

    def aborted(self, source: SourcePartition) -> None:
        """Take a transaction that the broker wanted aborted."""
        self._forget_open(source)
        self._metrics.transactions.labels("aborted").inc()
        self._log.warning("aborted", source=str(source), then="write it again")

    def failed(self, source: SourcePartition, error: SecorError, meaning: After) -> None:
        """Take an error."""
        with self._lock:
            self._open.pop(source, None)
        reason = error.reason if isinstance(error, StopPartition) else snake(type(error))
        self._metrics.errors.labels(reason).inc()
        # To open again is part of a normal day (a rebalance, a broker's restart): no partition is
        # marked as failing for it.
        if meaning is not After.OPEN_AGAIN:
            self._metrics.fail(source.topic, source.partition, reason)
        begins = self._repeated.failed(source, reason)
        log = self._log.warning if begins else self._log.debug
        if meaning is After.FAIL:
            log = self._log.error
        log("failed", source=str(source), then=meaning.value, error=str(error))

    # ------------------------------------------------------- the main thread

    def not_copied(self, topic: str, error: SecorError) -> None:
        """Take an error of the topic of copies."""
        log = self._log.warning if self._repeated.failed(topic) else self._log.debug
        log("offsets not copied", topic=topic, error=str(error))

    def copied(self, topic: str) -> None:
        """Take offsets that are in the topic of copies."""
        self._log_ended(topic, event="offsets not copied", topic=topic)

    def not_listed(self, error: SecorError) -> None:
        """Take an error of the listing of a growing archive."""
        log = self._log.warning if self._repeated.failed(_LISTING) else self._log.debug
        log("archive not listed", then="try later", error=str(error))

    def listed(self) -> None:
        """Take a listing of a growing archive."""
        self._log_ended(_LISTING, event="archive not listed")

    def requested_state_changed(self, requested: RequestedState) -> None:
        """Take what the job's record says."""
        self.requested = requested
        self._log.info("job", state=requested.value)

    def assigned(self, sources: int) -> None:
        """Take how much this daemon holds."""
        self._log.info("assigned", sources=how_many(sources, "source partition"))

    def report(self, assigned_sources: Sequence[AssignedSource]) -> None:
        """Renew what the metrics and the health say; about once a second."""
        metrics = self._metrics
        metrics.reported_at.set(self._clock.now())
        self._health.beat()
        self._health.waiting(
            []
            if self.requested is RequestedState.RUNNING
            else [f"the job is {self.requested.value}"]
        )
        for requested in RequestedState:
            metrics.state.labels(requested.value).set(requested is self.requested)
        phases = Counter(source.phase for source in assigned_sources)
        for phase in Phase:
            metrics.source_partitions.labels(phase.value).set(phases[phase])
        for assigned in assigned_sources:
            place = (assigned.source.topic, str(assigned.source.partition))
            metrics.left.labels(*place).set(self.left(assigned))
            if assigned.error is None:  # it was opened again, and did something
                self._log_ended(assigned.source, source=str(assigned.source))
            if assigned.phase is not Phase.WORKING:
                # One that its source has not ended yet ends without a word.
                self._forget_open(assigned.source)
        sources = {source.source for source in assigned_sources}
        for gone in self._shown - sources:
            # Another daemon has it now and reports it: a series of ours would stay at its last
            # value.
            metrics.left.remove(gone.topic, str(gone.partition))
            metrics.run(gone.topic, gone.partition)
            self._forget_open(gone)
            self._repeated.ended(gone)
        self._shown = sources
        self._rows = tuple(
            self._row(assigned)
            for assigned in sorted(assigned_sources, key=lambda source: source.source)
        )

    @property
    def done(self) -> tuple[int, int]:
        """Offsets of this process's source partitions that are done, and all there are."""
        rows = self._rows
        total = sum(row.end for row in rows)
        return total - sum(row.left for row in rows), total

    def left(self, assigned_source: AssignedSource) -> int:
        """Return how many archived offsets of a source partition are not written yet."""
        if assigned_source.phase is Phase.EXHAUSTED:
            return 0
        return self.end(assigned_source) - (self.reached(assigned_source) or 0)

    def end(self, assigned_source: AssignedSource) -> int:
        """Return where its archived offsets end, as far as this process knows it by now."""
        source = assigned_source.source
        reached = self.reached(assigned_source) or 0
        return max(self.ends.get(source, 0), self.known_end(source), reached)

    def reached(self, assigned_source: AssignedSource) -> int | None:
        """Return the committed offset, as far as this process knows it."""
        if assigned_source.task is not None:
            return assigned_source.task.next_offset
        return self.next_offsets.get(assigned_source.source)

    def status(self, job: str) -> RestoreStatus:
        """Return what the status page shows, as of the last report."""
        return RestoreStatus(
            job=job,
            version=__version__,
            state=self.requested.value,
            exactly_once="required" if self.transactional else "disabled",
            alive=self._health.alive().status is HTTPStatus.OK,
            seconds=round(self._clock.monotonic() - self._began, 3),
            messages=self.messages,
            transactions=self.transactions,
            open_transaction=round(self._oldest_open(), 3),
            rows=self._rows,
        )

    def _row(self, assigned_source: AssignedSource) -> RestoreRow:
        error, failed = assigned_source.error, assigned_source.phase is Phase.FAILED
        wait = assigned_source.again_at - self._clock.monotonic()
        return RestoreRow(
            source=str(assigned_source.source),
            phase=assigned_source.phase.value,
            next_offset=self.reached(assigned_source),
            end=self.end(assigned_source),
            left=self.left(assigned_source),
            error=None if error is None else str(error),
            remedy=None if error is None else remedy(error),
            again_in=None if error is None or failed else round(max(0.0, wait), 3),
        )

    def _log_ended(self, key: Hashable, event: str = "failed", **fields: str) -> None:
        ended = self._repeated.ended(key)
        if ended is not None:
            self._log.info(
                "over", what=event, seconds=round(ended.seconds), times=ended.times, **fields
            )

    def _forget_open(self, source: SourcePartition) -> None:
        with self._lock:
            self._open.pop(source, None)

    def _oldest_open(self) -> float:
        with self._lock:
            since = min(self._open.values(), default=None)
        return 0.0 if since is None else self._clock.monotonic() - since
