"""Maintenance of tables by Spark: which of Iceberg's procedures are called, in which order.

None of them touches what is staged: staged files are in no snapshot yet, and these procedures
delete only what a snapshot has named.  That is why ``remove_orphan_files`` is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

STEPS: Mapping[str, str] = {
    "rewrite_data_files": "small data files become large ones",
    "rewrite_position_delete_files": "small files of deletes become large ones",
    "rewrite_manifests": "small manifests become large ones",
    "expire_snapshots": "old snapshots go, with the files that only they have",
}
"""Iceberg's procedures in the order in which they are useful, and what each does."""

ONLY_MAIN = frozenset(STEPS) - {"expire_snapshots"}
"""Procedures that know no branch but ``main``."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What is wanted: ``steps`` out of ``STEPS``; snapshots older than ``before`` may go, but
    the newest ``retain_last`` stay.
    """

    steps: Sequence[str]
    before: datetime
    retain_last: int

    def statements(self, catalog: str, table: str) -> dict[str, str]:
        """Return the SQL of each step for one table, in Spark's dialect.

        The time zone of the session has to be UTC.
        """
        procedures = f"{_quoted(catalog)}.system"
        return {
            step: f"CALL {procedures}.{step}({', '.join(self._arguments(step, table))})"
            for step in STEPS
            if step in self.steps
        }

    def _arguments(self, step: str, table: str) -> list[str]:
        name = ".".join(_quoted(part) for part in table.split("."))
        arguments = ["table => '" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"]
        if step == "expire_snapshots":
            arguments += [
                f"older_than => TIMESTAMP '{self.before:%Y-%m-%d %H:%M:%S}'",
                f"retain_last => {self.retain_last}",
                "stream_results => true",
            ]
        return arguments


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
