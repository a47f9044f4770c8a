from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from secor.clock import SystemClock
from secor.errors import ConfigurationError
from secor.health import Health, HealthServer
from secor.metrics import Metrics


@pytest.fixture
def health() -> Health:
    return Health(SystemClock(), limit=600.0)


@pytest.fixture
def server(health: Health) -> Iterator[HealthServer]:
    server = HealthServer("127.0.0.1", 0, health=health, metrics=Metrics().text)
    server.start()
    yield server
    server.close()


def ask(server: HealthServer, path: str, method: str = "GET") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, response.getheader("Content-Type", ""), body


def test_metrics_are_served_as_prometheus_reads_them(server: HealthServer) -> None:
    status, kind, body = ask(server, "/metrics?name=x")
    assert status == 200
    assert kind.startswith("text/plain; version=0.0.4")
    assert "# TYPE secor_messages_total counter" in body
    assert "process_resident_memory_bytes" in body


def test_health_and_readiness_have_their_own_answers(server: HealthServer, health: Health) -> None:
    assert ask(server, "/healthz")[0::2] == (200, "alive\n")
    assert ask(server, "/readyz")[0::2] == (503, "starting\n")
    health.waiting([])
    assert ask(server, "/readyz")[0::2] == (200, "ready\n")
    assert ask(server, "/readyz", "HEAD")[0::2] == (200, "")


def test_an_unknown_path_is_told_the_known_ones(server: HealthServer) -> None:
    assert ask(server, "/")[0::2] == (404, "known here: /metrics, /healthz, /readyz\n")


def test_the_port_that_was_chosen_is_logged(health: Health) -> None:
    server = HealthServer("127.0.0.1", 0, health=health, metrics=bytes)
    with capture_logs() as lines:
        server.start()
    server.close()
    assert lines[0]["event"] == "listening"
    assert lines[0]["port"] == server.port > 0


def test_a_port_that_is_taken_is_a_fault_of_the_configuration(
    server: HealthServer, health: Health
) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot listen on 127\.0\.0\.1:\d+ \(Address"):
        HealthServer("127.0.0.1", server.port, health=health, metrics=bytes)


def test_a_server_that_never_started_closes(health: Health) -> None:
    HealthServer("127.0.0.1", 0, health=health, metrics=bytes).close()
