"""Where logs end, and whether brokers tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from secor.adapters.kafka import log_ends
from secor.adapters.kafka.log_ends import LogEnds
from secor.core.model import OpenTransaction, TopicPartition, Withheld

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
LEADERS = {0: 1, 1: 2}
EPOCH = 1_700_000_000.0


class World:
    """Two partitions, each led by a broker of its own, of which some do not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.leaders: dict[int, int | None] = {**LEADERS}
        self.out: set[int] = set()
        clock = SimpleNamespace(monotonic=lambda: self.now, time=lambda: EPOCH + self.now)
        monkeypatch.setattr(log_ends, "time", clock)
        cluster = SimpleNamespace(leader_for_partition=lambda tp: self.leaders[tp.partition])
        client: Any = SimpleNamespace(cluster=cluster, spawn=self._spawn)
        questions: Any = SimpleNamespace(ends=self._ends, open_transactions=self._opened)
        self.last = 7
        self.opened: dict[TopicPartition, OpenTransaction] = {}
        self.asked: list[list[TopicPartition]] = []
        self.ends = LogEnds(client, questions, 15.0)
        self.ends.assigned({A, B})

    def _spawn(self, task: Callable[[], Any], failed: Callable[[BaseException], None]) -> None:
        try:
            asyncio.run(task())
        except KafkaConnectionError as error:
            failed(error)

    async def _ends(
        self, leader: int, partitions: list[TopicPartition], *, committed: bool = True
    ) -> dict[TopicPartition, int]:
        if leader in self.out:
            raise KafkaConnectionError("refused")
        return dict.fromkeys(partitions, 7 if committed else self.last)

    async def _opened(
        self, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, OpenTransaction]:
        self.asked.append(partitions)
        if 1 in self.out:
            raise KafkaConnectionError("refused")
        return {key: self.opened[key] for key in partitions if key in self.opened}

    def ask(self) -> None:
        self.now += 16.0
        self.ends._ask()

    def look(self, seconds: float) -> None:
        """Look for open transactions so many seconds later."""
        self.now += seconds
        self.ends._ask_transactions()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_there_is_no_trouble_while_brokers_answer(world: World) -> None:
    assert world.ends.trouble() is None
    world.ask()
    assert (world.ends.get(A), world.ends.trouble()) == (7, None)


def test_a_leader_that_does_not_answer_is_told_until_it_does(world: World) -> None:
    world.out = {2}
    world.ask()
    trouble = world.ends.trouble()
    assert trouble is not None
    assert trouble.startswith("the leader of 1 topic partition does not answer: ")
    assert "refused" in trouble
    world.ask()
    assert world.ends.trouble() == trouble
    world.out = set()
    world.ask()
    assert world.ends.trouble() is None


def test_a_fetch_is_an_answer_too(world: World) -> None:
    world.out = {2}
    world.ask()
    world.ends.heard(B, 9, 9)
    assert (world.ends.get(B), world.ends.trouble()) == (9, None)


def test_partitions_without_a_leader_are_told_and_forgotten_when_they_go(world: World) -> None:
    world.leaders = {0: None, 1: -1}
    world.ask()
    assert world.ends.trouble() == (
        "the leader of 2 topic partitions does not answer: no broker leads it"
    )
    world.ends.revoked({A, B})
    assert world.ends.trouble() is None


# ------------------------------------------------------------- open transactions


def test_what_waits_behind_a_transaction_is_known_from_fetches(world: World) -> None:
    world.ends.heard(A, 20, 20)
    assert world.ends.withheld(A) is None
    world.now += 50
    world.ends.heard(A, 20, 70)
    assert world.ends.withheld(A) == Withheld(50, EPOCH + 150)
    world.now += 50
    world.ends.heard(A, 20, 90)
    assert world.ends.withheld(A) == Withheld(70, EPOCH + 150), "since the same transaction"
    world.ends.heard(A, 60, 90)
    assert world.ends.withheld(A) == Withheld(30, EPOCH + 200), "that is another transaction"
    world.ends.heard(A, 90, 90)
    assert world.ends.withheld(A) is None


def test_what_is_not_fetched_is_asked_for_both_ends(world: World) -> None:
    world.last = 507
    world.ask()
    assert (world.ends.get(A), world.ends.withheld(A)) == (7, Withheld(500, EPOCH + 116))
    world.ends.revoked({A})
    assert world.ends.withheld(A) is None


def test_a_transaction_is_asked_for_when_it_has_been_open_for_seconds(world: World) -> None:
    world.opened[A] = transaction = OpenTransaction(20, 7, "writer", EPOCH)
    world.ends.heard(A, 20, 70)
    world.look(log_ends.OPEN_FOR - 1)
    assert world.asked == []
    world.ends.heard(B, 5, 6)
    world.look(1)
    assert world.asked == [[A]]
    withheld = world.ends.withheld(A)
    assert withheld == Withheld(50, EPOCH + 100, transaction)
    assert withheld.began == EPOCH
    world.ends.heard(A, 20, 80)
    assert world.ends.withheld(A) == Withheld(60, EPOCH + 100, transaction)


def test_transactions_are_asked_for_once_a_minute_at_most(world: World) -> None:
    world.ends.heard(A, 20, 70)
    for _ in range(4 * int(log_ends.TRANSACTIONS_EVERY)):
        world.look(0.5)
    assert len(world.asked) == 2
    world.ends.heard(A, 70, 70)
    world.look(2 * log_ends.TRANSACTIONS_EVERY)
    assert len(world.asked) == 2, "nothing waits"


def test_brokers_that_do_not_name_a_transaction_take_nothing_away(world: World) -> None:
    world.ends.heard(A, 20, 70)
    world.look(6)
    assert world.ends.withheld(A) == Withheld(50, EPOCH + 100)
    world.opened[A] = transaction = OpenTransaction(20, 7, "writer", EPOCH)
    world.look(100)
    assert world.ends.withheld(A) == Withheld(50, EPOCH + 100, transaction)
    world.opened = {}
    world.look(100)
    world.out = {1}
    world.look(100)
    assert len(world.asked) == 4
    assert world.ends.withheld(A) == Withheld(50, EPOCH + 100, transaction)


def test_the_answer_about_an_earlier_transaction_is_not_kept(world: World) -> None:
    world.opened[A] = OpenTransaction(20, 7, "writer", EPOCH)
    world.ends.heard(A, 30, 70)
    asyncio.run(world.ends._name_transactions({A: 20, B: 3}))
    assert world.ends.withheld(A) == Withheld(40, EPOCH + 100)
    assert world.ends.withheld(B) is None
