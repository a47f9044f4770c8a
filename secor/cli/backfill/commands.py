"""``secor backfill``: parse what the backup has again, and put it in place of what was wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from secor.archive.backfill.model import BackfillPlan, read_plan
from secor.cli.backfill.plan import CONFIG, check_kinds, plan_command
from secor.cli.backfill.publish import progress, publish_command, rollback_command
from secor.cli.exit_codes import Exit
from secor.cli.open_archive import human_size, table
from secor.cli.topic_type import (
    backfilled,
    json_option,
    metrics_file_option,
    print_json,
    spark_settings,
)
from secor.config.load import load
from secor.core.clock import SystemClock
from secor.core.text import how_many
from secor.service.monitoring.last_run import LastRun
from secor.verify.archive.report import ArchiveReport
from secor.verify.backfill import Summary, summary_of

LINES = 20
"""Output partitions and findings printed; --json has all."""


@click.group(epilog="Example: secor backfill plan backup.toml partition.toml clicks -o plan.json")
def command() -> None:
    """Parse the backup again, and replace what the partition group had stored.

    Run plan, run, verify and publish in this order; rollback undoes them.
    """


for _other in (plan_command, publish_command, rollback_command):
    command.add_command(_other)


def _on_spark(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--master", help="Spark's master; default: spark-submit's, or local[*]."),
        click.option(
            "--conf",
            "conf",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of Spark; may be repeated.",
        ),
        click.option(
            "--local-directory",
            type=CONFIG,
            help="Directory for files that are being written."
            "  Default: the system's, such as /tmp.",
        ),
        metrics_file_option,
    ):
        function = option(function)
    return function


# ----------------------------------------------------------------- run and verify


@command.command(
    "run",
    epilog="\b\nExample: secor backfill run backup.toml partition.toml plan.json"
    " --master 'local[4]'",
)
@click.argument("backup", type=CONFIG)
@click.argument("partition", type=CONFIG)
@click.argument("plan_file", metavar="PLAN", type=CONFIG)
@_on_spark
def run_command(
    backup: Path,
    partition: Path,
    plan_file: Path,
    master: str | None,
    conf: tuple[str, ...],
    local_directory: Path | None,
    metrics_file: Path | None,
) -> None:
    """Parse the plan's messages on Spark, into hidden objects next to the old ones.

    Readers do not see these objects.  After a crash, run it again: finished batches stay.
    """
    from secor.wiring.backfill import stage

    plan, last_run = read_plan(plan_file), LastRun(metrics_file, SystemClock())
    if _published(partition, plan, local_directory):
        return
    receipts = _do("parsing", stage, backup, partition, plan, master, conf, local_directory)
    backfilled(last_run, partition, plan, "run")
    files = [file for receipt in receipts for file in receipt.files]
    click.echo(
        f"read {how_many(sum(batch.read for batch in receipts), 'message')}:"
        f" {how_many(len(files), 'object')}"
        f" ({human_size(sum(file.size for file in files))}) staged,"
        f" {sum(batch.quarantined for batch in receipts):,} in quarantine,"
        f" {sum(batch.filtered for batch in receipts):,} filtered. Next: secor backfill verify"
    )


@command.command(
    "verify", epilog="Example: secor backfill verify backup.toml partition.toml plan.json"
)
@click.argument("backup", type=CONFIG)
@click.argument("partition", type=CONFIG)
@click.argument("plan_file", metavar="PLAN", type=CONFIG)
@_on_spark
@json_option
def verify_command(
    backup: Path,
    partition: Path,
    plan_file: Path,
    master: str | None,
    conf: tuple[str, ...],
    local_directory: Path | None,
    metrics_file: Path | None,
    as_json: bool,
) -> int:
    """Prove that each message of the plan is, once, staged, in quarantine or filtered.

    It prints the differences between old and new objects.  Exit code 0 when nothing is wrong,
    else 5; publish requires 0.
    """
    from secor.wiring.backfill import check, open_publisher

    plan, last_run = read_plan(plan_file), LastRun(metrics_file, SystemClock())
    if _published(partition, plan, local_directory):
        return Exit.OK
    summary = summary_of(
        _do("verifying", check, backup, partition, plan, master, conf, local_directory)
    )
    if summary.right:
        with open_publisher(load(partition, os.environ), plan, local_directory, 1) as publisher:
            publisher.record_verified()
        backfilled(last_run, partition, plan, "verify")
    _print_summary(summary, as_json=as_json)
    return Exit.OK if summary.right else Exit.DIFFERENT


def _published(partition: Path, plan: BackfillPlan, directory: Path | None) -> bool:
    """Return whether nothing is left to do.  Raises ``ConfigurationError`` in a rollback."""
    from secor.wiring.backfill import open_publisher

    with open_publisher(load(partition, os.environ), plan, directory, 1) as publisher:
        done = publisher.journal.finished()
    if done:
        click.echo(f"backfill {plan.id} is published already")
    return done


def _do(
    what: str,
    step: Callable[..., Iterator[Any]],
    backup: Path,
    partition: Path,
    plan: BackfillPlan,
    master: str | None,
    conf: tuple[str, ...],
    directory: Path | None,
) -> list[Any]:
    from secor.spark import backfill
    from secor.wiring.backfill import ExecutorSettings, open_job

    settings = spark_settings(conf)
    source, target = load(backup, os.environ), load(partition, os.environ)
    check_kinds(source, target, backup, partition)
    setting = ExecutorSettings.of(source, target, plan, directory)
    with open_job(setting):
        pass  # the settings are the plan's, and the stores answer: known before Spark starts
    with (
        backfill.session(f"secor backfill {plan.topic} {plan.id}", master, settings) as spark,
        progress(what, sum(batch.end - batch.start for batch in plan.batches)) as show,
    ):
        return backfill.run(spark, partial(step, setting), plan.batches, show)


def _print_summary(summary: Summary, *, as_json: bool) -> None:
    report, changes = ArchiveReport(summary.reports), summary.differences
    names = sorted(set(changes.old) | set(changes.new))
    if as_json:
        facts = {
            "right": summary.right,
            "read": summary.read,
            "filtered": summary.filtered,
            "quarantined": summary.quarantined,
            "differences": {
                "output_partitions": {
                    name: [changes.old[name], changes.new[name]] for name in names
                },
                "moved": changes.moved,
                "left_quarantine": changes.left,
                "entered_quarantine": changes.entered,
                "exact": changes.exact,
            },
            "report": report.as_json(),
        }
        print_json(facts)
        return
    changed = [name for name in names if changes.old[name] != changes.new[name]]
    rows = [("output partition", "old", "new")]
    rows += [(name, f"{changes.old[name]:,}", f"{changes.new[name]:,}") for name in changed[:LINES]]
    for line in table(rows, left=frozenset({0})) if changed else ():
        click.echo(line)
    if len(changed) > LINES:
        click.echo(f"… {len(changed) - LINES:,} more (--json shows all)")
    if changes.exact:
        click.echo(
            f"{how_many(changes.moved, 'message')} moved, {changes.entered:,} new in quarantine,"
            f" {changes.left:,} out of it"
        )
    for partition in summary.reports:
        for finding in partition.findings[:LINES]:
            click.echo(str(finding))
    click.echo(f"{summary.filtered:,} filtered, {summary.quarantined:,} in quarantine")
    click.echo(report.summary)
