"""``secor tables run`` and ``commit``: the coordinator in a process of its own."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click
import structlog

from secor.cli.exit_codes import Exit
from secor.cli.tables.options import load_tables
from secor.cli.tables.spark import log_of, merging
from secor.config.model import Config
from secor.core.errors import SecorError, Unavailable
from secor.core.model import TopicPartition
from secor.core.text import how_many
from secor.tables.commit.commit_result import Result, TableResult
from secor.tables.commit.refused_files import describe
from secor.tables.cycle import State, Timing
from secor.tables.observer import Backlog

if TYPE_CHECKING:
    from secor.service.monitoring.health import Health
    from secor.service.monitoring.table_telemetry import TableTelemetry
    from secor.service.systemd import StopSignal
    from secor.spark.hudi_engine import SparkHudiEngine
    from secor.spark.merge_engine import SparkMergeEngine


class CycleReport:
    """A ``TableObserver`` that keeps what a command prints."""

    def __init__(self) -> None:
        self._results: list[TableResult] = []
        self._errors: list[SecorError] = []
        self._missing = 0

    def leading(self, leads: bool, epoch: int) -> None:
        """Say nothing."""

    def cycle_ended(self, seconds: float, missing: int) -> None:
        """Keep how many partitions did not answer."""
        self._missing = missing

    def cycle_discarded(self, missing: int) -> None:
        """A cycle ended without a commit; see ``TableObserver``."""
        self._errors.append(
            Unavailable(f"nothing committed: {missing} topic partitions did not answer")
        )

    def cycle_failed(self, error: SecorError) -> None:
        """Keep it."""
        self._errors.append(error)

    def timestamp_from_future(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Say nothing: valid-through ignores it."""

    def table_committed(self, result: TableResult) -> None:
        """Keep it."""
        self._results.append(result)

    def staged(self, backlog: Backlog) -> None:
        """Say nothing."""

    @property
    def wrong(self) -> bool:
        """Something was not committed."""
        return bool(self._errors) or any(
            result.error or result.stopped or result.refused for result in self._results
        )

    def lines(self) -> Iterator[str]:
        """Give what to print."""
        for error in self._errors:
            yield f"failed: {error}"
        if self._missing:
            yield f"{how_many(self._missing, 'topic partition')} did not answer in time"
        for result in self._results:
            if result.result is Result.COMMITTED:
                rows = how_many(result.records, "row")
                yield f"{result.table}: {rows} in {how_many(result.files, 'file')} committed"
            elif result.error is not None:
                yield f"{result.table}: {result.result}: {result.error}"
            else:
                yield f"{result.table}: nothing new"
            for key, why in sorted(result.stopped.items()):
                yield f"{result.table}: {key} is stopped: {why}"
            for sentence in describe(result.table, result.refused):
                yield f"{result.table}: {sentence}"
        if not self._results and not self._errors:
            yield "nothing is staged"


READY = 10.0
"""Seconds that ``commit`` waits for the control topic before it asks nobody."""


@click.command(epilog="Example: secor tables run /etc/secor/table.toml")
@click.argument("config", type=click.Path(path_type=Path))
def run(config: Path) -> int:
    """Coordinate the commits of a table group until stopped.

    Use it for a group with commit.coordinator = "alone".  Of several processes one leads and the
    others wait as standbys.  They elect the leader by the control topic, so with
    commit.control = "none" run only one.  SIGTERM or Ctrl-C ends it after the commit under way.
    Exit code 4 when Spark has ended: start it again, as the service does.
    """
    from secor.service import logs
    from secor.service.journal import JournaldConnection, is_journal
    from secor.service.metrics import Metrics
    from secor.service.monitoring.health import Health
    from secor.service.monitoring.table_telemetry import TableTelemetry
    from secor.service.status.table_board import TableBoard
    from secor.service.systemd import StopSignal
    from secor.wiring.http_server import metrics_server, pages_of_tables
    from secor.wiring.table_entries import fixed_tables
    from secor.wiring.table_group import clock

    settings = load_tables(config)
    journal = None
    if settings.logs.format == "auto" and is_journal(sys.stderr, os.environ):
        journal = JournaldConnection()
    logs.configure(settings.logs.level, settings.logs.format, sys.stderr, journal)
    log = structlog.get_logger("secor.tables.run")
    if settings.commit.coordinator != "alone":
        log.warning("not_alone", what='commit.coordinator = "daemon": a daemon coordinates, too')
    stopping = StopSignal()
    metrics = Metrics()
    board = TableBoard(clock, _sender(), fixed_tables(settings))
    observer = TableTelemetry(metrics, clock, board)
    # A merge may take long: only many intervals and ten minutes without a turn mean that it hangs.
    health = Health(clock, limit=10 * settings.commit.interval + 600.0)
    pages = pages_of_tables(settings.group.name, board, health, clock)
    with metrics_server(settings.metrics, health, metrics, pages), merging(settings) as engine:
        if engine is not None:
            # It takes seconds: not when the first rows wait.  What fails ends this process,
            # which can start no other JVM.
            log.info("spark_starts", log=str(log_of(settings)), within=settings.spark.timeout)
            engine.start()
            log.info("spark_started")
        while not stopping.is_set():
            try:
                if not _coordinate(settings, engine, observer, health, stopping):
                    why = engine.why_ended if engine is not None else ""
                    log.error("spark_ended", why=why, what="start this process again")
                    return Exit.UNAVAILABLE
            except Unavailable as error:
                log.warning("waiting", why=str(error))
                stopping.wait(5.0)
    log.info("ended")
    return Exit.OK


def _coordinate(
    settings: Config,
    engine: SparkMergeEngine | SparkHudiEngine | None,
    observer: TableTelemetry,
    health: Health,
    stopping: StopSignal,
) -> bool:
    """Coordinate or wait as a standby until stopped; False when Spark has ended by itself.

    Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``.
    """
    from secor.tables.control import SharedChannel
    from secor.wiring.table_coordination import elected, open_channel
    from secor.wiring.table_group import open_table_group

    with (
        open_table_group(settings, engine) as group,
        closing(SharedChannel(open_channel(settings, observer.event))) as channel,
        elected(settings) as leads,
    ):
        # An end of its own: events that the board takes are not missing at the coordinator.
        heard = channel.end()
        coordinator = group.coordinator(channel.end(), observer, leads, _sender())
        observer.board.watch(coordinator)
        try:
            while not stopping.wait(coordinator.step()):
                health.beat()
                for event in heard.receive():
                    observer.board.hear(event)
                # A process starts one JVM in its life, so a new process is needed.
                if engine is not None and engine.ended:
                    return False
        finally:
            # Also after an error: metrics and status page must not go on saying that this process
            # leads.
            coordinator.step_down()
    return True


@click.command(epilog="Example: secor tables commit table.toml --now")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--now", is_flag=True, help="Ask no daemon: commit what is already staged.")
def commit(config: Path, now: bool) -> int:
    """Run one cycle, next to the coordinator.

    It asks the daemons to upload what they hold and waits for them, as a cycle does; with --now it
    does not ask.  Exit code 5 when a table is stopped or could not be committed.
    """
    from secor.wiring.table_coordination import open_channel
    from secor.wiring.table_group import open_table_group

    settings = load_tables(config)
    commit_report = CycleReport()
    asks = not now and settings.commit.control != "none"
    with (
        merging(settings) as engine,
        open_table_group(settings, engine) as group,
        closing(open_channel(settings if asks else _silent(settings), lambda *_: None)) as channel,
    ):
        ready = getattr(channel, "ready", None)
        # Before the first step: answers that come before this process reads the topic would be
        # missed.
        if ready is not None and not ready.wait(READY):
            raise Unavailable("the control topic does not answer: use --now")
        timing = Timing(0.0, settings.commit.timeout, asks=asks)
        coordinator = group.coordinator(channel, commit_report, lambda: True, _sender(), timing)
        while True:
            time.sleep(coordinator.step())
            if coordinator.state is State.IDLE:
                break
        time.sleep(0.5 if asks else 0.0)  # what is announced last is on its way
    for line in commit_report.lines():
        click.echo(line)
    return Exit.DIFFERENT if commit_report.wrong else Exit.OK


def _silent(config: Config) -> Config:
    commit = config.commit.model_copy(update={"control": "none"})
    return config.model_copy(update={"commit": commit})


def _sender() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"
