"""The tables of one topic: opened, made and let grow where messages need it; a plan for each set.

A plan stands for certain versions of certain tables.  What its messages need beyond that ends
the batch before them, and the next plan has it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, product

import pyarrow as pa

from secor.batch.plan import TopicPlan
from secor.core.errors import (
    AlreadyExists,
    ConfigurationError,
    NotFound,
    Refused,
    TableUnusable,
    Unavailable,
)
from secor.core.model import TopicPartition
from secor.tables.catalog import Catalog, SchemaChange, Table
from secor.tables.freshness import Freshness
from secor.tables.library import TableLibrary
from secor.tables.needs import Need, Needs, NeedsSchema, NeedsTable
from secor.tables.new_tables import new_table
from secor.tables.routing import Route
from secor.tables.schema_changes import still_needed
from secor.tables.table_version import (
    RowSettings,
    TableVersion,
    identity_of,
    open_version,
)

ATTEMPTS = 10
"""Changes of one schema before others are given way for a while."""

MOST_TABLES = 1000
"""Of one topic that are named by messages."""

LOOKED_FOR = 200
"""Combinations of earlier versions among which that of an open intent is looked for."""

Versions = Mapping[str, TableVersion | None]
Outdated = Callable[[TopicPartition], bool]
MakePlan = Callable[[Sequence[Route], Versions, Needs, Outdated], TopicPlan]


class TopicTables:
    """Plans are asked for in any thread, and needs come from any."""

    def __init__(
        self,
        topic: str,
        routes: Sequence[Route],
        catalog: Catalog,
        library: TableLibrary,
        row_settings: RowSettings,
        make: MakePlan,
        tell: Callable[[str, int, Sequence[str], Sequence[str]], None],
        freshness: Freshness,
    ) -> None:
        """``tell`` is given a table, the id of its new schema, what is new in it, and which
        values of that will not fit it.
        """
        self._topic = topic
        self._routes = tuple(routes)
        self._catalog = catalog
        self._library = library
        self._row_settings = row_settings
        self._make = make
        self._tell = tell
        self._freshness = freshness
        self._planning = threading.Lock()
        self._lock = threading.Lock()
        self._needs: list[Need] = []
        self._named: dict[str, Route] = {}
        """Tables that messages have named."""
        self._declined: dict[str, frozenset[SchemaChange]] = {}
        """By the uuid of a table, the changes that cannot be made."""
        self._plans: dict[str, TopicPlan] = {}

    def need(self, need: Need) -> None:
        """Remember a need; ``plan`` sees to it."""
        with self._lock:
            self._needs.append(need)

    def plan(self, fingerprint: str | None = None) -> TopicPlan:
        """Return the plan of this fingerprint if earlier versions have it, else the present one.

        Raises ``TableUnusable``, ``Unavailable``, ``OutcomeUnknown``, ``AccessDenied``.
        """
        with self._planning:  # others of this process would do the same at the same time
            return self._planned(fingerprint)

    def refresh(self) -> None:
        """See whether others have changed the tables; parsers are told.

        Raises ``TableUnusable``, ``Unavailable``, ``OutcomeUnknown``, ``AccessDenied``.
        """
        with self._planning:
            try:
                self._freshness.show(identity_of(self._present()))
            except ConfigurationError as error:
                raise TableUnusable(str(error)) from error

    def _planned(self, fingerprint: str | None) -> TopicPlan:
        try:
            present = self._present()
            self._freshness.show(identity_of(present))
            plan = self._plan(present)
            if fingerprint is None or plan.fingerprint == fingerprint:
                return plan
            for versions in islice(self._earlier(present), LOOKED_FOR):
                earlier = self._plan(versions)
                if earlier.fingerprint == fingerprint:
                    return earlier
        except ConfigurationError as error:
            raise TableUnusable(str(error)) from error
        return plan

    def _plan(self, versions: Versions) -> TopicPlan:
        known = identity_of(versions)
        plan = self._plans.get(known)
        if plan is None:
            outdated = partial(self._is_outdated, known)
            plan = self._make(self._routes, versions, self.need, outdated)
            self._plans[known] = plan
        return plan

    def _is_outdated(self, identity: str, topic_partition: TopicPartition) -> bool:
        return self._freshness.interrupts(topic_partition, identity)

    def _present(self) -> Versions:
        """Return the present versions of all known tables, after what was needed is done."""
        with self._lock:
            needs = list(self._needs)
        wanted = {
            route.name_for(self._topic): route
            for route in reversed(self._routes)
            if not route.named_by_messages
        }
        wanting: dict[str, NeedsTable] = {}
        changes: dict[str, list[NeedsSchema]] = {}
        for need in needs:
            if isinstance(need, NeedsTable):
                wanting.setdefault(need.name, need)
                self._remember(need)
            else:
                changes.setdefault(need.name, []).append(need)
        versions: dict[str, TableVersion | None] = {}
        for name, route in {**self._named, **wanted}.items():
            table = self._table(name, route, wanting.get(name), changes.get(name, ()))
            if table is not None:
                versions[name] = open_version(
                    table,
                    route.settings,
                    self._row_settings,
                    self._library,
                    declined=self._declined.get(table.uuid, frozenset()),
                )
            elif not route.settings.auto_create:
                versions[name] = None
        with self._lock:
            self._needs = self._needs[len(needs) :]
        return versions

    def _remember(self, need: NeedsTable) -> None:
        if not need.route.named_by_messages or need.name in self._named:
            return
        if len(self._named) >= MOST_TABLES:
            raise TableUnusable(
                f"topic {self._topic}: its messages name more than {MOST_TABLES} tables; does"
                " the field of the template hold what it should?"
            )
        self._named[need.name] = need.route

    def _table(
        self,
        name: str,
        route: Route,
        wanting: NeedsTable | None,
        needs: Sequence[NeedsSchema],
    ) -> Table | None:
        """Return a table, made or changed as is needed; None for one that is not to be made yet."""
        try:
            table = self._catalog.load_table(name)
        except NotFound as error:
            if not route.settings.auto_create:
                if route.named_by_messages:
                    return None
                raise TableUnusable(
                    f"there is no table {name} for topic {self._topic}: create it, or set"
                    " auto_create = true in [[tables]]"
                ) from error
            made = self._create(name, route, wanting)
            if made is None:
                return None
            table = made
        same = [need for need in needs if need.uuid == table.uuid]
        return self._change(table, same) if same else table

    def _create(self, name: str, route: Route, need: NeedsTable | None) -> Table | None:
        seen = None if need is None else need.seen
        new = new_table(route.settings, seen, self._row_settings.metadata_columns)
        if new is None:
            return None
        try:
            table = self._catalog.create_table(name, new)
        except AlreadyExists:
            return self._catalog.load_table(name)
        outvoted = () if need is None else need.outvoted
        self._tell(name, table.schema_id, list(table.schema.names), outvoted)
        return table

    def _change(self, table: Table, needs: Sequence[NeedsSchema]) -> Table:
        """Change the schema, or find that somebody else has done it."""
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
        known = self._declined.get(table.uuid, frozenset())
        self._declined[table.uuid] = known | frozenset(changes)

    def _earlier(self, present: Versions) -> Iterator[Versions]:
        """Give combinations of versions of the tables, nearly the present ones first."""
        choices: list[list[TableVersion | None]] = []
        for version in present.values():
            if version is None:
                choices.append([None])
                continue
            table = version.table
            pairs = [
                (schema_id, spec_id)
                for spec_id in sorted(table.specs, key=lambda it: (it != table.spec_id, -it))
                for schema_id in sorted(table.schemas, key=lambda it: (it != table.schema_id, -it))
            ]
            choices.append([self._at(version, *pair) for pair in pairs[:LOOKED_FOR]])
        for chosen in product(*choices):
            yield dict(zip(present, chosen, strict=True))

    def _at(self, version: TableVersion, schema_id: int, spec_id: int) -> TableVersion:
        return open_version(
            version.table,
            version.settings,
            self._row_settings,
            self._library,
            schema_id=schema_id,
            spec_id=spec_id,
            declined=version.declined,
        )
