"""Creates tables and changes their schemas as messages need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from secor.core.errors import AlreadyExists, ConfigurationError, Refused, Unavailable
from secor.core.ports import Clock
from secor.tables.catalog import AddColumn, Catalog, SchemaChange, Table
from secor.tables.commit.column_origins import properties_after, step_of_changes, step_of_new_table
from secor.tables.rows.needs import ColumnNotes, NeedsSchema, NeedsTable
from secor.tables.rows.new_tables import new_table
from secor.tables.rows.routing import Route
from secor.tables.rows.schema_changes import still_needed
from secor.tables.rows.table_rows import METADATA_TYPES, missing_origin
from secor.tables.staging.table_version import RowSettings

ATTEMPTS = 10
"""Changes of one schema before others are given way for a while."""

ASK_AGAIN = 600.0
"""Seconds after which a change that the catalog did not take is asked for again: the table, or the
catalog, may be another by then."""

ReportChange = Callable[[str, int, Sequence[str], ColumnNotes], None]
"""Given a table, the id of its new schema, what is new in it, and what is to say of that."""


class TableUpdates:
    """Creates and changes tables; remembers for a while what the catalog did not take."""

    def __init__(
        self, catalog: Catalog, row_settings: RowSettings, report: ReportChange, clock: Clock
    ) -> None:
        """Columns of origin of the ``row_settings`` are part of each new table."""
        self._catalog = catalog
        self._metadata_columns = row_settings.metadata_columns
        self._group = row_settings.group
        self._report = report
        self._clock = clock
        self._declined: dict[str, tuple[float, frozenset[SchemaChange]]] = {}
        """By uuid, the monotonic seconds until which they are not asked for."""

    def declined(self, uuid: str) -> frozenset[SchemaChange]:
        """Return the changes that cannot be made to the table with this uuid for now."""
        until, changes = self._declined.get(uuid, (0.0, frozenset()))
        return changes if self._clock.monotonic() < until else frozenset()

    def create(self, name: str, route: Route, need: NeedsTable | None) -> Table | None:
        """Return the table, made by us or by somebody else; None while its columns are unknown."""
        seen = None if need is None else need.seen
        notes = ColumnNotes() if need is None else need.notes
        try:
            new = new_table(route.settings, seen, self._metadata_columns)
            if new is None:
                return None
            step = step_of_new_table(self._now(), new.schema, route.settings.schema_file, notes)
            properties = {**new.properties, **properties_after({}, self._group, step)}
            table = self._catalog.create_table(name, replace(new, properties=properties))
        # Another process was faster. Its table has the columns that its messages showed; ours are
        # added by the next need.
        except AlreadyExists:
            return self._catalog.load_table(name)
        except ConfigurationError as error:
            if route.settings.schema_file is not None:
                raise
            raise ConfigurationError(
                f"{error}; if the first messages are wrong, declare the columns: schema_file in"
                " [[tables]]"
            ) from error
        self._report(name, table.schema_id, list(table.schema.names), notes)
        return table

    def add_metadata_columns(self, table: Table) -> Table:
        """Add the columns of messages' metadata that the table lacks."""
        added = tuple(
            AddColumn((name,), METADATA_TYPES[name])
            for name in missing_origin(table.schema, self._metadata_columns)
        )
        if not added:
            return table
        return self.change(
            table, [NeedsSchema(table.identifier, table.uuid, table.schema_id, added)]
        )

    def change(self, table: Table, needs: Sequence[NeedsSchema]) -> Table:
        """Change the schema, or find that somebody else has done it.

        Raises ``Unavailable`` where others keep changing it.
        """
        changes = list(dict.fromkeys(change for need in needs for change in need.changes))
        notes = ColumnNotes(
            tuple(dict.fromkeys(text for need in needs for text in need.notes.outvoted)),
            tuple(dict.fromkeys(text for need in needs for text in need.notes.mixed)),
            tuple({path: kinds for need in needs for path, kinds in need.notes.kinds}.items()),
            next((need.notes.first for need in needs if need.notes.first is not None), None),
        )
        for _ in range(ATTEMPTS):
            needed = still_needed(pa.struct(list(table.schema)), changes)
            if any(need.schema_id == table.schema_id for need in needs):
                self._decline(table, [change for change in changes if change not in needed])
            if not needed:
                return table
            try:
                changed = self._update(table, needed, notes)
            except Refused:
                # Another process has changed the schema: what is still needed is worked out anew
                # from its result.
                table = self._catalog.load_table(table.identifier)
            except ConfigurationError:
                # The catalog refuses one of several changes, and does not say which.
                return self._change_singly(table, needed, notes)
            else:
                paths = [".".join(change.path) for change in needed]
                self._report(table.identifier, changed.schema_id, paths, notes)
                return changed
        raise Unavailable(
            f"table {table.identifier}: others keep changing its schema; trying again"
        )

    def _update(self, table: Table, changes: Sequence[SchemaChange], notes: ColumnNotes) -> Table:
        """Change the schema once, and record in the table where that comes from."""
        step = step_of_changes(self._now(), changes, notes)
        properties = properties_after(table.properties, self._group, step)
        return self._catalog.update_schema(table, changes, properties)

    def _now(self) -> int:
        return int(self._clock.now() * 1000)

    def _change_singly(
        self, table: Table, changes: Sequence[SchemaChange], notes: ColumnNotes
    ) -> Table:
        """Make the changes one after the other; those that the catalog does not know are noted."""
        for change in changes:
            try:
                table = self._update(table, [change], notes)
            except Refused:
                return self._catalog.load_table(table.identifier)  # the rest is asked for again
            except ConfigurationError:
                self._decline(table, [change])
            else:
                self._report(
                    table.identifier, table.schema_id, [".".join(change.path)], ColumnNotes()
                )
        return table

    def _decline(self, table: Table, changes: Sequence[SchemaChange]) -> None:
        known, now = self.declined(table.uuid), self._clock.monotonic()
        # The time of the first one stays: else each new refusal would put off the next request for
        # ever.
        until = self._declined[table.uuid][0] if known else now + ASK_AGAIN
        self._declined[table.uuid] = until, known | frozenset(changes)
