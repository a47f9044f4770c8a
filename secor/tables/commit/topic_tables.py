"""The tables of one topic: opens, creates and grows them as messages need; one plan for each set.

A plan is made of certain versions of certain tables.  If messages need more, the batch ends
before them, and the next plan has what they need.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice, product

from secor.batch.plan import TopicPlan
from secor.core.errors import ConfigurationError, CorruptFile, NotFound, TableUnusable
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.core.text import replaced_name
from secor.tables.catalog import Catalog, Table
from secor.tables.commit.plan_notes import NotedVersion, PlanNotes
from secor.tables.commit.table_updates import ReportChange, TableUpdates
from secor.tables.freshness import Freshness
from secor.tables.library import TableLibrary
from secor.tables.rows.needs import Need, Needs, NeedsSchema, NeedsTable
from secor.tables.rows.routing import Route
from secor.tables.staging.distribution import MOST_TABLES
from secor.tables.staging.table_version import RowSettings, TableVersion, identity_of, open_version

LOOKED_FOR = 200
"""Combinations of earlier versions among which that of an open intent is looked for."""

Versions = Mapping[str, TableVersion | None]
Outdated = Callable[[TopicPartition], bool]
ReportEarlier = Callable[[str, Table], None]
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
        report: ReportChange,
        clock: Clock,
        notes: PlanNotes | None = None,
        *,
        report_earlier: ReportEarlier = lambda *_: None,
    ) -> None:
        """``notes`` are not needed where no intents are recorded.

        ``report_earlier`` is given the name of a missing table, and the table that has the name
        which earlier versions would have given it.
        """
        self._report_earlier = report_earlier
        self._topic = topic
        self._routes = tuple(routes)
        self._catalog = catalog
        self._library = library
        self._row_settings = row_settings
        self._updates = TableUpdates(catalog, row_settings, report, clock)
        self._make = make
        self._freshness = Freshness(clock)
        self._notes = notes
        self._seen: Versions = {}
        self._asked = self._seen_for = 0
        """Requests for a plan, and those of them that came before the last look began."""
        self._noted: set[str] = set()
        """Fingerprints with noted versions."""
        self._planning = threading.Lock()
        self._lock = threading.Lock()
        self._needs: list[Need] = []
        self._named: dict[str, Route] = {}
        """Tables that messages have named; at most ``MOST_TABLES``."""
        self._plans: dict[str, TopicPlan] = {}

    def need(self, need: Need) -> None:
        """Remember a need; the next ``plan`` meets it."""
        with self._lock:
            self._needs.append(need)

    def plan(self, fingerprint: str | None = None) -> TopicPlan:
        """Return the plan of this fingerprint if earlier versions have it, else the present one.

        Raises ``TableUnusable``, ``Unavailable``, ``OutcomeUnknown``, ``AccessDenied``.
        """
        with self._lock:
            # Numbered before the lock for planning is taken: one who waited for it can use a look
            # that began after it had asked.
            asked = self._asked = self._asked + 1
        with self._planning:  # others of this process would do the same at the same time
            return self._planned(fingerprint, asked)

    def refresh(self) -> None:
        """Look whether others have changed the tables; notify the parsers.

        Raises ``TableUnusable``, ``Unavailable``, ``OutcomeUnknown``, ``AccessDenied``.
        """
        with self._planning:
            try:
                self._look()
            except ConfigurationError as error:
                raise TableUnusable(str(error)) from error

    def _planned(self, fingerprint: str | None, asked: int) -> TopicPlan:
        try:
            # Partitions that are assigned together, perhaps a thousand, ask at the same time.
            present = self._seen if asked <= self._seen_for else self._look()
            plan = self._plan(present)
            if fingerprint is not None and plan.fingerprint != fingerprint:
                earlier = self._earlier_plan(present, fingerprint)
                if earlier is not None:
                    return earlier
        except ConfigurationError as error:
            raise TableUnusable(str(error)) from error
        # Before the plan is given out: a batch of it must not begin without its note, or a
        # successor could not make the same files.
        self._note(plan, present)
        return plan

    def _look(self) -> Versions:
        """Return the present versions; notify the parsers."""
        with self._lock:
            # Before the look: one that asks while it goes on may need what it has not seen.
            asked = self._asked
        seen = self._present()
        self._freshness.show(identity_of(seen), _uuids(seen))
        self._seen, self._seen_for = seen, asked
        return seen

    def _note(self, plan: TopicPlan, versions: Versions) -> None:
        """Note a plan's versions before its first batch."""
        fingerprint = plan.fingerprint
        if self._notes is not None and fingerprint not in self._noted:
            self._notes.put(self._topic, fingerprint, versions)
            self._noted.add(fingerprint)

    def _earlier_plan(self, present: Versions, fingerprint: str) -> TopicPlan | None:
        """Return the plan of an open intent: the noted plan, or one among recent versions."""
        # The note first: it is one plan, the search is up to LOOKED_FOR.
        for versions in chain(self._noted_versions(fingerprint), self._earlier(present)):
            plan = self._plan(versions)
            if plan.fingerprint == fingerprint:
                return plan
        return None

    def _noted_versions(self, fingerprint: str) -> list[Versions]:
        """Return the versions that were noted, if the tables still have them."""
        try:
            noted = () if self._notes is None else self._notes.read(self._topic, fingerprint)
        except CorruptFile:
            return []  # anybody may have put it: the intent is superseded, as without one
        versions: dict[str, TableVersion | None] = {}
        for version in noted:
            if version.schema_id is None:
                versions[version.table] = None
                continue
            opened = self._open_noted(version)
            if opened is None:
                return []
            versions[version.table] = opened
        return [versions] if noted else []

    def _open_noted(self, noted: NotedVersion) -> TableVersion | None:
        """Return a version under one of the routes that lead to its table."""
        route = self._wanted().get(noted.table) or next(
            (
                candidate
                for candidate in self._routes
                if candidate.may_name(self._topic, noted.table)
            ),
            None,
        )
        try:
            table = self._catalog.load_table(noted.table)
        except NotFound:
            return None
        if (
            route is None
            or noted.schema_id not in table.schemas
            or noted.spec_id not in table.specs
        ):
            return None
        if noted.table not in self._wanted():
            self._name(noted.table, route)  # it is soon named again
        return open_version(
            table,
            route.settings,
            self._row_settings,
            self._library,
            schema_id=noted.schema_id,
            spec_id=noted.spec_id,
            declined=noted.declined,
        )

    def _plan(self, versions: Versions) -> TopicPlan:
        known = identity_of(versions)
        plan = self._plans.get(known)
        if plan is None:
            outdated = partial(self._is_outdated, known, _uuids(versions))
            plan = self._make(self._routes, versions, self.need, outdated)
            self._plans[known] = plan
        return plan

    def _is_outdated(
        self, identity: str, uuids: frozenset[str], topic_partition: TopicPartition
    ) -> bool:
        return self._freshness.interrupts(topic_partition, identity, uuids)

    def _present(self) -> Versions:
        """Return the present versions of all known tables, with all needs met."""
        with self._lock:
            needs = list(self._needs)
        wanting: dict[str, NeedsTable] = {}
        changes: dict[str, list[NeedsSchema]] = {}
        for need in needs:
            if isinstance(need, NeedsTable):
                wanting.setdefault(need.name, need)
                self._name(need.name, need.route)
            else:
                changes.setdefault(need.name, []).append(need)
        versions: dict[str, TableVersion | None] = {}
        for name, route in {**self._named, **self._wanted()}.items():
            table = self._table(name, route, wanting.get(name), changes.get(name, ()))
            if table is not None:
                versions[name] = open_version(
                    table,
                    route.settings,
                    self._row_settings,
                    self._library,
                    declined=self._updates.declined(table.uuid),
                )
            elif not route.settings.auto_create:
                versions[name] = None
        self._named = {
            name: table_version for name, table_version in self._named.items() if name in versions
        }
        with self._lock:
            # Only those that were met: others have been added at the end meanwhile. Where something
            # above raises, all of them stay.
            self._needs = self._needs[len(needs) :]
        return versions

    def _wanted(self) -> dict[str, Route]:
        """Return the tables that the routes name as they are."""
        return {
            route.name_for(self._topic): route
            # Reversed, so that of two routes to one table the first one counts.
            for route in reversed(self._routes)
            if not route.named_by_messages
        }

    def _name(self, name: str, route: Route) -> None:
        """Remember a table that messages have named; one too many stays in quarantine."""
        if route.named_by_messages and len(self._named) < MOST_TABLES:
            self._named.setdefault(name, route)

    def _table(
        self,
        name: str,
        route: Route,
        wanting: NeedsTable | None,
        needs: Sequence[NeedsSchema],
    ) -> Table | None:
        """Return a table, created or changed as needed; None if it must not be created yet."""
        try:
            table = self._catalog.load_table(name)
        except NotFound as error:
            self._look_for_earlier(name, route)
            if not route.settings.auto_create:
                if route.named_by_messages:
                    return None
                raise TableUnusable(
                    f"there is no table {name} for topic {self._topic}: create it, or set"
                    " auto_create = true in [[tables]]"
                ) from error
            created = self._updates.create(name, route, wanting)
            if created is None:
                return None
            table = created
        if route.settings.evolve:
            table = self._updates.add_metadata_columns(table)
        needs_of_table = [need for need in needs if need.uuid == table.uuid]
        return self._updates.change(table, needs_of_table) if needs_of_table else table

    def _look_for_earlier(self, name: str, route: Route) -> None:
        """Report a table that has the rows so far, under the name of earlier versions."""
        earlier = replaced_name(name)
        if not route.named_by_messages or route.settings.names != "escape" or earlier == name:
            return
        with suppress(NotFound):
            self._report_earlier(name, self._catalog.load_table(earlier))

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
                for spec_id in sorted(table.specs, key=lambda spec: (spec != table.spec_id, -spec))
                for schema_id in sorted(
                    table.schemas, key=lambda schema: (schema != table.schema_id, -schema)
                )
            ]
            choices.append([self._at(version, *pair) for pair in pairs[:LOOKED_FOR]])
        for chosen in islice(product(*choices), LOOKED_FOR):
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


def _uuids(versions: Versions) -> frozenset[str]:
    return frozenset(version.table.uuid for version in versions.values() if version is not None)
