"""``secor tables erase``: delete rows by the values of a column, and name what still holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secor.cli.archive.erased_values import encoding_option, lines_of, lines_option, value_of
from secor.cli.exit_codes import Exit
from secor.cli.tables.options import load_tables
from secor.cli.tables.spark import table_session
from secor.cli.topic_type import json_option, print_json
from secor.config.model import Config
from secor.core.errors import ConfigurationError, TableStopped, Unavailable
from secor.core.text import how_many, iso_time
from secor.tables.catalog import Table
from secor.tables.erasing import (
    COPY_ON_WRITE,
    DELETE_MODE,
    VIEW,
    Deletion,
    Holders,
    column_type,
    holders,
    parsed,
    require_type,
)
from secor.tables.overview import tables_of_group
from secor.tables.recorded_erasure import RecordedErasure

if TYPE_CHECKING:
    from secor.wiring.table_group import TableGroup

TRIES = 5
"""A commit that meets another one, such as that of a cycle, is refused, and made again."""

HOLDERS = (
    "what is staged and not committed yet: run it again when it is",
    "merged changes and old commits of this group, until secor tables expire; its quarantine",
    "the topic in Kafka, backups, replicas and exports: erase them there, too",
)
"""What may still hold the rows, besides snapshots."""


@click.command(
    epilog="\b\nExample: secor tables erase table.toml --column customer_id --values FILE --dry-run"
)
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("names", metavar="[TABLE]...", nargs=-1)
@click.option(
    "--column",
    required=True,
    metavar="PATH",
    help="The column, such as customer_id or, in structs, customer.id.",
)
@lines_option("--values", "The values of the rows to delete")
@encoding_option("the value as text")
@click.option("--null", is_flag=True, help="Delete the rows without a value, too.")
@click.option("--dry-run", is_flag=True, help="Only count the rows.")
@click.option("--master", help="Spark's master; default: spark-submit's, or local[*].")
@json_option
def erase(
    config: Path,
    names: tuple[str, ...],
    column: str,
    values_file: Path | None,
    encoding: str,
    null: bool,
    dry_run: bool,
    master: str | None,
    as_json: bool,
) -> int:
    """Delete the rows that have one of some values in a column, by one commit for each table.

    All tables of the group with this column, or those that you name.  The service may run
    meanwhile: a commit that meets another one is made again.  It counts before and after, and
    names the snapshots that still hold the rows, and when they expire.  Exit code 5 when a table
    is stopped, or rows came meanwhile.
    """
    settings = load_tables(config)
    if settings.table_format == "hudi":
        raise ConfigurationError(
            f"{config}: Hudi tables are not erased from here: let an engine for SQL delete the rows"
            " while no daemon and no coordinator of this group runs; earlier versions of files hold"
            " them until Hudi's cleaner has run (hoodie.clean.*)"
        )
    lines = [
        (value_of(line, encoding, f"{values_file}, line {number}", "for none say --null"), number)
        for number, line in enumerate(lines_of(values_file), 1)
    ]
    if not lines and not null:
        raise ConfigurationError("there are no values: give --values FILE with one a line")
    from secor.wiring.table_group import open_table_group

    with open_table_group(settings) as group:
        erasing = _Erasing(group, settings, column, values_file, lines, null)
        results = erasing.tables(names)
        wanted = [result for result in results if result.deletion is not None]
        if wanted:
            with table_session(settings, "erase", master) as spark:
                for result in wanted:
                    erasing.run(spark, result, dry_run=dry_run)
    if as_json:
        shown = [result.as_json() for result in results]
        print_json({"dry_run": dry_run, "tables": shown, "others": HOLDERS})
    else:
        _print(results, column, dry_run=dry_run)
    if any(result.unavailable for result in results):
        return Exit.UNAVAILABLE
    return Exit.DIFFERENT if any(result.why or result.left for result in results) else Exit.OK


@dataclass(slots=True)
class _Result:
    """One table: ``rows`` that were found, those ``left``, and ``why`` it is as it was."""

    table: str
    deletion: Deletion | None = None
    rows: int = 0
    left: int = 0
    why: str = ""
    unavailable: bool = False
    hidden: bool = False
    remarks: list[str] = field(default_factory=list)
    holders: Holders = field(default_factory=lambda: Holders(()))

    def as_json(self) -> dict[str, Any]:
        """Return it for ``--json``."""
        until = self.holders.until
        return {
            "table": self.table,
            "rows": self.rows,
            "left": self.left,
            "why": self.why,
            "remarks": self.remarks,
            "in_data_files_until_compaction": self.hidden,
            "snapshots": [snapshot.snapshot_id for snapshot in self.holders.snapshots],
            "branches_and_tags": dict(self.holders.named),
            "snapshots_may_expire": None if until is None else iso_time(until / 1000),
        }

    def lines(self) -> list[str]:
        """Say what still holds the rows."""
        old, advice = self.holders.snapshots, []
        if self.hidden:
            advice.append(
                f"data files: {DELETE_MODE} is not {COPY_ON_WRITE}, so the rows are hidden, until"
                f" 'secor tables maintain CONFIG {self.table} --step rewrite_data_files'"
            )
        if old:
            span = f"{old[0].snapshot_id} to {old[-1].snapshot_id}"
            until = self.holders.until
            when = "" if until is None else f", which may expire from {iso_time(until / 1000)} on"
            advice.append(
                f"{how_many(len(old), 'earlier snapshot')} ({span}){when}: 'secor tables maintain"
                " --step expire_snapshots'"
            )
        advice += [f"the branch or tag {name}: drop it" for name in self.holders.named]
        return advice


@dataclass(frozen=True, slots=True)
class _Erasing:
    group: TableGroup
    config: Config
    column: str
    file: Path | None
    values: Sequence[tuple[bytes, int]]
    null: bool

    def tables(self, names: Sequence[str]) -> list[_Result]:
        """Return the tables with the column, and those that cannot be changed.

        Raises ``ConfigurationError`` where none has it, or a named one is none or has it not.
        """
        group = self.group
        known = tables_of_group(
            group.catalog, group.name, group.named, group.namespaces, group.staged()
        )
        for name in names:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise ConfigurationError(f"{name}: is no table of this group; its tables: {listed}")
        results = [result for name in names or known if (result := self._result(name))]
        without = [name for name in names if name not in {result.table for result in results}]
        if without or not results:
            where = ", ".join(without) or "none of the tables"
            raise ConfigurationError(f"{where}: has no column {self.column}")
        return results

    def _result(self, name: str) -> _Result | None:
        """Return what to do to a table, None where it has no such column."""
        try:
            table, _ = self.group.committer.look(name)
        except TableStopped as error:
            return _Result(name, why=f"{error}; left as it is")
        type_ = column_type(table, self.column)
        if type_ is None:
            return None
        require_type(self.column, type_)
        values = {
            parsed(value, type_, f"{self.file}, line {number}"): None
            for value, number in self.values
        }
        deletion = Deletion(self.column, type_, list(values), self.null)
        hidden = table.properties.get(DELETE_MODE, COPY_ON_WRITE) != COPY_ON_WRITE
        return _Result(name, deletion, hidden=hidden)

    def run(self, spark: Any, result: _Result, *, dry_run: bool) -> None:
        """Count, delete and count again; the result has both counts."""
        from secor.spark.procedures import call

        deletion = result.deletion
        assert deletion is not None
        # Before the deletion: the snapshots that it does not have afterwards are free of the rows.
        before = self._look(result.table)
        if before.head(self.config.commit.branch) is None:
            return
        recording = self._recording(spark, before)
        if deletion.by_view:
            rows = spark.createDataFrame(deletion.view_rows(), "value string")
            rows.createOrReplaceTempView(VIEW)
        name = self.config.catalog.name, result.table, self.config.commit.branch
        count = deletion.count(*name)
        try:
            if not dry_run:
                result.remarks += recording.conclude(before)
            result.rows = int(call(spark, count)["messages"])
            if dry_run or not result.rows:
                return
            planned = recording.begin(before, self.column, deletion.condition())
            self._delete(spark, deletion.delete(*name))
            # Counted again: rows that came between the first count and the commit are still there.
            result.left = int(call(spark, count)["messages"])
            after = self._look(result.table)
            result.remarks += recording.finish(after, planned, deletion.condition())
        except Unavailable as error:
            result.why, result.unavailable = str(error), True
            return
        result.holders = holders(before, after, self.config.commit.branch)

    def _recording(self, spark: Any, table: Table) -> RecordedErasure:
        """Return what records the erasure, for ``secor verify``."""
        from secor.spark.erased_rows import SnapshotRows
        from secor.spark.merge_engine import table_name
        from secor.wiring.archives import secret_of
        from secor.wiring.table_changes import key_of_changes

        topics = {key.topic for key in self.group.topics.partitions()}
        key = key_of_changes(self.config, topics, table)
        records = self.group.row_erasures(table)
        known = records.read(secret_of(self.config))
        name = table_name(self.config.catalog.name, table.identifier)
        rows = SnapshotRows(spark, name, key, known.hash_of if known.secret else None)
        group = self.group
        branch = self.config.commit.branch
        return RecordedErasure(records, known, key, rows, group.name, group.history, branch)

    def _delete(self, spark: Any, statement: str) -> None:
        """Raises ``Unavailable`` where it was refused time after time."""
        from secor.spark.procedures import call

        for left in reversed(range(TRIES)):
            try:
                call(spark, statement)
                return
            except Unavailable:
                if not left:
                    raise

    def _look(self, name: str) -> Table:
        return self.group.catalog.load_table(name)


def _print(results: Sequence[_Result], column: str, *, dry_run: bool) -> None:
    for result in results:
        if result.why:
            click.echo(f"{result.table}: {result.why}", err=True)
            continue
        done = "would be deleted" if dry_run else "deleted"
        click.echo(f"{result.table}: {how_many(result.rows, 'row')} {done}, by {column}")
        if result.left:
            came = how_many(result.left, "row")
            click.echo(f"{result.table}: {came} came meanwhile: run it again", err=True)
        for remark in result.remarks:
            click.echo(f"{result.table}: {remark}", err=True)
        for line in result.lines():
            click.echo(f"  still held by {line}")
    if not dry_run and any(result.rows for result in results):
        for holder in HOLDERS:
            click.echo(f"may still be held by {holder}")
