"""Format version 3 of Iceberg tables: what can be made here, said before a daemon tries."""

from __future__ import annotations

from collections.abc import Mapping

from secor.config.values import fault

PROPERTY = "format-version"
_APPENDED = 2
_WRITTEN_BY_PYTHON = ("sql", "glue", "dynamodb", "hive", "in-memory")
"""Catalogs for which the library for Python writes a table's metadata."""


def check_format_version(
    route: str, mode: str, properties: Mapping[str, str], catalog: Mapping[str, str]
) -> None:
    """Raise a fault for tables of a version that cannot be made, or not be written to.

    ``route`` is the key of the route, ``properties`` are those of its new tables, and ``catalog``
    those of the catalog.
    """
    text = properties.get(PROPERTY, "2")
    key = f"{route}.properties"
    if text not in ("1", "2", "3"):
        raise fault(f"{PROPERTY} = {text!r}: use 2, or 3 for rows that are changed", key)
    if int(text) <= _APPENDED:
        return
    if mode == "append":
        why = f"{PROPERTY} = {text}: rows are appended to version 2 at most; take this away"
        raise fault(why, key)
    if catalog.get("type") in _WRITTEN_BY_PYTHON:
        why = f"{PROPERTY} = {text}: {_who_writes(catalog)}"
        raise fault(f"{why} Make the table in Spark and set auto_create = false", key)


def why_no_growth(table: str, format_version: int, catalog: Mapping[str, str]) -> str | None:
    """Return why no columns are added to a table that exists, None where they can be."""
    if format_version <= _APPENDED or catalog.get("type") not in _WRITTEN_BY_PYTHON:
        return None
    return (
        f"{table} has format version {format_version}, and evolve = true:"
        f" {_who_writes(catalog)} Set evolve = false and add columns in Spark"
        " (ALTER TABLE ... ADD COLUMN): batches that begin afterwards have them"
    )


def _who_writes(catalog: Mapping[str, str]) -> str:
    """Return who writes the metadata of a catalog's tables."""
    return (
        "the Iceberg library for Python, which writes metadata for a catalog of type"
        f" {catalog.get('type')!r}, writes version 2 at most; a REST catalog writes its own."
    )
