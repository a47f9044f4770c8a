"""The port ``tables.merging.MergeEngine`` on the fake that the simulation uses.

``tests/spark/test_merging.py`` has the same cases on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

import pytest

from secor.tables.catalog import MAIN
from secor.tables.staging.manifest import DataFile, Operation, TableFiles
from tests.contracts.merge_engines import CASES, TABLE, EngineWorld
from tests.fakes.table_catalog import FakeCatalog, TableServer


class FakeWorld:
    """Files stand for rows: each is named by the id of its one row."""

    def __init__(self) -> None:
        self.server = TableServer()
        self.table = self.server.make(TABLE)
        self.catalog = self.engine = FakeCatalog(self.server)
        self.numbers = count()

    def changes(self, ids: Iterable[int]) -> TableFiles:
        return self._files("changes", ids)

    def deletions(self, ids: Iterable[int]) -> TableFiles:
        del ids  # they change nothing
        return self._files("changes", ())

    def appends(self, ids: Iterable[int]) -> TableFiles:
        return self._files("append", ids)

    def visible(self, branch: str = MAIN) -> set[int]:
        ids = [int(path) for path in self.table.live(branch)]
        assert len(set(ids)) == len(ids)
        return set(ids)

    def append_as_another(self, number: int) -> None:
        self.table.foreign_append([str(number)])

    def drop(self) -> None:
        del self.server.tables[TABLE]

    def _files(self, operation: Operation, ids: Iterable[int]) -> TableFiles:
        files = [DataFile(str(number), "parquet", 1, 100, number, number) for number in ids]
        key = (1,) if operation == "changes" else ()
        return TableFiles(TABLE, self.table.uuid, 0, 0, operation, tuple(files), key=key)


@pytest.mark.parametrize("case", CASES)
def test_the_fake(case: Callable[[EngineWorld], None]) -> None:
    case(FakeWorld())
