"""``secor restore``: the archive back into Kafka."""

from __future__ import annotations

import sys
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

if TYPE_CHECKING:
    from secor.restore.engine import Ended
    from secor.service.monitoring.restore_telemetry import RestoreTelemetry


@click.group(epilog="Example: secor restore plan flights.toml && secor restore run flights.toml")
def command() -> None:
    """Write archived messages back to Kafka topics in transactions, each message once.

    A job is one file; docs/configuration.md explains every key.  The job commits its offsets in the
    same transactions as the messages: a daemon that was killed continues where it was.
    """


@command.command(epilog="Example: secor restore run flights.toml")
@configuration
def run(config: Path) -> int:
    """Write the archive of JOB.toml to the target; run as many daemons as you like.

    It ends with 0 when everything is written, unless writing.follow is set; with 5 when a source
    partition failed, or the job is stopped.  SIGTERM or Ctrl-C commits what is open and ends
    with 0.
    """
    from secor.core.clock import SystemClock
    from secor.service.monitoring.health import Health
    from secor.service.monitoring.restore_telemetry import RestoreTelemetry
    from secor.service.restore_metrics import RestoreMetrics
    from secor.wiring.http_server import metrics_server, pages_of_restore
    from secor.wiring.restore import open_job
    from secor.wiring.restore_plan import prepare
    from secor.wiring.restore_run import STUCK, daemon_of
    from secor.wiring.restore_run import run as run_engine

    settings = load_job(config)
    logs.configure(settings.logs.level, settings.logs.format, sys.stderr, None)
    log = structlog.get_logger("secor.restore")
    name = settings.group.name
    log.info("starting", job=name, config=str(config))
    metrics, clock = RestoreMetrics(), SystemClock()
    health = Health(clock, limit=STUCK)
    transactional = settings.writing.exactly_once == "required"
    telemetry = RestoreTelemetry(metrics, health, clock, transactional=transactional)
    pages = pages_of_restore(partial(telemetry.status, name))
    with metrics_server(settings.metrics, health, metrics, pages), open_job(settings) as job:
        planned = prepare(job)
        for finding in planned.findings:
            log.warning("preflight", topic=finding.topic, what=finding.what)
        telemetry.ends = planned.ends
        with daemon_of(job, telemetry) as daemon, progress_bar("restoring") as show:
            ended = run_engine(
                daemon,
                settings.writing.workers,
                telemetry,
                lambda: show(*telemetry.done, telemetry.messages),
            )
    return _summarize(name, ended, telemetry, config)


def _summarize(job: str, ended: Ended, telemetry: RestoreTelemetry, config: Path) -> Exit:
    from secor.restore.control import Wish

    structlog.get_logger("secor.restore").info(
        "ended",
        job=job,
        state=ended.wish.value,
        messages=telemetry.messages,
        transactions=telemetry.transactions,
        failed=len(ended.failed),
    )
    for assigned_source in ended.failed:
        click.echo(f"{assigned_source.source}: {assigned_source.error}", err=True)
    stopped = ended.wish is Wish.STOPPED
    where = f"in {how_many(telemetry.transactions, 'transaction')}"
    click.echo(
        f"{how_many(telemetry.messages, 'message')} written"
        f" {where if telemetry.transactional else 'without transactions'}"
        + (f"; the job is stopped, see secor restore resume {config}" if stopped else "")
    )
    return Exit.DIFFERENT if ended.failed or stopped else Exit.OK


for subcommand in (plan, status, pause, resume, stop, fence, offsets, verify, groups):
    command.add_command(subcommand)
