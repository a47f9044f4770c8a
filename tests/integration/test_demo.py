"""The demonstration runs from beginning to end, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from secor.sandbox import Sandbox


@pytest.mark.timeout(1800)
def test_the_demonstration_ends_with_every_message_verified(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "tools.demo", "--down", "--directory", str(folder)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=1700, check=False)
    shown = answer.stdout + answer.stderr
    assert answer.returncode == 0, shown[-4000:]  # the end says why
    assert "SIGKILL to process" in shown
    assert "336,776" in shown or "336776" in shown
    assert "5 messages are in quarantine" in shown
    assert "schema: flight" in shown
    assert "all 16 carriers: the same answer from both" in shown
    assert "2014-01        88         0" in shown
    assert "messages moved" in shown
    assert "published generation 2" in shown
    assert "all 12 months: the same answer from both" in shown
    assert "which coordinates, in the middle of a commit to demo." in shown
    assert "336,781 messages of 4 topic partitions compared: each is there once" in shown
    assert "       12   28,135        28,135  2,553" in shown
    assert shown.count("all 12 months: the same answer from both") == 2
    assert "760 rows: one for each flight that left, with its delay, and none for the 16" in shown
    assert shown.count("SIGKILL to process") == 4
    assert "flights (new)" in shown
    assert "336,781 messages in 4 partitions: all equal" in shown
    assert "4 offsets of 1 group committed" in shown
    assert "the next flight of each partition is the one it would have read" in shown
    assert "nothing tampered, replaced, missing or added" in shown
    assert "7 objects of 8 as on" in shown
    assert "575 messages erased" in shown
    assert "336,206 messages in 4 partitions" in shown
    servers = Sandbox.of(folder / "sandbox").servers.values()
    assert not any(server.running() for server in servers)
