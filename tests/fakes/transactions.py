"""A cluster in memory that is faithful about transactions: coordinator, logs, markers.

Source: Kafka's ``TransactionCoordinator``, ``TransactionMetadata`` and ``ProducerStateManager``.
What is reproduced on purpose: an EndTxn answers before its markers are written, so the last
stable offset stops short of a transaction in its commit; initialising bumps the epoch, aborts
what is open and answers CONCURRENT_TRANSACTIONS until that is done; a duplicate sequence is
answered with the first offset, a gap is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar, cast

import pyarrow as pa

from secor.core.errors import Unavailable
from secor.core.model import SCHEMA, Chunk, TopicPartition
from secor.core.transactions import BrokerCode, IdentityAnswer, ProduceAnswer, ProducerIdentity
from secor.wire import decode_chunks, parse_header
from secor.wire.encoding import TRANSACTIONAL
from tests.fakes.clock import FakeClock

_STEP = 0.05
T = TypeVar("T")


class TransactionState(Enum):
    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare commit"
    PREPARE_ABORT = "prepare abort"


_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


@dataclass
class Batch:
    """One batch in a log; ``committed`` is None while its transaction is open."""

    base_offset: int
    records: pa.RecordBatch
    producer_id: int
    epoch: int
    base_sequence: int
    committed: bool | None = None

    @property
    def end(self) -> int:
        return self.base_offset + self.records.num_rows


@dataclass
class Log:
    batches: list[Batch] = field(default_factory=list)
    end: int = 0

    @property
    def stable(self) -> int:
        return min(
            (it.base_offset for it in self.batches if it.committed is None), default=self.end
        )


@dataclass
class Transaction:
    """What the coordinator knows of one transactional id."""

    producer_id: int
    epoch: int = 0
    state: TransactionState = TransactionState.EMPTY
    timeout: float = 60.0
    began: float = 0.0
    partitions: set[TopicPartition] = field(default_factory=set)
    last_ended: tuple[int, bool] | None = None
    """Epoch under which the last transaction was ended, and whether it was committed."""
    answers_until_done: int = 0


Hook = Callable[[str], None]


class FakeCluster:
    """``TransactionRequests`` and ``TargetLog``; ``hook`` is called before and after each call.

    A hook that raises after an effect is an answer that was lost, or a crash.  ``refuse`` gives
    codes to be answered, one a call, by the call's name.  ``linger`` is how many answers a
    transaction takes to be completed after its end.
    """

    def __init__(self, topics: dict[str, int], *, version: int = 2, linger: int = 2) -> None:
        self.version = version
        self.linger = linger
        self.clock = FakeClock()
        self.hook: Hook = lambda _name: None
        self.refuse: dict[str, list[BrokerCode]] = {}
        self.calls: list[str] = []
        self.loses_markers: set[TopicPartition] = set()
        """Partitions that are taken for deleted, once, when a transaction is completed."""

        self._topics = topics
        self._logs: dict[TopicPartition, Log] = {}
        self._transactions: dict[str, Transaction] = {}
        self._next_id = 0

    def know_leaders(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Do nothing: the leader of every partition is known."""

    def counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the partitions of topics."""
        return {topic: len(self.partitions(topic)) for topic in topics}

    def held(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return how many offsets logs hold."""
        return {it: self.end(it, committed=False) for it in topic_partitions}

    def transactional_ids(self, prefix: str) -> list[str]:
        """Return the ids that were initialised."""
        return sorted(it for it in self._transactions if it.startswith(prefix))

    # ------------------------------------------------------------ requests

    def find_coordinator(self, transactional_id: str, *, wait: float) -> BrokerCode:
        return self._call("find_coordinator", lambda: BrokerCode.NONE)

    def init_producer_id(
        self, transactional_id: str, timeout: float, *, wait: float
    ) -> IdentityAnswer:
        return self._call(
            "init_producer_id", lambda: self._init(transactional_id, timeout), IdentityAnswer
        )

    def add_partitions(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        wait: float,
    ) -> BrokerCode:
        return self._call(
            "add_partitions", lambda: self._add(transactional_id, identity, partitions)
        )

    def produce(
        self, transactional_id: str, topic_partition: TopicPartition, batch: bytes, *, wait: float
    ) -> Callable[[], ProduceAnswer]:
        """The batch is in the log when this returns; a lost answer shows when it is waited for."""
        try:
            answer = self._call(
                "produce",
                lambda: self._append(transactional_id, topic_partition, batch),
                ProduceAnswer,
            )
        except Unavailable as error:
            lost = error

            def raising() -> ProduceAnswer:
                raise lost

            return raising
        return lambda: answer

    def end_transaction(
        self, transactional_id: str, identity: ProducerIdentity, *, commit: bool, wait: float
    ) -> IdentityAnswer:
        name = "commit" if commit else "abort"
        return self._call(
            name, lambda: self._end(transactional_id, identity, commit), IdentityAnswer
        )

    def open_transactions(
        self, topic_partitions: Collection[TopicPartition], *, wait: float
    ) -> dict[TopicPartition, dict[int, int]]:
        return self._call(
            "open_transactions",
            lambda: {
                it: {
                    batch.producer_id: batch.base_offset
                    for batch in reversed(self.log(it).batches)
                    if batch.committed is None
                }
                for it in topic_partitions
            },
        )

    def refresh(self, topic: str) -> None:
        """Leaders never move here."""

    # ------------------------------------------------------------- the logs

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in range(self._topics.get(topic, 0))]

    def forget_topic(self, topic: str) -> None:
        """Let the topic be deleted."""
        del self._topics[topic]

    def end(self, topic_partition: TopicPartition, *, committed: bool) -> int:
        return self._call(
            "log_end",
            lambda: (
                self.log(topic_partition).stable if committed else self.log(topic_partition).end
            ),
        )

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        self._call("read", lambda: None)
        log = self.log(topic_partition)
        while log.stable < end:
            # As the real reader: it waits for open transactions.
            self.hook("waiting")
            self.clock.sleep(_STEP)
            self.tick()
        for batch in log.batches:
            if batch.committed and start <= batch.base_offset < end:
                yield Chunk(topic_partition, batch.records, batch.end)
        yield Chunk(topic_partition, pa.RecordBatch.from_pylist([], SCHEMA), end)

    def log(self, topic_partition: TopicPartition) -> Log:
        return self._logs.setdefault(topic_partition, Log())

    def visible(self, topic_partition: TopicPartition) -> list[dict[str, object]]:
        """What a read-committed consumer sees now, row by row."""
        return [
            row
            for batch in self.log(topic_partition).batches
            if batch.committed and batch.base_offset < self.log(topic_partition).stable
            for row in batch.records.to_pylist()
        ]

    def transactions_of(self, topic_partition: TopicPartition) -> list[list[dict[str, object]]]:
        """The rows of each transaction that was committed, in order."""
        of_each: dict[tuple[int, int], list[dict[str, object]]] = {}
        for batch in self.log(topic_partition).batches:
            if batch.committed:
                rows = of_each.setdefault((batch.producer_id, batch.epoch), [])
                rows += batch.records.to_pylist()
        return list(of_each.values())

    def settle(self) -> None:
        """Let everything that is under way come to its end."""
        for transaction in self._transactions.values():
            if transaction.state in _PREPARED:
                self._complete(transaction)

    def tick(self) -> None:
        """Let the coordinator work: complete what was ended, abort what takes too long."""
        now = self.clock.monotonic()
        for transaction in self._transactions.values():
            ongoing = transaction.state is TransactionState.ONGOING
            if ongoing and now - transaction.began >= transaction.timeout:
                transaction.epoch += 1
                self._prepare(transaction, commit=False)
            elif transaction.state in _PREPARED:
                self._progress(transaction)

    # ---------------------------------------------------------- coordinator

    def _call(
        self, name: str, act: Callable[[], T], wrap: Callable[[BrokerCode], T] | None = None
    ) -> T:
        self.calls.append(name)
        self.hook(f"before {name}")
        self.tick()
        refusals = self.refuse.get(name)
        if refusals:
            code = refusals.pop(0)
            answer = wrap(code) if wrap is not None else cast(T, code)
        else:
            answer = act()
        self.hook(f"after {name}")
        return answer

    def _init(self, transactional_id: str, timeout: float) -> IdentityAnswer:
        known = self._transactions.get(transactional_id)
        if known is None:
            known = self._transactions[transactional_id] = Transaction(self._next_id, epoch=-1)
            self._next_id += 1
        if known.state is TransactionState.ONGOING:
            known.epoch += 1
            self._prepare(known, commit=False)
        if known.state in _PREPARED:
            return IdentityAnswer(BrokerCode.CONCURRENT_TRANSACTIONS)
        known.epoch += 1
        known.timeout = timeout
        known.last_ended = None
        identity = ProducerIdentity(known.producer_id, known.epoch)
        return IdentityAnswer(BrokerCode.NONE, identity)

    def _checked(self, transactional_id: str, identity: ProducerIdentity) -> BrokerCode:
        known = self._transactions.get(transactional_id)
        if known is None or known.producer_id != identity.producer_id:
            return BrokerCode.INVALID_PRODUCER_ID_MAPPING
        if known.epoch != identity.epoch:
            return BrokerCode.PRODUCER_FENCED
        return BrokerCode.NONE

    def _add(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        partitions: Collection[TopicPartition],
    ) -> BrokerCode:
        code = self._checked(transactional_id, identity)
        known = self._transactions.get(transactional_id)
        if code is not BrokerCode.NONE or known is None:
            return code
        if known.state in _PREPARED:
            return BrokerCode.CONCURRENT_TRANSACTIONS
        if known.state is TransactionState.EMPTY:
            known.state, known.began = TransactionState.ONGOING, self.clock.monotonic()
        known.partitions |= set(partitions)
        return BrokerCode.NONE

    def _append(
        self, transactional_id: str, topic_partition: TopicPartition, batch: bytes
    ) -> ProduceAnswer:
        header = parse_header(batch)
        identity = ProducerIdentity(header.producer_id, header.producer_epoch)
        log = self.log(topic_partition)
        again = self._duplicate(log, identity, header.base_sequence)
        if again is not None:
            return ProduceAnswer(BrokerCode.NONE, again.base_offset)
        if self.version >= 2:
            code = self._add(transactional_id, identity, [topic_partition])
        else:
            code = self._checked(transactional_id, identity)
            known = self._transactions[transactional_id]
            added = known.state is TransactionState.ONGOING and topic_partition in known.partitions
            if code is BrokerCode.NONE and not added:
                code = BrokerCode.INVALID_TXN_STATE
        if code is BrokerCode.PRODUCER_FENCED:
            code = BrokerCode.INVALID_PRODUCER_EPOCH
        if code is not BrokerCode.NONE:
            return ProduceAnswer(code)
        if header.base_sequence != self._next_sequence(log, identity):
            return ProduceAnswer(BrokerCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        (chunk,) = decode_chunks(topic_partition, [batch], 0)
        appended = Batch(
            log.end, chunk.records, identity.producer_id, identity.epoch, header.base_sequence
        )
        log.batches.append(appended)
        log.end = appended.end
        return ProduceAnswer(BrokerCode.NONE, appended.base_offset)

    def _duplicate(self, log: Log, identity: ProducerIdentity, sequence: int) -> Batch | None:
        mine = [it for it in log.batches if (it.producer_id, it.epoch) == _key(identity)]
        return next((it for it in mine[-5:] if it.base_sequence == sequence), None)

    def _next_sequence(self, log: Log, identity: ProducerIdentity) -> int:
        mine = [it for it in log.batches if (it.producer_id, it.epoch) == _key(identity)]
        return mine[-1].base_sequence + mine[-1].records.num_rows if mine else 0

    def _end(
        self, transactional_id: str, identity: ProducerIdentity, commit: bool
    ) -> IdentityAnswer:
        known = self._transactions.get(transactional_id)
        if known is None:
            return IdentityAnswer(BrokerCode.INVALID_PRODUCER_ID_MAPPING)
        if known.last_ended == (identity.epoch, commit) and self.version >= 2:
            # Its answer was lost: the present identity again.
            return self._ended(known)
        code = self._checked(transactional_id, identity)
        if code is not BrokerCode.NONE:
            return IdentityAnswer(code)
        if known.state in _PREPARED:
            return IdentityAnswer(BrokerCode.CONCURRENT_TRANSACTIONS)
        if known.state is TransactionState.EMPTY and self.version >= 2 and not commit:
            # An abort may come before the coordinator has heard of the transaction.
            known.last_ended = (identity.epoch, commit)
            known.epoch += 1
            return self._ended(known)
        if known.state is TransactionState.EMPTY:
            repeated = known.last_ended == (identity.epoch, commit)
            return IdentityAnswer(BrokerCode.NONE if repeated else BrokerCode.INVALID_TXN_STATE)
        known.last_ended = (identity.epoch, commit)
        self._prepare(known, commit=commit)
        if self.version >= 2:
            known.epoch += 1
        return self._ended(known)

    def _ended(self, known: Transaction) -> IdentityAnswer:
        if self.version < 2:
            return IdentityAnswer(BrokerCode.NONE)
        return IdentityAnswer(BrokerCode.NONE, ProducerIdentity(known.producer_id, known.epoch))

    def _prepare(self, known: Transaction, *, commit: bool) -> None:
        known.state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        known.answers_until_done = self.linger

    def _progress(self, known: Transaction) -> None:
        known.answers_until_done -= 1
        if known.answers_until_done < 0:
            self._complete(known)

    def _complete(self, known: Transaction) -> None:
        """Write the markers; each takes an offset."""
        commit = known.state is TransactionState.PREPARE_COMMIT
        for topic_partition in known.partitions:
            if topic_partition in self.loses_markers:
                self.loses_markers.discard(topic_partition)
                continue
            log = self.log(topic_partition)
            for batch in log.batches:
                if batch.producer_id == known.producer_id and batch.committed is None:
                    batch.committed = commit
            log.end += 1
        known.partitions.clear()
        known.state = TransactionState.EMPTY


class FakeBrokersWithoutTransactions(FakeCluster):
    """What ``KafkaIdempotence`` sees: batches are visible at once, and nobody is fenced."""

    def __init__(self, topics: dict[str, int]) -> None:
        super().__init__(topics, version=1)

    def _init(self, transactional_id: str, timeout: float) -> IdentityAnswer:
        self._next_id += 1
        return IdentityAnswer(BrokerCode.NONE, ProducerIdentity(self._next_id, 0))

    def _add(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        partitions: Collection[TopicPartition],
    ) -> BrokerCode:
        return BrokerCode.NONE

    def _append(
        self, transactional_id: str, topic_partition: TopicPartition, batch: bytes
    ) -> ProduceAnswer:
        header = parse_header(batch)
        assert not header.attributes & TRANSACTIONAL
        identity = ProducerIdentity(header.producer_id, header.producer_epoch)
        log = self.log(topic_partition)
        again = self._duplicate(log, identity, header.base_sequence)
        if again is not None:
            return ProduceAnswer(BrokerCode.NONE, again.base_offset)
        if header.base_sequence != self._next_sequence(log, identity):
            return ProduceAnswer(BrokerCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        (chunk,) = decode_chunks(topic_partition, [batch], 0)
        appended = Batch(
            log.end, chunk.records, header.producer_id, 0, header.base_sequence, committed=True
        )
        log.batches.append(appended)
        log.end = appended.end
        return ProduceAnswer(BrokerCode.NONE, appended.base_offset)

    def _end(
        self, transactional_id: str, identity: ProducerIdentity, commit: bool
    ) -> IdentityAnswer:
        return IdentityAnswer(BrokerCode.NONE)


def _key(identity: ProducerIdentity) -> tuple[int, int]:
    return identity.producer_id, identity.epoch
