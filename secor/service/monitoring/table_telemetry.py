"""Telemetry of a coordinator: metrics, log lines and the status page."""

from __future__ import annotations

import structlog

from secor.core.errors import SecorError, TableStopped
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.service.metrics import Metrics
from secor.service.status.table_board import TableBoard
from secor.tables.commit.commit_result import Result, TableResult
from secor.tables.commit.refused_files import describe
from secor.tables.hudi import HUDI_STEPS
from secor.tables.observer import Backlog


class TableTelemetry:
    """A ``TableObserver``.  What lasts is logged once, when it begins and when it ends."""

    def __init__(self, metrics: Metrics, clock: Clock, board: TableBoard | None = None) -> None:
        """``board`` is what the status page shows; without one nobody looks."""
        self.board = TableBoard(clock, "") if board is None else board
        self._metrics = metrics.tables
        self._clock = clock
        self._log = structlog.get_logger("secor.tables")
        self._reported: dict[str, str] = {}
        self._failed = False

    def leading(self, leads: bool, epoch: int) -> None:
        """This process coordinates, or ceases to; see ``TableObserver``."""
        self.board.lead(leads, epoch)
        self._metrics.leading.set(leads)
        self._metrics.epoch.set(epoch if leads else 0)
        if not leads:
            self._metrics.step_down()
        self._log.info("coordinating" if leads else "not_coordinating", epoch=epoch)

    def cycle_ended(self, seconds: float, missing: int) -> None:
        """A cycle went through; see ``TableObserver``."""
        self.board.end_cycle(seconds, missing)
        self._metrics.cycles.labels("partial" if missing else "complete").inc()
        self._metrics.cycle_seconds.observe(seconds)
        if missing:
            self._log.info("partial_commit", partitions_without_answer=missing)
        if self._failed:
            self._log.info("cycles_go_on")
            self._failed = False

    def cycle_discarded(self, missing: int) -> None:
        """A cycle ended without a commit; see ``TableObserver``."""
        self._metrics.cycles.labels("discarded").inc()
        self._log.warning("cycle_discarded", partitions_without_answer=missing)

    def cycle_failed(self, error: SecorError) -> None:
        """A cycle found a server out; see ``TableObserver``."""
        self.board.fail_cycle(error)
        self._metrics.cycles.labels("failed").inc()
        if not self._failed:
            self._log.warning("cycle_failed", why=str(error), next="the next cycle tries again")
        self._failed = True

    def timestamp_from_future(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """A message's time is yet to come; see ``TableObserver``."""
        self._log.warning(
            "timestamp_from_future",
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            message_timestamp=timestamp,
            next="valid-through ignores it; look at the clocks of the producers",
        )

    def table_committed(self, result: TableResult) -> None:
        """A table was looked at; see ``TableObserver``."""
        self.board.show_result(result)
        metrics, table = self._metrics, result.table
        metrics.commits.labels(table, str(result.result)).inc()
        metrics.conflicts.labels(table).inc(result.conflicts)
        metrics.unknown.labels(table).inc(result.unknown)
        metrics.partitions_stopped.labels(table).set(len(result.stopped))
        if result.error is None:
            metrics.refused_files.labels(table).set(len(result.refused))
        if result.result is Result.COMMITTED:
            metrics.rows.labels(table).inc(result.records)
            metrics.files.labels(table).inc(result.files)
            metrics.unordered.labels(table).inc(result.unordered)
            if result.unordered:
                self._log.warning(
                    "keys_in_several_partitions",
                    table=table,
                    keys=result.unordered,
                    what="the latest timestamp won; give messages of one key one partition",
                )
            metrics.unknown_values.labels(table).inc(result.unknown_values)
            if result.unknown_values:
                self._log.warning(
                    "unknown_values",
                    table=table,
                    values=result.unknown_values,
                    what="updates left them out, and the table did not have their rows",
                )
            if result.repeated:
                self._log.warning(
                    "commits_repeated",
                    table=table,
                    commits=result.repeated,
                    what="another committer had taken them back; nothing is to be done",
                )
            metrics.commit_seconds.observe(result.seconds)
            metrics.committed_at.labels(table).set(self._clock.now())
            if result.valid_through is not None:
                metrics.valid_through.labels(table).set(result.valid_through / 1000)
            self._log.debug("committed", table=table, commit=result.commit, files=result.files)
        if isinstance(result.error, TableStopped):
            metrics.stop(table, result.error.reason)
        elif result.error is None:
            metrics.run(table)
        self._log_event(result)

    def staged(self, backlog: Backlog) -> None:
        """So much is staged; see ``TableObserver``."""
        self.board.show_staged(backlog)
        self._metrics.staged_manifests.set(backlog.manifests)
        self._metrics.staged_files.set(backlog.files)
        self._metrics.staged_bytes.set(backlog.size)
        self._metrics.staged_oldest.set(backlog.oldest or 0)
        for table, offsets in backlog.lag.items():
            self._metrics.lag.labels(table).set(offsets)

    def event(self, direction: str, kind: str) -> None:
        """An event was sent or received."""
        self._metrics.events.labels(direction, kind).inc()
        # Also by the step's name in Hudi's own design, for readers who know that.
        self._log.debug("event", direction=direction, kind=kind, hudi=HUDI_STEPS.get(kind))

    def _log_event(self, result: TableResult) -> None:
        """Log what is wrong when it begins or changes, and its end."""
        wrong = [*([str(result.error)] if result.error is not None else [])]
        wrong += [f"{key}: {why}" for key, why in sorted(result.stopped.items())]
        wrong += describe(result.table, result.refused)
        now, before = "; ".join(wrong), self._reported.get(result.table, "")
        if now == before:
            return
        self._reported[result.table] = now
        if now:
            stopped = result.result is Result.STOPPED
            event = "table_stopped" if stopped else "table_partition_stopped"
            if result.result is Result.FAILED:
                event = "table_failed"
            elif result.refused and not stopped and not result.stopped:
                event = "table_file_refused"
            self._log.warning(event, table=result.table, why=now)
        else:
            self._log.info("table_goes_on", table=result.table)
