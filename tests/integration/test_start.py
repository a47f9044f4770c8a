"""The start and the end of a daemon while servers are out, as a service manager sees them."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from secor.sandbox import Sandbox
from tests.faults.proxy import Fault, FaultProxy, Rule
from tests.integration.daemons import (
    PATIENCE,
    Daemon,
    Start,
    committed,
    create_topic,
    produce,
    run_secor,
    wait_until,
    write_config,
)

PARTITIONS = 2

pytestmark = pytest.mark.slow


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Stand in for systemd; give what it has heard so far."""
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

        def states() -> list[str]:
            while True:
                try:
                    heard.append(receiver.recv(4096).decode())
                except BlockingIOError:
                    return heard

        yield states


def events(daemon: Daemon, name: str) -> list[dict[str, str]]:
    lines = [line for line in daemon.text().splitlines() if f'"event": "{name}"' in line]
    return [json.loads(line) for line in lines]


def probe(daemon: Daemon, path: str) -> tuple[int, str]:
    port = events(daemon, "listening")[-1]["port"]
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_store_that_is_out_at_the_start_is_waited_for(
    sandbox: Sandbox, tmp_path: Path, start: Start, manager: Callable[[], list[str]]
) -> None:
    topic = "start-store"
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(1000))
    with FaultProxy(sandbox.s3.endpoint_url, Rule(Fault.SLOW_DOWN)) as proxy:
        config = write_config(
            tmp_path,
            sandbox,
            group=topic,
            topic=topic,
            ledger="zookeeper",
            settings={"store.s3": {"endpoint_url": proxy.url, "max_attempts": 1}},
        )
        daemon = start(config, tmp_path / "log")
        wait_until(lambda: len(events(daemon, "waiting")) > 0, "a warning")
        (warning,) = events(daemon, "waiting")
        assert warning["server"] == "the object store"
        assert "503" in warning["error"]
        assert "endpoint_url" in warning["error"]
        assert probe(daemon, "/readyz") == (503, "starting: waiting for the object store\n")
        assert probe(daemon, "/healthz") == (200, "alive\n")
        assert "secor_starting 1.0" in probe(daemon, "/metrics")[1]
        assert "503" in json.loads(probe(daemon, "/status.json")[1])["hindrance"]["message"]
        wait_until(lambda: any("503" in state for state in manager()), "a status with the reason")
        assert "WATCHDOG=1" in manager()
        proxy.set()
        wait_until(lambda: committed(config, topic, PARTITIONS) == 1000, "everything committed")
        wait_until(lambda: "READY=1" in manager(), "systemd to be told")
        wait_until(lambda: probe(daemon, "/readyz") == (200, "ready\n"), "readiness")
        assert "secor_starting 0.0" in probe(daemon, "/metrics")[1]
        assert len(events(daemon, "waiting")) == 1
        daemon.send(signal.SIGTERM)
        assert daemon.wait() == 0, daemon.text()
        assert "STOPPING=1" in manager()


def test_zookeeper_may_come_after_the_daemon(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "start-zookeeper"
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger="zookeeper")
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(1000))
    server = sandbox.servers["zookeeper"]
    server.kill()
    try:
        daemon = start(config, tmp_path / "log")
        wait_until(lambda: len(events(daemon, "waiting")) > 0, "a warning")
        assert events(daemon, "waiting")[0]["server"] == "ZooKeeper"
        assert daemon.process.poll() is None
    finally:
        server.start()
    wait_until(lambda: committed(config, topic, PARTITIONS) == 1000, "everything committed")
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.text()
    assert "Traceback" not in daemon.text()


def test_an_upload_that_hangs_does_not_hold_the_end_of_the_process(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "start-hanging"
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(1000))
    with FaultProxy(sandbox.s3.endpoint_url) as proxy:
        config = write_config(
            tmp_path, sandbox, group=topic, topic=topic, ledger="zookeeper", endpoint_url=proxy.url
        )
        proxy.set(Rule(Fault.DELAY, method="PUT", contains="/offset", seconds=10 * PATIENCE))
        quick = "import secor.wiring.service as s; s.DRAIN = 3.0; "
        quick += "from secor.cli.main import main; main()"
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen([sys.executable, "-c", quick, "run", config], stderr=log)
        try:
            wait_until(lambda: proxy.injected[Fault.DELAY] > 0, "an upload that hangs")
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.wait(PATIENCE)
        assert '"event": "not_drained"' in (tmp_path / "log").read_text()
        proxy.set()
        daemon = start(config, tmp_path / "log-2")
        wait_until(lambda: committed(config, topic, PARTITIONS) == 1000, "everything committed")
        daemon.send(signal.SIGTERM)
        assert daemon.wait() == 0, daemon.text()
        checked = run_secor("verify", str(config))
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "1,000 messages" in checked.stdout
