"""Search for messages by the values of a field: gives offsets, by which they are erased.

A list of offsets needs neither parser nor secret of those that read the archive later, and finds a
message again in whatever object it comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from secor.archive.erasures import ErasedLog, ErasedOffsets, Ranges
from secor.archive.objects import Archive, ArchivedObject, reading_ahead
from secor.archive.repair.stored_ranges import described_by_neighbours
from secor.core.errors import CorruptFile
from secor.parsing.fields import field_at, texts
from secor.parsing.rows import Decoded, Decoder, DividingDecoder, Rows

Log = tuple[int, int, str | None]
"""Partition, generation, id of the topic."""


@dataclass(slots=True)
class FieldSearch:
    """Finds messages whose field at ``path`` has one of ``values``, as text.

    ``unread`` counts the messages with a value that the decoder could not decode,
    ``found_values`` are the values that were there; ``damaged`` gives keys of objects that could
    not be read, and why.
    """

    decoder: Decoder
    path: str
    values: frozenset[str]
    unread: int = 0
    found_values: set[str] = field(default_factory=set)
    damaged: dict[str, str] = field(default_factory=dict)

    def run(
        self, archive: Archive, objects: Iterable[ArchivedObject], logs: Sequence[ErasedLog]
    ) -> list[ErasedOffsets]:
        """Return the offsets of such messages in each log, below what is settled of it.

        Raises ``NotFound`` where another run has replaced an object meanwhile, ``Unavailable``.
        """
        self.unread, ends = 0, {_log_of(log): log.end for log in logs}

        def committed(partition: int, generation: int) -> int:
            return ends.get((partition, generation, None), 0)

        objects = described_by_neighbours(list(objects), committed)
        by_log: dict[Log, list[ArchivedObject]] = {}
        for archived in objects:
            if archived.info is not None and archived.fault is None:
                log = (archived.name.partition, archived.name.generation, archived.info.topic_id)
                by_log.setdefault(log, []).append(archived)
        result = []
        for log, of_log in sorted(by_log.items(), key=lambda item: str(item[0])):
            ranges = ranges_of(self._offsets(archive, of_log, ends.get(log, 0)))
            if ranges:
                result.append(ErasedOffsets(*log, ranges))
        return result

    def _offsets(
        self, archive: Archive, objects: Sequence[ArchivedObject], end: int
    ) -> Iterator[np.ndarray]:
        sizes = {archived.key: archived.size for archived in objects}
        with reading_ahead(archive, sizes) as ahead:
            for archived in objects:
                try:
                    for records in ahead.read(archived):
                        if records.column("offset").null_count:
                            raise CorruptFile("its format keeps no offsets")
                        offsets = records.column("offset").to_numpy(zero_copy_only=False)
                        # Below what is settled: objects behind it may be of a batch that is made
                        # again.
                        chosen = self.chosen(records) & (offsets < end)
                        yield offsets[chosen]
                except CorruptFile as error:
                    self.damaged[archived.key] = str(error).removeprefix(f"{archived.key}: ")

    def chosen(self, records: pa.RecordBatch) -> np.ndarray:
        """Tell of each message whether it has one of the values."""
        chosen = np.zeros(records.num_rows, bool)
        if not records.num_rows:
            return chosen
        with_value = records.column("value").is_valid().to_numpy(zero_copy_only=False)
        for rows, decoded in self._decoded(records):
            column = texts(field_at(decoded.rows, self.path))
            table = np.array([text in self.values for text in column.distinct], bool)
            hits = column.lookup(table, null=False)
            chosen[rows] = hits
            self.found_values.update(self.values.intersection(column.distinct))
            # Tombstones have no value that could be decoded: they are not unread.
            self.unread += sum(bool(with_value[rows[row]]) for row in decoded.bad)
        return chosen

    def _decoded(self, records: pa.RecordBatch) -> Iterable[tuple[Rows, Decoded]]:
        paths = (self.path,)
        if isinstance(self.decoder, DividingDecoder):
            return self.decoder.decode_apart(records, paths)
        return [(np.arange(records.num_rows), self.decoder.decode(records, paths))]


def _log_of(log: ErasedLog) -> Log:
    return log.partition, log.generation, log.topic_id


def ranges_of(offsets: Iterable[np.ndarray]) -> Ranges:
    """Return the ranges that hold these offsets and no others."""
    pieces = [piece for piece in offsets if len(piece)]
    if not pieces:
        return ()
    every = np.unique(np.concatenate(pieces))
    breaks = np.flatnonzero(np.diff(every) != 1)
    starts = every[np.concatenate([[0], breaks + 1])]
    ends = every[np.concatenate([breaks, [len(every) - 1]])] + 1
    return tuple(zip(starts.tolist(), ends.tolist(), strict=True))
