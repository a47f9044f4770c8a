"""Rows of a table at its snapshots, named as records of erased rows name them, read by Spark."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from secor.core.model import TopicPartition
from secor.spark.last_changes import key_json, quoted
from secor.spark.procedures import rows_of
from secor.tables.erased_rows import RowSet
from secor.tables.rows.table_rows import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """Reads rows of the table that Spark calls ``name``.

    With the columns of a ``key`` rows are hashes of it; without one the offsets of messages.
    """

    spark: SparkSession
    name: str
    key: Sequence[str] = ()
    hash_of: Callable[[str], bytes] | None = None

    def __call__(self, snapshot: int, condition: str = "", without: int | None = None) -> RowSet:
        """Return the rows of a snapshot, of those with the condition, that ``without`` has not.

        Memory grows with the rows that are returned: 8 bytes for an offset, about 100 for a hash.
        Raises ``Unavailable``.
        """
        statement = self._select(snapshot, condition)
        if without is not None:
            # Not only among rows with the condition: one that was changed is still there.
            statement += f" EXCEPT {self._select(without)}"
        if self.key:
            assert self.hash_of is not None
            return RowSet(
                hashes=frozenset(self.hash_of(key) for (key,) in rows_of(self.spark, statement))
            )
        offsets: dict[TopicPartition, array[int]] = defaultdict(lambda: array("q"))
        for topic, partition, offset in rows_of(self.spark, statement):
            offsets[TopicPartition(topic, partition)].append(offset)
        return RowSet({key: np.unique(np.array(of, np.int64)) for key, of in offsets.items()})

    def _select(self, snapshot: int, condition: str = "") -> str:
        version = f"{self.name} VERSION AS OF {snapshot}"
        if self.key:
            named = (f"{quoted(name)} AS key_{place}" for place, name in enumerate(self.key))
            columns = ", ".join(named)
            where = f" WHERE {condition}" if condition else ""
            return f"SELECT {key_json(self.key)} FROM (SELECT {columns} FROM {version}{where})"  # noqa: S608  # names are quoted
        names = list(map(quoted, ORIGIN))
        conditions = [f"({condition})"] if condition else []
        where = " AND ".join([*conditions, *(f"{name} IS NOT NULL" for name in names)])
        return f"SELECT {', '.join(names)} FROM {version} WHERE {where}"  # noqa: S608  # as above
