"""Which tables a configuration names, and where those are that only messages name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from secor.config.model import Config

_PLACE = "{}"
"""Stands for a field in a template."""


def fixed_tables(config: Config) -> list[str]:
    """Return the tables that a configuration names as they are."""
    return [route.table for route in config.tables if "{" not in route.table]


def namespaces_of(config: Config) -> set[str]:
    """Return the namespaces of tables whose names are made from messages."""
    return {space for space in _namespaces(config) if space and _PLACE not in space}


def has_unknown_namespaces(config: Config) -> bool:
    """Tell whether messages also name the namespaces of tables."""
    return any(not space or _PLACE in space for space in _namespaces(config))


def _namespaces(config: Config) -> Iterator[str]:
    """Give the namespaces of the templates, each of their fields as ``_PLACE``."""
    for route in config.tables:
        if "{" in route.table:
            yield re.sub(r"\{[^}]*\}", _PLACE, route.table).rpartition(".")[0]
