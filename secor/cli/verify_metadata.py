"""The part of ``secor verify`` that compares what Iceberg tables record of files with the files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from secor.core.errors import ConfigurationError, CorruptFile
from secor.tables.catalog import Table
from secor.verify.metadata import ComparedMetadata

if TYPE_CHECKING:
    from secor.wiring.table_group import TableGroup


def compare_metadata(
    group: TableGroup, tables: Mapping[str, Table], unreadable: Collection[str]
) -> list[ComparedMetadata]:
    """Compare tables; what is ``unreadable`` is a finding already.

    Hudi tables have no metadata that Secor writes: readers prune by the footers of their files.
    """
    if group.config.table_format == "hudi":
        return []
    compared = []
    for name, table in sorted(tables.items()):
        result = compare_table(group, name, table)
        if name in unreadable:
            result.damage.clear()
        compared.append(result)
    return compared


def compare_table(group: TableGroup, name: str, table: Table) -> ComparedMetadata:
    """Compare all files of a table, as many side by side as commits are."""
    result = ComparedMetadata(name)
    try:
        for file in group.catalog.compare_files(table, group.config.commit.branch, group.parallel):
            result.add(file)
    except (ConfigurationError, CorruptFile) as error:
        result.damage.append(str(error))
    return result
