"""Writes transactions under one transactional id; never assumes how a request ended.

``KafkaProducer`` is no base for this: after a batch that timed out its commit reports success
though a part of the transaction is missing, and it hangs without a limit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pyarrow as pa

from secor.core.errors import (
    AccessDenied,
    SecorError,
    TargetRefused,
    TransactionAborted,
    TransactionBroken,
    Unavailable,
    WriterFenced,
)
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.core.transactions import (
    ProduceAnswer,
    ProducerIdentity,
    Request,
    TransactionRequests,
)
from secor.restore.model import id_prefix
from secor.restore.writer.decisions import WriterAction, missing_right, what_to_do
from secor.restore.writer.model import (
    BatchPlacement,
    NotAllowed,
    SentBatch,
    WriterEvent,
    WriterLimits,
    WriterState,
    transition,
)
from secor.restore.writer.requesting import A, CodeAnswer, Refusal, Requester, RequestRefused
from secor.restore.writer.unsent import UnsentRows
from secor.wire.codecs import CODECS
from secor.wire.encoding import BatchProducer, encode_batch, sequence_after


class TransactionalWriter:
    """One transactional id, for one thread; ``state`` says what it may do next.

    Every error leaves it fenced or dead, but ``TransactionAborted``: after that it is ready.
    """

    def __init__(
        self,
        requests: TransactionRequests,
        transactional_id: str,
        *,
        clock: Clock,
        rng: random.Random,
        limits: WriterLimits,
    ) -> None:
        self.transactional_id = transactional_id
        self.state = WriterState.UNINITIALISED
        self.placements: list[BatchPlacement] = []
        self._requests = requests
        self._clock = clock
        self._requester = Requester(
            requests, transactional_id, clock=clock, rng=rng, timeout=limits.request_timeout
        )
        self._limits = limits
        self._identity = ProducerIdentity(-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._wrote = False
        self._unsent = UnsentRows(limits.batch_bytes, limits.batch_records)
        self._sent: SentBatch | None = None
        self._deadline = 0.0

    # -------------------------------------------------------------- the calls

    def initialise(self) -> None:
        """Fence every earlier owner of the id, and see its transaction ended.

        Raises ``Unavailable``, ``AccessDenied``, ``TargetRefused``, ``TransactionBroken``.
        """
        if self.state is not WriterState.UNINITIALISED:
            raise NotAllowed(f"a writer that is {self.state.value} cannot be initialised")
        self._deadline = self._clock.monotonic() + self._limits.initialise_timeout
        limits = self._limits
        answer = self._perform(
            Request.INIT_PRODUCER_ID,
            lambda wait: self._requests.init_producer_id(
                self.transactional_id, limits.transaction_timeout, wait=wait
            ),
        )
        assert answer.identity is not None
        self._adopt(answer.identity)
        self._move(WriterEvent.INITIALISED)

    def open_transactions(
        self, topic_partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return where leaders have a transaction of this id open, with its first offset.

        After ``initialise`` there is none, unless a broker lost a marker.  Raises ``Unavailable``.
        """
        self._require(WriterState.READY)
        # With the first epoch of an id nothing was ever written.
        if not topic_partitions or self._identity.epoch == 0:
            return {}
        began = self._requests.open_transactions(
            topic_partitions, wait=self._limits.request_timeout
        )
        own = self._identity.producer_id
        return {key: first[own] for key, first in began.items() if own in first}

    def end_lost(self, topic_partitions: Collection[TopicPartition], *, commit: bool) -> None:
        """Have the markers of an earlier transaction written that a broker lost.

        A marker ends whatever its producer has open in a log, so that of an empty transaction
        does.  Raises as ``commit``.
        """
        self.begin()
        for topic_partition in topic_partitions:
            self._add_to_transaction(topic_partition)
        self._end(WriterEvent.COMMIT_SENT if commit else WriterEvent.ABORT_SENT, commit=commit)

    def begin(self) -> None:
        """Begin a transaction; nothing is sent before the first record."""
        self._move(WriterEvent.BEGUN)
        # The broker aborts the transaction by itself after this time, so further attempts are in
        # vain.
        self._deadline = self._clock.monotonic() + self._limits.transaction_timeout
        self.placements = []
        self._added.clear()
        self._wrote = False
        self._unsent.clear()

    def write(self, topic_partition: TopicPartition, records: pa.RecordBatch) -> None:
        """Append records to the transaction; ``offset`` is the source's, for ``placements``.

        Rows may wait for a batch to be full, and a batch may be on its way, when this returns.
        """
        self._require(WriterState.IN_TRANSACTION)
        for where, rows in self._unsent.add(topic_partition, records):
            self._send_batch(where, rows)

    def flush(self) -> None:
        """See that everything written so far is in the logs: ``placements`` are complete."""
        self._require(WriterState.IN_TRANSACTION)
        for where, rows in self._unsent.drain():
            self._send_batch(where, rows)
        self._wait_for_batch()

    def commit(self) -> None:
        """Make the transaction visible, whole.  After an error its outcome is not known."""
        # All batches must be in the logs before the commit: KafkaProducer's mistake is to commit
        # although one of them has timed out.
        self.flush()
        self._end(WriterEvent.COMMIT_SENT, commit=True)

    def abort(self) -> None:
        """Drop what was written since ``begin``."""
        self._require(WriterState.IN_TRANSACTION)
        self._abandon()
        self._end(WriterEvent.ABORT_SENT, commit=False)

    # ------------------------------------------------------------- the batches

    def _send_batch(self, topic_partition: TopicPartition, rows: pa.RecordBatch) -> None:
        """Encode a batch while the one before is on its way; send it behind that one's answer."""
        sequence = self._sequences.get(topic_partition, 0)
        batch = encode_batch(
            rows,
            codec=CODECS.index(self._limits.codec),
            producer=BatchProducer(
                self._identity.producer_id,
                self._identity.epoch,
                sequence,
                transactional=self._limits.transactional,
            ),
        )
        self._wait_for_batch()
        self._add(topic_partition)
        offsets = rows.column("offset")
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        unsent = SentBatch(topic_partition, batch, rows.num_rows, first or 0, last or 0, None)
        # Counted before it is sent: a repetition has the same bytes, so the same number.
        self._sequences[topic_partition] = sequence_after(sequence, rows.num_rows)
        # Before it is sent: a batch without an answer may have opened the transaction.
        self._wrote = True
        self._sent = self._send(unsent)

    def _wait_for_batch(self) -> None:
        sent, self._sent = self._sent, None
        if sent is None:
            return
        pending = sent.answer

        def attempt(wait: float) -> ProduceAnswer:
            nonlocal pending
            # First the answer that is under way, then the same bytes again: by their sequence
            # numbers the broker stores them once.
            answer, pending = pending, None
            return answer() if answer is not None else self._produce(sent, wait)()

        where = sent.topic_partition
        answer = self._perform(Request.PRODUCE, attempt, where=where, first=sent.first)
        self.placements.append(
            BatchPlacement(where, answer.base_offset, sent.records, sent.first, sent.last)
        )

    # ------------------------------------------------------------ the requests

    def _end(self, event: WriterEvent, *, commit: bool) -> None:
        # Before the request: after an error here nobody may take the writer for one that is in a
        # transaction.
        self._move(event)
        # At the end of its time the coordinator must be asked once at least.
        self._deadline = max(self._deadline, self._clock.monotonic() + self._limits.request_timeout)
        # The coordinator knows nothing of a transaction without a partition: it has nothing to end.
        if self._wrote or self._added:
            answer = self._perform(
                Request.END_TXN,
                lambda wait: self._requests.end_transaction(
                    self.transactional_id, self._identity, commit=commit, wait=wait
                ),
            )
            self._adopt(answer.identity)
        self._move(WriterEvent.ENDED)

    def _adopt(self, identity: ProducerIdentity | None) -> None:
        # Since KIP-890 each end of a transaction may give a new epoch, and sequences begin at 0
        # with it.
        if identity is not None and identity != self._identity:
            self._identity = identity
            self._sequences.clear()

    def _add(self, topic_partition: TopicPartition) -> None:
        # From transaction version 2 on (KIP-890) the first produce adds the partition by itself.
        if self._requests.version < 2 and topic_partition not in self._added:
            self._add_to_transaction(topic_partition)

    def _add_to_transaction(self, topic_partition: TopicPartition) -> None:
        self._perform(
            Request.ADD_PARTITIONS_TO_TXN,
            lambda wait: CodeAnswer(
                self._requests.add_partitions(
                    self.transactional_id, self._identity, [topic_partition], wait=wait
                )
            ),
            where=topic_partition,
        )
        self._added.add(topic_partition)

    def _send(self, unsent: SentBatch) -> SentBatch:
        """Send a batch for the first time; what goes wrong is found when it is waited for."""
        try:
            answer = self._produce(unsent, self._limits.request_timeout)
        except Unavailable as error:
            answer = partial(_raise, error)
        return replace(unsent, answer=answer)

    def _produce(self, sent: SentBatch, wait: float) -> Callable[[], ProduceAnswer]:
        return self._requests.produce(
            self.transactional_id, sent.topic_partition, sent.batch, wait=wait
        )

    def _perform(
        self,
        request: Request,
        send: Callable[[float], A],
        *,
        where: TopicPartition | None = None,
        first: int | None = None,
    ) -> A:
        """Send until there is an answer that ends it, at most until the deadline."""
        try:
            return self._requester.perform(request, send, self._deadline, where=where, first=first)
        except RequestRefused as refused:
            raise self._ended(refused.refusal) from None
        except SecorError:
            self._move(WriterEvent.FAILED)
            raise

    def _ended(self, refusal: Refusal) -> SecorError:
        """Return the error for a request that will not pass; change the state."""
        what = f"{self.transactional_id}: {refusal}"
        if refusal.action is WriterAction.FENCED:
            self._move(WriterEvent.FENCED)
            return WriterFenced(f"{what}; another daemon has initialised this id since")
        # An abort that is refused is not answered by another abort.
        if refusal.action is WriterAction.ABORT and self.state is not WriterState.ABORTING:
            return self._abort_for_broker(what)
        self._move(WriterEvent.FAILED)
        if refusal.action is WriterAction.RETRY:
            if refusal.request is Request.INIT_PRODUCER_ID:
                return Unavailable(f"{what}; the coordinator gave no identity in time")
            advice = what_to_do(refusal.code)
            return TransactionBroken(f"{what}; the transaction's time is over{advice}")
        if refusal.action is not WriterAction.FAIL:
            return TransactionBroken(what)
        topic = None if refusal.where is None else refusal.where.topic
        right = missing_right(refusal.code, id_prefix(self.transactional_id), topic)
        if right is not None:
            return AccessDenied(f"{what}; {right}")
        return TargetRefused(f"{what}{what_to_do(refusal.code)}")

    def _abandon(self) -> None:
        """Wait for the batch that is on its way: it must not come behind the abort."""
        self._unsent.clear()
        sent, self._sent = self._sent, None
        if sent is not None and sent.answer is not None:
            with suppress(SecorError):
                sent.answer()

    def _abort_for_broker(self, what: str) -> SecorError:
        self._abandon()
        self._end(WriterEvent.ABORT_SENT, commit=False)
        return TransactionAborted(f"{what}; the transaction was aborted")

    # --------------------------------------------------------------- the state

    def _move(self, event: WriterEvent) -> None:
        self.state = transition(self.state, event)

    def _require(self, state: WriterState) -> None:
        if self.state is not state:
            raise NotAllowed(f"a writer that is {self.state.value} is not {state.value}")


def _raise(error: Unavailable) -> ProduceAnswer:
    raise error
