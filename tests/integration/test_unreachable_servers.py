"""Commands whose servers do not answer: told soon on standard error, and ended by Ctrl-C."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from secor.cli.exit_codes import Exit
from tests.integration.daemons import PATIENCE, secor

pytestmark = pytest.mark.slow

GROUP = """
group.name = "g"
kafka.bootstrap_servers = ["{address}"]
kafka.topics = ["clicks"]
ledger.kind = "{ledger}"
ledger.zookeeper.hosts = ["{address}"]
store.s3.bucket = "b"
store.s3.endpoint_url = "http://{address}"
store.s3.access_key = "a"
store.s3.secret_key = "s"
store.s3.region = "us-east-1"
"""
RESTORE = """
group.name = "g"
group.kind = "restore"
kafka.bootstrap_servers = ["{address}"]
source.topics = ["clicks"]
store.kind = "local"
store.local.directory = "{directory}"
"""


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize(
    ("words", "ledger", "server", "limit"),
    [
        (("progress",), "kafka", "Kafka", 30),
        (("offsets", "show"), "zookeeper", "ZooKeeper", 20),
        (("ls",), "kafka", "the store", 22),
        (("verify", "--archive-only"), "kafka", "the store", 22),
        (("restore", "status"), "restore", "Kafka", 30),
    ],
)
def test_a_command_tells_whom_it_waits_for_and_ends_with_ctrl_c(
    words: tuple[str, ...], ledger: str, server: str, limit: int, silent: str, tmp_path: Path
) -> None:
    config = tmp_path / "c.toml"
    text = RESTORE if ledger == "restore" else GROUP
    config.write_text(text.format(address=silent, ledger=ledger, directory=tmp_path))
    with subprocess.Popen(
        secor(*words, str(config)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, rest = process.communicate(timeout=PATIENCE)
    address = f"http://{silent}" if server == "the store" else silent
    assert line == (
        f"waiting for {server} at {address}: connected, no answer yet ({limit} s at most)\n"
    )
    assert (out, rest.strip(), process.returncode) == ("", "interrupted", Exit.INTERRUPTED)
