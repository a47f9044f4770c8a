"""The format ``secor`` of Spark 4: a Python data source that gives Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from secor.spark.archive_location import open_archive
from secor.spark.columns import check_columns, ddl
from secor.spark.cursor import Cursor
from secor.spark.filter_pushdown import NO_BOUNDS, FilterBounds, bounds_of
from secor.spark.options import ReadOptions, parse_options, with_columns
from secor.spark.planning import ReadTask, plan, tasks_of
from secor.spark.reading import read_tasks
from secor.spark.stream import ObjectStream


class SecorDataSource(DataSource):
    """``spark.read.format("secor")`` and ``spark.readStream.format("secor")``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "secor"

    def schema(self) -> str:
        """Return the columns: all, or those of the option ``columns``."""
        return ddl(parse_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch; ``schema`` may be the user's own choice of columns."""
        return ArchiveReader(self._read_options(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        """Return the reader of a stream."""
        return ArchiveStreamReader(self._read_options(schema))

    def _read_options(self, schema: StructType) -> ReadOptions:
        columns = check_columns(
            [(field.name, field.dataType.simpleString()) for field in schema.fields]
        )
        return with_columns(parse_options(self.options), columns)


class TaskPartition(InputPartition):
    """One task, as Spark sends it to an executor."""

    def __init__(self, task: ReadTask) -> None:
        super().__init__(None)
        self.task = task


class ArchiveReader(DataSourceReader):
    """Plans where the driver is, reads where the executors are."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds = NO_BOUNDS

    def partitions(self) -> Sequence[InputPartition]:
        """List the archive.  Raises ``ConfigurationError``, ``AccessDenied``, ``Unavailable``."""
        with open_archive(self._options) as archive:
            return [TaskPartition(task) for task in plan(archive, self._options, self._bounds)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Give a task's messages; Spark asks with None when there is no task."""
        return _read(self._options, partition, self._bounds)


class FilteringReader(ArchiveReader):
    """Leaves out what the query's filters do not need."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  # Spark's
        """Take the filters as bounds; all of them are left to Spark as well."""
        self._bounds = bounds_of(filters)
        return filters


class FilteringDataSource(SecorDataSource):
    """The format on a Spark that pushes filters down; others refuse such a reader."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        return FilteringReader(self._asked(schema))


class ArchiveStreamReader(DataSourceStreamReader):
    """Gives each object once: see ``secor.spark.cursor`` for what is kept in the checkpoint."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._stream = ObjectStream(options)

    def initialOffset(self) -> Cursor:  # noqa: N802  # Spark's
        """Return the cursor of a stream that has no checkpoint yet."""
        return self._stream.latest() if self._options.new_objects_only else {}

    def latestOffset(self) -> Cursor:  # noqa: N802  # Spark's
        """List the archive and return the cursor behind what is there."""
        return self._stream.latest()

    def partitions(self, start: Cursor, end: Cursor) -> Sequence[InputPartition]:
        """Return the tasks between two cursors, also of a batch that is done again."""
        objects = self._stream.between(start, end)
        given = self._stream.given(objects, start, end)
        return [TaskPartition(task) for task in tasks_of(objects, self._options, given=given)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give a task's messages."""
        return _read(self._options, partition)


def _read(
    options: ReadOptions, partition: InputPartition | None, bounds: FilterBounds = NO_BOUNDS
) -> Iterator[pa.RecordBatch]:
    tasks = [partition.task] if isinstance(partition, TaskPartition) else []
    return read_tasks(options, tasks, bounds)
