"""The work of a task: reads its pieces of objects into batches of the requested columns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from secor.archive.erasures import Erasures, read_erasures
from secor.archive.objects import Archive, ArchivedObject, reading_ahead
from secor.core.errors import ConfigurationError, CorruptFile, NotFound
from secor.core.model import OffsetRange
from secor.formats import EXTENSIONS
from secor.formats.sequencefile import SequenceFileFormat
from secor.spark.archive_location import open_archive
from secor.spark.columns import add_object_columns, fault_row
from secor.spark.filter_pushdown import NO_BOUNDS, FilterBounds
from secor.spark.options import ReadOptions, Selection, Span
from secor.spark.planning import ObjectPart, ReadTask, describe, may_hold
from secor.spark.workers import spare_next_task

ROWS = 16_384
"""Rows of a batch, about."""

MOST_BYTES = 16 << 20
"""Bytes of messages in a batch, about."""

MOST_HELD = 256 << 20
"""Bytes of an object's messages held while it may still turn out to be corrupt; a larger
object is read twice."""


def read_tasks(
    options: ReadOptions, tasks: Iterable[ReadTask], bounds: FilterBounds = NO_BOUNDS
) -> Iterator[pa.RecordBatch]:
    """Give the messages of some tasks; what is out of ``bounds`` may be left out.

    Raises ``CorruptFile``, ``NotFound``, ``ConfigurationError`` naming the object,
    ``AccessDenied``, ``Unavailable``.
    """
    erasures: dict[str, Erasures] = {}
    try:
        with open_archive(options) as archive:
            for task in tasks:
                sizes = {piece.archived.key: piece.archived.size for piece in task.pieces}
                # Read by the task, not when the read is planned: what is erased meanwhile is left
                # out.
                for topic in {piece.archived.topic for piece in task.pieces} - erasures.keys():
                    listed = read_erasures(archive.store, archive.root(topic), options.secret)
                    erasures[topic] = listed.require()
                with reading_ahead(archive, sizes) as ahead:
                    yield from gathered(
                        batch
                        for piece in task.pieces
                        for batch in _read_piece(
                            ahead, piece, options, bounds, erasures[piece.archived.topic]
                        )
                    )
    finally:
        spare_next_task()


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine small batches: each batch costs Spark as much as a thousand rows."""
    buffered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if buffered and (rows + batch.num_rows > ROWS or size + batch.nbytes > MOST_BYTES):
            yield pa.concat_batches(buffered) if len(buffered) > 1 else buffered[0]
            buffered, rows, size = [], 0, 0
        buffered.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if buffered:
        yield pa.concat_batches(buffered) if len(buffered) > 1 else buffered[0]


def _read_piece(
    archive: Archive,
    piece: ObjectPart,
    options: ReadOptions,
    bounds: FilterBounds,
    erasures: Erasures,
) -> Iterator[pa.RecordBatch]:
    selection, archived = bounds.narrowed(options.selection), piece.archived
    if selection.timestamps.bounded and not piece.asked:
        archived = describe(archive, archived) or archived
        if archived.info is not None and not may_hold(archived.info, selection):
            return

    erased = erasures.of_object(archived.name, archived.info)

    def read() -> Iterator[pa.RecordBatch]:
        for records in map(erased.without, _records(archive, piece)):
            if piece.given is not None:
                records = _rest(archived, records, piece.given)
            chosen = _allowed(_chosen(archive, archived, records, options.selection), bounds)
            if chosen.num_rows:
                yield add_object_columns(chosen, archived, options.columns)

    try:
        yield from _complete(read) if options.skip_corrupt else read()
    except CorruptFile as error:
        if not options.skip_corrupt:
            raise CorruptFile(
                f"{error}; corruptObjects=skip reads everything but this object"
            ) from error
        logging.getLogger("secor.spark").warning("skipped a corrupt object: %s", error)
        if "error" in options.columns:
            yield fault_row(archived, str(error), options.columns)
    except NotFound as error:
        raise NotFound(
            f"{archived.key} is gone since this read was planned: plan it again (was a backfill"
            " published, or does the bucket delete old objects?)"
        ) from error


def _records(archive: Archive, piece: ObjectPart) -> Iterator[pa.RecordBatch]:
    key = piece.archived.key
    if not piece.archived.size and piece.archived.name.extension not in EXTENSIONS:
        raise CorruptFile(f"{key}: is empty, and its name has no format that may be empty")
    with archive.store.open(key) as file:
        log_format = archive.formats(key, file)
        if piece.whole:
            yield from log_format.read(file, key)
        elif isinstance(log_format, SequenceFileFormat):
            yield from log_format.read_split(file, piece.start, piece.end, key)
        elif piece.start == 0:
            # Its name did not show that it cannot be split: the first piece takes it all.
            yield from log_format.read(file, key)


def _complete(read: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Give the batches of ``read`` only after reading to the end without an error."""
    buffered: list[pa.RecordBatch] = []
    size = 0
    for batch in read():
        size += batch.nbytes
        if size <= MOST_HELD:
            buffered.append(batch)
        else:
            # Too large to hold: what comes is only checked now, and read again afterwards.
            buffered.clear()
    return iter(buffered) if size <= MOST_HELD else read()


def _chosen(
    archive: Archive, archived: ArchivedObject, records: pa.RecordBatch, selection: Selection
) -> pa.RecordBatch:
    if selection.offsets.bounded:
        if _recorded(records, "offset"):
            records = _within(records, "offset", selection.offsets)
        elif not _inside(archive, archived, selection, "offset"):
            raise _unknown(archived, "offset", "Offset")
    if selection.timestamps.bounded:
        if _recorded(records, "timestamp_type"):
            records = _within(records, "timestamp", selection.timestamps)
        elif not _inside(archive, archived, selection, "timestamp"):
            raise _unknown(archived, "timestamp", "Timestamp")
    return records


def _allowed(records: pa.RecordBatch, bounds: FilterBounds) -> pa.RecordBatch:
    """Return the rows that may pass the query's filters, which no null does."""
    for name, span in (("offset", bounds.offsets), ("timestamp", bounds.timestamps)):
        if span.bounded:
            records = _within(records, name, span)
    return records


def _rest(archived: ArchivedObject, records: pa.RecordBatch, given: OffsetRange) -> pa.RecordBatch:
    """Return the rows of a rewritten object that a stream has not given yet."""
    if not _recorded(records, "offset"):
        raise ConfigurationError(
            f"{archived.key}: this stream has read a part of its messages from the objects that it"
            " joins, and its format does not record offsets: begin with a new checkpoint"
        )
    return _within(records, "offset", Span(given.start, given.end))


def _recorded(records: pa.RecordBatch, column: str) -> bool:
    """Return whether the object's format records this about its messages."""
    return not records.num_rows or records.column(column).null_count < records.num_rows


def _within(records: pa.RecordBatch, name: str, span: Span) -> pa.RecordBatch:
    """Return the rows with a number in the span; nulls never are."""
    column = records.column(name)
    bounds = pc.min_max(column)
    least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
    # Most batches are inside as a whole; a filter would copy all their messages.
    if column.null_count == 0 and least is not None and span.covers(least, greatest):
        return records
    mask = pc.is_valid(column)
    if span.start is not None:
        mask = pc.and_(mask, pc.greater_equal(column, span.start))
    if span.end is not None:
        mask = pc.and_(mask, pc.less(column, span.end))
    return records.filter(mask)


def _inside(archive: Archive, archived: ArchivedObject, selection: Selection, what: str) -> bool:
    """Return whether metadata prove that the whole object is in the requested range."""
    described = archived if archived.info else describe(archive, archived)
    info = described.info if described else None
    if info is None:
        return False
    if what == "offset":
        return selection.offsets.covers(info.first_offset, info.batch.end - 1)
    least, greatest = info.least_timestamp, info.greatest_timestamp
    if least is None or greatest is None:
        return False
    return selection.timestamps.covers(least, greatest)


def _unknown(archived: ArchivedObject, what: str, option: str) -> ConfigurationError:
    return ConfigurationError(
        f"{archived.key}: its format does not record the {what} of a message, and the object is"
        f" only partly in the range asked for: leave out starting{option} and ending{option},"
        " or choose by outputPartitions"
    )
