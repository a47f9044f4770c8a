"""Fetch requests are those that the client itself would make, in every state of a partition."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.consumer.subscription_state import SubscriptionState
from kafka.structs import OffsetAndMetadata

from secor.adapters.kafka.fetch_requests import FetchRequests

KEYS = [TopicPartition(topic, number) for topic in ("clicks", "views") for number in range(4)]


class Cluster:
    """Leaders and epochs of the partitions, and who is asked for other metadata."""

    def __init__(self) -> None:
        self.leaders: dict[Any, int | None] = dict.fromkeys(KEYS, 1)
        self.epochs: dict[Any, int | None] = dict.fromkeys(KEYS, 3)
        self.updates = 0
        self.leader_for_partition = self.leaders.get
        self.leader_epoch_for_partition = self.epochs.get

    def is_replica_node(self, *_: object) -> bool:
        return True

    def request_update(self) -> None:
        self.updates += 1


class Client:
    """A fetcher of the client with what it asks of the others; ``incremental`` sessions."""

    def __init__(self, *, incremental: bool) -> None:
        self.cluster = Cluster()
        self.delays: dict[int, float] = {}
        self.throttled: dict[int, float] = {}
        manager = SimpleNamespace(
            _net=None,
            cluster=self.cluster,
            broker_version=(2, 8) if incremental else (1, 0),
            connection_delay=lambda node: self.delays.get(node, 0),
        )
        network = SimpleNamespace(
            _manager=manager, throttle_delay=lambda node: self.throttled.get(node, 0)
        )
        self.subscription = SubscriptionState("none")
        self.subscription.subscribe(topics=["clicks", "views"])
        # The order of an assignment is by chance.
        random.seed(1)
        self.subscription.assign_from_subscribed(KEYS)
        self.fetcher = Fetcher(network, self.subscription, isolation_level="read_committed")

    def requests(self) -> dict[Any, tuple[bytes, dict[Any, int]]]:
        """What goes over the wire to each broker, and the offsets of it."""
        made = self.fetcher._create_fetch_requests()
        return {
            node: (request.encode(version=request.API_VERSION or 12), offsets)
            for node, (request, offsets) in made.items()
        }


def answer(client: Client, node: int, asked: dict[Any, int]) -> None:
    """Let a broker take the request into its session."""
    by_topic: dict[str, list[Any]] = {}
    for key in asked:
        part = SimpleNamespace(partition_index=key.partition)
        by_topic.setdefault(key.topic, []).append(part)
    response = SimpleNamespace(
        error_code=0,
        session_id=9,
        responses=[SimpleNamespace(topic=t, partitions=parts) for t, parts in by_topic.items()],
    )
    handler = client.fetcher._session_handlers.get(node)
    if handler is not None:
        handler.handle_response(response)


def pause(client: Client, key: Any, _: int) -> None:
    """The core pauses a partition, or goes on."""
    state = client.subscription.assignment[key]
    state.paused = not state.paused


def seek(client: Client, key: Any, number: int) -> None:
    """A partition is started."""
    client.subscription.assignment[key].seek(number)


def advance(client: Client, key: Any, number: int) -> None:
    """Messages were fetched."""
    state = client.subscription.assignment[key]
    state.position = OffsetAndMetadata(state.position.offset + number, "", number % 4)


def lead(client: Client, key: Any, number: int) -> None:
    """Metadata names another leader, or none."""
    client.cluster.leaders[key] = (1, 1, 2, 2, None, -1, 0)[number % 7]


def elect(client: Client, key: Any, number: int) -> None:
    """Metadata has another epoch."""
    client.cluster.epochs[key] = None if number < 5 else 3 + number % 3


def ask(client: Client, _: Any, number: int) -> None:
    """A request to a broker is under way, or answered."""
    client.fetcher._nodes_with_pending_fetch_requests ^= {1 + number % 2}


def delay(client: Client, _: Any, number: int) -> None:
    """A broker is not reached, or throttles us."""
    client.delays[1 + number % 2] = float(number % 3 == 0)
    client.throttled[1 + number % 2] = float(number % 5 == 0)


def prefer(client: Client, key: Any, number: int) -> None:
    """A leader names the replica to read, for ever or for no time."""
    expires = 1e12 if number < 50 else 0.0
    client.subscription.assignment[key].update_preferred_read_replica(number % 3, expires)


def keep(client: Client, key: Any, number: int) -> None:
    """An answer has come that nobody has taken."""
    client.fetcher._completed_fetches.clear()
    if number < 50:
        client.fetcher._completed_fetches.append(SimpleNamespace(topic_partition=key))


EVENTS = (pause, seek, advance, lead, elect, ask, delay, prefer, keep)


@pytest.mark.parametrize("incremental", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_they_are_those_of_the_client(seed: int, incremental: bool) -> None:
    chance = random.Random(seed)
    theirs, mine = Client(incremental=incremental), Client(incremental=incremental)
    mine.subscription.assignment = type(mine.subscription.assignment)(
        (key, mine.subscription.assignment[key]) for key in theirs.subscription.assignment
    )
    ours = FetchRequests(mine.fetcher)
    for client in (theirs, mine):
        for key in KEYS:
            client.subscription.assignment[key].seek(0)
    sent = 0
    for _ in range(300):
        for _ in range(chance.randrange(4)):
            event, key, number = chance.choice(EVENTS), chance.choice(KEYS), chance.randrange(100)
            for client in (theirs, mine):
                event(client, key, number)
            if event is seek:
                ours.position_was_set()
            if event in (lead, elect):
                ours.anything_may_differ()
        theirs.fetcher.maybe_validate_positions()
        if ours._looks:
            mine.fetcher.maybe_validate_positions()
        expected, made = theirs.requests(), mine.requests()
        assert made == expected
        asks_for_leaders = theirs.cluster.updates > 0
        assert (mine.cluster.updates > 0) == asks_for_leaders
        theirs.cluster.updates = mine.cluster.updates = 0
        sent += len(made)
        for client in (theirs, mine):
            for node, (_, offsets) in expected.items():
                answer(client, node, offsets)
    assert sent > 100


def test_a_part_that_is_as_it_was_is_not_made_again() -> None:
    client = Client(incremental=True)
    FetchRequests(client.fetcher)
    for key in KEYS:
        client.subscription.assignment[key].seek(0)
    first = client.requests()[1][1]
    session = client.fetcher._session_handlers[1]
    before = dict(session.session_partitions)
    answer(client, 1, first)
    state = client.subscription.assignment[KEYS[2]]
    state.position = OffsetAndMetadata(7, "", 3)
    client.requests()
    changed = {key for key in KEYS if session.session_partitions[key] is not before[key]}
    assert changed == {KEYS[2]}


def test_positions_are_looked_at_after_a_change_and_while_one_is_validated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client(incremental=True)
    requests = FetchRequests(client.fetcher)
    looks: list[str] = []
    monkeypatch.setattr(client.fetcher, "maybe_validate_positions", lambda: looks.append("marks"))
    monkeypatch.setattr(client.fetcher, "validate_offsets_if_needed", lambda: looks.append("asks"))

    def looked() -> list[str]:
        looks.clear()
        requests.validate()
        client.fetcher._create_fetch_requests()
        return looks

    for key in KEYS:
        client.subscription.assignment[key].seek(OffsetAndMetadata(5, "", 2))
    assert looked() == ["marks", "asks"]
    assert looked() == []
    requests.position_was_set()
    assert looked() == ["marks", "asks"]
    assert looked() == []
    state = client.subscription.assignment[KEYS[0]]
    assert state.maybe_validate_position(4)
    requests.anything_may_differ()
    for _ in range(3):
        assert looked() == ["marks", "asks"]
    state.complete_validation()
    assert looked() == ["marks", "asks"]
    assert looked() == []
