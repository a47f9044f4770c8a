"""``secor tables accept`` and ``replay``: what a person decides of a table that was stopped."""

from __future__ import annotations

from pathlib import Path

import click

from secor.cli.load_tables import load_tables
from secor.cli.merge_engine import merging
from secor.cli.table_type import TABLE
from secor.tables.settle import Settled

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
    are given up.  A topic that was recreated, or is another cluster's, begins beside the existing
    rows.
    """
    from secor.wiring.table_group import open_table_group

    settings = load_tables(config)
    with merging(settings) as engine, open_table_group(settings, engine) as group:
        staged = group.staged()
        group.require(name, staged)
        settled = group.settling.accept(name, staged, group.request(), dry_run=dry_run)
    _tell(name, settled, dry_run=dry_run)


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
    _tell(name, settled, dry_run=dry_run)


def _tell(name: str, settled: Settled, *, dry_run: bool) -> None:
    if not settled.changes:
        click.echo(f"{name}: nothing is to be settled")
        return
    for change in settled.changes:
        click.echo(f"{name}: {change}")
    if dry_run:
        click.echo("nothing was changed: this was a dry run")
    elif settled.commit is not None:
        click.echo(f"{name}: done, as commit {settled.commit.id}")
