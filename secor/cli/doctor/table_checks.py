"""Checks of ``secor doctor`` for a table group: control topic, catalog, tables, rights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from secor.cli.doctor.checks import SCRATCH, CheckResult, examine
from secor.cli.doctor.store_checks import rights, with_short_timeouts
from secor.config.model import Config
from secor.config.route_checks import shared_by_topics
from secor.config.tables import why_no_growth
from secor.core.errors import ConfigurationError, NotFound
from secor.core.ports import ObjectStore
from secor.core.text import how_many
from secor.tables.catalog import Catalog
from secor.tables.commit.group_record import GroupRecord, groups_of, property_name
from secor.tables.library import TableLibrary
from secor.tables.overview import CREATED_BY_MESSAGES, MUST_BE_CREATED
from secor.tables.rows.routing import Route
from secor.tables.staging.table_version import open_version
from secor.tables.staging.uri_store import SCHEME

if TYPE_CHECKING:
    from secor.adapters.iceberg.commits import IcebergCatalog

MOST_TABLES = 20
"""Tables that are looked at one by one: a pattern may match thousands of topics."""


def of_tables(config: Config) -> Iterator[CheckResult]:
    """Check control topic, catalog, each table known by name, and that files can be put there."""
    from secor.wiring.clients import open_store
    from secor.wiring.table_catalogs import check_writable, open_tables
    from secor.wiring.table_storage import store_of_tables

    yield from _of_control(config)
    opened: list[tuple[IcebergCatalog, TableLibrary]] = []

    def reach() -> str:
        catalog, library = open_tables(config)
        namespaces = sorted({route.table.rpartition(".")[0] for route in config.tables})
        known = [name for name in namespaces if "{" not in name]
        tables = sum(len(catalog.list_tables(name)) for name in known)
        opened.append((catalog, library))
        check_writable(catalog)
        return f"{config.catalog.name} answers; tables in {', '.join(known) or '{...}'}: {tables}"

    yield examine("catalog", reach)
    for catalog, library in opened:
        topics = set(config.kafka.topics)
        yield from _of_topics(config, catalog, topics)
        yield examine("tables", partial(_stopped, config))
        roots: list[str] = []
        named = sorted(named_tables(config, topics).items())
        for name, route in named[:MOST_TABLES]:
            look = partial(_look, config, catalog, library, name, route, roots)
            yield examine("table", look)
        if len(named) > MOST_TABLES:
            left = how_many(len(named) - MOST_TABLES, "other table")
            yield CheckResult("table", True, f"{left}: not looked at")
        if roots:
            with open_store(with_short_timeouts(config)) as own:
                store = store_of_tables(config, own)
                yield from _rights(store, dict.fromkeys(roots))


def _rights(store: ObjectStore, roots: Iterable[str]) -> Iterator[CheckResult]:
    """Try what is done with tables' files; report a bucket that refuses all puts once."""
    closed: set[str] = set()
    for root in roots:
        scheme, _, path = root.partition(SCHEME)
        place = root if scheme == "file" else path.partition("/")[0]
        if place in closed:
            continue
        for finding in rights(store, f"{root}/{SCRATCH}"):
            if finding.ok:
                yield finding
                continue
            yield replace(finding, text=f"{root}: {finding.text}")
            if finding.check == "put":
                closed.add(place)


def _stopped(config: Config) -> str:
    """See that nothing stops the tables that the group has."""
    from secor.wiring.table_group import open_table_group

    with open_table_group(config) as group:
        staged = group.staged()
        overviews = group.look_at(group.tables(staged), staged)
    wrong = [
        overview
        for overview in overviews
        if overview.state in ("stopped", "failed") and overview.why != MUST_BE_CREATED
    ]
    if wrong:
        raise ConfigurationError(
            "; ".join(f"{fault.table} is {fault.state}: {fault.why}" for fault in wrong)
        )
    return "none is stopped"


def _of_control(config: Config) -> Iterator[CheckResult]:
    """Check the rights on the control topic, and on the group that elects the coordinator."""
    from secor.wiring.table_coordination import check_control_topic, check_election, members_of

    topic = config.commit.topic_of(config.group.name)
    if topic is None:
        return
    yield examine("control", partial(check_control_topic, config, topic))
    if config.commit.coordinator == "alone":
        yield examine("election", partial(check_election, config, members_of(config)))


def _of_topics(config: Config, catalog: Catalog, known: set[str]) -> Iterator[CheckResult]:
    """Check that no two topics, and no two groups, meet in a table by mistake.

    The topics that the brokers have are added to ``known``.
    """
    from secor.wiring.clients import open_reader

    kafka = config.kafka
    seen: list[tuple[str, set[str]]] = []

    def names() -> str:
        with open_reader(config) as reader:
            partitions = reader.group_partitions(
                kafka.topics, kafka.topics_pattern, kafka.topics_exclude
            )
            topics = {partition.topic for partition in partitions}
            seen.append((reader.cluster_id(), topics))
            known.update(topics)
        for _, why in shared_by_topics(config.tables, topics, config.rows):
            raise ConfigurationError(why)
        return f"each of {len(topics)} has tables of its own"

    yield examine("topics", names)
    for cluster, topics in seen:
        yield examine("groups", partial(_other_groups, config, catalog, cluster, topics))


def _other_groups(config: Config, catalog: Catalog, cluster: str, topics: set[str]) -> str:
    looked_at = 0
    for name in sorted(named_tables(config, topics)):
        try:
            table = catalog.load_table(name)
        except NotFound:
            continue
        looked_at += 1
        for group in sorted(groups_of(table) - {config.group.name}):
            vector = GroupRecord.of(table, group).vector
            both = topics & set(vector.clusters.get(cluster, {}))
            if both:
                raise ConfigurationError(
                    f"{name} has rows of {', '.join(sorted(both))} from group {group}, too: two"
                    " groups that feed one topic into one table append every message twice. Stop"
                    f" one of them, or give it another table; once group {group} is gone, remove"
                    f" the table's properties {property_name(group, '')}*"
                )
    return f"no other group feeds these topics into the {looked_at} tables that exist"


def named_tables(config: Config, topics: Iterable[str]) -> dict[str, Route]:
    """Return the tables of topics that no message needs to name."""
    from secor.wiring.table_routes import routes_of

    routes: dict[str, Route] = {}
    for topic in sorted(topics):
        for route in routes_of(config, topic):
            if not route.named_by_messages:
                routes.setdefault(route.name_for(topic), route)
    return routes


def _look(
    config: Config,
    catalog: IcebergCatalog,
    library: TableLibrary,
    name: str,
    route: Route,
    roots: list[str],
) -> str:
    """Look at one table; add where its files are, or will be, to ``roots``."""
    from secor.wiring.table_catalogs import place_of_new_table
    from secor.wiring.table_routes import row_settings

    try:
        table = catalog.load_table(name)
    except NotFound as error:
        if not route.settings.auto_create:
            raise ConfigurationError(f"{name} {MUST_BE_CREATED}") from error
        place = place_of_new_table(config, catalog, name, route)
        if place is None:
            return f"{name} {CREATED_BY_MESSAGES}"
        roots.append(place)
        return f"{name} {CREATED_BY_MESSAGES}, in {place}"
    if route.settings.evolve:
        why = why_no_growth(name, table.format_version, config.catalog.properties)
        if why is not None:
            raise ConfigurationError(why)
    version = open_version(table, route.settings, row_settings(config), library)
    roots.append(version.root)
    partitions = ", ".join(f"{term.transform}({term.name})" for term in table.spec) or "none"
    return (
        f"{name}: {len(table.schema)} columns, partitions: {partitions}, files:"
        f" {version.data_format.extension.removeprefix('.')} in {version.root}"
    )
