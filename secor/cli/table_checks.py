"""What ``secor doctor`` looks at for a table group: catalog, tables, rights at their data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from secor.cli.doctor_checks import SCRATCH, Finding, examine
from secor.cli.store_checks import impatient, rights
from secor.config.model import Config
from secor.core.errors import ConfigurationError, NotFound
from secor.core.ports import ObjectStore
from secor.tables.catalog import Catalog
from secor.tables.library import TableLibrary
from secor.tables.routing import Route
from secor.tables.table_version import TableVersion, open_version


def of_tables(config: Config) -> Iterator[Finding]:
    """Check the catalog, each table that is known by name, and that files can be put there."""
    from secor.wiring.clients import open_store
    from secor.wiring.tables import open_tables, store_of_tables

    opened: list[tuple[Catalog, TableLibrary]] = []

    def reach() -> str:
        catalog, library = open_tables(config)
        namespaces = sorted({route.table.rpartition(".")[0] for route in config.tables})
        known = [name for name in namespaces if "{" not in name]
        tables = sum(len(catalog.list_tables(name)) for name in known)
        opened.append((catalog, library))
        return f"{config.catalog.name} answers; tables in {', '.join(known) or '{...}'}: {tables}"

    yield examine("catalog", reach)
    for catalog, library in opened:
        versions: list[TableVersion] = []
        for name, route in sorted(named_tables(config).items()):
            look = partial(_look, config, catalog, library, name, route, versions)
            yield examine("table", look)
        if versions:
            with open_store(impatient(config)) as own:
                store = store_of_tables(config, own)
                for root in dict.fromkeys(version.root for version in versions):
                    yield from _rights(store, root)


def named_tables(config: Config) -> dict[str, Route]:
    """Return the tables that no message needs to name, of the topics that are known by name."""
    from secor.wiring.tables import routes_of

    found: dict[str, Route] = {}
    for topic in config.kafka.topics:
        for route in routes_of(config, topic):
            if not route.named_by_messages:
                found.setdefault(route.name_for(topic), route)
    return found


def _look(
    config: Config,
    catalog: Catalog,
    library: TableLibrary,
    name: str,
    route: Route,
    versions: list[TableVersion],
) -> str:
    from secor.wiring.tables import row_settings

    try:
        table = catalog.load_table(name)
    except NotFound as error:
        if route.settings.auto_create:
            return f"{name} does not exist: it is made with its first messages"
        raise ConfigurationError(
            f"{name} does not exist: create it, or set auto_create = true in [[tables]]"
        ) from error
    version = open_version(table, route.settings, row_settings(config), library)
    versions.append(version)
    partitions = ", ".join(f"{it.transform}({it.name})" for it in table.spec) or "none"
    return (
        f"{name}: {len(table.schema)} columns, partitions: {partitions}, files:"
        f" {version.data_format.extension.removeprefix('.')} in {version.root}"
    )


def _rights(store: ObjectStore, root: str) -> Iterator[Finding]:
    yield from rights(store, f"{root}/{SCRATCH}")
