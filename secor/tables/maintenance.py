"""Maintenance of tables by Spark: which of Iceberg's procedures to call, in which order.

None of them touches staged files: these are in no snapshot yet, and the procedures delete only
files that a snapshot has named.  ``remove_orphan_files`` would, so it is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from secor.tables.catalog import MAIN

STEPS: Mapping[str, str] = {
    "rewrite_data_files": "small data files become large ones",
    "rewrite_position_delete_files": "small files of deletes become large ones",
    "rewrite_manifests": "small manifests become large ones",
    "expire_snapshots": "old snapshots go, with the files that only they have",
}
"""Iceberg's procedures in the order in which they are useful, and what each does."""

ONLY_MAIN = frozenset({"rewrite_position_delete_files", "rewrite_manifests"})
"""Procedures that know no branch but ``main``; of another branch's group they are left out."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The wanted maintenance: ``steps`` out of ``STEPS``; snapshots older than ``before`` may go,
    but the newest ``retain_last`` stay.  ``branch`` is compacted; snapshots expire on every branch.
    """

    steps: Sequence[str]
    before: datetime
    retain_last: int
    branch: str = MAIN

    @property
    def left_out(self) -> list[str]:
        """The steps that are wanted and cannot be done on this branch."""
        return [
            step
            for step in STEPS
            if step in self.steps and self.branch != MAIN and step in ONLY_MAIN
        ]

    def statements(self, catalog: str, table: str) -> dict[str, str]:
        """Return the SQL of each step for one table, in Spark's dialect.

        The time zone of the session has to be UTC.
        """
        procedures = f"{sql_name(catalog)}.system"
        return {
            step: f"CALL {procedures}.{step}({', '.join(self._arguments(step, table))})"
            for step in STEPS
            if step in self.steps and step not in self.left_out
        }

    def _arguments(self, step: str, table: str) -> list[str]:
        name = ".".join(sql_name(part) for part in table.split("."))
        arguments = [f"table => {sql_text(name)}"]
        if step == "rewrite_data_files" and self.branch != MAIN:
            arguments.append(f"branch => {sql_text(self.branch)}")
        if step == "expire_snapshots":
            arguments += [
                f"older_than => TIMESTAMP '{self.before:%Y-%m-%d %H:%M:%S}'",
                f"retain_last => {self.retain_last}",
                "stream_results => true",
            ]
        return arguments


def sql_text(value: str) -> str:
    """Return a string as Spark's SQL writes it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def sql_name(name: str) -> str:
    """Return a name, quoted for Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"
