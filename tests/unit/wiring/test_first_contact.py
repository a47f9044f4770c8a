"""What a person is told while a command waits for a server that does not answer."""

from __future__ import annotations

import logging
import queue
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from secor.config.load import load
from secor.config.servers import Kafka
from secor.config.stores import Store
from secor.config.tables import Catalog
from secor.core.errors import AccessDenied, Unavailable
from secor.service.monitoring.servers import BROKERS, STORE, ZOOKEEPER
from secor.wiring import clients, first_contact
from secor.wiring.first_contact import (
    CATALOG,
    Endpoint,
    addresses_of,
    ask_once,
    catalog_server,
    kafka_server,
    report_while_slow,
    store_server,
)


class Lines(logging.Handler):
    """Takes what is logged, from whatever thread."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: queue.Queue[str] = queue.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.queue.put(record.getMessage())

    def next(self) -> str:
        return self.queue.get(timeout=30)


def wait(event: threading.Event) -> None:
    event.wait()


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    monkeypatch.setattr(first_contact, "QUIET", 0.0)
    handler, log = Lines(), logging.getLogger(first_contact.__name__)
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def answer(monkeypatch: pytest.MonkeyPatch, answers: dict[tuple[str, int], Exception]) -> None:
    """Let tries to connect end as ``answers`` say, by host and port; others come through."""

    class Connected:
        def close(self) -> None:
            pass

    def connect(address: tuple[str, int], timeout: float) -> Connected:
        assert timeout > 0
        if address in answers:
            raise answers[address]
        return Connected()

    monkeypatch.setattr(socket, "create_connection", connect)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (TimeoutError("timed out"), "no answer yet"),
        (socket.gaierror(-2, "Name or service not known"), "no address is known for k"),
        (OSError(101, "Network is unreachable"), "network is unreachable"),
        (None, "connected, no answer yet"),
    ],
)
def test_a_slow_server_is_named_with_its_address_the_reason_and_the_limit(
    error: Exception | None, reason: str, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, {} if error is None else {("k", 9092): error})
    with report_while_slow(Endpoint("Kafka", ("k:9092",), 30.0)):
        assert lines.next() == f"waiting for Kafka at k:9092: {reason} (30 s at most)"


def test_each_reason_is_told_once_and_ports_may_be_the_usual_ones(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ConnectionRefusedError(111, "Connection refused")
    answer(monkeypatch, {("a", 2181): refused, ("::1", 7): refused, ("c", 1): TimeoutError()})
    with report_while_slow(Endpoint("ZooKeeper", ("a", "[::1]:7", "c:1"), 20.0, usual_port=2181)):
        assert lines.next() == (
            "waiting for ZooKeeper at a, [::1]:7, c:1: connection refused; no answer yet"
            " (20 s at most)"
        )


def test_nothing_is_told_of_a_server_that_answers_at_once_or_is_given_up_at_once(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_contact, "QUIET", 3600.0)
    with report_while_slow(Endpoint("Kafka", ("k:9092",), 7200.0)):
        pass
    monkeypatch.setattr(first_contact, "QUIET", 0.0)
    with report_while_slow(Endpoint("Kafka", ("k:9092",), 1.0)):
        pass
    assert lines.queue.empty()


def test_who_is_asked_is_read_from_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_contact, "getproxies", dict)
    kafka = Kafka(bootstrap_servers=("a:1", "b:2"), topics=("t",))
    assert str(kafka_server(kafka)) == "Kafka at a:1, b:2"
    section = {"bucket": "logs", "endpoint_url": "http://minio:9000"}
    store = Store.model_validate({"s3": section})
    assert str(store_server(store)) == "the store at http://minio:9000"
    assert not store_server(store).hidden
    store = Store.model_validate({"s3": {**section, "proxies": {"http": "http://proxy:1"}}})
    assert store_server(store).hidden, "the proxy is asked, not the server"
    store = Store.model_validate({"kind": "gcs", "gcs": {"bucket": "logs"}})
    assert str(store_server(store)) == "the store at gcs logs"


def test_a_catalog_is_named_without_its_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_contact, "getproxies", dict)
    rest = {"type": "rest", "uri": "http://u:geheim@polaris:8181/api?token=geheim"}
    server = catalog_server(Catalog(name="c", properties=rest))
    assert str(server) == "the catalog at http://**********@polaris:8181/api"
    assert not server.hidden
    sql = {"type": "sql", "uri": "postgresql://db/x?password=geheim"}
    server = catalog_server(Catalog(name="c", properties=sql))
    assert (str(server), server.hidden) == ("the catalog at c", True)


def test_a_store_that_does_not_answer_is_given_up_before_its_own_attempts_end(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, {})
    monkeypatch.setattr(first_contact, "PATIENCE", 0.01)
    forever = threading.Event()
    with pytest.raises(Unavailable, match="minio:9000 does not answer within 0 s"):
        ask_once(Endpoint("the store", ("http://minio:9000",)), partial(wait, forever))
    forever.set()
    assert lines.next().startswith("waiting for the store at http://minio:9000")


def test_an_answer_of_a_store_is_that_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    class Made:
        def check(self) -> None:
            raise AccessDenied("no such bucket")

    monkeypatch.setattr(clients, "make_store", lambda store, connections: Made())
    store = Store.model_validate({"s3": {"bucket": "b", "endpoint_url": "http://minio:9000"}})
    assert store_server(store).most == 22.0, "not the five minutes of the settings"
    with pytest.raises(AccessDenied, match="no such bucket"):
        clients.reach_store(store, connections=4)


def test_a_daemon_knows_the_addresses_of_all_that_it_waits_for(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(
        'group.name = "g"\nkafka.bootstrap_servers = ["a:1", "b:2"]\nkafka.topics = ["t"]\n'
        'ledger.zookeeper.hosts = ["zk:2181"]\n'
        'store.s3 = {bucket = "b", endpoint_url = "http://minio:9000"}\n'
    )
    assert addresses_of(load(file, {})) == {
        STORE: "http://minio:9000",
        CATALOG: "secor",
        BROKERS: "a:1, b:2",
        ZOOKEEPER: "zk:2181",
    }
