"""The last stage of the table group's parser: rows of tables, by partition.

A message that goes to several tables is in all of them.  If one table cannot take it, it is in
quarantine and in no table: a replay must not put it into the others a second time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from secor.arrow.nested_arrays import EMPTY
from secor.arrow.scalar_casts import TypeRules
from secor.core.errors import SchemaGrew, TableUnusable
from secor.core.model import SCHEMA, Chunk, Part, TopicPartition
from secor.parsing.decoders.keys import KeyReader
from secor.parsing.fields import field_at
from secor.parsing.parts import ROW, parts_of, together
from secor.parsing.placement import Work, rows_of
from secor.schema.new_columns import seen_together
from secor.tables.rows.change_reading import sources_of
from secor.tables.rows.growth import first_change, following_columns, shown_kinds
from secor.tables.rows.needs import ColumnNotes, Need, Needs, NeedsSchema, NeedsTable
from secor.tables.rows.new_tables import can_be_made
from secor.tables.rows.other_events import TRUNCATE, find_events
from secor.tables.rows.routing import Route, Rows, route_rows
from secor.tables.rows.row_changes import DELETE, UPSERT
from secor.tables.rows.row_keys import missing_keys
from secor.tables.rows.schema_changes import as_declared, storable
from secor.tables.rows.staged_rows import kept_lists, staged_rows
from secor.tables.rows.table_rows import METADATA_TYPES
from secor.tables.rows.value_forms import ValueForms
from secor.tables.staging.fitted_changes import TableWork, fit_changes, fit_rows
from secor.tables.staging.table_version import TableVersion, identity_of

POSITION = ("offset", "timestamp")
"""Columns of messages that parts have besides their rows, for the data files' own metadata."""

STREAM_PREFIX = "table="
"""Output streams of tables begin with this."""


_NUMBER_REFUSED = re.compile(r": -?[0-9][0-9.e+-]* is no (int32|int64|float|double)\Z")

MOST_TABLES = 1000
"""Of one topic; messages may name any."""


class TableDistribution:
    """Routes, fits and partitions the messages of one topic; see ``parsing.pipeline``."""

    def __init__(
        self,
        routes: Sequence[Route],
        versions: Mapping[str, TableVersion | None],
        needs: Needs,
        *,
        skip_unrouted: bool = False,
        keys: KeyReader | None = None,
        outdated: Callable[[TopicPartition], bool] = lambda _: False,
    ) -> None:
        """``versions`` are the open tables by name, None for one that does not exist.

        ``keys`` reads those of deletions; ``outdated`` is asked for each chunk whether others
        have changed these tables.
        """
        self._routes = tuple(routes)
        self._versions = dict(versions)
        self._needs = needs
        self._skip_unrouted = skip_unrouted
        self._keys = keys
        self._outdated = outdated

    @property
    def takes_tombstones(self) -> bool:
        """Where messages change rows, one without a value deletes."""
        return any(route.deletes_rows for route in self._routes)

    @property
    def identity(self) -> str:
        """All settings that change the result, the tables' versions included."""
        routes = ";".join(route.identity for route in self._routes)
        keys = f"|{self._keys.identity}" if self._keys is not None else ""
        return f"tables-1|{routes}|{self._skip_unrouted}|{identity_of(self._versions)}{keys}"

    def parts(self, works: Sequence[Work]) -> list[Part]:
        """Return the rows of all tables.  Raises ``SchemaGrew`` before anything is written."""
        chunk = works[0].chunk
        if self._outdated(chunk.topic_partition):
            # At the first message of the chunk: nothing of it has been given to a file, so the new
            # plan takes all of it.
            raise SchemaGrew(min(_offset(work, 0) for work in works))
        self._stop_at_truncation(works)
        fitted: list[TableWork] = []
        needed: list[tuple[int, Need]] = []
        for work in works:
            self._fit(work, fitted, needed)
        # Of several needs of a table the first counts: that of messages with values.
        needed.sort(
            key=lambda need_of_table: (
                isinstance(need_of_table[1], NeedsTable) and not need_of_table[1].shown
            )
        )
        needed += [
            needed_change for table in fitted if (needed_change := _growth(table)) is not None
        ]
        # After all needs are noted, before any part is made: a message that goes to several tables
        # must be in all of them or in none.
        if needed:
            first = min(offset for offset, _ in needed)
            for offset, need in needed:
                # Schemas that grow later are looked at again after that.  Tables are opened
                # together: messages may name hundreds of them.
                if offset == first or isinstance(need, NeedsTable):
                    self._needs(need)
            raise SchemaGrew(first)
        return finish(fitted)

    def _stop_at_truncation(self, works: Sequence[Work]) -> None:
        """Raise ``TableUnusable`` at a message that empties a table, where that is asked for.

        What comes before it is kept first: it belongs to the table before it is emptied.
        """
        if not any(route.settings.changes.truncate == "stop" for route in self._routes):
            return
        first: int | None = None
        for work in works:
            rows = np.flatnonzero((find_events(work.decoded.rows) == TRUNCATE) & work.live)
            if len(rows):
                offset = _offset(work, int(rows[0]))
                first = offset if first is None else min(first, offset)
        if first is None:
            return
        # Not the first message: end the batch before it, and stop when it comes back at the front
        # of one.
        if first > min(_offset(work, 0) for work in works):
            raise SchemaGrew(first)
        where = works[0].chunk.topic_partition
        raise TableUnusable(
            f"{where}: at offset {first} the source truncates its table. When `secor tables status`"
            ' shows nothing staged, delete the rows of the table; then set truncate = "ignore" in'
            " [[tables]] and restart, which passes this message"
        )

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
                fitted += fit_changes(work, version, version.changes, rows, self._keys)
                continue
            whole = len(rows) == len(work.live)
            decoded = work.decoded.rows if whole else work.decoded.rows.take(pa.array(rows))
            fitted.append(fit_rows(work, version, version.rows, rows, decoded))

    def _ask_for_table(
        self, work: Work, name: str, route: Route, rows: Rows, needed: list[tuple[int, Need]]
    ) -> None:
        """Ask for a table that is not open, with the columns that these messages show."""
        settings = route.settings
        forms = ValueForms(EMPTY, units=settings.units)
        read = sources_of(settings.changes, work.decoded.rows.take(pa.array(rows)))
        sources = [forms.convert(rows_read)[0] for rows_read in read]
        rules = TypeRules(any_text=settings.any_text)
        seen = seen_together(sources, settings.times, numbers=settings.numbers, rules=rules)
        kinds = [rows_seen.type for rows_seen in sources]
        numbers = settings.numbers == "as seen"
        declared = as_declared(seen.type, kinds) if numbers else seen.type
        kind = storable(declared, kinds, settings.text_types, settings.partition_columns)
        shown = can_be_made(kind)
        kind = kind if shown else _bytes_among(kinds)
        if len(self._versions) >= MOST_TABLES:
            why = f"{name} is one table too many: messages of a topic may name {MOST_TABLES:,}"
            work.fail("route", dict.fromkeys(rows.tolist(), why))
            return
        if settings.auto_create and settings.schema_file is None:
            missing = _missing_columns(sources, kind, settings.first_columns(METADATA_TYPES))
            if missing is not None:
                why = f"there is no table {name} yet, and the message has no {missing} of it"
                work.fail("route", dict.fromkeys(rows.tolist(), why))
                return
        offset = _offset(work, int(rows[0]))
        notes = ColumnNotes(
            tuple(map(str, seen.outvoted)),
            tuple(map(str, seen.mixed)),
            shown_kinds(seen),
            (work.chunk.topic_partition, offset),
        )
        needed.append((offset, NeedsTable(name, route, kind, notes, shown)))


def finish(fitted: Sequence[TableWork]) -> list[Part]:
    """Take rows that do not fit out of their works; return the others by table and partition."""
    for table in fitted:
        bad = table.fitter.refuse_extra(table.fitted)
        changes = table.version.changes
        if changes is not None and changes.settings.mode != "insert":
            bad = {**missing_keys(table.fitted.rows, changes.key), **bad}
        # A deletion has the key alone: what a row must have says nothing about it.
        if table.operation != DELETE:
            bad = {**table.version.refused(table.fitted.rows), **bad}
        name = table.version.table.identifier
        rows = table.rows
        reasons = {int(rows[index]): f"{name}: {_with_setting(why)}" for index, why in bad.items()}
        table.work.fail("schema", reasons)
    for table in fitted:
        _note_undeclared(table)
    return together([_parts(table) for table in fitted]) if fitted else []


def _with_setting(why: str) -> str:
    """Return a reason with the setting by which a new table would take the value."""
    return f"{why} (new columns of numbers: rows.numbers)" if _NUMBER_REFUSED.search(why) else why


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


def _bytes_among(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """Return the fields of bytes in messages without any value: their type is known for all that,
    as no value is ever taken for bytes.
    """
    fields = [field for kind in kinds for field in kind if pa.types.is_binary(field.type)]
    return pa.struct(list({field.name: field for field in fields}.values()))


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
    bad = {index - row: why for index, why in table.fitted.bad.items() if index >= row}
    numbers = version.settings.numbers
    offset = _offset(table.work, int(table.rows[row]))
    first = table.work.chunk.topic_partition, offset
    changes, notes = following_columns(
        version.rows, version.declined, after, changes, bad, numbers, first
    )
    name, uuid = version.table.identifier, version.table.uuid
    need = NeedsSchema(name, uuid, version.schema_id, tuple(changes), notes)
    return offset, need


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
    places = [(stream, json.dumps([partition.path, *partition.values])) for partition in partitions]
    return list(parts_of(_with_rows(chunk, rows), codes, places))


def _changes_part(table: TableWork, operation: int, rows: pa.StructArray, chunk: Chunk) -> Part:
    """Return rows as changes, which are staged together whatever their partition is."""
    version = table.version
    if operation == UPSERT:
        rows = version.rows.with_origin(rows, chunk)
    columns = version.table.schemas[version.schema_id]
    kept = None
    if version.changes is not None and version.changes.may_keep_values:
        live = table.work.live[table.rows]
        kept = kept_lists(len(rows), {number: mask[live] for number, mask in table.kept.items()})
    staged = staged_rows(operation, rows, columns, chunk, kept)
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
