"""The part of ``secor verify`` that compares what Iceberg tables record of files with the files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from secor.core.errors import ConfigurationError, CorruptFile
from secor.core.text import how_many
from secor.tables.catalog import Table
from secor.verify.tables import REPAIR, ComparedFile, WrongMetadata

if TYPE_CHECKING:
    from secor.wiring.table_group import TableGroup

LINES = 20
"""Findings printed of each table; --json has all."""


@dataclass
class ComparedMetadata:
    """Metadata of one table's files, compared with what the files hold.

    ``damage`` says of files why they cannot be read; ``corrections`` are by path, and
    ``correctable`` counts the findings that they end.
    """

    table: str
    files: int = 0
    rows: int = 0
    wrong: list[WrongMetadata] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    corrections: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    correctable: int = 0

    def add(self, file: ComparedFile) -> None:
        """Add one file."""
        self.rows += file.records
        self.wrong += file.wrong
        self.remarks += file.remarks
        if file.corrections is not None:
            self.corrections[file.path] = file.corrections
            self.correctable += sum(wrong.cure == REPAIR for wrong in file.wrong)
        if file.damage is None:
            self.files += 1
        else:
            self.damage.append(f"table {self.table}: it cannot be read: {file.damage}")

    @property
    def findings(self) -> int:
        """The number of findings."""
        return len(self.wrong) + len(self.damage)

    def lines(self) -> Iterator[str]:
        """Give what is printed."""
        for why in self.damage[:LINES]:
            yield f"not compared: {why}"
        for wrong in self.wrong[:LINES]:
            yield f"{self.table}: {wrong}"
        if len(self.wrong) > LINES or len(self.damage) > LINES:
            yield f"{self.table}: … (--json shows more)"
        yield from (f"{self.table}: {remark}" for remark in self.remarks[:LINES])
        rows = f"{how_many(self.rows, 'row')} in {how_many(self.files, 'file')}"
        yield f"{self.table}: metadata compared with the values of {rows}"

    def as_json(self) -> Mapping[str, object]:
        """Return all of it."""
        names = ("table", "files", "rows", "damage", "remarks")
        of_table = {name: getattr(self, name) for name in names}
        return {**of_table, "wrong": [asdict(wrong) for wrong in self.wrong]}


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
