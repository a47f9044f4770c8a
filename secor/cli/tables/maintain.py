"""``secor tables maintain``: compaction and expiry of snapshots, by Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secor.cli.exit_codes import Exit
from secor.cli.tables.options import load_tables
from secor.cli.tables.spark import table_session
from secor.cli.topic_type import json_option, print_json, spark_settings
from secor.config.model import Config
from secor.core.errors import ConfigurationError, TableStopped, Unavailable
from secor.tables.catalog import MAIN
from secor.tables.maintenance import STEPS, Maintenance
from secor.tables.overview import tables_of_group

if TYPE_CHECKING:
    from secor.wiring.table_group import TableGroup


@click.command(epilog="Example: secor tables maintain table.toml --dry-run")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("names", metavar="[TABLE]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only print the SQL; Spark is not started.")
@click.option(
    "--step",
    "steps",
    multiple=True,
    type=click.Choice(list(STEPS)),
    help="Only this step; may be repeated.  Default: all.",
)
@click.option(
    "--older-than",
    type=click.FloatRange(1.0),
    metavar="DAYS",
    default=5.0,
    show_default=True,
    help="Days after which snapshots expire; until then a rollback can be replayed.",
)
@click.option(
    "--retain-last",
    type=click.IntRange(1),
    metavar="N",
    default=20,
    show_default=True,
    help="Newest snapshots of a table that stay, however old they are.",
)
@click.option("--master", help="Spark's master; default: spark-submit's, or local[*].")
@click.option(
    "--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated."
)
@json_option
@click.pass_context
def maintain(
    context: click.Context,
    config: Path,
    names: tuple[str, ...],
    dry_run: bool,
    steps: tuple[str, ...],
    older_than: float,
    retain_last: int,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Let Spark compact tables and expire their old snapshots.

    It maintains all tables of the group, or those that you name.  It may run while the group does:
    it never touches staged files, and when a commit of one side meets one of the other, it is
    repeated.  A stopped table is left as it is.
    """
    settings = load_tables(config)
    if settings.table_format == "hudi":
        raise ConfigurationError(
            "Hudi tables are compacted, cleaned and archived by their own commits:"
            " hoodie.compact.*, hoodie.clean.* and hoodie.keep.* of [[tables]] properties say when"
        )
    before = datetime.now(UTC) - timedelta(days=older_than)
    wanted = Maintenance(steps or tuple(STEPS), before, retain_last, settings.commit.branch)
    if wanted.left_out:
        click.echo(
            f"not done on the branch {wanted.branch}: {', '.join(wanted.left_out)}; these"
            f" procedures of Iceberg know {MAIN} alone",
            err=True,
        )
    # Before Spark starts, which takes longer than all of this: a wrong name is said at once.
    tables, stopped = _tables(settings, names)
    for why in stopped.values():
        click.echo(f"{why}; left as it is", err=True)
    catalog = settings.catalog.name
    statements = {table: wanted.statements(catalog, table) for table in tables}
    done: list[dict[str, Any]] = []
    if not tables:
        click.echo("nothing to maintain: no table that is not stopped has a snapshot", err=True)
    elif not dry_run:
        with table_session(settings, "maintain", master, spark_settings(conf)) as spark:
            done = list(_run(spark, statements, as_json=as_json))
    if dry_run:
        _print_statements(statements, as_json=as_json)
    elif as_json:
        print_json({"done": done, "stopped": stopped})
    if any("error" in entry for entry in done):
        context.exit(Exit.UNAVAILABLE)
    if stopped:
        context.exit(Exit.DIFFERENT)


def _tables(config: Config, names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the tables to work on, and why others are left.  Raises ``ConfigurationError``."""
    from secor.wiring.table_group import open_table_group

    with open_table_group(config) as group:
        known = tables_of_group(
            group.catalog, group.name, group.named, group.namespaces, group.staged()
        )
        for name in names:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise ConfigurationError(f"{name}: is no table of this group; its tables: {listed}")
        return _sorted_out(group, names or known)


def _sorted_out(group: TableGroup, names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Leave out what is stopped: the snapshots of a rollback must not expire."""
    tables, stopped = [], {}
    for name in names:
        try:
            table, _ = group.committer.look(name)
        except TableStopped as error:
            stopped[name] = str(error)
            continue
        # Iceberg's procedures refuse a table without a snapshot.
        if table.snapshots:
            tables.append(name)
    return tables, stopped


def _run(
    spark: Any, statements: Mapping[str, Mapping[str, str]], *, as_json: bool
) -> Iterator[dict[str, Any]]:
    from secor.spark.procedures import call

    for table, of_table in statements.items():
        for step, statement in of_table.items():
            try:
                outcome = call(spark, statement)
            # The next table all the same: one that fails must not keep the others from being
            # maintained.
            except Unavailable as error:
                click.echo(f"{table}: {error}", err=True)
                yield {"table": table, "step": step, "error": str(error)}
                continue
            changed = {name: value for name, value in outcome.items() if value}
            if not as_json:
                listed = ", ".join(f"{name} {value:,}" for name, value in changed.items())
                click.echo(f"{table}: {step}: {listed or 'nothing to do'}")
            yield {"table": table, "step": step, "changed": changed}


def _print_statements(statements: Mapping[str, Mapping[str, str]], *, as_json: bool) -> None:
    if as_json:
        print_json({"statements": statements})
        return
    for of_table in statements.values():
        for step, statement in of_table.items():
            click.echo(f"{statement};  -- {STEPS[step]}")
