"""The format ``secor`` of Spark 4: a Python data source, in batches and as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import CorruptFile, ObjectConflict
from secor.core.model import OffsetRange
from secor.spark import cursor as cursors
from secor.spark.archive_location import open_archive
from secor.spark.columns import check_columns, ddl
from secor.spark.cursor import Cursor, NewestBatch
from secor.spark.filter_pushdown import NO_BOUNDS, FilterBounds, bounds_of
from secor.spark.options import ReadOptions, parse_options, with_columns
from secor.spark.planning import (
    ASKED_AT_ONCE,
    ReadTask,
    describe,
    filter_names,
    listed,
    plan,
    tasks_of,
)
from secor.spark.reading import read_tasks


class ObjectStream:
    """The state of one query's planner; it can be made anew at any time from a cursor.

    The last listing is kept, so that a batch costs one; where batches begin is remembered
    by key, so that an object is asked for its metadata once.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._last: Cursor = {}
        self._listing: list[ArchivedObject] = []
        self._batches: dict[str, NewestBatch] = {}

    def latest(self) -> Cursor:
        """List the archive; return the cursor behind it, which never goes back.

        Raises ``CorruptFile`` for metadata that cannot be read, ``Unavailable``,
        ``AccessDenied``.
        """
        with open_archive(self._options) as archive:
            objects = self._list(archive)
            batches = self._newest_batches(archive, objects)
        # A log whose newest object has just vanished has no known end: it is left for the next
        # listing, and the cursor stays where it is.
        known = [archived for archived in objects if cursors.log_of(archived) in batches]
        now = cursors.cursor_of(
            known, batches.__getitem__, only_committed=self._options.only_committed
        )
        self._last = cursors.never_back(self._last, now)
        self._listing = objects
        return self._last

    def between(self, start: Cursor, end: Cursor) -> list[ArchivedObject]:
        """Return the objects of one batch of the stream.

        Raises ``ObjectConflict`` when objects that the stream has given were replaced.
        """
        # After a restart Spark asks for a batch of the checkpoint that this planner has not listed.
        # Otherwise the listing of `latest` is the one that the end belongs to: a newer one might
        # have more.
        if end != self._last or not self._listing:
            self._last = cursors.never_back(end, self._last)
            with open_archive(self._options) as archive:
                self._listing = self._list(archive)
        objects = cursors.between(self._listing, start, end)
        vanished = list(cursors.vanished(self._listing, start))
        # Objects vanish for good reasons, such as expiry. Only another object in the place of one
        # that was given means that messages would be there twice.
        if vanished and objects:
            self._refuse_replaced(vanished, start, objects)
        return objects

    def given(
        self, objects: list[ArchivedObject], start: Cursor, end: Cursor
    ) -> dict[str, OffsetRange]:
        """Return, by key, which offsets of the rewritten ones of ``objects`` are in the batch."""
        return {
            archived.key: offsets
            for archived in objects
            if archived.name.end is not None
            and (offsets := cursors.given(archived, start, end)) is not None
            and offsets != OffsetRange(archived.name.start_offset, archived.name.end)
        }

    def _list(self, archive: Archive) -> list[ArchivedObject]:
        return filter_names(listed(archive, self._options.selection), self._options.selection)

    def _newest_batches(
        self, archive: Archive, objects: list[ArchivedObject]
    ) -> dict[tuple[str, str], NewestBatch]:
        """Return the newest batch of each log; leave out logs that just vanished."""
        last = cursors.newest(objects)
        unknown = [archived for archived in last if archived.key not in self._batches]
        # Side by side, for each asks the store: one after the other a thousand logs would take
        # longer than a trigger's interval.
        with ThreadPoolExecutor(ASKED_AT_ONCE, thread_name_prefix="head") as pool:
            answers = list(pool.map(lambda archived: describe(archive, archived), unknown))
        known = {
            archived.key: self._batches[archived.key]
            for archived in last
            if archived.key in self._batches
        }
        for archived in answers:
            if archived is not None:
                known[archived.key] = _newest(archived)
        self._batches = known
        return {
            cursors.log_of(archived): known[archived.key]
            for archived in last
            if archived.key in known
        }

    def _refuse_replaced(
        self, vanished: list[tuple[str, str, str]], start: Cursor, objects: list[ArchivedObject]
    ) -> None:
        """A try that was never committed is deleted when its batch is stored in another way."""
        logs = {(topic, log): key for topic, log, key in vanished}
        suspects = [
            archived
            for archived in objects
            if cursors.log_of(archived) in logs and archived.name.end is None
        ]
        with open_archive(self._options) as archive:
            for archived in suspects:
                topic, log = cursors.log_of(archived)
                described_now = describe(archive, archived)
                if (
                    described_now is not None
                    and _batch_of(described_now).start == start[topic][log]["settled"]
                ):
                    raise ObjectConflict(
                        f"{logs[topic, log]} was given to this stream and is replaced by"
                        f" {archived.key}: its batch was begun again under another configuration."
                        " Remove its messages from the output and begin with a new checkpoint;"
                        " onlyCommitted=true waits for batches that cannot change"
                    )


def _newest(archived: ArchivedObject) -> NewestBatch:
    rewritten = archived.name.end
    return _batch_of(archived) if rewritten is None else NewestBatch(rewritten)


def _batch_of(archived: ArchivedObject) -> NewestBatch:
    if archived.fault is not None:
        raise CorruptFile(archived.fault)
    end = archived.info.batch.end if archived.info else None
    return NewestBatch(archived.batch_start, end)


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
        # Spark gives the schema of the DataFrame, which is the user's where one was set: names and
        # types must be ours all the same.
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
        # All of them: a bound may let too much through, so Spark must filter again.
        return filters


class FilteringDataSource(SecorDataSource):
    """The format on a Spark that pushes filters down; others refuse such a reader."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        return FilteringReader(self._read_options(schema))


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
