"""How often brokers are asked, and how long they may keep a request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from secor.adapters.kafka.fetching import IDLE_WAIT, QUIET_AFTER, FetchPace


class Client:
    """Two partitions, of two brokers."""

    def __init__(self) -> None:
        self.leaders: dict[str, int | None] = {"a": 1, "b": 2}
        self.asked: set[int] = set()
        self.fetcher = SimpleNamespace(
            config={"fetch_max_wait_ms": 250},
            _nodes_with_pending_fetch_requests=self.asked,
            _select_read_replica=self.leaders.__getitem__,
        )


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def pace(client: Client) -> FetchPace:
    unknown: Any = client
    return FetchPace(unknown)


def test_requests_are_put_together_only_while_a_broker_has_none(
    client: Client, pace: FetchPace
) -> None:
    for asked, due in (
        (set[int](), True),
        ({1}, True),
        ({1, 2}, False),
        ({2}, True),
        ({1, 2, 3}, False),
    ):
        client.asked.clear()
        client.asked |= asked
        assert pace.is_due(client.leaders) is due


def test_a_partition_without_a_leader_or_with_another_one_is_seen_to(
    client: Client, pace: FetchPace
) -> None:
    client.asked |= {1, 2}
    assert not pace.is_due(client.leaders)
    for leader in (None, -1, 3):
        client.leaders["b"] = leader
        pace.brokers_may_differ()
        assert pace.is_due(client.leaders)


def test_while_all_is_quiet_brokers_may_keep_requests_for_longer(
    client: Client, pace: FetchPace, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("secor.adapters.kafka.fetching.time.monotonic", lambda: now)
    pace.busy()
    for seconds, wait in ((0.0, 250), (QUIET_AFTER, 250), (0.1, IDLE_WAIT * 1000)):
        now += seconds
        pace.is_due(client.leaders)
        assert client.fetcher.config["fetch_max_wait_ms"] == wait
    pace.busy()
    assert client.fetcher.config["fetch_max_wait_ms"] == 250
