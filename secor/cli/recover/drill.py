"""``secor drill``: a recovery into servers of its own, measured, verified, and removed again."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import structlog

from secor.archive.evidence.signature import read_private_key, signature_path
from secor.cli.exit_codes import Exit
from secor.cli.open_archive import human_size
from secor.cli.recover.drill_report import DrillReport, sampled, shown
from secor.cli.recover.options import load_recovery, moment
from secor.cli.restore.commands import telemetry_of, write_messages
from secor.cli.restore.look import results_of
from secor.cli.restore.options import configuration
from secor.cli.sandbox import sandbox_class
from secor.cli.topic_type import metrics_file_option
from secor.cli.verify.evidence import write_signed
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError, SecorError, Unavailable
from secor.service.imports import keep_pandas_out
from secor.service.monitoring.last_run import LastRun

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from secor.config.restore import RestoreConfig
    from secor.config.servers import Brokers
    from secor.wiring.restore import Job

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""So that the drill's broker takes ACLs; every client may do all."""
ROOM = 1.5
"""Free bytes that are asked for, for each archived one: logs are compressed otherwise."""


@click.command(epilog="Example: secor drill lost.toml --report drill.json")
@configuration
@moment
@click.option(
    "--sample",
    type=click.IntRange(1),
    metavar="N",
    help="Only the last N offsets of each partition.  Default: everything.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the report to FILE in JSON, and for people to FILE.txt; an older one is replaced.",
)
@click.option(
    "--sign-with",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="KEYFILE",
    help="Sign the file of --report: FILE.sig.  An Ed25519 key in PEM format, as 'secor evidence"
    " keygen' makes.",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Drill on the cluster of the [kafka] in this TOML file, instead of a broker on this"
    " machine.  It must have no topics; all that the drill makes there is removed at the end.",
)
@click.option(
    "--directory",
    "-d",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the drill's broker keeps its data until the end.  Default: a temporary folder.",
)
@metrics_file_option
def command(
    config: Path,
    time: str | None,
    cluster: str | None,
    sample: int | None,
    report: Path | None,
    sign_with: Path | None,
    into: Path | None,
    directory: Path | None,
    metrics_file: Path | None,
) -> int:
    """Prove that the cluster would come back, and how fast: recover it, verify, remove it all.

    JOB.toml is that of 'secor recover'; its [kafka] is not used: the drill starts a broker of its
    own on this machine, or goes to the cluster of --into.  Exit code 0 when everything came back
    equal, 5 when not; the metrics file is written in both cases.
    """
    keep_pandas_out()
    if sign_with is not None and report is None:
        raise ConfigurationError("--sign-with needs --report FILE")
    if into is not None and directory is not None:
        raise ConfigurationError("--directory is of the drill's own broker: leave out one of both")
    key = None if sign_with is None else read_private_key(sign_with)
    brokers = None if into is None else _brokers_of(into)
    settings = load_recovery(config, time)
    last_run = LastRun(metrics_file, SystemClock())
    last_run.drilling(settings.group.name)
    done = DrillReport(settings.group.name, settings.store)
    try:
        with _broker(directory, done) if brokers is None else _cluster(brokers, done) as there:
            replicas = 1 if into is None else settings.target.replication_factor
            _drill(_for_drill(settings, there, replicas), config, cluster, sample, done)
    except Unavailable:
        raise  # Nothing is proven by a server that was away: tried again.
    except SecorError as error:
        done.problems.append(str(error))
    last_run.drilled(
        settings.group.name,
        succeeded=done.passed,
        recovery=done.recovery_seconds,
        age=done.age_seconds,
        messages=done.messages,
    )
    if report is not None:
        _write(report, done, key)
    for line in shown(done):
        click.echo(line)
    return Exit.OK if done.passed else Exit.DIFFERENT


def _drill(
    settings: RestoreConfig,
    path: Path,
    cluster: str | None,
    sample: int | None,
    done: DrillReport,
) -> None:
    from secor.jobs.recover.recovery import open_recovery

    with telemetry_of(settings, path, "secor.drill") as telemetry:
        with open_recovery(settings, cluster) as recovery:
            chosen = sampled(recovery.job, sample)
            done.found(recovery, sample)
        # Opened again, for the cluster that was found: with a backup that still runs the newest one
        # may be another by now.
        with open_recovery(chosen, done.cluster) as recovery:
            _room(recovery.job, done)
            started = time.monotonic()
            ended = write_messages(recovery.job, telemetry)
            done.problems += [f"{failed.source}: {failed.error}" for failed in ended.failed]
            if not recovery.messages().is_complete:
                done.problems.append("not all messages were written")
                return
            # Settings that delete messages come last of all: what is verified must be there.
            list(recovery.bring_back(force=False, hold=True))
            recovered = time.monotonic()
            results = results_of(recovery.job, quiet=True)
            verified = time.monotonic()
            done.compared(results)
            states = list(recovery.bring_back(force=False, hold=False))
            done.recovery_seconds = (recovered - started) + (time.monotonic() - verified)
            done.verify_seconds = verified - recovered
            done.states += [recovery.messages(), *states]


def _brokers_of(path: Path) -> Brokers:
    """Read the cluster of a drill.  Raises ``ConfigurationError``."""
    from secor.config.load import load_as
    from secor.config.restore import DrillCluster

    # Variables that say where the recovery goes say nothing of the drill.
    others = {name: value for name, value in os.environ.items() if not name.startswith("SECOR_")}
    return load_as(DrillCluster, path, others)[0].kafka


def _for_drill(settings: RestoreConfig, brokers: Brokers, replicas: int | None) -> RestoreConfig:
    """Return the job for the drill's broker: its own cluster, no registry, nothing served."""
    from secor.config.cluster import Registry

    target = {"append": False, "create": True, "replication_factor": replicas}
    return settings.model_copy(
        update={
            "group": settings.group.model_copy(
                update={"name": f"drill-{settings.group.name}"[:200]}
            ),
            "kafka": brokers,
            "target": settings.target.model_copy(update=target),
            "registry": Registry(),
            "recover": settings.recover.model_copy(
                update={"leave_out": (*settings.recover.leave_out, "schemas")}
            ),
            "metrics": settings.metrics.model_copy(update={"port": None}),
        }
    )


@contextmanager
def _cluster(brokers: Brokers, done: DrillReport) -> Iterator[Brokers]:
    """Take an empty cluster, and remove all that was made there at the end.

    Raises ``ConfigurationError`` for one that has topics: they might be somebody's.
    """
    from secor.wiring.restore import cleaner_of

    cleaner = cleaner_of(brokers)
    if cleaner.topics:
        named = ", ".join(sorted(cleaner.topics)[:5])
        raise ConfigurationError(
            f"the cluster of --into has topics ({named}): a drill needs one that has none. If an"
            " earlier drill was killed there, remove what it has left"
        )
    try:
        yield brokers
    finally:
        done.problems += cleaner.remove()


@contextmanager
def _broker(directory: Path | None, done: DrillReport) -> Iterator[Brokers]:
    """Start a broker in a new folder, and remove it with all its data at the end."""
    from secor.config.servers import Brokers

    log = structlog.get_logger("secor.drill")
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="secor-drill-", dir=directory))
    sandbox = None
    try:
        done.directory = folder
        sandbox = sandbox_class().up(folder, services=("kafka",), kafka_settings=AUTHORIZER)
        done.start_seconds = time.monotonic() - started
        log.info("drill's broker started", address=sandbox.kafka, directory=str(folder))
        yield Brokers(bootstrap_servers=(sandbox.kafka,))
    finally:
        if sandbox is not None:
            sandbox.down()
        shutil.rmtree(folder, ignore_errors=True)


def _room(job: Job, done: DrillReport) -> None:
    """Refuse what would fill this machine's disk.  Raises ``ConfigurationError``."""
    if done.directory is None:
        return  # What disks the cluster of a file has, its brokers say where the job begins.
    needed = int(done.archived_bytes * ROOM)
    free = shutil.disk_usage(done.directory).free
    if needed > free:
        raise ConfigurationError(
            f"{done.directory}: the drill needs about {human_size(needed)} and there are"
            f" {human_size(free)}: name another folder with --directory, or take a --sample"
        )


def _write(path: Path, done: DrillReport, key: Ed25519PrivateKey | None) -> None:
    """Write the report, its text and its signature.  Raises ``ConfigurationError``."""
    text = "".join(f"{line}\n" for line in shown(done))
    try:
        if key is None:
            # That of an older report would not fit.
            signature_path(path).unlink(missing_ok=True)
        path.with_name(path.name + ".txt").write_text(text)
    except OSError as error:
        raise ConfigurationError(f"--report {path}: cannot be written ({error.strerror})") from (
            error
        )
    write_signed(path, done.encode(), key)
