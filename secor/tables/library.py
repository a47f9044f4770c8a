"""The port to the table format's library, without the catalog: partitions, statistics and so on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from secor.tables.catalog import Table
from secor.tables.staging.manifest import Statistics

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PartitionValues:
    """One partition: the values of the spec's fields in JSON form, and its path."""

    values: tuple[Any, ...]
    path: str


class Partitioning(Protocol):
    """A partition spec over rows of one schema: pure."""

    def place(self, rows: pa.StructArray) -> tuple[Codes, Sequence[PartitionValues]]:
        """Return for each row an index into the partitions, which are in no order."""

    def refused(self, rows: pa.StructArray) -> Mapping[int, str]:
        """Return why rows have no partition in which readers find them.

        Columns that ``rows`` lack have no faults.
        """


@dataclass(slots=True)
class FloatStatistics:
    """The numbers of one column of a file; ``least`` and ``greatest`` leave NaN out."""

    nulls: int = 0
    nans: int = 0
    least: float | None = None
    greatest: float | None = None


class ParquetStatistics(Protocol):
    """Reads what a table keeps of a file's columns out of its footer."""

    def __call__(
        self, footer: pq.FileMetaData, floats: Mapping[int, FloatStatistics]
    ) -> Statistics:
        """Return sizes, counts and bounds by field id.

        The footer has none of columns of floating-point numbers; ``floats`` has, by field id.
        """


class TableLibrary(Protocol):
    """Makes them for one version of a table; all raise ``ConfigurationError``."""

    def partitioning(self, table: Table, schema_id: int, spec_id: int) -> Partitioning:
        """Return the partition spec's transforms."""

    def parquet_statistics(self, table: Table, schema_id: int) -> ParquetStatistics:
        """Return the statistics that the table's properties ask for."""

    def parquet_options(self, properties: Mapping[str, str]) -> Mapping[str, Any]:
        """Return how pyarrow's ParquetWriter is to write: codec, level, sizes of pages."""

    def data_location(self, table: Table) -> str:
        """Return the directory of data files, as a URI without a slash at its end."""
