"""Trials of messages for table groups, connected to the catalog or to nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from secor.batch.workspace import Workspace
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.model import Chunk, TopicPartition
from secor.core.ports import Clock
from secor.parsing.pipeline import UNDECLARED
from secor.parsing.quarantine_limits import BadLimits
from secor.tables.rows.needs import ColumnNotes
from secor.tables.staging.uri_store import SCHEME, SCHEMES
from secor.tables.trial import Trial, TriedMessage, TriedTable
from secor.wiring.table_catalogs import open_tables
from secor.wiring.tables import TablePlans

if TYPE_CHECKING:
    from secor.adapters.iceberg.commits import IcebergCatalog
    from secor.adapters.iceberg.imagined import ImaginedTables

NOWHERE = "s3://imagined"
"""The place of new tables where only a catalog's server knows that."""


@dataclass
class TableTrial:
    """A trial, and the tables as they are after the messages so far."""

    trial: Trial
    catalog: IcebergCatalog
    imagined: ImaginedTables
    notes: dict[str, list[ColumnNotes]] = field(default_factory=dict)
    undeclared: dict[str, None] = field(default_factory=dict)
    """Fields without a column, each behind its table's name and a colon."""
    names: set[str] = field(default_factory=set)

    def take(self, chunk: Chunk) -> Iterator[TriedMessage]:
        """Give what becomes of the messages of a chunk; see ``Trial``."""
        for message in self.trial.take(chunk):
            self.names |= {row.table for row in message.rows}
            yield message

    def tables(self) -> list[TriedTable]:
        """Return the tables that got rows or changed, by name."""
        from secor.adapters.iceberg.catalog import describe

        tables = []
        for name in sorted(self.names | self.notes.keys()):
            real = self.imagined.real_table(name)
            before = None if real is None else describe(name, real)
            notes = self.notes.get(name, ())
            outvoted = tuple(text for note in notes for text in note.outvoted)
            mixed = tuple(text for note in notes for text in note.mixed)
            left_out = [line.partition(": ") for line in self.undeclared]
            fields = tuple(path for table, _, path in left_out if table == name)
            after = self.catalog.load_table(name)
            tables.append(TriedTable(before, after, outvoted, mixed, fields))
        return tables


@contextmanager
def open_trial(config: Config, *, with_catalog: bool = True) -> Iterator[TableTrial]:
    """Give a trial over the tables of the catalog, which are only read, or over none.

    Without a catalog each table is a new one, made from messages or from its ``schema_file``.
    Raises ``ConfigurationError``, ``Unavailable``, ``AccessDenied``.
    """
    from secor.adapters.iceberg.commits import IcebergCatalog
    from secor.adapters.iceberg.imagined import ImaginedTables
    from secor.adapters.iceberg.library import IcebergLibrary

    real = _open_unchanged(config) if with_catalog else None
    if not with_catalog:
        made = [original.model_copy(update={"auto_create": True}) for original in config.tables]
        config = config.model_copy(update={"tables": tuple(made)})
    imagined = ImaginedTables(
        None if real is None else real.library, lambda name: _place(config, real, name)
    )
    catalog = IcebergCatalog(imagined)
    notes: dict[str, list[ColumnNotes]] = {}

    undeclared: dict[str, None] = {}

    def count(topic_partition: TopicPartition, kind: str, number: int) -> None:
        del topic_partition, number
        if kind.startswith(UNDECLARED):
            undeclared[kind.removeprefix(UNDECLARED)] = None

    def note(table: str, schema_id: int, columns: Sequence[str], about: ColumnNotes) -> None:
        del schema_id, columns
        notes.setdefault(table, []).append(about)

    with (
        tempfile.TemporaryDirectory(prefix="secor-try-") as folder,
        closing(Workspace(Path(folder), "try", config.limits.open_files)) as workspace,
    ):
        clock: Clock = SystemClock()
        plans = TablePlans(
            *(config, catalog, IcebergLibrary(), lambda: "", count, clock),
            limited=False,
            report=note,
        )
        trial = Trial(plans, catalog, workspace, clock)
        yield TableTrial(trial, catalog, imagined, notes, undeclared)


def _open_unchanged(config: Config) -> IcebergCatalog | None:
    """Return the catalog; None for a database in which nobody has opened one yet."""
    from secor.adapters.iceberg.catalog_checks import UNPREPARED, is_absent, is_prepared

    # A trial writes nothing: SQL catalogs make their tables in the database when they are opened.
    properties = {**config.catalog.properties, **UNPREPARED}
    if config.table_format == "iceberg" and is_absent(config.catalog.name, properties):
        return None
    catalog = config.catalog.model_copy(update={"properties": properties})
    real, _ = open_tables(config.model_copy(update={"catalog": catalog}))
    return real if is_prepared(real.library) else None


def bad_limits(config: Config, topic: str) -> BadLimits:
    """Return the limits by which a daemon stops a partition of this topic."""
    parser = config.for_topic(topic).parser
    return BadLimits(parser.max_bad_ratio, parser.max_bad_messages, parser.bad_window)


def _place(config: Config, real: IcebergCatalog | None, name: str) -> str:
    """Return the URI of a new table."""
    from secor.adapters.iceberg.catalog_checks import place_of_new_table

    if config.table_format == "hudi":
        return config.hudi.location_of(name)
    place = None if real is None else place_of_new_table(real.library, name)
    if place is not None:
        return place
    warehouse = config.catalog.properties.get("warehouse", "")
    known = warehouse.partition(SCHEME)[0] in SCHEMES
    return f"{warehouse.rstrip('/') if known else NOWHERE}/{name.replace('.', '/')}"
