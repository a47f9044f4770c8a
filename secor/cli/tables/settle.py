"""``secor tables accept``, ``replay`` and ``set-aside``: a person's decisions about a table."""

from __future__ import annotations

from pathlib import Path

import click

from secor.cli.tables.options import TABLE, load_tables
from secor.cli.tables.spark import merging
from secor.cli.topic_type import json_option, print_json
from secor.tables.repair.settle import Settlement

config_argument = click.argument("config", type=click.Path(path_type=Path))
table_argument = click.argument("name", metavar="TABLE", type=TABLE)
dry_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")


@click.command(epilog="Example: secor tables accept table.toml logs.clicks --dry-run")
@config_argument
@table_argument
@dry_option
def accept(config: Path, name: str, dry_run: bool) -> None:
    """Go on with TABLE as it is now, after it was stopped.

    Rows that a rollback removed stay away.  Files staged so far for a dropped table of this name
    are given up.  A topic that was recreated, or is another cluster's, begins next to the existing
    rows.
    """
    from secor.wiring.table_group import open_table_group

    settings = load_tables(config)
    with merging(settings) as engine, open_table_group(settings, engine) as group:
        staged = group.staged()
        group.require(name, staged)
        settled = group.settling.accept(name, staged, group.request(), dry_run=dry_run)
    _print_settled(name, settled, dry_run=dry_run)


@click.command(epilog="Example: secor tables replay table.toml logs.clicks --dry-run")
@config_argument
@table_argument
@dry_option
def replay(config: Path, name: str, dry_run: bool) -> None:
    """Commit to TABLE again what a rollback has removed.

    It writes no files: it uses those of the removed commits, as long as their snapshots have not
    expired.
    """
    from secor.wiring.table_group import open_table_group

    settings = load_tables(config)
    with merging(settings) as engine, open_table_group(settings, engine) as group:
        group.require(name, group.staged())
        settled = group.settling.replay(name, group.request(), dry_run=dry_run)
    _print_settled(name, settled, dry_run=dry_run)


@click.command(
    "set-aside", epilog="Example: secor tables set-aside table.toml logs.clicks --dry-run"
)
@config_argument
@table_argument
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option(
    "--reason", metavar="TEXT", default="", help="Why, for the quarantine.  Default: the refusal's."
)
@click.option(
    "--without-missing",
    is_flag=True,
    help="Go on although the log no longer has all messages of a file.",
)
@dry_option
@json_option
def set_aside(
    config: Path,
    name: str,
    files: tuple[str, ...],
    reason: str,
    without_missing: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Put the messages of staged files that TABLE cannot take into quarantine.

    FILE is a path, or its end, as 'secor tables status' shows it; without one, all files that are
    refused.  TABLE goes on without them.  'secor quarantine replay' brings the messages back after
    a correction, into TABLE alone.  The command reads them from the log; the service may run
    meanwhile.
    """
    from secor.wiring.table_group import open_table_group
    from secor.wiring.table_replays import set_files_aside

    settings = load_tables(config)
    with merging(settings) as engine, open_table_group(settings, engine) as group:
        done = set_files_aside(
            group, name, files, reason=reason, without_missing=without_missing, dry_run=dry_run
        )
    if as_json:
        print_json({"files": [outcome.as_json() for outcome in done]})
        return
    for outcome in done:
        click.echo(f"{name}: {outcome.line}")
    if not done:
        click.echo(f"{name}: no file is refused")
    elif dry_run:
        click.echo("nothing was changed: this was a dry run")


def _print_settled(name: str, settled: Settlement, *, dry_run: bool) -> None:
    if not settled.changes:
        click.echo(f"{name}: nothing is to be settled")
        return
    for change in settled.changes:
        click.echo(f"{name}: {change}")
    if dry_run:
        click.echo("nothing was changed: this was a dry run")
    elif settled.commit is not None:
        click.echo(f"{name}: done, as commit {settled.commit.id}")
