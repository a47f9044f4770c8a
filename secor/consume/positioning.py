"""Finds where an assigned topic partition begins, from ledger, log and store together."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from secor.batch.plan import Plans, TopicPlan
from secor.consume.poison_messages import PoisonMessages
from secor.consume.stored_object_guard import StoredObjectGuard
from secor.consume.ttl_cache import TtlCache
from secor.core.errors import (
    AccessDenied,
    DataLost,
    LedgerEdited,
    LedgerLost,
    LogDiverged,
    MessagesUnwritable,
    OutcomeUnknown,
    RestartPartition,
    SecorError,
    StopPartition,
    TopicRecreated,
    Unavailable,
    no_starting_offset,
)
from secor.core.model import Entry, LogRange, TopicPartition
from secor.core.observer import Observer
from secor.core.ports import Clock, MessageSource, ObjectStore, OffsetLedger
from secor.core.retry import retry

ATTEMPTS = 5

TOPIC_ID_LIFETIME = 1.0
"""Seconds; a topic may be deleted and created again at any time."""

RefuseLost = Callable[[TopicPartition, str | None, float], None]
"""Given a topic partition without an entry, its topic's id, and since when it is assigned.

Raises ``LedgerLost`` where something shows that there was an entry.
"""


def never_refuse(topic_partition: TopicPartition, topic_id: str | None, since: float) -> None:
    """Nothing but the objects shows that there was an entry."""


class Reset(StrEnum):
    """Positions of a topic partition without a ledger entry."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class OnDataLoss(StrEnum):
    """Reactions to a committed offset that retention has passed."""

    CONTINUE = "continue"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class StartPosition:
    """The batch begins at ``committed``, reading at ``read_from`` (``[committed, read_from)``
    is no longer in the log); with an open intent the batch seals exactly at ``end``.
    ``plan`` says how its messages are stored: as the open intent says, if that plan is known.
    """

    plan: TopicPlan
    committed: int
    read_from: int
    end: int | None
    topic_id: str | None


class PositionFinder:
    """Finds positions; blocks on ledger, broker and store, so it is called off the loop."""

    def __init__(
        self,
        *,
        ledger: OffsetLedger,
        source: MessageSource,
        store: ObjectStore,
        plans: Plans,
        clock: Clock,
        observer: Observer,
        rng: random.Random,
        reset: Reset = Reset.EARLIEST,
        on_data_loss: OnDataLoss = OnDataLoss.CONTINUE,
        poison_messages: PoisonMessages | None = None,
        refuse_lost: RefuseLost = never_refuse,
        lease_timeout: float = 30.0,
    ) -> None:
        """Take the ports and the two policies of the source; ``poison_messages`` where messages are
        parsed.
        """
        self._ledger = ledger
        self._source = source
        self._guard = StoredObjectGuard(store, clock)
        self._topic_ids = TtlCache(source.topic_id, clock, TOPIC_ID_LIFETIME)
        self._plans = plans
        self._poison_messages = poison_messages
        self._refuse_lost = refuse_lost
        self._clock = clock
        self._observer = observer
        self._rng = rng
        self._reset = reset
        self._on_data_loss = on_data_loss
        self._lease_timeout = lease_timeout
        self._lost_until: dict[TopicPartition, int] = {}

    def find(
        self, topic_partition: TopicPartition, since: float, wanted: Callable[[], bool]
    ) -> StartPosition | SecorError:
        """Return the position, or the error that ended the search.

        ``since`` is when the partition came (monotonic seconds): answers about its topic that
        are younger are shared with other partitions.  ``wanted`` is asked before each further
        attempt; False gives up.
        """
        passing = (Unavailable, OutcomeUnknown, AccessDenied)
        try:
            return retry(
                lambda: self._find(topic_partition, since),
                passing,
                attempts=ATTEMPTS,
                sleep=self._clock.sleep,
                rng=self._rng,
                failed=lambda error: self._observer.retried(topic_partition, error),
                wanted=wanted,
            )
        except (RestartPartition, StopPartition, *passing) as error:
            return error

    def suspect(self, topic_partition: TopicPartition, error: MessagesUnwritable) -> bool:
        """Have messages tried one by one that could not be written; False where none can be."""
        return self._poison_messages is not None and self._poison_messages.suspect(
            topic_partition, error
        )

    def _find(self, topic_partition: TopicPartition, since: float) -> StartPosition:
        # The ledger comes first: its entry says under which configuration an open intent was
        # written, and everything else is judged against it.
        entry = self._ledger.read(topic_partition)
        fingerprint = entry.intent.fingerprint if entry.intent is not None else None
        plan = self._plans(topic_partition.topic, fingerprint)
        topic_id = self._topic_ids.get(topic_partition.topic, since)
        log = self._source.log_range(topic_partition, since)
        if entry.committed is not None and not log.start <= entry.committed <= log.end:
            # That one may be older than the entry, or lack what is behind an open transaction.
            log = self._source.log_range(topic_partition)
        if entry.committed is None:
            # No entry: a new partition, or a lost ledger.  The store is asked before anything is
            # written, because a first entry over existing objects would store their range twice.
            _refuse_intent(topic_partition, entry)
            try:
                self._guard.refuse_any(topic_partition, plan, topic_id, since)
                self._refuse_lost(topic_partition, topic_id, since)
            except (LedgerLost, TopicRecreated) as error:
                # Another process may have started it since, and these are its first objects.
                if self._ledger.read(topic_partition).committed is None:
                    raise
                raise Unavailable(f"{topic_partition}: another process has started it") from error
            entry = self._begin(topic_partition, entry, log, topic_id)
        committed = check(topic_partition, entry, log, topic_id)
        # After ``check``, which knows a log that ends too early.  This one has grown again, so
        # that only the leader epochs show that it holds other messages.
        refuse_diverged(topic_partition, entry, log, self._source.epoch_end)
        if entry.topic_id is None and topic_id is not None and entry.intent is None:
            # We would have recorded the topic's id: this entry is Java Secor's or a person's.
            self._guard.refuse_uncommitted(topic_partition, plan, committed, since)
        # Retention was faster.  The batch still begins at ``committed``, so that the hole is
        # inside an object's range and ``verify`` can name it.
        if committed < log.start:
            self._report_lost(topic_partition, committed, log)
        if self._poison_messages is not None:
            plan = self._poison_messages.watched(topic_partition, plan, committed, since)
        return StartPosition(
            plan=plan,
            committed=committed,
            read_from=max(committed, log.start),
            end=entry.intent.end if entry.intent is not None else None,
            topic_id=topic_id,
        )

    def _begin(
        self, topic_partition: TopicPartition, entry: Entry, log: LogRange, topic_id: str | None
    ) -> Entry:
        """Write the first entry before anything is read: from then on, a missing one is lost."""
        if self._reset is Reset.NONE:
            raise no_starting_offset(topic_partition)
        # The lease is taken although nothing is there: two processes that both believe in a first
        # assignment must not write two different first entries.
        offset = log.start if self._reset is Reset.EARLIEST else log.end
        lease = self._ledger.lease(topic_partition, self._lease_timeout)
        try:
            return lease.finish(entry, offset, topic_id)
        finally:
            lease.release()

    def _report_lost(self, topic_partition: TopicPartition, committed: int, log: LogRange) -> None:
        if self._on_data_loss is OnDataLoss.STOP:
            raise DataLost(
                f"{topic_partition}: the log begins at {log.start}, committed is {committed}:"
                " the messages between were deleted before they were stored; accept that with"
                f" 'secor offsets set ... {log.start}' or kafka.on_data_loss = \"continue\""
            )
        # Each restart finds the same hole until a batch behind it is committed: count it once.
        reported = max(committed, self._lost_until.get(topic_partition, committed))
        if log.start > reported:
            self._observer.lost(topic_partition, reported, log.start)
            self._lost_until[topic_partition] = log.start


def _refuse_intent(topic_partition: TopicPartition, entry: Entry) -> None:
    if entry.intent is not None:
        raise LedgerEdited(
            f"{topic_partition}: an intent is open without a committed offset; settle it with"
            " 'secor offsets set'"
        )


def refuse_diverged(
    topic_partition: TopicPartition,
    entry: Entry,
    log: LogRange,
    epoch_end: Callable[[TopicPartition, int], int | None],
) -> None:
    """Raise ``LogDiverged`` where the log was cut below ``committed`` and has grown again.

    Source: KIP-320.  A leader of the committed epoch has the log as it was read: only another
    one is asked where that epoch ends in its log.
    """
    committed, leader_epoch = entry.committed, entry.leader_epoch
    if committed is None or leader_epoch is None or leader_epoch == log.leader_epoch:
        return
    end = epoch_end(topic_partition, leader_epoch)
    # No answer is no evidence, either: entries without an epoch and old brokers go on unchecked, as
    # they always did.
    if end is None or end >= committed:
        return
    where = f"{topic_partition.topic} {topic_partition.partition}"
    raise LogDiverged(
        f"{topic_partition}: the log was cut and has grown again: from {end} on it has other"
        f" messages than those that were stored (committed is {committed} in leader epoch"
        f" {leader_epoch}, which now ends at {end}; the log ends at {log.last}). To store the new"
        f" messages of [{end}, {committed}), too, raise output.generation and say 'secor offsets"
        f" set CONFIG {where} {end} --new-generation'; to leave them out, 'secor offsets set"
        f" CONFIG {where} {committed}'"
    )


def check(
    topic_partition: TopicPartition, entry: Entry, log: LogRange, topic_id: str | None
) -> int:
    """Return ``committed``.  Raises the ``StopPartition`` that forbids to go on from it."""
    committed = entry.committed
    if committed is None:
        raise LedgerLost(f"{topic_partition}: the entry vanished while it was written")
    if entry.intent is not None and entry.intent.start != committed:
        raise LedgerEdited(
            f"{topic_partition}: committed is {committed}, the open intent begins at"
            f" {entry.intent.start}; settle it with 'secor offsets set' (and --drop-intent)"
        )
    # An id that either side does not know is no evidence: Java Secor writes none, and old brokers
    # have none.
    known = {entry.topic_id, topic_id} - {None}
    if len(known) > 1:
        raise TopicRecreated(
            f"{topic_partition}: the topic was deleted and created again (id {entry.topic_id},"
            f" now {topic_id}); accept it with 'secor offsets accept CONFIG"
            f" {topic_partition.topic}'"
        )
    # The high watermark, not the last stable offset: Java Secor and Kafka's own tools commit
    # offsets behind an open transaction, too.
    if committed > log.last:
        raise TopicRecreated(
            f"{topic_partition}: committed is {committed}, the log ends at {log.last}: it was"
            " truncated or created again; accept it with 'secor offsets accept CONFIG"
            f" {topic_partition.topic}'"
        )
    return committed
