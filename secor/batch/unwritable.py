"""Search for messages that cannot be written: by trial, halving what fails.

A trial writes some messages to files of their own, closes them and deletes them.  Halving needs
about as much time as writing the messages twice to find the first bad one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import pyarrow as pa

from secor.batch.batch import Batch
from secor.batch.cut import ParsedChunk
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.batch.workspace import Workspace
from secor.core.errors import SecorError
from secor.core.model import Chunk, OffsetRange, Part, TopicPartition
from secor.core.ports import Clock

UNWRITABLE = "process: this message cannot be written: "

Quarantine = Callable[[pa.RecordBatch, Mapping[int, str]], Part]
"""Makes the part of rows in quarantine, with the reason of each."""

SECONDS = 2.0
"""Of one search, from when the first bad message is known; the next search goes on."""

MOST_REFUSED = 1000
"""Messages of one search."""

NEIGHBOURS = 100
"""Messages, at least, that the share of unwritable ones is judged by: few may be bad."""

SAMPLES = 10
"""Where so many messages are tried and none can be written, the cause is none of them."""

CONFIRMATIONS = 2
"""Failures of a message alone, after the one that named it: what fails now and then is no
message's fault."""


class TrialFiles:
    """Files that messages are written to only to see whether they can be."""

    def __init__(self, plan: TopicPlan, workspace: Workspace, clock: Clock) -> None:
        # The caller has noted the range in the trail: a note of this trial's batch would replace
        # it.
        self._plan = replace(plan, trail=None)
        self._workspace = workspace
        self._clock = clock

    def write(self, chunk: Chunk, parts: Sequence[Part]) -> None:
        """Write messages, close the files and delete them.  Raises ``MessagesUnwritable``."""
        batch = Batch(
            chunk.topic_partition,
            range_of(chunk).start,
            plan=self._plan,
            workspace=self._workspace,
            clock=self._clock,
        )
        messages = chunk.topic_partition, chunk.records, chunk.next_offset
        try:
            # As parsed: to parse once more would count these messages and report them again.
            batch.append(ParsedChunk(*messages, tuple(parts), 0))
            sealed = batch.seal(Reason.RETIRED)
        except SecorError:
            batch.drop()
            raise
        sealed.delete()


Attempt = Callable[[Chunk, Sequence[Part] | None], str | None]
"""Parses a chunk, unless it has parts already, and writes it; returns why that failed, or None."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Messages that cannot be written, the reason of each by offset, and how many were tried."""

    reasons: Mapping[int, str]
    tried: int
    are_all: bool
    """Whether all that were tried fail, and a sample of those behind them does, too."""

    @property
    def judged(self) -> int:
        """The number of messages that the unwritable ones are a share of."""
        return self.tried if self.are_all else max(self.tried, NEIGHBOURS)


class Search:
    """One search in a chunk that cannot be written."""

    def __init__(
        self, chunk: Chunk, parts: Sequence[Part] | None, attempt: Attempt, clock: Clock
    ) -> None:
        """``parts`` are those of the chunk, None where it cannot even be parsed."""
        self._chunk = chunk
        self._parts = parts
        self._attempt = attempt
        self._clock = clock
        self._offsets = chunk.records.column("offset").to_numpy()
        self._reasons: dict[int, str] = {}

    def run(self) -> SearchResult:
        """Find the first bad message, and those behind it for which there is time.

        Of messages that only fail together, the last one is bad.
        """
        end, tried = self._clock.monotonic() + SECONDS, 0
        failing = [(0, len(self._offsets))]
        while failing and not (self._reasons and self._must_end(end)):
            first, last = failing.pop()
            if last - first == 1:
                self._confirm(first, first)
                tried = last
                continue
            middle = (first + last) // 2
            halves = [(first, middle), (middle, last)]
            bad = [half for half in halves if self._failure(*half) is not None]
            # A stack: the first half is looked at first, so that the earliest bad message is found
            # first.
            failing += reversed(bad)
            if not bad:
                self._refuse_together(first, last)
                tried = last
        tried = tried if failing else len(self._offsets)
        return SearchResult(self._reasons, tried, self._none_can_be_written(tried))

    def _none_can_be_written(self, tried: int) -> bool:
        if len(self._reasons) < tried:
            return False
        step = max(1, (len(self._offsets) - tried) // SAMPLES)
        behind = range(tried, len(self._offsets), step)
        if tried + len(behind) < SAMPLES:
            return False
        return all(self._failure(row, row + 1) is not None for row in behind)

    def _must_end(self, end: float) -> bool:
        return len(self._reasons) >= MOST_REFUSED or self._clock.monotonic() >= end

    def _refuse_together(self, first: int, last: int) -> None:
        """Find the shortest beginning of some messages that cannot be written together."""
        good = first + 1
        while last - good > 1:
            middle = (good + last) // 2
            if self._failure(first, middle) is None:
                good = middle
            else:
                last = middle
        self._confirm(first, last - 1)

    def _confirm(self, first: int, row: int) -> None:
        """Refuse a message that fails again and again, behind those from ``first`` on."""
        reasons = [self._failure(first, row + 1) for _ in range(CONFIRMATIONS)]
        if reasons[-1] is not None and None not in reasons:
            self._reasons[int(self._offsets[row])] = reasons[-1]

    def _failure(self, first: int, last: int) -> str | None:
        """Return why the rows ``[first, last)`` cannot be written."""
        start = int(self._offsets[first])
        end = self._chunk.next_offset if last == len(self._offsets) else int(self._offsets[last])
        chunk = self._chunk.since(start).until(end)
        if self._parts is None:
            return self._attempt(chunk, None)
        return self._attempt(
            chunk, [rows for part in self._parts for rows in _below(part, start, end)]
        )


def _below(part: Part, start: int, end: int) -> list[Part]:
    """Return the rows of a part that have these offsets, if there are any."""
    first, last = part.records.column("offset").to_numpy().searchsorted([start, end]).tolist()
    return [part.between(first, last)] if first < last else []


def range_of(chunk: Chunk) -> OffsetRange:
    """Return the offsets of a chunk that has messages."""
    return OffsetRange(int(chunk.records.column("offset")[0].as_py()), chunk.next_offset)


@runtime_checkable
class LimitedParser(Protocol):
    """A parser that allows a partition only so many messages in quarantine."""

    def count_bad(self, chunk: Chunk, bad: Mapping[int, str]) -> None:
        """Count messages that go into quarantine unparsed.  Raises ``TooManyBad``."""

    def refuse_share(
        self, topic_partition: TopicPartition, messages: int, bad: int, reason: str
    ) -> None:
        """Raise ``TooManyBad`` if so many of so many messages are more than is allowed."""
