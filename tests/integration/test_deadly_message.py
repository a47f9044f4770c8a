"""A message over which the real daemon dies, and stalls, comes out by itself."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaProducer

from secor.sandbox import Sandbox
from tests.integration.daemons import (
    Start,
    committed,
    create_topic,
    run_secor,
    wait_until,
    write_config,
)

TOPIC = "deadly"
COUNT, DEADLY = 400, 150
PLUGIN = """
import os
import time
from pathlib import Path

SEEN = Path(%r)


class Deadly:
    def place(self, message):
        if message.value == b"deadly":
            with SEEN.open("a") as seen:
                seen.write("x")
            if len(SEEN.read_text()) < 3:
                os._exit(9)
            time.sleep(3600)
        return "all"
"""


def test_a_message_that_kills_and_then_stalls_the_daemon_is_in_quarantine_without_a_person(
    sandbox: Sandbox, tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    (tmp_path / "deadly_plugin.py").write_text(PLUGIN % str(seen))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    config = write_config(
        tmp_path,
        sandbox,
        group=TOPIC,
        topic=TOPIC,
        ledger="zookeeper",
        settings={
            "group": {"kind": "partition"},
            "output": {"format": "text", "codec": "none"},
            "policy": {"max_messages": 100, "max_age": "1s"},
        },
        more='[parser]\nplugin = "deadly_plugin:Deadly"\n',
    )
    create_topic(sandbox, TOPIC, 1)
    producer = KafkaProducer(bootstrap_servers=sandbox.kafka)
    for number in range(COUNT):
        value = b"deadly" if number == DEADLY else b"%d" % number
        producer.send(TOPIC, value=value, partition=0)
    producer.flush()
    producer.close()

    def met(times: int) -> bool:
        return seen.exists() and len(seen.read_text()) == times

    for deaths in range(1, 5):
        daemon = start(config, tmp_path / f"log-{deaths}")
        wait_until(partial(met, deaths), "it meets the message")
        daemon.kill()  # as the watchdog does, where it stalls
    daemon = start(config, tmp_path / "log")
    wait_until(lambda: committed(config, TOPIC, 1) == COUNT, "everything is committed")
    assert '"message_left_out"' in daemon.text()
    assert daemon.total("secor_quarantined_total") == 1
    [line] = run_secor("quarantine", "cat", str(config), TOPIC).stdout.splitlines()
    assert json.loads(line)["offset"] == DEADLY
    assert json.loads(line)["reason"].startswith("process: ")
    verified = run_secor("verify", str(config))
    assert verified.returncode == 0, verified.stdout + verified.stderr
