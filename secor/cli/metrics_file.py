"""The option ``--metrics-file`` of commands that timers run."""

from __future__ import annotations

import os
from pathlib import Path

import click

from secor.archive.backfill.model import BackfillPlan
from secor.config.load import load
from secor.service.monitoring.last_run import LastRun

metrics_file_option = click.option(
    "--metrics-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="On success, write times and counts to FILE for node_exporter's textfile collector.",
)


def backfilled(last_run: LastRun, partition: Path, plan: BackfillPlan, step: str) -> None:
    """Write that a step of the backfill of the group of ``partition`` succeeded."""
    group = load(partition, os.environ).group.name
    batches, replaced = len(plan.batches), len(plan.replaced)
    last_run.backfilled(group, plan.topic, step, batches=batches, replaced=replaced)
