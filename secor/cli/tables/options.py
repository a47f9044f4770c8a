"""Names of tables on the command line, which shells complete."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from secor.cli.topic_type import ParamType
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import SecorError


def load_tables(config: Path) -> Config:
    """Load a configuration.  Raises ``ConfigurationError`` if its group has no tables."""
    from secor.wiring.table_group import require_tables

    settings = load(config, os.environ)
    require_tables(settings, config)
    return settings


class TableName(ParamType):
    """A table: completed from the configuration, and from the catalog where that has a pattern."""

    name = "table"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the tables that begin with ``incomplete``; none where that cannot be known."""
        config = ctx.params.get("config")
        if not isinstance(config, str | Path):
            return []
        try:
            names = _tables(Path(config))
        except SecorError:
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _tables(path: Path) -> list[str]:
    from secor.wiring.table_catalogs import open_tables
    from secor.wiring.table_entries import fixed_tables, namespaces_of

    config = load_tables(path)
    names = set(fixed_tables(config))
    namespaces = namespaces_of(config)
    if namespaces:
        catalog, _ = open_tables(config)
        for namespace in namespaces:
            names |= set(catalog.list_tables(namespace))
    return sorted(names)


TABLE = TableName()
