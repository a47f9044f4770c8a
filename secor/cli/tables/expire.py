"""``secor tables expire``: delete what no commit will ever take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.cli.open_archive import human_size
from secor.cli.tables.options import load_tables
from secor.cli.tables.show import NO_TABLES
from secor.cli.topic_type import json_option, print_json
from secor.core.errors import TableStopped
from secor.core.text import how_many
from secor.tables.commit.expiry import (
    ExpiredObject,
    ExpiryTable,
    expired_changes,
    expired_commits,
    expired_manifests,
    expired_plans,
    orphans,
)
from secor.tables.overview import tables_of_group
from secor.tables.rows.staged_rows import changes_root
from secor.tables.staging.staged_manifests import Staged

if TYPE_CHECKING:
    from secor.wiring.table_group import TableGroup

DAY = 86400.0
KINDS = {
    "commit": "old commit",
    "manifest": "manifest",
    "plan": "note of a plan",
    "orphan": "orphaned file",
    "changes": "file of merged changes",
}


@click.command(epilog="Example: secor tables expire table.toml --dry-run")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option(
    "--older-than",
    type=click.FloatRange(0.0),
    metavar="DAYS",
    default=7.0,
    show_default=True,
    help="Delete what is older than this many days; at least an hour.",
)
@json_option
def expire(config: Path, dry_run: bool, older_than: float, as_json: bool) -> None:
    """Delete old commit objects, finished manifests, merged changes, and orphaned data files.

    Staged files that are not committed stay.  So does what a rollback may need: commits of
    snapshots that the table still has.  The service may run meanwhile.
    """
    from secor.wiring.table_group import open_table_group

    # An hour at least, whatever is asked for: a file may be put before the manifest that names it.
    before = time.time() - max(older_than * DAY, 3600.0)
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    listed = []
    with open_table_group(load_tables(config)) as group:
        # What is staged is read first: what comes later is younger than anything that may go.
        staged = group.staged()
        names = tables_of_group(group.catalog, group.name, group.named, group.namespaces, staged)
        # All is listed before anything is deleted: a fault in between leaves everything as it was.
        for expired in list(_expired(group, staged, names, before)):
            if not dry_run:
                group.objects.delete(expired.key)
            counts[expired.kind] += 1
            sizes[expired.kind] += expired.size
            listed.append({"kind": expired.kind, "key": expired.key, "why": expired.why})
            if not as_json:
                click.echo(f"{expired.key}: {expired.why}")
    if as_json:
        print_json({"dry_run": dry_run, "expired": listed})
        return
    done = "would be deleted" if dry_run else "deleted"
    for kind, name in KINDS.items():
        if counts[kind]:
            click.echo(f"{how_many(counts[kind], name)}, {human_size(sizes[kind])}: {done}")
    if not counts:
        click.echo("nothing has expired" if names else f"nothing has expired: {NO_TABLES}")


def _expired(
    group: TableGroup, staged: Sequence[Staged], names: Iterable[str], before: float
) -> Iterator[ExpiredObject]:
    tables = []
    for name in names:
        try:
            # A stopped table may be rolled back, and take its staged files again: nothing of it
            # goes.
            tables.append(ExpiryTable(*group.committer.look(name, settles=True)))
        except TableStopped as error:
            click.echo(f"{error}; what belongs to it stays", err=True)
    commits = list(expired_commits(group.history, tables, before))
    # Commits first: merged changes may go only when the commits that name them go, too.
    yield from commits
    yield from expired_manifests(staged, tables, before)
    yield from expired_plans(group.plan_notes, group.open_fingerprints, before)
    for known in tables:

        def referenced(known: ExpiryTable = known) -> Iterator[str]:
            return group.catalog.data_files(known.table)

        if group.config.table_format != "hudi":  # Hudi cleans its own directories
            yield from orphans(group.objects, known, staged, referenced, before)
        root, gone = changes_root(group.config.output.prefix), [commit.key for commit in commits]
        yield from expired_changes(group.objects, root, group.history, known, staged, gone, before)
