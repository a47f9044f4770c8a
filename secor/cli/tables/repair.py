"""``secor tables repair``: metadata of data files, recorded anew as the files are."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secor.cli.exit_codes import Exit
from secor.cli.tables.options import TABLE, load_tables
from secor.cli.topic_type import json_option, print_json
from secor.core.errors import ConfigurationError, TableStopped, Unavailable
from secor.core.retry import delay
from secor.core.text import how_many
from secor.jobs.verify_tables import compare_table
from secor.tables.catalog import Outcome
from secor.tables.commit.table_commit import GONE
from secor.tables.overview import has_files
from secor.verify.metadata import ComparedMetadata

if TYPE_CHECKING:
    from secor.wiring.table_group import TableGroup

ATTEMPTS = 10
"""Attempts of one commit: others may commit at the same time."""


@click.command(epilog="Example: secor tables repair table.toml logs.clicks --dry-run")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("names", metavar="[TABLE]...", type=TABLE, nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only show what is wrong.")
@json_option
@click.pass_context
def repair(
    context: click.Context, config: Path, names: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Record anew what tables say of their files, where 'secor verify' finds that wrong.

    It reads all files of the tables of the group, or of those that you name, and commits a
    snapshot with the same files, in which counts and bounds are right.  No file is written or
    moved but manifests.  It may run while the group does.  Exit code 5 when something is left that
    only writing a file again corrects, such as a partition value, or a file cannot be read.
    """
    from secor.wiring.table_group import open_table_group

    settings = load_tables(config)
    if settings.table_format == "hudi":
        raise ConfigurationError(f"{config}: Hudi tables record nothing of their files: see verify")
    left, repaired = 0, []
    with open_table_group(settings) as group:
        staged = group.staged()
        for name in names:
            group.require(name, staged)
        for name in names or group.tables(staged):
            try:
                compared, changed = _repair(group, name, dry_run=dry_run)
            except TableStopped as error:
                if error.reason == GONE and name not in names and not has_files(staged, name):
                    continue  # messages have not made it yet
                click.echo(f"{error}; left as it is", err=True)
                left += 1
                continue
            left += compared.findings if dry_run else compared.findings - compared.correctable
            repaired.append({**compared.as_json(), "corrected": changed})
            if not as_json:
                for line in compared.lines():
                    click.echo(line)
                for line in _outcome(compared, changed, dry_run=dry_run):
                    click.echo(f"{name}: {line}")
    if as_json:
        print_json({"tables": repaired})
    if left:
        context.exit(Exit.DIFFERENT)


def _repair(group: TableGroup, name: str, *, dry_run: bool) -> tuple[ComparedMetadata, bool]:
    """Compare a table and correct it; return whether a snapshot was committed."""
    table, _ = group.committer.look(name)
    compared = compare_table(group, name, table)
    if dry_run or not compared.corrections:
        return compared, False
    return compared, _correct(group, name, compared.corrections)


def _correct(group: TableGroup, name: str, corrections: Mapping[str, Mapping[str, Any]]) -> bool:
    """Try until it is committed; files are final, so what is right of them stays so."""
    rng = random.Random()
    answer = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(delay(attempt, rng=rng))
        table, _ = group.committer.look(name)
        result = group.catalog.correct(table, group.config.commit.branch, corrections)
        if result is None:
            return attempt > 0  # an attempt of ours, its answer lost, or somebody else
        if result.outcome is Outcome.DONE:
            return True
        answer = result.why
    raise Unavailable(
        f"{name}: {ATTEMPTS} attempts of one commit came to nothing, the last with: {answer};"
        " try again"
    )


def _outcome(compared: ComparedMetadata, changed: bool, *, dry_run: bool) -> list[str]:
    if not compared.findings:
        return ["nothing is to be corrected"]
    left = compared.findings - compared.correctable
    lines = []
    if dry_run:
        corrected = how_many(compared.correctable, "finding")
        lines.append(f"{corrected} would be corrected: this was a dry run")
    elif changed:
        lines.append(f"{how_many(compared.correctable, 'finding')} corrected, in a snapshot")
    if left:
        lines.append(f"{how_many(left, 'finding')} left: see above what to do")
    return lines
