"""How far a table is, looked at from outside of the daemons that fill it."""

from __future__ import annotations

from pathlib import Path

from secor.config.load import load
from secor.core.errors import NotFound
from secor.tables.commit.group_record import GroupRecord
from secor.wiring.table_catalogs import open_tables
from tools.bench.cases import table_of
from tools.bench.running import Progress


class TableProgress:
    """As ``Progress``, for rows that are in the table."""

    def __init__(self, ledger: Progress, config: Path, group: str) -> None:
        """The table is looked at only while ``ledger`` says that more is staged."""
        self._ledger = ledger
        self._catalog, _ = open_tables(load(config, {}))
        self._group = group
        self._seen = 0
        self._at = 0.0

    def committed(self) -> tuple[int, float]:
        """Return the sum of the offsets in the table, and when the last of them came there."""
        staged, _ = self._ledger.committed()
        if staged > self._seen:
            try:
                table = self._catalog.load_table(table_of(self._group))
            except NotFound:
                return 0, 0.0
            record = GroupRecord.of(table, self._group)
            self._seen = sum(offset for _, _, offset in record.vector.offsets())
            self._at = 0.0 if record.commit is None else record.commit.time / 1000
        return self._seen, self._at

    def close(self) -> None:
        """End the connection to the ledger."""
        self._ledger.close()
