"""The way out where a message kills, stalls or fails every process that parses or writes it.

A process that ended while it parsed leaves a note of the range (``batch.parse_trail``), and the
next one on its machine puts that into the store:

    <prefix>/_suspects/<topic>/<generation>_<partition>_<start>-<end>.<process>.died

- Where two such ranges overlap, messages are parsed and written in small pieces, at last one by
  one, so the next deaths name one.
- A message over which two processes died goes to quarantine unparsed.  That is decided by
  ``<generation>_<partition>_<offset>.skip``, put if absent and never taken back, and is in the
  fingerprint of its topic partition's batches: an intent that was open before is superseded.
- Where messages fail for their values (``MessagesUnwritable``), in whatever stage, they are read
  again and each chunk is tried: parsed, written to files of its own, closed.  Halving finds the
  messages with which that fails (``batch.unwritable``).  They are left out by the same decision,
  and the decision's object has the reason, so that all processes give the same one.
- Such a decision is taken only within the limits of quarantine: where most messages fail, the
  cause is none of them.

The decision needs no lease: objects of a range are still a function of range and fingerprint.
"""

from __future__ import annotations

import json
import re
import threading
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations

from secor.batch.parse_trail import Death, ParseTrail
from secor.batch.plan import TopicPlan
from secor.batch.unwritable import (
    NEIGHBOURS,
    UNWRITABLE,
    LimitedParser,
    Quarantine,
    TrialFiles,
)
from secor.batch.workspace import Workspace
from secor.consume.ttl_cache import TtlCache
from secor.consume.watched_parser import STAGE, WatchedParser
from secor.core.errors import MessagesUnwritable, TooManyBad
from secor.core.model import OffsetRange, TopicPartition
from secor.core.naming import suspects_root
from secor.core.observer import Observer
from secor.core.ports import Clock, MessageParser, ObjectStore
from secor.core.small_objects import put_bytes, read_bytes
from secor.core.text import load_json

DEATHS = 2
"""Deaths over a range before it is parsed one by one, over a message before it is left out."""

REASON = f"{STAGE}: {DEATHS} processes died or stalled while they parsed this message"

LAST_OFFSET = (1 << 63) - 1

LISTING_LIFETIME = 60.0
"""Seconds."""

UNSAID = b"{}\n"
"""A decision without a reason: that of deaths."""

MOST_UNEXPLAINED = 3
"""Failures over the same messages without a cause, before their partition stops."""


_DIED = re.compile(r"(\d+)_(\d+)_(\d{20})-(\d{20})\.(.+)\.died")
_SKIP = re.compile(r"(\d+)_(\d+)_(\d{20})\.skip")


@dataclass(slots=True)
class UnwritableRange:
    """Messages of a topic partition that could not be written since the process began."""

    start: int
    end: int
    refused: dict[int, str] = field(default_factory=dict)
    """The reasons of those that are the cause, by offset."""
    unexplained: int = 0
    """Failures since the last one with a known cause."""

    def add(self, error: MessagesUnwritable) -> None:
        """Take a failure in.  Below the chunk of a cause everything was tried."""
        self.start = error.start if error.refused else min(self.start, error.start)
        self.end = max(self.end, error.end)
        self.refused |= error.refused
        self.unexplained = 0 if error.refused else self.unexplained + 1


@dataclass(frozen=True, slots=True)
class StoredDecisions:
    """The store's records of a topic, by generation and partition; sizes of the decisions."""

    deaths: dict[tuple[int, int], list[OffsetRange]]
    skips: dict[tuple[int, int], dict[int, int]]


class PoisonMessages:
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
        workspace: Workspace,
    ) -> None:
        """``deaths`` are those of this machine's processes that are not in the store yet;
        ``quarantine`` makes the part of rows with the reason of each, and ``workspace`` files to
        try messages with.
        """
        self._quarantine = quarantine
        self._store = store
        self._observer = observer
        self._trail = trail
        self._pending = list(deaths)
        self._recording = threading.Lock()
        self._clock = clock
        self._workspace = workspace
        self._reasons: dict[str, str] = {}
        """By the key of a decision that is in the store."""
        self._unwritten: dict[TopicPartition, UnwritableRange] = {}
        self._known = TtlCache(self._list, clock, LISTING_LIFETIME)

    def watched(
        self, topic_partition: TopicPartition, plan: TopicPlan, committed: int, since: float
    ) -> TopicPlan:
        """Return the plan with a parser that leaves notes, and takes care from ``committed`` on.

        Raises ``Unavailable``, ``OutcomeUnknown``, ``AccessDenied``.
        """
        # First what this machine's dead processes left behind, then the listing: it must have them.
        root = suspects_root(plan.root)
        self._record(topic_partition.topic, root, plan.generation)
        known = self._known.get(root, since)
        key = (plan.generation, topic_partition.partition)
        # Deaths over what is stored by now have lost their meaning: their notes stay in the store.
        deaths = [death for death in known.deaths.get(key, ()) if death.end > committed]
        decided = known.skips.get(key, {})
        # All decisions, also those below ``committed``: they are in the fingerprint, which must be
        # the same whichever process computes it, and whenever.
        skips = dict.fromkeys(decided, REASON)
        for offset in _deadly(deaths):
            if offset not in skips:
                self._decide(topic_partition, root, plan.generation, offset)
                skips[offset] = REASON
        unwritten = self._not_committed(topic_partition, committed)
        refused = {} if unwritten is None else unwritten.refused
        self._refuse_too_many(topic_partition, plan.parser, decided, refused)
        with_reason = {offset for offset, size in decided.items() if size > len(UNSAID)}
        for offset in sorted({*refused, *with_reason}):
            # Reasons are only looked up for messages that are still to come: each costs a request.
            if offset >= committed:
                why = refused.get(offset)
                skips[offset] = self._decide(topic_partition, root, plan.generation, offset, why)
        tried = None if unwritten is None else OffsetRange(unwritten.start, unwritten.end)
        return replace(
            plan,
            parser=WatchedParser(
                plan.parser,
                trail=self._trail,
                observer=self._observer,
                quarantine=self._quarantine,
                skips=skips,
                suspected=overlaps(deaths),
                unwritable=tried,
                files=TrialFiles(plan, self._workspace, self._clock),
                clock=self._clock,
            ),
            trail=self._trail,
        )

    def suspect(self, topic_partition: TopicPartition, error: MessagesUnwritable) -> bool:
        """Note what could not be written; False where trying it again would not help."""
        with self._recording:
            new = UnwritableRange(error.start, error.end)
            unwritten = self._unwritten.setdefault(topic_partition, new)
            unwritten.add(error)
            if unwritten.unexplained <= MOST_UNEXPLAINED:
                return True
            del self._unwritten[topic_partition]  # a stopped partition begins anew
            return False

    def _not_committed(
        self, topic_partition: TopicPartition, committed: int
    ) -> UnwritableRange | None:
        with self._recording:
            unwritten = self._unwritten.get(topic_partition)
            if unwritten is not None and unwritten.end <= committed:
                unwritten = None
                del self._unwritten[topic_partition]
            return unwritten

    def _refuse_too_many(
        self,
        topic_partition: TopicPartition,
        parser: MessageParser,
        decided: Iterable[int],
        refused: Mapping[int, str],
    ) -> None:
        """Raise ``TooManyBad`` before a decision where many neighbours are left out already."""
        offsets = sorted({*decided, *refused})
        try:
            for offset in sorted({*refused} - {*decided}):
                near = bisect(offsets, offset) - bisect(offsets, offset - NEIGHBOURS)
                if isinstance(parser, LimitedParser):
                    parser.refuse_share(topic_partition, NEIGHBOURS, near, refused[offset])
        except TooManyBad:
            with self._recording:  # when it begins again, they are tried again
                self._unwritten.pop(topic_partition, None)
            raise

    def _record(self, topic: str, root: str, generation: int) -> None:
        with self._recording:  # partitions are located by several threads
            for death in [
                message for message in self._pending if message.topic_partition.topic == topic
            ]:
                number = death.topic_partition.partition
                where = f"{generation}_{number}_{death.start:020d}-{death.end:020d}"
                if put_bytes(self._store, f"{root}/{where}.{death.process}.died", b"{}\n"):
                    self._observer.died(death.topic_partition, OffsetRange(death.start, death.end))
                # After the put: where that failed, the note is tried again at the next position.
                self._pending.remove(death)

    def _decide(
        self,
        topic_partition: TopicPartition,
        root: str,
        generation: int,
        offset: int,
        why: str | None = None,
    ) -> str:
        """Decide that a message is left out; return the reason, which the first one gives."""
        key = f"{root}/{generation}_{topic_partition.partition}_{offset:020d}.skip"
        if key in self._reasons:
            return self._reasons[key]
        body = UNSAID if why is None else json.dumps({"reason": why}).encode() + b"\n"
        # Put if absent, so that of several processes the first decision holds for all of them:
        # objects of a range must not depend on the process that made them.
        if put_bytes(self._store, key, body):
            self._observer.left_out(topic_partition, offset, _reason(body))
        else:
            # Another process was first: its reason goes into quarantine here, too, or the bytes of
            # the same object would differ.
            body = read_bytes(self._store, key) or UNSAID
        return self._reasons.setdefault(key, _reason(body))

    def _list(self, root: str) -> StoredDecisions:
        known = StoredDecisions({}, {})
        for stored in self._store.list(f"{root}/"):
            name = stored.key.rpartition("/")[2]
            if (match := _DIED.fullmatch(name)) is not None:
                generation, partition, start, end = map(int, match.groups()[:4])
                # Anybody who may write to the bucket can make such a name. Numbers that Kafka does
                # not have would fail later, in columns of 64 bits.
                if start < end <= LAST_OFFSET:
                    died = known.deaths.setdefault((generation, partition), [])
                    died.append(OffsetRange(start, end))
            elif (match := _SKIP.fullmatch(name)) is not None:
                generation, partition, offset = map(int, match.groups())
                if offset <= LAST_OFFSET:
                    known.skips.setdefault((generation, partition), {})[offset] = stored.size
        return known


def _reason(body: bytes) -> str:
    """Return the reason that a decision gives; that of deaths where it gives none."""
    with suppress(ValueError, TypeError, KeyError):
        return f"{UNWRITABLE}{load_json(body)['reason']}"
    return REASON


def _deadly(deaths: Sequence[OffsetRange]) -> list[int]:
    """Return the offsets of single messages that killed often enough."""
    singles = Counter(death.start for death in deaths if death.end == death.start + 1)
    return sorted(offset for offset, count in singles.items() if count >= DEATHS)


def overlaps(ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Return what two or more of the ranges have in common."""
    common = {
        OffsetRange(max(offset_range.start, other.start), min(offset_range.end, other.end))
        for offset_range, other in combinations(ranges, DEATHS)
        if max(offset_range.start, other.start) < min(offset_range.end, other.end)
    }
    return tuple(sorted(common, key=lambda common_range: (common_range.start, common_range.end)))
