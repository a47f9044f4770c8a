"""The last stage of the table group's parser: rows of tables, by partition.

A message that goes to several tables is in all of them.  If one table cannot take it, it is in
quarantine and in no table: a replay must not put it into the others a second time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from secor.core.errors import SchemaGrew
from secor.core.model import SCHEMA, Chunk, Part, TopicPartition
from secor.formats.typed.dominance import seen_together
from secor.parsing.fields import field_at
from secor.parsing.parts import ROW, parts_of, together
from secor.parsing.placement import Work, rows_of
from secor.tables.change_reading import read_changes, sources_of
from secor.tables.growth import first_change, following_columns
from secor.tables.needs import Need, Needs, NeedsSchema, NeedsTable
from secor.tables.new_tables import can_be_made
from secor.tables.routing import Route, Rows, route_rows
from secor.tables.row_changes import DELETE, UPSERT
from secor.tables.row_keys import missing_keys
from secor.tables.staged_rows import staged_rows
from secor.tables.table_rows import METADATA_TYPES, Fitted, TableRows
from secor.tables.table_version import RowChanges, TableVersion, identity_of

POSITION = ("offset", "timestamp")
"""Columns of messages that parts have beside their rows: what data files tell of themselves."""

STREAM_PREFIX = "table="
"""Output streams of tables begin with this."""


MOST_TABLES = 1000
"""Of one topic; messages may name any."""


@dataclass(frozen=True, slots=True)
class TableWork:
    """The rows of one work that go to one table: ``rows`` are numbers in that work."""

    work: Work
    version: TableVersion
    rows: Rows
    renamed: pa.StructArray
    fitted: Fitted
    fitter: TableRows
    operation: int | None = None
    """What staged changes do; None for rows that are appended."""


class TableDistribution:
    """Routes, fits and partitions the messages of one topic; see ``parsing.pipeline``."""

    def __init__(
        self,
        routes: Sequence[Route],
        versions: Mapping[str, TableVersion | None],
        needs: Needs,
        *,
        skip_unrouted: bool = False,
        outdated: Callable[[TopicPartition], bool] = lambda _: False,
    ) -> None:
        """``versions`` are the open tables by name, None for one that does not exist.

        ``outdated`` is asked for each chunk whether others have changed these tables.
        """
        self._routes = tuple(routes)
        self._versions = dict(versions)
        self._needs = needs
        self._skip_unrouted = skip_unrouted
        self._outdated = outdated

    @property
    def takes_tombstones(self) -> bool:
        """Where messages change rows, one without a value deletes."""
        return any(route.deletes_rows for route in self._routes)

    @property
    def identity(self) -> str:
        """All settings that change the result, the tables' versions included."""
        routes = ";".join(route.identity for route in self._routes)
        return f"tables-1|{routes}|{self._skip_unrouted}|{identity_of(self._versions)}"

    def parts(self, works: Sequence[Work]) -> list[Part]:
        """Return the rows of all tables.  Raises ``SchemaGrew`` before anything is written."""
        chunk = works[0].chunk
        if self._outdated(chunk.topic_partition):
            raise SchemaGrew(min(_offset(work, 0) for work in works))
        fitted: list[TableWork] = []
        needed: list[tuple[int, Need]] = []
        for work in works:
            self._fit(work, fitted, needed)
        needed += [
            needed_change for table in fitted if (needed_change := _growth(table)) is not None
        ]
        if needed:
            first = min(offset for offset, _ in needed)
            for offset, need in needed:
                # Schemas that grow later are looked at again after that.  Tables are opened
                # together: messages may name hundreds of them.
                if offset == first or isinstance(need, NeedsTable):
                    self._needs(need)
            raise SchemaGrew(first)
        return finish(fitted)

    def _fit(self, work: Work, fitted: list[TableWork], needed: list[tuple[int, Need]]) -> None:
        for name, (route, rows) in route_rows(
            self._routes, work, skip_unrouted=self._skip_unrouted
        ).items():
            if name not in self._versions:
                self._ask_for_table(work, name, route, rows, needed)
                continue
            version = self._versions[name]
            if version is None:
                why = f"there is no table {name}"
                work.fail("route", dict.fromkeys(rows.tolist(), why))
                continue
            if version.changes is not None:
                fitted += fit_changes(work, version, version.changes, rows)
                continue
            whole = len(rows) == len(work.live)
            decoded = work.decoded.rows if whole else work.decoded.rows.take(pa.array(rows))
            fitted.append(_fit_rows(work, version, version.rows, rows, decoded))

    def _ask_for_table(
        self, work: Work, name: str, route: Route, rows: Rows, needed: list[tuple[int, Need]]
    ) -> None:
        """Ask for a table that is not open, with the columns that these messages show."""
        settings = route.settings
        sources = sources_of(settings.changes, work.decoded.rows.take(pa.array(rows)))
        seen, outvoted = seen_together(sources, settings.times)
        if len(self._versions) >= MOST_TABLES:
            why = f"{name} is one table too many: messages of a topic may name {MOST_TABLES:,}"
            work.fail("route", dict.fromkeys(rows.tolist(), why))
            return
        if settings.auto_create and settings.schema_file is None:
            missing = _missing_columns(sources, seen, settings.first_columns(METADATA_TYPES))
            if missing is not None:
                why = f"there is no table {name} yet, and the message tells no {missing} of it"
                work.fail("route", dict.fromkeys(rows.tolist(), why))
                return
        need = NeedsTable(name, route, seen, tuple(map(str, outvoted)))
        needed.append((_offset(work, int(rows[0])), need))


def finish(fitted: Sequence[TableWork]) -> list[Part]:
    """Take rows that do not fit out of their works; return the others by table and partition."""
    for table in fitted:
        bad = table.fitter.refuse_extra(table.fitted)
        changes = table.version.changes
        if changes is not None and changes.settings.mode != "insert":
            bad = {**missing_keys(table.fitted.rows, changes.key), **bad}
        if table.operation != DELETE:
            bad = {**table.version.refused(table.fitted.rows), **bad}
        name = table.version.table.identifier
        rows = table.rows
        table.work.fail("schema", {int(rows[at]): f"{name}: {why}" for at, why in bad.items()})
    for table in fitted:
        _note_undeclared(table)
    return together([_parts(table) for table in fitted]) if fitted else []


def _note_undeclared(table: TableWork) -> None:
    """Count the values that have no column although the table grows."""
    extra = table.fitted.extra
    if extra is None or table.operation == DELETE or not extra.true_count:
        return
    rows = np.flatnonzero(extra.to_numpy(zero_copy_only=False) & table.work.live[table.rows])
    name = table.version.table.identifier
    for path, values in table.fitter.undeclared(table.fitted, rows.tolist()).items():
        table.work.lost.undeclared[f"{name}: {path}"] += values


def _missing_columns(
    sources: Sequence[pa.StructArray], seen: pa.DataType, names: Sequence[str]
) -> str | None:
    """Return what messages lack to make a table; None if they are enough.

    One of them has to have all of the columns ``names``.  Two that have some each would be enough
    together and not by themselves, and then it would matter which were fetched together.
    """
    if not can_be_made(seen):
        return "columns"
    for rows in sources:
        valid = np.ones(len(rows), dtype=bool)
        for name in names:
            valid &= field_at(rows, name).is_valid().to_numpy(zero_copy_only=False)
        if valid.any():
            return None
    return " and ".join(names)


def _fit_rows(
    work: Work,
    version: TableVersion,
    fitter: TableRows,
    rows: Rows,
    decoded: pa.StructArray,
    operation: int | None = None,
) -> TableWork:
    timestamps = work.chunk.records.column("timestamp").take(pa.array(rows))
    faults = fitter.timestamp_faults(timestamps)
    name = version.table.identifier
    work.fail("time", {int(rows[at]): f"{name}: {why}" for at, why in faults.items()})
    name = version.table.identifier
    conflicts = fitter.conflicts(decoded)
    work.fail("schema", {int(rows[at]): f"{name}: {why}" for at, why in conflicts.items()})
    renamed = fitter.rename(decoded)
    return TableWork(work, version, rows, renamed, fitter.fit(renamed), fitter, operation)


def fit_changes(
    work: Work, version: TableVersion, changes: RowChanges, rows: Rows
) -> list[TableWork]:
    """Return the rows that messages change: whole rows to put, keys to delete."""
    changed_rows = read_changes(changes.settings, changes.key, rows, work.decoded.rows, work.chunk)
    work.fail("change", changed_rows.bad)
    fitters = {UPSERT: version.rows, DELETE: changes.key_rows}
    return [
        _fit_rows(
            work, version, fitters[group.operation], group.rows, group.source, group.operation
        )
        for group in changed_rows.changes
    ]


def _offset(work: Work, row: int) -> int:
    return int(work.chunk.records.column("offset")[row].as_py())


def _growth(table: TableWork) -> tuple[int, Need] | None:
    """Return the offset of the first row that needs a wider schema, and the need."""
    version = table.version
    if not version.settings.evolve or table.operation == DELETE:
        return None
    live = table.work.live[table.rows]
    change = first_change(version.rows, version.declined, table.renamed, table.fitted, live)
    if change is None:
        return None
    row, changes = change
    after = table.renamed.slice(row)
    bad = {at - row: why for at, why in table.fitted.bad.items() if at >= row}
    changes, outvoted = following_columns(version.rows, version.declined, after, changes, bad)
    name, uuid = version.table.identifier, version.table.uuid
    need = NeedsSchema(name, uuid, version.schema_id, tuple(changes), tuple(outvoted))
    return _offset(table.work, int(table.rows[row])), need


def _parts(table: TableWork) -> list[Part]:
    """Return the live rows of one table by partition."""
    live = table.work.live[table.rows]
    if not live.any():
        return []
    chunk, rows = table.work.chunk, table.fitted.rows
    if len(table.rows) < len(table.work.live) or not live.all():
        chunk = rows_of(chunk, table.rows[live])
        rows = rows.take(pa.array(np.flatnonzero(live)))
    if table.operation is not None:
        return [_changes_part(table, table.operation, rows, chunk)]
    rows = table.version.rows.with_origin(rows, chunk)
    codes, partitions = table.version.partitioning.place(rows)
    stream = stream_of_table(table.version.table.identifier)
    places = [(stream, json.dumps([it.path, *it.values])) for it in partitions]
    return list(parts_of(_with_rows(chunk, rows), codes, places))


def _changes_part(table: TableWork, operation: int, rows: pa.StructArray, chunk: Chunk) -> Part:
    """Return rows as changes, which are staged together whatever their partition is."""
    version = table.version
    if operation == UPSERT:
        rows = version.rows.with_origin(rows, chunk)
    columns = version.table.schemas[version.schema_id]
    staged = staged_rows(operation, rows, columns, chunk)
    stream = stream_of_table(version.table.identifier)
    return Part(json.dumps([""]), _with_rows(chunk, staged), stream)


def _with_rows(chunk: Chunk, rows: pa.StructArray) -> pa.RecordBatch:
    columns = [chunk.records.column(name) for name in POSITION]
    fields = [SCHEMA.field(name) for name in POSITION]
    schema = pa.schema([*fields, pa.field(ROW, rows.type)])
    return pa.RecordBatch.from_arrays([*columns, rows], schema=schema)


def stream_of_table(name: str) -> str:
    """Return the output stream of a table's rows."""
    return STREAM_PREFIX + name


def table_of_stream(stream: str) -> str | None:
    """Return the table of an output stream, None for other streams."""
    return stream.removeprefix(STREAM_PREFIX) if stream.startswith(STREAM_PREFIX) else None


def partition_of(output_partition: str) -> tuple[str, tuple[object, ...]]:
    """Return path and values of an output partition of a table's output stream."""
    path, *values = json.loads(output_partition)
    return path, tuple(values)
