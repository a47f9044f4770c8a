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
from secor.core.model import TopicPartition

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
LEADERS = {0: 1, 1: 2}


class World:
    """Two partitions, each led by a broker of its own, of which some do not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.leaders: dict[int, int | None] = {**LEADERS}
        self.out: set[int] = set()
        monkeypatch.setattr(log_ends, "time", SimpleNamespace(monotonic=lambda: self.now))
        cluster = SimpleNamespace(leader_for_partition=lambda tp: self.leaders[tp.partition])
        client: Any = SimpleNamespace(cluster=cluster, spawn=self._spawn)
        questions: Any = SimpleNamespace(ends=self._ends)
        self.ends = LogEnds(client, questions, 15.0)
        self.ends.assigned({A, B})

    def _spawn(self, task: Callable[[], Any], failed: Callable[[BaseException], None]) -> None:
        try:
            asyncio.run(task())
        except KafkaConnectionError as error:
            failed(error)

    async def _ends(
        self, leader: int, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        if leader in self.out:
            raise KafkaConnectionError("refused")
        return dict.fromkeys(partitions, 7)

    def ask(self) -> None:
        self.now += 16.0
        self.ends._ask()


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
    world.ends.heard(B, 9)
    assert (world.ends.get(B), world.ends.trouble()) == (9, None)


def test_partitions_without_a_leader_are_told_and_forgotten_when_they_go(world: World) -> None:
    world.leaders = {0: None, 1: -1}
    world.ask()
    assert world.ends.trouble() == (
        "the leader of 2 topic partitions does not answer: no broker leads it"
    )
    world.ends.revoked({A, B})
    assert world.ends.trouble() is None
