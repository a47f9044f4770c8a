"""Batches of archived messages, in which those that cannot be written are in quarantine.

The daemon decides in the store which messages are left out, so that its files stay a function of
range and fingerprint (``consume.poison_messages``).  A backfill has all messages at
hand and takes no decision: the same search finds the same messages each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.batch.batch import Batch
from secor.batch.parse_trail import guarded
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.batch.sealed import SealedBatch
from secor.batch.unwritable import (
    NEIGHBOURS,
    UNWRITABLE,
    LimitedParser,
    Quarantine,
    Search,
    TrialFiles,
    range_of,
)
from secor.batch.workspace import Workspace
from secor.core.errors import MessagesUnwritable, RecordRefused
from secor.core.model import Chunk, Part, next_offset
from secor.core.ports import Clock, MessageParser


class QuarantiningParser:
    """A parser that puts messages which cannot be written into quarantine unparsed.

    Its identity is that of the parser: these messages follow from the settings, too.
    """

    def __init__(
        self, parser: MessageParser, reasons: Mapping[int, str], quarantine: Quarantine
    ) -> None:
        self._parser = parser
        self._quarantine = quarantine
        self.reasons = reasons

    @property
    def identity(self) -> str:
        """That of the parser."""
        return self._parser.identity

    def split(self, chunk: Chunk) -> Sequence[Part]:
        """Split a chunk; see ``MessageParser``."""
        offsets = chunk.records.column("offset").to_numpy()
        rows = np.flatnonzero(np.isin(offsets, [*self.reasons])).tolist()
        parts: list[Part] = []
        for first, last in pairwise([-1, *rows, len(offsets)]):
            if first >= 0:
                parts.append(self._left_out(chunk, first, int(offsets[first])))
            if last - first > 1:
                end = int(offsets[last]) if last < len(offsets) else chunk.next_offset
                parts += self._parser.split(chunk.since(int(offsets[first + 1])).until(end))
        return parts

    def _left_out(self, chunk: Chunk, row: int, offset: int) -> Part:
        bad = {0: self.reasons[offset]}
        records = chunk.records.slice(row, 1)
        if isinstance(self._parser, LimitedParser):
            self._parser.count_bad(
                replace(chunk, records=records, next_offset=next_offset(offset)), bad
            )
        return self._quarantine(records, bad)


Begin = Callable[[TopicPlan], Batch]


@dataclass(frozen=True, slots=True)
class ArchivedBatchWriter:
    """One batch of archived messages; its ``chunks`` can be read more than once."""

    plan: TopicPlan
    chunks: Callable[[], Iterable[Chunk]]
    begin: Begin
    """Opens the batch, with a plan as ``plan``."""
    end: int
    quarantine: Quarantine
    workspace: Workspace
    clock: Clock

    def seal(self, reason: Reason) -> tuple[SealedBatch, int]:
        """Return the batch and how many messages were read.

        Those that cannot be written are in quarantine.  Raises ``RecordRefused`` where no single
        message is the cause, ``TooManyBad``, and what parsing raises.
        """
        reasons: dict[int, str] = {}
        while True:
            try:
                return self._sealed(self._without(reasons), reason)
            except MessagesUnwritable as error:
                further = self._search(error, reasons)
                if not further:
                    raise RecordRefused(
                        f"messages in [{error.start}, {error.end}) cannot be written, and no"
                        f" single one is known to be the cause: {error.why}"
                    ) from error
                reasons |= further

    def _without(self, reasons: Mapping[int, str]) -> TopicPlan:
        if not reasons:
            return self.plan
        parser = QuarantiningParser(self.plan.parser, dict(reasons), self.quarantine)
        return replace(self.plan, parser=parser)

    def _sealed(self, plan: TopicPlan, reason: Reason) -> tuple[SealedBatch, int]:
        batch = self.begin(plan)
        try:
            for chunk in self.chunks():
                batch.append(chunk)
            batch.skip(self.end)
            return batch.seal(reason), batch.messages
        # Also when it is interrupted: its files would stay until the workspace is closed.
        except BaseException:
            batch.drop()
            raise

    def _search(self, error: MessagesUnwritable, known: Mapping[int, str]) -> dict[int, str]:
        reasons: dict[int, str] = {}
        messages = 0
        for whole in self.chunks():
            chunk = without(whole, known)
            if not chunk.records.num_rows or chunk.next_offset <= error.start:
                continue
            if range_of(chunk).start >= error.end:
                break
            messages += chunk.records.num_rows
            if self._attempt(chunk, None) is None:
                continue
            reasons |= Search(chunk, None, self._attempt, self.clock).run().reasons
            if reasons and isinstance(self.plan.parser, LimitedParser):
                why = reasons[max(reasons)]
                bad = len(known) + len(reasons)
                judged = max(messages + len(known), NEIGHBOURS)
                self.plan.parser.refuse_share(chunk.topic_partition, judged, bad, why)
        return {offset: f"{UNWRITABLE}{why}" for offset, why in reasons.items()}

    def _attempt(self, chunk: Chunk, parts: Sequence[Part] | None) -> str | None:
        try:
            with guarded(chunk.topic_partition, range_of(chunk)):
                parts = self.plan.parser.split(chunk)
            TrialFiles(self.plan, self.workspace, self.clock).write(chunk, parts)
        except MessagesUnwritable as error:
            return error.why
        return None


def without(chunk: Chunk, offsets: Iterable[int]) -> Chunk:
    """Return a chunk without the messages of some offsets."""
    left_out = pa.array([*offsets], pa.int64())
    column = chunk.records.column("offset")
    return replace(chunk, records=chunk.records.filter(pc.invert(pc.is_in(column, left_out))))
