"""The parser of a partition group or table group that is watched: notes, tries, leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from secor.batch.parse_trail import ParseTrail, guarded
from secor.batch.unwritable import LimitedParser, Quarantine, Search, TrialFiles, range_of
from secor.core.errors import MessagesUnwritable
from secor.core.model import Chunk, OffsetRange, Part
from secor.core.observer import Observer
from secor.core.ports import Clock, MessageParser
from secor.core.text import how_many

STAGE = "process"

MOST_PIECES = 1000
"""Into so many pieces, or a few more, a suspected range is divided: each is parsed and written
apart.  A death over one of them makes it the next range."""


class WatchedParser:
    """A parser that notes what it is at, and parses what is suspected in small pieces."""

    def __init__(
        self,
        parser: MessageParser,
        *,
        trail: ParseTrail,
        observer: Observer,
        quarantine: Quarantine,
        skips: Mapping[int, str],
        suspected: Sequence[OffsetRange],
        unwritable: OffsetRange | None,
        files: TrialFiles,
        clock: Clock,
    ) -> None:
        """``skips`` are offsets of messages that are not parsed, with the reason of each; they
        change the objects.

        Messages that are ``suspected`` are parsed and written in pieces, and the bad ones are
        looked for in those that were ``unwritable`` together.
        """
        self._reasons = skips
        self._unwritable = unwritable
        self._files = files
        self._parser = parser
        self._trail = trail
        self._observer = observer
        self._quarantine = quarantine
        self._skips = np.array(sorted(skips), dtype=np.int64)
        self._suspected = suspected
        self._clock = clock

    @property
    def identity(self) -> str:
        """That of the parser, and what is left out."""
        if not len(self._skips):
            return self._parser.identity
        return f"{self._parser.identity}|without {','.join(map(str, self._skips.tolist()))}"

    def split(self, chunk: Chunk) -> Sequence[Part]:
        """Split a chunk; see ``MessageParser``.  Raises ``MessagesUnwritable``, too."""
        if not chunk.records.num_rows:
            return self._parser.split(chunk)
        offsets = chunk.records.column("offset").to_numpy()
        skipped = np.flatnonzero(np.isin(offsets, self._skips)).tolist()
        cuts = {0, len(offsets), *skipped, *(row + 1 for row in skipped)}
        for suspected in self._suspected:
            first, last = offsets.searchsorted([suspected.start, suspected.end]).tolist()
            # Cut by the width of the suspected range, not by the rows of this chunk: a range that
            # comes in many chunks is still divided in a bounded number of pieces.
            rows = max(1, (suspected.end - suspected.start) // MOST_PIECES)
            cuts |= {*range(first, last, rows), last}
        # The usual case: nothing is suspected in this chunk, so it is not cut at all.
        if len(cuts) == 2 and not skipped:
            return self._split(chunk)
        return [part for piece in _pieces(chunk, sorted(cuts)) for part in self._careful(piece)]

    def _careful(self, chunk: Chunk) -> Sequence[Part]:
        first = int(chunk.records.column("offset")[0].as_py())
        if not np.isin(first, self._skips):
            return self._split(chunk)
        self._observer.quarantined(chunk.topic_partition, STAGE, 1)
        bad = {0: self._reasons[first]}
        # The limits of quarantine count these as well, although the parser never sees them.
        if isinstance(self._parser, LimitedParser):
            self._parser.count_bad(chunk, bad)
        return [self._quarantine(chunk.records, bad)]

    def _split(self, chunk: Chunk) -> Sequence[Part]:
        start, end = (offsets := range_of(chunk)).start, offsets.end
        unwritable = self._unwritable
        if unwritable is not None and start < unwritable.end and unwritable.start < end:
            return self._tried(chunk)
        last = int(chunk.records.column("offset")[-1].as_py())
        suspected = any(spot.start <= start and last < spot.end for spot in self._suspected)
        # The trail names the offsets before they are parsed: if the process dies in here, the next
        # one reads over which messages.
        with guarded(chunk.topic_partition, offsets, self._trail):
            parts = self._parser.split(chunk)
            if suspected:
                # To files of its own, within the guard: a process may die in a format's library as
                # well, and the trail then names this piece and not the whole chunk.
                self._files.write(chunk, parts)
        return parts

    def _tried(self, chunk: Chunk) -> Sequence[Part]:
        """Return the parts of a chunk that can be written.

        Raises ``MessagesUnwritable`` with messages that cannot.
        """
        parts: Sequence[Part] | None = None
        try:
            parts = parsed = self._parsed(chunk)
        except MessagesUnwritable as error:
            failure = error.why
        else:
            written = self._attempt(chunk, parsed)
            if written is None:
                return parsed
            failure = written
        refused = Search(chunk, parts, self._attempt, self._clock).run()
        where = range_of(chunk)
        if not refused.reasons:
            raise MessagesUnwritable(failure, where.start, where.end)
        offset = min(refused.reasons)
        why = f"offset {offset} cannot be written: {refused.reasons[offset]}"
        if len(refused.reasons) > 1:
            why = f"{how_many(len(refused.reasons), 'message')}: {why}"
        if isinstance(self._parser, LimitedParser):
            self._parser.refuse_share(
                chunk.topic_partition, refused.judged, len(refused.reasons), why
            )
        raise MessagesUnwritable(why, where.start, where.end, refused.reasons)

    def _parsed(self, chunk: Chunk) -> Sequence[Part]:
        with guarded(chunk.topic_partition, range_of(chunk), self._trail):
            return self._parser.split(chunk)

    def _attempt(self, chunk: Chunk, parts: Sequence[Part] | None) -> str | None:
        """Return why a chunk cannot be parsed or written."""
        try:
            if parts is None:
                parts = self._parsed(chunk)
            with guarded(chunk.topic_partition, range_of(chunk), self._trail):
                self._files.write(chunk, parts)
        except MessagesUnwritable as error:
            return error.why
        return None


def _pieces(chunk: Chunk, cuts: Sequence[int]) -> Iterator[Chunk]:
    offsets = chunk.records.column("offset").to_numpy()
    for first, last in pairwise(cuts):
        end = int(offsets[last]) if last < len(offsets) else chunk.next_offset
        records = chunk.records.slice(first, last - first)
        yield replace(chunk, records=records, next_offset=end)
