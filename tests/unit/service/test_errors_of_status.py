"""What is wrong, as ``/status.json`` and the page tell it: servers, and errors put together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from secor.consume.partition_status import ReadingState
from secor.core.errors import AccessDenied, LedgerLost, Unavailable
from secor.core.model import TopicPartition
from secor.service.startup import Hindrance
from secor.service.status.picture import error_pattern
from tests.unit.service.test_status import Setup
from tests.unit.service.test_telemetry import HERE, STATUS


@pytest.fixture
def setup() -> Setup:
    return Setup()


def partition(number: int, topic: str = "clicks") -> TopicPartition:
    return TopicPartition(topic, number)


def out(key: TopicPartition) -> Unavailable:
    return Unavailable(f"cannot put s3://logs/{key.topic}/1_{key.partition}.gz: no connection")


def errors(setup: Setup) -> list[dict[str, Any]]:
    told = setup.picture()["errors"]
    assert isinstance(told, list)
    return told


def servers(setup: Setup) -> dict[str, dict[str, Any]]:
    told = setup.picture()["servers"]
    assert isinstance(told, list)
    return {server["server"]: server for server in told}


def test_one_error_of_many_partitions_is_told_once(setup: Setup) -> None:
    keys = [partition(number) for number in range(25)]
    setup.board.show([replace(STATUS, topic_partition=key) for key in keys], ledger_up=True)
    for key in keys:
        setup.board.failed(key, out(key))
        setup.clock.sleep(1)
    (error,) = errors(setup)
    assert error["kind"] == "unavailable"
    assert error["message"].endswith("1_24.gz: no connection"), "the newest"
    assert (error["since_age"], error["age"]) == (25.0, 1.0)
    assert error["partitions"] == [str(key) for key in keys]
    shown = setup.page()
    assert "unavailable</span> in 25 topic partitions since" in shown
    assert shown.count("no connection") == 1
    assert shown.count("see above") == 25
    assert "and 15 more" in shown


def test_different_errors_are_told_apart_and_those_of_most_come_first(setup: Setup) -> None:
    keys = [partition(number) for number in range(3)]
    setup.board.show([replace(STATUS, topic_partition=key) for key in keys], ledger_up=True)
    setup.board.failed(keys[0], AccessDenied("no right"))
    for key in keys[1:]:
        setup.board.failed(key, out(key))
    assert [it["kind"] for it in errors(setup)] == ["unavailable", "access_denied"]


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("orders", "cannot list s3://logs/orders/1_0_: no answer from http://host:1/logs?a=orders"),
        ("web", "cannot list s3://logs/web/1_22_: no answer from http://host:1/logs?a=web"),
    ],
)
def test_what_names_a_partition_makes_no_difference(topic: str, message: str) -> None:
    alike = ("unavailable", "cannot list … no answer from …")
    assert error_pattern("unavailable", message, topic) == alike


def test_an_error_is_over_with_the_next_commit_and_begins_anew_after_it(setup: Setup) -> None:
    setup.board.show([STATUS], ledger_up=True)
    setup.board.failed(HERE, out(HERE))
    setup.clock.sleep(9)
    setup.board.failed(HERE, out(HERE))
    assert errors(setup)[0]["since_age"] == 9.0
    setup.clock.sleep(1)
    setup.board.committed(HERE, 5.0)
    setup.board.show([replace(STATUS, committed_at=setup.clock.monotonic())], ledger_up=True)
    assert errors(setup) == []
    last = setup.first()["last_error"]
    assert isinstance(last, dict)
    assert last["over"] is True
    assert "Over: unavailable, 1 s ago: cannot put" in setup.page()
    setup.clock.sleep(30)
    setup.board.failed(HERE, out(HERE))
    assert errors(setup)[0]["since_age"] == 0.0


def test_what_stops_a_partition_is_not_over_though_its_last_batch_was_stored(setup: Setup) -> None:
    lost = LedgerLost("the entry is gone")
    setup.board.failed(HERE, lost)
    setup.clock.sleep(1)
    stopped = replace(STATUS, state=ReadingState.STOPPED, error=lost, committed_at=51.0)
    setup.board.show([stopped], ledger_up=True)
    (error,) = errors(setup)
    assert error["stopped"] == 1
    assert "stopped, ledger_lost" in setup.page()


def test_each_server_has_its_state(setup: Setup) -> None:
    board = setup.board
    assert {it["answers"] for it in servers(setup).values()} == {None}
    for server in board.servers.all:
        server.answered()
    setup.clock.sleep(60)
    board.servers.kafka.answered()
    board.servers.store.failed(out(HERE))
    setup.clock.sleep(3)
    told = servers(setup)
    assert list(told) == ["the object store", "ZooKeeper", "the Kafka brokers"]
    store, ledger = told["the object store"], told["ZooKeeper"]
    assert (store["answers"], store["failing_age"]) == (False, 3.0)
    assert store["failing_since"] == "1970-01-01T00:17:40+00:00"
    assert store["last_error"]["message"] == str(out(HERE))
    assert (ledger["answers"], ledger["answered_age"], ledger["last_error"]) == (True, 63.0, None)
    shown = setup.page()
    assert '<dt>object store</dt><dd><span class="bad">fails for 3 s</span>' in shown
    assert "<dt>ZooKeeper</dt><dd>answered 63 s ago</dd>" in shown
    assert '<dt>Kafka brokers</dt><dd><span class="well">answers</span>' in shown
    assert "The object store</span>: no answer as it should since 1970-01-01 00:17:40 UTC" in shown


def test_an_error_that_a_server_failed_with_is_told_once(setup: Setup) -> None:
    setup.board.show([STATUS], ledger_up=True)
    setup.board.servers.store.failed(out(HERE))
    setup.board.failed(HERE, out(HERE))
    shown = setup.page()
    assert shown.count("no connection") == 1
    assert "last 0 s ago: as above." in shown


def test_what_a_start_waits_for_is_a_server_that_fails(setup: Setup) -> None:
    waits = Hindrance("ZooKeeper", 40.0, Unavailable("no answer"))
    setup.board.hinder(waits)
    setup.clock.sleep(5)
    setup.board.hinder(waits)
    told = servers(setup)
    assert [it["answers"] for it in told.values()] == [True, False, None]
    assert told["ZooKeeper"]["failing_age"] == 5.0


def test_a_loop_that_reports_nothing_is_told(setup: Setup) -> None:
    setup.board.show([STATUS], ledger_up=True)
    assert "The loop has reported nothing" not in setup.page()
    setup.clock.sleep(6)
    assert "The loop has reported nothing for 6 s" in setup.page()
