"""Which open transaction is named for a topic partition, by what brokers say."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from kafka import errors as kafka_errors

from secor.adapters.kafka.client import Client
from secor.adapters.kafka.open_transactions import first_open_transactions
from secor.core.model import OpenTransaction, TopicPartition

HERE, THERE = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
SINCE = 1_700_000_000.0
WRITTEN = 1_700_000_060.0


def producers(where: TopicPartition, *opened: tuple[int, int], error: int = 0) -> Any:
    """Return a leader's answer: producer ids, and the first offsets of their transactions."""
    active = [
        SimpleNamespace(
            producer_id=producer_id,
            current_txn_start_offset=offset,
            last_timestamp=int(WRITTEN * 1000),
        )
        for producer_id, offset in opened
    ]
    part = SimpleNamespace(
        partition_index=where.partition, error_code=error, active_producers=active
    )
    return SimpleNamespace(topics=[SimpleNamespace(name=where.topic, partitions=[part])])


def listed(*names: str) -> Any:
    return SimpleNamespace(
        transaction_states=[SimpleNamespace(transactional_id=name) for name in names]
    )


def described(
    name: str, producer_id: int, state: str = "Ongoing", *where: TopicPartition, error: int = 0
) -> Any:
    topics = [SimpleNamespace(topic=it.topic, partitions=[it.partition]) for it in where]
    return SimpleNamespace(
        transaction_states=[
            SimpleNamespace(
                transactional_id=name,
                producer_id=producer_id,
                transaction_state=state,
                transaction_start_time_ms=SINCE * 1000 if state == "Ongoing" else -1,
                topics=topics,
                error_code=error,
            )
        ]
    )


@dataclass
class Brokers:
    """One broker, that leads all partitions but those of ``leaderless``, and its answers."""

    answers: dict[str, list[Any]]
    leaderless: frozenset[TopicPartition] = frozenset()
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = {kind: deque(answers) for kind, answers in self.answers.items()}

    @property
    def cluster(self) -> Any:
        return SimpleNamespace(
            leader_for_partition=lambda tp: -1 if tuple(tp) in self._leaderless else 1,
            brokers=lambda: [SimpleNamespace(node_id=1)],
        )

    @property
    def _leaderless(self) -> set[tuple[str, int]]:
        return {(it.topic, it.partition) for it in self.leaderless}

    @property
    def manager(self) -> Any:
        return SimpleNamespace(send=self.send, wait_for=self.wait_for)

    def aside(self, node_id: Any, purpose: str) -> str:
        return f"{purpose}-{node_id}"

    def send(self, request: Any, node_id: str) -> Any:
        assert node_id == "questions-1"
        kind = type(request).__name__.removesuffix("Request")
        self.asked.append(kind)
        return self._left[kind].popleft()

    async def wait_for(self, answer: Any, _timeout: float) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def find(self, *where: TopicPartition) -> dict[TopicPartition, OpenTransaction]:
        """Ask for the transactions of these partitions."""
        client = cast(Client, self)
        return asyncio.run(first_open_transactions(client, where, 1.0))


def test_the_first_transaction_of_a_log_is_named_with_its_id_and_start() -> None:
    brokers = Brokers(
        {
            "DescribeProducers": [producers(HERE, (8, 90), (7, 30), (9, -1)), producers(HERE)],
            "ListTransactions": [listed("writer")],
            "DescribeTransactions": [described("writer", 7, "Ongoing", HERE)],
        }
    )
    (transaction,) = brokers.find(HERE).values()
    assert transaction == OpenTransaction(30, 7, "writer", SINCE, last_written=WRITTEN)
    assert str(transaction).endswith("from offset 30 on, since 2023-11-14T22:13:20+00:00)")


def test_many_partitions_are_asked_for_in_several_requests() -> None:
    many = [TopicPartition("clicks", number) for number in range(45)]
    last = producers(many[44], (7, 30))
    brokers = Brokers(
        {
            "DescribeProducers": [producers(many[0]), producers(many[20]), last, last],
            "ListTransactions": [listed()],
        }
    )
    assert list(brokers.find(*many)) == [many[44]]
    assert brokers.asked.count("DescribeProducers") == 3


def test_nobody_is_asked_for_transactions_where_no_producer_has_one() -> None:
    brokers = Brokers({"DescribeProducers": [producers(HERE, (7, -1)), producers(HERE)]})
    assert brokers.find(HERE) == {}
    assert set(brokers.asked) == {"DescribeProducers"}


def test_a_partition_without_a_leader_is_left_out() -> None:
    brokers = Brokers({"DescribeProducers": []}, leaderless=frozenset({HERE}))
    assert brokers.find(HERE) == {}
    assert brokers.asked == []


def test_a_user_who_may_not_see_the_transactional_id_sees_the_producer_id() -> None:
    brokers = Brokers(
        {"DescribeProducers": [producers(HERE, (7, 30))], "ListTransactions": [listed()]}
    )
    assert brokers.find(HERE) == {HERE: OpenTransaction(30, 7, last_written=WRITTEN)}
    brokers = Brokers(
        {
            "DescribeProducers": [producers(HERE, (7, 30))],
            "ListTransactions": [listed("writer")],
            "DescribeTransactions": [described("writer", 7, error=53)],
        }
    )
    assert brokers.find(HERE) == {HERE: OpenTransaction(30, 7, last_written=WRITTEN)}


def test_a_user_who_may_not_read_the_topic_and_old_brokers_give_nothing() -> None:
    assert Brokers({"DescribeProducers": [producers(HERE, error=29)]}).find(HERE) == {}
    too_old = kafka_errors.IncompatibleBrokerVersion("DescribeProducers")
    assert Brokers({"DescribeProducers": [too_old]}).find(HERE) == {}
    brokers = Brokers(
        {"DescribeProducers": [producers(HERE, (7, 30))], "ListTransactions": [too_old]}
    )
    assert brokers.find(HERE) == {HERE: OpenTransaction(30, 7, last_written=WRITTEN)}


def test_a_transaction_that_its_coordinator_ended_or_has_elsewhere_is_hanging() -> None:
    for state, where in (("CompleteAbort", ()), ("Empty", ()), ("Ongoing", (THERE,))):
        brokers = Brokers(
            {
                "DescribeProducers": [producers(HERE, (7, 30)), producers(HERE, (7, 30))],
                "ListTransactions": [listed("writer")],
                "DescribeTransactions": [described("writer", 7, state, *where)],
            }
        )
        (transaction,) = brokers.find(HERE).values()
        assert transaction == OpenTransaction(30, 7, "writer", None, True, WRITTEN)
        assert str(transaction).endswith("on, last written to 2023-11-14T22:14:20+00:00)")


def test_a_transaction_that_ended_while_it_was_asked_for_is_not_hanging() -> None:
    for again in (producers(HERE), producers(HERE, (7, 45))):
        brokers = Brokers(
            {
                "DescribeProducers": [producers(HERE, (7, 30)), again],
                "ListTransactions": [listed("writer")],
                "DescribeTransactions": [described("writer", 7, "CompleteCommit")],
            }
        )
        assert brokers.find(HERE) == {}
