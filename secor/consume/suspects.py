"""The way out where a message kills, or stalls, every process that parses it.

A process that ended while it parsed leaves a note of the range (``batch.parse_trail``), and the
next one on its machine puts that into the store:

    <prefix>/_suspects/<topic>/<generation>_<partition>_<start>-<end>.<process>.died

- Where two such ranges overlap, messages are parsed one by one, so the next death names one.
- A message over which two processes died goes to quarantine unparsed.  That is decided by
  ``<generation>_<partition>_<offset>.skip``, put if absent and never taken back, and is in the
  fingerprint of its topic partition's batches: an intent that was open before is superseded.

Who decides needs no lease: objects of a range are still a function of range and fingerprint.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
import pyarrow as pa

from secor.batch.parse_trail import Death, ParseTrail
from secor.batch.plan import TopicPlan
from secor.consume.ttl_cache import TtlCache
from secor.core.errors import SecorError
from secor.core.model import Chunk, OffsetRange, Part, TopicPartition
from secor.core.naming import suspects_root
from secor.core.observer import Observer
from secor.core.ports import Clock, ObjectStore, Parser
from secor.core.small_objects import put_bytes

DEATHS = 2
"""Deaths over a range before it is parsed one by one, over a message before it is left out."""

STAGE = "process"
REASON = f"{STAGE}: {DEATHS} processes died or stalled while they parsed this message"

LAST_OFFSET = (1 << 63) - 1

LISTING_LIFETIME = 60.0
"""Seconds."""

Quarantine = Callable[[pa.RecordBatch, Mapping[int, str]], Part]

_DIED = re.compile(r"(\d+)_(\d+)_(\d{20})-(\d{20})\.(.+)\.died")
_SKIP = re.compile(r"(\d+)_(\d+)_(\d{20})\.skip")


@dataclass(frozen=True, slots=True)
class Known:
    """What the store says of a topic, by generation and partition."""

    deaths: dict[tuple[int, int], list[OffsetRange]]
    skips: dict[tuple[int, int], set[int]]


class Suspects:
    """Knows what killed processes, of all of the group, and parses with care."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        clock: Clock,
        observer: Observer,
        trail: ParseTrail,
        deaths: Sequence[Death],
        quarantine: Quarantine,
    ) -> None:
        """``deaths`` are those of this machine's processes that are not in the store yet;
        ``quarantine`` makes the part of rows with the reason of each.
        """
        self._quarantine = quarantine
        self._store = store
        self._observer = observer
        self._trail = trail
        self._pending = list(deaths)
        self._recording = threading.Lock()
        self._known = TtlCache(self._list, clock, LISTING_LIFETIME)

    def watched(
        self, topic_partition: TopicPartition, plan: TopicPlan, committed: int, since: float
    ) -> TopicPlan:
        """Return the plan with a parser that leaves notes, and takes care from ``committed`` on.

        Raises ``Unavailable``, ``OutcomeUnknown``, ``AccessDenied``.
        """
        root = suspects_root(plan.root)
        self._record(topic_partition.topic, root, plan.generation)
        known = self._known.get(root, since)
        key = (plan.generation, topic_partition.partition)
        deaths = [it for it in known.deaths.get(key, ()) if it.end > committed]
        skips = set(known.skips.get(key, ()))
        for offset in _deadly(deaths):
            if offset not in skips:
                self._decide(topic_partition, root, plan.generation, offset)
                skips.add(offset)
        return replace(
            plan,
            parser=WatchedParser(
                plan.parser,
                trail=self._trail,
                observer=self._observer,
                quarantine=self._quarantine,
                skips=skips,
                suspected=overlaps(deaths),
            ),
        )

    def _record(self, topic: str, root: str, generation: int) -> None:
        with self._recording:  # partitions are located by several threads
            for death in [it for it in self._pending if it.topic_partition.topic == topic]:
                number = death.topic_partition.partition
                where = f"{generation}_{number}_{death.start:020d}-{death.end:020d}"
                if put_bytes(self._store, f"{root}/{where}.{death.process}.died", b"{}\n"):
                    self._observer.died(death.topic_partition, OffsetRange(death.start, death.end))
                self._pending.remove(death)

    def _decide(
        self, topic_partition: TopicPartition, root: str, generation: int, offset: int
    ) -> None:
        key = f"{root}/{generation}_{topic_partition.partition}_{offset:020d}.skip"
        if put_bytes(self._store, key, b"{}\n"):
            self._observer.left_out(topic_partition, offset)

    def _list(self, root: str) -> Known:
        known = Known({}, {})
        for stored in self._store.list(f"{root}/"):
            name = stored.key.rpartition("/")[2]
            if (match := _DIED.fullmatch(name)) is not None:
                generation, partition, start, end = map(int, match.groups()[:4])
                if start < end <= LAST_OFFSET:
                    died = known.deaths.setdefault((generation, partition), [])
                    died.append(OffsetRange(start, end))
            elif (match := _SKIP.fullmatch(name)) is not None:
                generation, partition, offset = map(int, match.groups())
                if offset <= LAST_OFFSET:
                    known.skips.setdefault((generation, partition), set()).add(offset)
        return known


def _deadly(deaths: Sequence[OffsetRange]) -> list[int]:
    """Return the offsets of single messages that killed often enough."""
    singles = Counter(it.start for it in deaths if it.end == it.start + 1)
    return sorted(offset for offset, count in singles.items() if count >= DEATHS)


def overlaps(ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Return what two or more of the ranges have in common."""
    common = {
        OffsetRange(max(offset_range.start, other.start), min(offset_range.end, other.end))
        for offset_range, other in combinations(ranges, DEATHS)
        if max(offset_range.start, other.start) < min(offset_range.end, other.end)
    }
    return tuple(sorted(common, key=lambda it: (it.start, it.end)))


class WatchedParser:
    """A parser that notes what it is at, and parses what is suspected one by one."""

    def __init__(
        self,
        parser: Parser,
        *,
        trail: ParseTrail,
        observer: Observer,
        quarantine: Quarantine,
        skips: Collection[int],
        suspected: Sequence[OffsetRange],
    ) -> None:
        """``skips`` are offsets of messages that are not parsed; they change the objects."""
        self._parser = parser
        self._trail = trail
        self._observer = observer
        self._quarantine = quarantine
        self._skips = np.array(sorted(skips), dtype=np.int64)
        self._suspected = suspected

    @property
    def identity(self) -> str:
        """That of the parser, and what is left out."""
        if not len(self._skips):
            return self._parser.identity
        return f"{self._parser.identity}|without {','.join(map(str, self._skips.tolist()))}"

    def split(self, chunk: Chunk) -> Sequence[Part]:
        """Split a chunk; see ``Parser``."""
        if not chunk.records.num_rows:
            return self._parser.split(chunk)
        offsets = chunk.records.column("offset").to_numpy()
        alone = np.isin(offsets, self._skips)
        for suspected in self._suspected:
            alone |= (offsets >= suspected.start) & (offsets < suspected.end)
        if not alone.any():
            return self._noted(chunk, int(offsets[0]), chunk.next_offset)
        return [part for some in _cut(chunk, alone) for part in self._careful(some)]

    def _careful(self, chunk: Chunk) -> Sequence[Part]:
        first = int(chunk.records.column("offset")[0].as_py())
        if chunk.records.num_rows > 1:
            return self._noted(chunk, first, chunk.next_offset)
        if not np.isin(first, self._skips):
            return self._noted(chunk, first, first + 1)
        self._observer.quarantined(chunk.topic_partition, STAGE, 1)
        return [self._quarantine(chunk.records, {0: REASON})]

    def _noted(self, chunk: Chunk, start: int, end: int) -> Sequence[Part]:
        self._trail.enter(chunk.topic_partition, start, end)
        try:
            parts = self._parser.split(chunk)
        except SecorError:
            self._trail.leave()  # any other error ends the process: the note stays
            raise
        self._trail.leave()
        return parts


def _cut(chunk: Chunk, alone: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Iterator[Chunk]:
    """Yield the messages that are ``alone`` singly, and those between them together."""
    offsets = chunk.records.column("offset").to_numpy()
    cuts = sorted({0, len(alone), *np.flatnonzero(alone), *(np.flatnonzero(alone) + 1)})
    for start, end in pairwise(cuts):
        rest = int(offsets[end]) if end < len(alone) else chunk.next_offset
        yield Chunk(chunk.topic_partition, chunk.records.slice(int(start), int(end - start)), rest)
