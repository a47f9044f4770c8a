"""The comparison of what a table's metadata records of files with the values in the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from secor.core.text import how_many
from secor.verify.finding import LINES

REPAIR = "'secor tables repair' records what is there"


@dataclass(frozen=True, slots=True)
class WrongMetadata:
    """One promise of a table's metadata that its file does not keep.

    ``column`` is empty for what is recorded of the whole file; ``cure`` says what to do.
    """

    path: str
    column: str
    what: str
    recorded: str
    found: str
    cure: str = REPAIR

    def __str__(self) -> str:
        where = f"{self.path}: " + (f"column {self.column}: " if self.column else "")
        return (
            f"{where}the recorded {self.what} is {self.recorded}, the file has {self.found};"
            f" readers may pass over rows: {self.cure}"
        )


@dataclass(frozen=True, slots=True)
class ComparedFile:
    """One file of a table, or a manifest, compared with its metadata.

    ``damage`` says why it cannot be read.  ``corrections`` are what is to be recorded instead, by
    the names of the library's data file; None where nothing can be corrected without new files.
    """

    path: str
    records: int = 0
    wrong: tuple[WrongMetadata, ...] = ()
    remarks: tuple[str, ...] = ()
    damage: str | None = None
    corrections: Mapping[str, Any] | None = None


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
