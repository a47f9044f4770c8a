from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from secor.cli.doctor import checks as doctor_checks
from secor.config.load import load
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError
from secor.service.metrics import Metrics
from secor.service.monitoring.health import Health, HealthServer
from secor.service.monitoring.http_connections import BoundedServer
from secor.wiring.http_server import board_of, server_of


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
    assert ask(server, "/x")[0::2] == (404, "known here: /metrics, /healthz, /readyz\n")


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


CONFIG = """
group.name = "g"
kafka.bootstrap_servers = ["127.0.0.1:1"]
kafka.topics = ["clicks"]
store.s3.bucket = "b"
metrics.port = 0
"""


@pytest.fixture
def configured(tmp_path: Path, health: Health) -> Iterator[Starter]:
    starter = Starter(tmp_path, health)
    yield starter
    for server in starter.servers:
        server.close()


class Starter:
    """Starts servers as a configuration with more lines describes them."""

    def __init__(self, directory: Path, health: Health) -> None:
        self.directory = directory
        self.health = health
        self.servers: list[HealthServer] = []

    def start(self, more: str = "") -> HealthServer:
        path = self.directory / "my.toml"
        path.write_text(CONFIG + more)
        config = load(path, {})
        board = board_of(config, SystemClock(), "host-1")
        self.servers.append(server_of(config, self.health, Metrics(), board))
        self.servers[-1].start()
        return self.servers[-1]


def test_the_page_and_its_json_are_served_and_not_stored(configured: Starter) -> None:
    server = configured.start()
    status, kind, body = ask(server, "/")
    assert (status, kind) == (200, "text/html; charset=utf-8")
    assert body.startswith("<!doctype html>")
    status, kind, body = ask(server, "/status.json")
    assert (status, kind) == (200, "application/json")
    assert json.loads(body)["group"] == "g"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/")
    headers = connection.getresponse().headers
    connection.close()
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")


def test_nothing_can_be_changed(configured: Starter) -> None:
    server = configured.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        for path in ("/", "/status.json", "/metrics", "/healthz", "/absent"):
            connection.request(method, path)
            response = connection.getresponse()
            assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")
            response.read()
    connection.close()


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("length", ["Content-Length: 29", "Transfer-Encoding: chunked"])
def test_a_body_is_not_taken_for_the_next_request(
    server: HealthServer, method: str, length: str
) -> None:
    hidden = b"GET /metrics HTTP/1.1\r\nA: b\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        client.sendall(f"{method} /healthz HTTP/1.1\r\n{length}\r\n\r\n".encode() + hidden)
        told = b""
        # Ends: the server hangs up, perhaps with a reset for what it has not read.
        with suppress(ConnectionResetError):
            while data := client.recv(1 << 16):
                told += data
    assert told.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in told


def test_a_password_guards_all_but_the_probes(configured: Starter) -> None:
    server = configured.start('metrics.username = "ada"\nmetrics.password = "geheim"\n')
    configured.health.waiting([])
    for path in ("/", "/status.json", "/metrics", "/x"):
        assert ask(server, path)[0::2] == (401, "a password is needed\n")
    assert ask(server, "/healthz")[0] == ask(server, "/readyz")[0] == 200
    given = {"Authorization": "Basic " + base64.b64encode(b"ada:geheim").decode()}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/metrics", headers=given)
    assert connection.getresponse().status == 200
    connection.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificate")
    made = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "cert.pem")]
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *made),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return directory


def test_tls_is_spoken_also_beside_a_client_that_says_nothing(
    configured: Starter, certificate: Path
) -> None:
    server = configured.start(
        f"""
        metrics.tls_certfile = "{certificate / "cert.pem"}"
        metrics.tls_keyfile = "{certificate / "key.pem"}"
        """
    )
    context = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as silent:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", server.port, timeout=30, context=context
        )
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"alive\n"
        connection.close()
        silent.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert b"alive" not in silent.recv(1000)


def test_a_certificate_that_is_missing_is_a_fault_of_the_configuration(
    configured: Starter, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=r"absent\.pem"):
        configured.start(f'metrics.tls_certfile = "{tmp_path / "absent.pem"}"\n')


class Hello(BaseHTTPRequestHandler):
    timeout = 60.0

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def bounded(opened: ExitStack, **limits: float) -> BoundedServer:
    server = BoundedServer(("127.0.0.1", 0), Hello, **limits)  # type: ignore[arg-type]
    opened.callback(server.server_close)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    opened.callback(thread.join)
    opened.callback(server.shutdown)
    return server


def connect(opened: ExitStack, server: BoundedServer) -> socket.socket:
    return opened.enter_context(socket.create_connection(("127.0.0.1", server.server_port), 30))


def test_slow_clients_take_few_descriptors_and_keep_no_probe_out() -> None:
    with ExitStack() as opened:
        server = bounded(opened, most_connections=8, deadline=600.0)
        slow = [connect(opened, server) for _ in range(50)]
        for client in slow:
            with suppress(OSError):
                client.sendall(b"GET /healthz HTTP/1.1\r\n")
        probe = connect(opened, server)
        probe.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert probe.recv(1000).startswith(b"HTTP/1.0 200")
        assert server.connections <= 8


def test_a_client_that_sends_a_byte_now_and_then_is_hung_up_on() -> None:
    with ExitStack() as opened:
        server = bounded(opened, deadline=1.0)
        client = connect(opened, server)
        began = time.monotonic()
        with suppress(OSError):
            while time.monotonic() < began + 30:
                client.sendall(b"G")
                client.settimeout(0.1)
                with suppress(TimeoutError):
                    if not client.recv(1):
                        break
        assert 1.0 <= time.monotonic() - began < 20


def test_a_client_that_does_not_read_its_answer_is_hung_up_on(health: Health) -> None:
    server = HealthServer("127.0.0.1", 0, health=health, metrics=lambda: bytes(50_000_000))
    with ExitStack() as opened:
        opened.callback(server.close)
        server.start()
        client = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), 60))
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert client.recv(10)
        deadline = time.monotonic() + 60
        while server.connections and time.monotonic() < deadline:
            time.sleep(0.1)
        assert server.connections == 0


def test_an_answer_ends_its_connection(server: HealthServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 30) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        answer = b""
        while data := client.recv(1000):
            answer += data
    assert b"Connection: close" in answer


def with_port(tmp_path: Path, port: int) -> Config:
    path = tmp_path / "doctor.toml"
    path.write_text(CONFIG.replace("metrics.port = 0", f"metrics.port = {port}"))
    return load(path, {})


def test_the_doctor_finds_a_port_that_others_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_checks, "ASK", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match="SECOR_METRICS__PORT"):
            doctor_checks.metrics_port(with_port(tmp_path, port))
    assert doctor_checks.metrics_port(with_port(tmp_path, port)).endswith("is free")
    assert doctor_checks.metrics_port(with_port(tmp_path, 0)) == "the system chooses a free port"


def test_the_doctor_lets_a_process_of_secor_have_its_port(
    tmp_path: Path, server: HealthServer
) -> None:
    told = doctor_checks.metrics_port(with_port(tmp_path, server.port))
    assert "in use by a process of Secor" in told
