"""``secor restore``: the archive back into Kafka."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import structlog

from secor.cli.exit_codes import Exit
from secor.cli.restore_control import fence, offsets, pause, resume, stop
from secor.cli.restore_groups import groups
from secor.cli.restore_look import status, verify
from secor.cli.restore_options import configuration, load_job, progress_bar
from secor.cli.restore_plan import plan
from secor.core.text import how_many
from secor.service import logs
from secor.service.imports import keep_pandas_out

if TYPE_CHECKING:
    from secor.config.restore import RestoreConfig
    from secor.restore.engine import Ended
    from secor.service.monitoring.restore_telemetry import RestoreTelemetry
    from secor.wiring.restore import Job


@click.group(epilog="Example: secor restore plan flights.toml && secor restore run flights.toml")
def command() -> None:
    """Write archived messages back to Kafka topics in transactions, each message once.

    A job is one file; docs/configuration.md explains every key.  The job commits its offsets in the
    same transactions as the messages: a daemon that was killed continues where it was.
    """
    keep_pandas_out()


@command.command(epilog="Example: secor restore run flights.toml")
@configuration
def run(config: Path) -> int:
    """Write the archive of JOB.toml to the target; run as many daemons as you like.

    It ends with 0 when everything is written, unless writing.follow is set; with 5 when a source
    partition failed, or the job is stopped.  SIGTERM or Ctrl-C commits what is open and ends
    with 0.
    """
    from secor.wiring.restore import open_job

    settings = load_job(config)
    with telemetry_of(settings, config, "secor.restore") as telemetry, open_job(settings) as job:
        ended = write_messages(job, telemetry)
    return _summarize(settings.group.name, ended, telemetry, config)


@contextmanager
def telemetry_of(settings: RestoreConfig, config: Path, name: str) -> Iterator[RestoreTelemetry]:
    """Begin to log and, where a port is given, to serve metrics and pages; for one daemon."""
    from secor.core.clock import SystemClock
    from secor.jobs.restore.run import STUCK
    from secor.service.monitoring.health import Health
    from secor.service.monitoring.restore_telemetry import RestoreTelemetry
    from secor.service.restore_metrics import RestoreMetrics
    from secor.wiring.http_server import metrics_server, pages_of_restore

    logs.configure(settings.logs.level, settings.logs.format, sys.stderr, None)
    job = settings.group.name
    structlog.get_logger(name).info("starting", job=job, config=str(config))
    metrics, clock = RestoreMetrics(), SystemClock()
    health = Health(clock, limit=STUCK)
    transactional = settings.writing.exactly_once == "required"
    telemetry = RestoreTelemetry(metrics, health, clock, transactional=transactional)
    pages = pages_of_restore(partial(telemetry.status, job))
    with metrics_server(settings.metrics, health, metrics, pages):
        yield telemetry


def write_messages(job: Job, telemetry: RestoreTelemetry) -> Ended:
    """Make the missing topics and write all messages; ends early with SIGTERM or a stop.

    Raises ``ConfigurationError`` where the job must not begin.
    """
    from secor.jobs.restore.plan import prepare
    from secor.jobs.restore.run import daemon_of
    from secor.jobs.restore.run import run as run_engine

    planned = prepare(job)
    log = structlog.get_logger("secor.restore")
    for finding in planned.findings:
        log.warning("preflight", topic=finding.topic, what=finding.what)
    telemetry.ends = planned.ends
    with daemon_of(job, telemetry) as daemon, progress_bar("restoring") as show:
        return run_engine(
            daemon,
            job.config.writing.workers,
            telemetry,
            lambda: show(*telemetry.done, telemetry.messages),
        )


def _summarize(job: str, ended: Ended, telemetry: RestoreTelemetry, config: Path) -> Exit:
    from secor.restore.control import RequestedState

    structlog.get_logger("secor.restore").info(
        "ended",
        job=job,
        state=ended.requested.value,
        messages=telemetry.messages,
        transactions=telemetry.transactions,
        failed=len(ended.failed),
    )
    for assigned_source in ended.failed:
        click.echo(f"{assigned_source.source}: {assigned_source.error}", err=True)
    stopped = ended.requested is RequestedState.STOPPED
    where = f"in {how_many(telemetry.transactions, 'transaction')}"
    click.echo(
        f"{how_many(telemetry.messages, 'message')} written"
        f" {where if telemetry.transactional else 'without transactions'}"
        + (f"; the job is stopped, see secor restore resume {config}" if stopped else "")
    )
    return Exit.DIFFERENT if ended.failed or stopped else Exit.OK


for subcommand in (plan, status, pause, resume, stop, fence, offsets, verify, groups):
    command.add_command(subcommand)
