"""The sandbox by its command line and by its interface, with real servers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from kafka import KafkaAdminClient
from kazoo.client import KazooClient

from secor.core.errors import Unavailable
from secor.sandbox import Sandbox
from secor.sandbox.state import free_port


def secor(*arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-c", "from secor.cli.main import main; main()", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert answer.returncode == code, answer.stderr
    return answer.stdout


def sandbox_command(what: str, folder: Path, *, code: int = 0) -> Any:
    return json.loads(secor("sandbox", what, "--json", "--directory", str(folder), code=code))


def use_all_three(description: dict[str, Any]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=description["kafka"])
    assert len(admin.describe_cluster()["brokers"]) == 1
    admin.close()
    zookeeper = KazooClient(hosts=description["zookeeper"])
    zookeeper.start(timeout=60)
    assert zookeeper.exists("/") is not None
    zookeeper.stop()
    zookeeper.close()
    access = description["s3"]
    store = boto3.client(
        "s3",
        endpoint_url=access["endpoint_url"],
        aws_access_key_id=access["access_key"],
        aws_secret_access_key=access["secret_key"],
        region_name=access["region"],
    )
    store.put_object(Bucket=access["bucket"], Key="a", Body=b"b")
    assert store.get_object(Bucket=access["bucket"], Key="a")["Body"].read() == b"b"
    store.close()


def test_two_sandboxes_start_side_by_side_serve_and_stop(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    try:
        descriptions = [sandbox_command("up", folder) for folder in folders]
        addresses = [server["address"] for d in descriptions for server in d["servers"].values()]
        assert len(set(addresses)) == 6
        for description in descriptions:
            use_all_three(description)
        shown = sandbox_command("status", folders[0])
        assert shown == descriptions[0]
        assert all(Path(server["log"]).is_file() for server in shown["servers"].values())
    finally:
        stopped = [sandbox_command("down", folder) for folder in folders]
    assert [each["killed"] for each in stopped] == [[], []]
    after = sandbox_command("status", folders[0], code=4)
    assert not any(server["running"] for server in after["servers"].values())


def test_a_sandbox_that_comes_back_has_its_ports_and_data(tmp_path: Path) -> None:
    with Sandbox.up(tmp_path, services=["zookeeper"]) as sandbox:
        first = sandbox.zookeeper
        client = KazooClient(hosts=first)
        client.start(timeout=60)
        client.create("/kept", b"value")
        server = sandbox.servers["zookeeper"]
        server.kill()
        assert not server.running()
        server.start()
        assert client.retry(client.get, "/kept")[0] == b"value"
        client.stop()
        client.close()
    with Sandbox.up(tmp_path) as sandbox:
        assert sandbox.zookeeper == first
        assert list(sandbox.servers) == ["zookeeper"]


def test_a_paused_server_runs_without_serving(tmp_path: Path) -> None:
    with Sandbox.up(tmp_path, services=["zookeeper"]) as sandbox:
        server = sandbox.servers["zookeeper"]
        server.pause()
        assert server.running()
        assert not server.serves()
        server.resume()
        server.wait()


def test_a_server_that_cannot_start_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    settings = {"listeners": "PLAINTEXT://no.such.host.invalid:1,CONTROLLER://127.0.0.1:1"}
    with pytest.raises(Unavailable, match="kafka ended while it started") as met:
        Sandbox.up(tmp_path, services=["kafka", "zookeeper"], kafka_settings=settings)
    assert "no.such.host.invalid" in str(met.value)
    assert not any(server.running() for server in Sandbox.of(tmp_path).servers.values())


def test_a_port_in_use_or_taken_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        used = listener.getsockname()[1]
        free = free_port()
        other = free_port([free])
        offered = iter([used, free, other])
        monkeypatch.setattr("random.randrange", lambda *bounds: next(offered))
        assert free_port([free]) == other
