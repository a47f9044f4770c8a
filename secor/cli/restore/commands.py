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
from secor.cli.open_archive import table
from secor.cli.restore.groups import groups
from secor.cli.restore.look import status, verify
from secor.cli.restore.options import as_json, configuration, load_job, progress_bar
from secor.cli.restore.plan import plan
from secor.cli.topic_type import print_json
from secor.core.errors import ConfigurationError
from secor.core.text import how_many
from secor.service import logs
from secor.service.imports import keep_pandas_out

if TYPE_CHECKING:
    from secor.config.restore import RestoreConfig
    from secor.restore.control import JobControl
    from secor.restore.engine import Ended
    from secor.service.monitoring.restore_telemetry import RestoreTelemetry
    from secor.wiring.restore import Job

LAST_OFFSET = 2**63 - 1
"""Kafka's offsets have 64 bits, with a sign."""


@contextmanager
def _started_job(config: Path) -> Iterator[tuple[Job, JobControl, int]]:
    from secor.jobs.restore.control import not_started
    from secor.wiring.restore import open_job

    with open_job(load_job(config)) as job:
        count = job.offsets_partitions()
        if not count:
            raise ConfigurationError(not_started(job))
        yield job, job.control(count), count


@click.command(epilog="Example: secor restore pause flights.toml")
@configuration
def pause(config: Path) -> None:
    """Let every daemon commit what is open and wait, without ending."""
    from secor.restore.control import RequestedState

    with _started_job(config) as (job, control, _):
        control.request(RequestedState.PAUSED)
        click.echo(f"{job.name} is paused; daemons wait within some seconds")


@click.command(epilog="Example: secor restore resume flights.toml")
@configuration
@click.option(
    "--moved",
    is_flag=True,
    help="All objects of the archive were moved or copied to the store in JOB.toml.",
)
def resume(config: Path, *, moved: bool) -> None:
    """Let a paused or stopped job go on; start the daemons again that a stop has ended."""
    from secor.restore.control import RequestedState

    with _started_job(config) as (job, control, _):
        control.request(RequestedState.RUNNING, job.spec.archive if moved else None)
        reads = f", and reads {job.spec.archive}" if moved else ""
        click.echo(f"{job.name} may run{reads}")


@click.command(epilog="Example: secor restore stop flights.toml")
@configuration
def stop(config: Path) -> None:
    """End every daemon of the job, and fence daemons that miss the command."""
    from secor.jobs.restore.control import fence_all
    from secor.restore.control import RequestedState

    with _started_job(config) as (job, control, _):
        control.request(RequestedState.STOPPED)
        # After the request: a daemon that is fenced looks at the record, and must find that it is
        # to end.
        fenced = fence_all(job)
        what = f"{how_many(fenced, 'transactional id')} fenced"
        if not job.transactional:
            what = "without transactions none is fenced: wait until its daemons have ended"
        click.echo(f"{job.name} is stopped; {what}")


@click.command(epilog="Example: secor restore fence flights.toml")
@configuration
def fence(config: Path) -> None:
    """Initialise every transactional id of the job: open transactions end, writers stop.

    Daemons that still own their partitions initialise again and go on.
    """
    from secor.jobs.restore.control import fence_all

    with _started_job(config) as (job, _, _count):
        if not job.transactional:
            raise ConfigurationError(
                'nobody can be fenced with writing.exactly_once = "disabled": stop the job, and'
                " wait until its daemons have ended"
            )
        click.echo(f"{how_many(fence_all(job), 'transactional id')} fenced")


@click.group(epilog="Example: secor restore offsets show flights.toml")
def offsets() -> None:
    """Show or change where source partitions continue; change only while the job is stopped."""


@offsets.command(epilog="Example: secor restore offsets show flights.toml --json")
@configuration
@as_json
def show(config: Path, as_json: bool) -> None:
    """Show the committed offset of each source partition, and the spec that wrote it."""
    from secor.jobs.restore.offsets import read_all_offsets

    with _started_job(config) as (job, _, count):
        offsets = read_all_offsets(job, count)
    known = sorted(offsets.offsets.items())
    if as_json:
        offset_rows = [
            {**source.described(), "next_offset": stored.next_offset, "spec": stored.spec}
            for source, stored in known
        ]
        print_json({"offsets": offset_rows, "foreign": offsets.foreign})
        return
    rows = [("source", "next offset", "spec")]
    rows += [(str(source), str(stored.next_offset), stored.spec) for source, stored in known]
    for line in table(rows, left=frozenset({0, 2})):
        click.echo(line)
    if offsets.foreign:
        foreign = how_many(offsets.foreign, "record that is", "records that are")
        click.echo(f"the topic has {foreign} not this job's; they change nothing")


@offsets.command("set", epilog="Example: secor restore offsets set flights.toml clicks 0 1200")
@configuration
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0, LAST_OFFSET))
@click.option("--beyond", is_flag=True, help="OFFSET may be beyond the end of the archive.")
def set_offset(config: Path, topic: str, partition: int, offset: int, *, beyond: bool) -> None:
    """Let a source partition continue at OFFSET.

    Unwritten messages below OFFSET are left out; written messages above it are written again.
    """
    from secor.jobs.restore.control import change_offsets, check_offset

    with _started_job(config) as (job, control, count):
        chosen = [
            archived_source
            for archived_source in job.sources()
            if (archived_source.topic, archived_source.partition) == (topic, partition)
        ]
        if not chosen:
            raise ConfigurationError(f"the job has no source partition {topic}/{partition}")
        # All are checked before any is set: generations of a topic continue together.
        for source in chosen:
            check_offset(job.source.extent(source), offset, beyond=beyond)
        change_offsets(job, control, count, dict.fromkeys(chosen, offset))
        click.echo(f"{chosen[0]} goes on at {offset}")


@offsets.command(epilog="Example: secor restore offsets reset flights.toml")
@configuration
def reset(config: Path) -> int:
    """Forget all offsets and the spec: the job begins anew, and writes everything again."""
    from secor.jobs.restore.control import reset_offsets

    with _started_job(config) as (job, control, count):
        forgotten = reset_offsets(job, control, count)
        click.echo(f"{how_many(forgotten, 'offset')} forgotten")
    return Exit.OK


@offsets.command(epilog="Example: secor restore offsets recover flights.toml")
@configuration
def recover(config: Path) -> None:
    """Take the copies in writing.shared_offsets_topic of offsets that the job's topic has lost.

    The job is stopped afterwards; 'secor restore resume' lets it go on.  Copies may be behind by
    the last seconds before the loss: messages committed in these seconds are written again.
    """
    from secor.jobs.restore.control import recover_offsets
    from secor.wiring.restore import open_job

    with open_job(load_job(config)) as job:
        recovered = recover_offsets(job)
        click.echo(f"{how_many(len(recovered), 'offset')} taken from the copies")
        for source, next_offset in recovered.items():
            click.echo(f"{source} goes on at {next_offset}")
        click.echo(f"{job.name} is stopped; see secor restore resume {config}")


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

    # Before any daemon begins: what prevents the job is said with all of its reasons, and no topic
    # is left half made.
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
