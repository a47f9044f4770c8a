"""Messages of one table as rows in its columns, and as changes of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import children, struct_of
from secor.parsing.decoders.keys import KeyReader
from secor.parsing.placement import Work
from secor.tables.catalog import FIELD_ID
from secor.tables.rows.change_reading import marked, read_changes
from secor.tables.rows.routing import Rows
from secor.tables.rows.row_changes import DELETE, DELETED, UPSERT, Changes, ReadChanges, Truths
from secor.tables.rows.row_keys import missing_keys, partial_rows, read_keys
from secor.tables.rows.table_rows import FittedRows, TableRows
from secor.tables.rows.unavailable_values import hide_unavailable
from secor.tables.staging.table_version import RowChanges, TableVersion

PARTIAL = (
    "deletes, and before has nothing but the source's key: set REPLICA IDENTITY FULL of the"
    " source's table, or take the source's key for the table's"
)


@dataclass(frozen=True, slots=True)
class TableWork:
    """The rows of one work that go to one table: ``rows`` are numbers in that work."""

    work: Work
    version: TableVersion
    rows: Rows
    renamed: pa.StructArray
    fitted: FittedRows
    fitter: TableRows
    operation: int | None = None
    """What staged changes do; None for rows that are appended."""
    kept: Mapping[int, Truths] = field(default_factory=dict)
    """The rows that keep the value of a column, by the column's id."""

    def select(self, chosen: Rows) -> TableWork:
        """Return the deletions at the places ``chosen``."""
        if len(chosen) == len(self.rows):
            return self
        places = {int(row): place for place, row in enumerate(chosen)}
        bad = {places[row]: why for row, why in self.fitted.bad.items() if row in places}
        fitted = FittedRows(self.fitted.rows.take(pa.array(chosen)), bad, None)
        renamed = self.renamed.take(pa.array(chosen))
        return replace(self, rows=self.rows[chosen], renamed=renamed, fitted=fitted)


def fit_rows(
    work: Work,
    version: TableVersion,
    fitter: TableRows,
    rows: Rows,
    decoded: pa.StructArray,
    operation: int | None = None,
) -> TableWork:
    """Return decoded rows in a table's columns; ``rows`` are their numbers in the work."""
    timestamps = work.chunk.records.column("timestamp").take(pa.array(rows))
    faults = fitter.timestamp_faults(timestamps)
    name = version.table.identifier
    work.fail("time", {int(rows[index]): f"{name}: {why}" for index, why in faults.items()})
    conflicts = fitter.conflicts(decoded)
    work.fail("schema", {int(rows[index]): f"{name}: {why}" for index, why in conflicts.items()})
    renamed, faults = fitter.convert(fitter.rename(decoded))
    work.fail("schema", {int(rows[index]): f"{name}: {why}" for index, why in faults.items()})
    return TableWork(work, version, rows, renamed, fitter.fit(renamed), fitter, operation)


def fit_changes(
    work: Work, version: TableVersion, changes: RowChanges, rows: Rows, keys: KeyReader | None
) -> list[TableWork]:
    """Return the rows that messages change: whole rows to put, keys to delete.

    ``keys`` reads Kafka's keys, where that is configured.
    """
    decoded = work.decoded.rows
    changed_rows = read_changes(changes.settings, changes.key, rows, decoded, work.chunk, keys)
    work.fail("change", changed_rows.bad)
    puts, deletions = [], []
    for group in changed_rows.changes:
        if group.operation == UPSERT:
            puts.append(_fit_puts(work, version, changes, group))
        else:
            deletions += _fit_deletions(work, version, changes, group, keys)
    for before in changed_rows.before:
        moved = _moved_rows(work, version, changes, before, puts, keys)
        deletions += [moved] if len(moved.rows) else []
    if changes.settings.keep_deletes:
        # Last: until here deletions are keys, and are checked as such.
        deletions = [_marked_rows(table, changes) for table in deletions]
    return [*puts, *deletions]


def _fit_puts(work: Work, version: TableVersion, changes: RowChanges, group: Changes) -> TableWork:
    if changes.settings.keep_deletes:
        group = replace(group, source=marked(group.source, deleted=False))
    if changes.placeholder is None:
        return fit_rows(work, version, version.rows, group.rows, group.source, UPSERT)
    columns = version.rows.column_of(group.source)

    def keeps_value(name: str) -> bool:
        column = columns.get(name)
        return column is not None and (not column.nullable or column.name in changes.key)

    source, masks = hide_unavailable(group.source, changes.placeholder, keeps_value)
    table = fit_rows(work, version, version.rows, group.rows, source, UPSERT)
    kept = {
        int(columns[name].metadata[FIELD_ID]): mask
        for name, mask in masks.items()
        if name in columns and columns[name].name not in changes.key
    }
    return replace(table, kept=kept)


def _fit_deletions(
    work: Work,
    version: TableVersion,
    changes: RowChanges,
    group: Changes,
    keys: KeyReader | None,
) -> list[TableWork]:
    """Return deletions; where the row as it was lacks its key, Kafka's key may have it.

    Debezium's tombstone repeats the deletion before it, for the log's compaction: one whose key
    is another than the table's has nothing more to say.
    """
    table = fit_rows(work, version, changes.key_rows, group.rows, group.source, DELETE)
    keyless = np.zeros(len(group.rows), dtype=bool)
    keyless[list(missing_keys(table.fitted.rows, changes.key))] = True
    if changes.settings.reads_envelopes and not group.by_key:
        whole = np.flatnonzero(~keyless)
        source = group.source.take(pa.array(whole))
        partial = partial_rows(changes.key, group.rows[whole], source, work.chunk, keys)
        work.fail("change", dict.fromkeys(group.rows[whole[partial]].tolist(), PARTIAL))
    if not keyless.any():
        return [table]
    if group.by_key:
        if changes.settings.reads_envelopes:
            _leave_out_tombstones(work, group.rows[keyless])
        return [table]
    by_key = ReadChanges()
    read_keys(changes.key, group.rows[keyless], work.chunk, by_key, keys)
    work.fail("change", by_key.bad)
    others = [
        fit_rows(work, version, changes.key_rows, change.rows, change.source, DELETE)
        for change in by_key.changes
    ]
    kept = table.select(np.flatnonzero(~keyless))
    return [*([kept] if len(kept.rows) else []), *others]


def _leave_out_tombstones(work: Work, rows: Rows) -> None:
    mask = np.zeros(len(work.live), dtype=bool)
    mask[rows] = True
    # A deletion in an envelope stays: only the tombstone behind it repeats what is done.
    mask &= work.chunk.records.column("value").is_null().to_numpy(zero_copy_only=False)
    work.leave_out_events("tombstone", mask)


def _marked_rows(table: TableWork, changes: RowChanges) -> TableWork:
    """Return deletions as rows that keep everything and are marked as deleted."""
    work, version = table.work, table.version
    faults = {**missing_keys(table.fitted.rows, changes.key), **table.fitted.bad}
    name = version.table.identifier
    work.fail("schema", {int(table.rows[index]): f"{name}: {why}" for index, why in faults.items()})
    source = marked(table.fitted.rows, deleted=True)
    put = fit_rows(work, version, version.rows, table.rows, source, UPSERT)
    own = {*changes.key, DELETED, *version.rows.origin_names}
    every = np.ones(len(table.rows), dtype=bool)
    kept = {
        int(column.metadata[FIELD_ID]): every
        for column in version.rows.schema
        if column.name not in own
    }
    return replace(put, kept=kept)


def _moved_rows(
    work: Work,
    version: TableVersion,
    changes: RowChanges,
    before: Changes,
    puts: Sequence[TableWork],
    keys: KeyReader | None,
) -> TableWork:
    """Return the deletions of rows that had another key before they were put."""
    columns = changes.key_rows.column_of(before.source)
    parts = [(field, column) for field, column in children(before.source) if field.name in columns]
    source = struct_of(
        [column for _, column in parts], [field for field, _ in parts], before.source
    )
    table = fit_rows(work, version, changes.key_rows, before.rows, source, DELETE)
    known = np.ones(len(before.rows), dtype=bool)
    moved = np.zeros(len(before.rows), dtype=bool)
    for put in puts:
        _, olds, news = np.intersect1d(before.rows, put.rows, return_indices=True)
        for name in changes.key:
            old = table.fitted.rows.field(name).take(pa.array(olds))
            new = put.fitted.rows.field(name).take(pa.array(news))
            known[olds] &= old.is_valid().to_numpy(zero_copy_only=False)
            different = pc.fill_null(pc.not_equal(old, new), False)
            moved[olds] |= different.to_numpy(zero_copy_only=False)
    # A key that is unknown on either side (a bad row, a column that was left out) deletes nothing.
    moved &= known
    chosen = np.flatnonzero(moved)
    old_rows, old_source = before.rows[chosen], before.source.take(pa.array(chosen))
    moved[chosen[partial_rows(changes.key, old_rows, old_source, work.chunk, keys)]] = False
    moved[list(table.fitted.bad)] = True  # their messages go into quarantine, with this reason
    return table.select(np.flatnonzero(moved))
