"""Creates tables and changes their schemas as messages need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from secor.core.errors import AlreadyExists, ConfigurationError, Refused, Unavailable
from secor.core.ports import Clock
from secor.tables.catalog import AddColumn, Catalog, SchemaChange, Table
from secor.tables.needs import NeedsSchema, NeedsTable
from secor.tables.new_tables import new_table
from secor.tables.routing import Route
from secor.tables.schema_changes import still_needed
from secor.tables.table_rows import METADATA_TYPES, missing_origin

ATTEMPTS = 10
"""Changes of one schema before others are given way for a while."""

ASK_AGAIN = 600.0
"""Seconds after which a change that the catalog did not take is asked for again: the table, or the
catalog, may be another by then."""

Tell = Callable[[str, int, Sequence[str], Sequence[str]], None]
"""Given a table, the id of its new schema, what is new in it, and which values will not fit."""


class TableUpdates:
    """Creates and changes tables; remembers for a while what the catalog did not take."""

    def __init__(
        self, catalog: Catalog, metadata_columns: Sequence[str], tell: Tell, clock: Clock
    ) -> None:
        """``metadata_columns`` are part of each new table."""
        self._catalog = catalog
        self._metadata_columns = metadata_columns
        self._tell = tell
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
        try:
            new = new_table(route.settings, seen, self._metadata_columns)
            if new is None:
                return None
            table = self._catalog.create_table(name, new)
        except AlreadyExists:
            return self._catalog.load_table(name)
        except ConfigurationError as error:
            if route.settings.schema_file is not None:
                raise
            raise ConfigurationError(
                f"{error}; if the first messages are wrong, declare the columns: schema_file in"
                " [[tables]]"
            ) from error
        outvoted = () if need is None else need.outvoted
        self._tell(name, table.schema_id, list(table.schema.names), outvoted)
        return table

    def add_metadata_columns(self, table: Table) -> Table:
        """Add the columns that tell of messages, if the table lacks some."""
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
        outvoted = list(dict.fromkeys(text for need in needs for text in need.outvoted))
        for _ in range(ATTEMPTS):
            needed = still_needed(pa.struct(list(table.schema)), changes)
            if any(need.schema_id == table.schema_id for need in needs):
                self._decline(table, [change for change in changes if change not in needed])
            if not needed:
                return table
            try:
                changed = self._catalog.update_schema(table, needed)
            except Refused:
                table = self._catalog.load_table(table.identifier)
            except ConfigurationError:
                return self._change_singly(table, needed)
            else:
                paths = [".".join(change.path) for change in needed]
                self._tell(table.identifier, changed.schema_id, paths, outvoted)
                return changed
        raise Unavailable(
            f"table {table.identifier}: others keep changing its schema; trying again"
        )

    def _change_singly(self, table: Table, changes: Sequence[SchemaChange]) -> Table:
        """Make the changes one after the other; those that the catalog does not know are noted."""
        for change in changes:
            try:
                table = self._catalog.update_schema(table, [change])
            except Refused:
                return self._catalog.load_table(table.identifier)  # the rest is asked for again
            except ConfigurationError:
                self._decline(table, [change])
            else:
                self._tell(table.identifier, table.schema_id, [".".join(change.path)], ())
        return table

    def _decline(self, table: Table, changes: Sequence[SchemaChange]) -> None:
        known, now = self.declined(table.uuid), self._clock.monotonic()
        until = self._declined[table.uuid][0] if known else now + ASK_AGAIN
        self._declined[table.uuid] = until, known | frozenset(changes)
