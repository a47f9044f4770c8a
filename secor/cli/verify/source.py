"""``secor verify --source``: tables with changed rows, compared with a database."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from secor.cli.exit_codes import Exit
from secor.cli.open_archive import of_topic
from secor.cli.verify.engines import reading_rows
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError, TableStopped
from secor.tables.catalog import Table
from secor.tables.commit.group_record import GroupRecord
from secor.tables.rows.row_changes import DELETE, DELETED, UPSERT, ChangeSettings
from secor.verify.engine_filters import TableReader
from secor.verify.finding import report_text
from secor.verify.source.columns import Columns, Key, pair_columns
from secor.verify.source.comparison import LogTail, compare_with_source
from secor.verify.source.report import SourceComparison, SourceReport
from secor.verify.source.values import SourceName

if TYPE_CHECKING:
    from secor.wiring.table_changes import DatabaseTable
    from secor.wiring.table_group import TableGroup

PASSWORDS = {"postgresql": "PGPASSWORD", "mariadb": "MYSQL_PWD"}
"""Variables with passwords, unless another one is named."""

_DEBEZIUM = 3
"""Parts of the names of Debezium's topics: server, schema, table."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of the command, in the words of the command line."""

    source: str | None
    source_tables: tuple[str, ...]
    source_password: str | None
    source_timeout: float
    chunk_rows: int
    wait: float
    ignore_columns: tuple[str, ...]

    def table_of(self, table: str, alone: bool) -> str | None:
        """Return what --source-table says about a table."""
        named = dict(name.split("=", 1) for name in self.source_tables if "=" in name)
        plain = [name for name in self.source_tables if "=" not in name]
        return named.get(table, plain[-1] if plain and alone else None)


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a comparison with a source."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--source",
        metavar="URL",
        help="Compare tables that are changed by key with this database, row by row:"
        " postgresql://user@host/database or mariadb://user@host.  The password comes from"
        " PGPASSWORD or MYSQL_PWD.",
    ),
    click.option(
        "--source-table",
        "source_tables",
        multiple=True,
        metavar="[TABLE=]SCHEMA.NAME",
        help="The source of a table; may be repeated.  Default: what Debezium's topic names.",
    ),
    click.option(
        "--source-password",
        metavar="VARIABLE",
        help="The environment variable with the password.  Default: PGPASSWORD, MYSQL_PWD.",
    ),
    click.option(
        "--source-timeout",
        type=click.FloatRange(0, min_open=True),
        default=300.0,
        show_default=True,
        metavar="SECONDS",
        help="Of each statement.",
    ),
    click.option(
        "--chunk-rows",
        type=click.IntRange(1),
        default=10_000,
        show_default=True,
        metavar="ROWS",
        help="Rows that are read from the source at a time.",
    ),
    click.option(
        "--wait",
        type=click.FloatRange(0),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="How long rows that differ are looked at again while changes are on their way.",
    ),
    click.option(
        "--ignore-column",
        "ignore_columns",
        multiple=True,
        metavar="NAME",
        help="Do not compare this column; may be repeated.",
    ),
)


def verify_source(
    config: Config,
    topics: tuple[str, ...],
    options: SourceOptions,
    *,
    by: str | None,
    as_json: bool,
) -> int:
    """Compare tables with their source; print what is wrong.  Return the exit code."""
    from secor.wiring.table_changes import is_mariadb, open_source
    from secor.wiring.table_group import open_table_group

    assert options.source is not None
    default = PASSWORDS["mariadb" if is_mariadb(options.source) else "postgresql"]
    # No option has the password itself: everybody on the machine can read arguments.
    password = os.environ.get(options.source_password or default)
    if password is None and options.source_password is not None:
        raise ConfigurationError(f"--source-password: {options.source_password} is not set")
    with (
        open_table_group(config) as group,
        open_source(options.source, password, options.source_timeout) as open_table,
        reading_rows(config, by) as engine,
        _progress(enabled=not as_json) as progress,
    ):
        compared = SourceReport()
        loaded = _load(group, topics, compared.stopped)
        for name in sorted(loaded):
            source_name = _source_of(group, name, options, alone=len(loaded) == 1)
            source = open_table(source_name)
            try:
                # Looked at once more: the table may have stopped since it was loaded.
                side = _TableSide(group, name, engine)
                compared.comparisons.append(_compare(source, side, options, progress(name)))
            except TableStopped as error:
                compared.stopped.append(str(error))
    click.echo(report_text(compared, as_json=as_json))
    return Exit.OK if compared.is_right else Exit.DIFFERENT


def _load(
    group: TableGroup, topics: tuple[str, ...], stopped: list[str]
) -> dict[str, tuple[Table, GroupRecord]]:
    """Load the tables that are changed by key.  Raises ``ConfigurationError`` if there is none."""
    from secor.wiring.table_changes import appends_to, route_that_changes

    known = {key.topic for key in group.topics.partitions()}
    for topic in topics:
        of_topic([key for key in group.topics.partitions() if key.topic == topic], topic)
    wanted = set(topics) or known
    loaded = {}
    for name in group.tables(group.staged()):
        if not any(route_that_changes(group.config, topic, name) for topic in wanted):
            continue
        # Several rows may have one key then, so rows cannot be compared by it.
        if appends_to(group.config, known, name):
            stopped.append(f"table {name}: messages are appended to it as rows, too")
            continue
        try:
            loaded[name] = group.committer.look(name)
        except TableStopped as error:
            stopped.append(str(error))
    if not loaded and not stopped:
        raise ConfigurationError(
            "--source: no table that is changed by key (mode = upsert or cdc) exists yet"
        )
    return loaded


def _source_of(group: TableGroup, table: str, options: SourceOptions, *, alone: bool) -> SourceName:
    """Return the source of a table.  Raises ``ConfigurationError`` where nobody says it."""
    named = options.table_of(table, alone)
    if named is not None:
        schema, mark, name = named.partition(".")
        if not mark:
            raise ConfigurationError(f"--source-table {named}: write SCHEMA.NAME")
        return SourceName(schema, name)
    topics = {key.topic for key in group.topics.partitions() if group.feeds(table, key.topic)}
    names = {tuple(topic.split(".")[-2:]) for topic in topics if topic.count(".") + 1 >= _DEBEZIUM}
    if len(names) != 1 or len(topics) != 1:
        raise ConfigurationError(
            f"--source: the topics of {table} ({', '.join(sorted(topics))}) do not name one table"
            f" as Debezium's do (server.schema.table): add --source-table {table}=SCHEMA.NAME"
        )
    return SourceName(*names.pop())


class _TableSide:
    """A ``TableRows`` of the group, read by the library or an engine."""

    def __init__(self, group: TableGroup, name: str, engine: TableReader | None) -> None:
        self._group = group
        self._name = name
        self._engine = engine
        self.columns: Columns | None = None
        self.table, self._record = group.committer.look(name)

    @property
    def case_sensitive(self) -> bool:
        """Names of columns differ by case alone."""
        return self._group.config.rows.case_sensitive

    @property
    def key(self) -> Sequence[str]:
        """The columns that identify a row."""
        return self._changes().key or self.table.key

    def _changes(self) -> ChangeSettings:
        from secor.wiring.table_changes import route_that_changes

        topics = {key.topic for key in self._group.topics.partitions()}
        routes = (
            route_that_changes(self._group.config, topic, self._name) for topic in sorted(topics)
        )
        return next((route.settings.changes for route in routes if route), ChangeSettings())

    def refresh(self) -> bool:
        """Load the table again; see ``TableRows``."""
        branch = self._group.config.commit.branch
        before = self.table.head(branch)
        self.table, self._record = self._group.committer.look(self._name)
        return self.table.head(branch) != before

    def scan(self) -> Iterator[pa.RecordBatch]:
        """Give the compared columns; see ``TableRows``."""
        assert self.columns is not None
        reader = self._group.catalog if self._engine is None else self._engine
        names = [column.table_name for column in self.columns.columns]
        branch = self._group.config.commit.branch
        if not self._changes().keep_deletes or DELETED not in self.table.schema.names:
            yield from reader.scan(self.table, branch, names)
            return
        for batch in reader.scan(self.table, branch, [*names, DELETED]):
            marks = pc.equal(batch.column(DELETED).cast(pa.string()), "true")
            yield batch.filter(pc.invert(pc.fill_null(marks, False))).select(names)

    def tail(self) -> LogTail:
        """Read the messages behind the table; see ``TableRows``."""
        from secor.wiring.table_changes import UncommittedMessages

        assert self.columns is not None
        keys: set[Key] = set()
        backlog = UncommittedMessages(
            self._group.config, self._group.brokers, self.table, self._vector()
        )
        readers = [self.columns.columns[at] for at in self.columns.key]
        for batch in backlog.read():
            changed = batch.filter(
                pa.array([operation in (UPSERT, DELETE) for operation in _operations(batch)])
            )
            rows = changed.column("row")
            keys |= set(
                zip(
                    *(reader.read(rows.field(reader.table_name)) for reader in readers), strict=True
                )
            )
        return LogTail(frozenset(keys), backlog.position)

    def _vector(self) -> Mapping[Any, int]:
        reached = {key: offset for _, key, offset in self._record.vector.offsets()}
        partitions = self._group.topics.partitions()
        return {
            key: reached.get(key, 0)
            for key in partitions
            if self._group.feeds(self._name, key.topic)
        }


def _operations(batch: pa.RecordBatch) -> list[int]:
    operations: list[int] = batch.column("operation").to_pylist()
    return operations


def _compare(
    source: DatabaseTable,
    side: _TableSide,
    options: SourceOptions,
    progress: Callable[[int], None],
) -> SourceComparison:
    result = SourceComparison(
        side.table.identifier, str(source.name), position_text=source.position_text
    )
    side.columns = pair_columns(
        source.columns(),
        side.table.schema,
        side.key,
        result,
        ignored=options.ignore_columns,
        case_sensitive=side.case_sensitive,
    )
    sources = [column.source for column in side.columns.columns]
    source.choose(sources, [sources[at] for at in side.columns.key], options.chunk_rows)
    with tempfile.TemporaryDirectory(prefix="secor-verify-") as folder:
        compare_with_source(
            source,
            side,
            side.columns,
            result,
            Path(folder),
            rows=source.about_rows(),
            clock=SystemClock(),
            wait=options.wait,
            progress=progress,
        )
    return result


@contextmanager
def _progress(*, enabled: bool) -> Iterator[Callable[[str], Callable[[int], None]]]:
    """Show how many rows were read, on standard error, when a person watches."""
    if not enabled or not sys.stderr.isatty():
        yield lambda _table: lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}: {task.completed:,.0f} rows of both sides"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:

        def of_table(table: str) -> Callable[[int], None]:
            task = bars.add_task(f"comparing {table}", total=None)
            return lambda rows: bars.advance(task, rows)

        yield of_table
