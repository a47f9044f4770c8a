"""The daemon as a process: ended, killed, stalled, joined and left; then every offset compared."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from secor.sandbox import Sandbox
from tests.integration.daemons import (
    Start,
    committed,
    create_topic,
    produce,
    run_secor,
    wait_until,
    write_config,
)

PARTITIONS = 3


def verified(config: Path) -> str:
    done = run_secor("verify", str(config))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("ledger", ["zookeeper", "kafka"])
def test_sigterm_uploads_what_is_open_and_ends_with_zero(
    ledger: str, sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = f"term-{ledger}"
    config = write_config(
        tmp_path,
        sandbox,
        group=topic,
        topic=topic,
        ledger=ledger,
        settings={"policy": {"max_messages": 10_000_000}},
    )
    config.write_text(config.read_text().replace('max_age = "2s"', 'max_age = "1h"'))
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(1000))
    daemon = start(config, tmp_path / "log")
    wait_until(lambda: daemon.total("secor_messages_total") == 1000, "every message read")
    assert committed(config, topic, PARTITIONS) == 0
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.text()
    assert committed(config, topic, PARTITIONS) == 1000
    assert list((tmp_path / "local").rglob("0*")) == []
    assert "1,000 messages" in verified(config)


@pytest.mark.parametrize("ledger", ["zookeeper", "kafka"])
def test_a_killed_process_neither_loses_nor_repeats(
    ledger: str, sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = f"kill-{ledger}"
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger=ledger)
    create_topic(sandbox, topic, PARTITIONS)
    total = 0
    for turn in range(2):
        produce(sandbox, topic, PARTITIONS, range(total, total + 6000))
        total += 6000
        before = committed(config, topic, PARTITIONS)
        daemon = start(config, tmp_path / f"log-{turn}")
        wait_until(lambda before=before: committed(config, topic, PARTITIONS) > before, "a commit")  # type: ignore[misc]
        daemon.kill()
    start(config, tmp_path / "log-last")
    wait_until(lambda: committed(config, topic, PARTITIONS) == total, "everything committed")
    assert "12,000 messages" in verified(config)


@pytest.mark.parametrize("ledger", ["zookeeper", "kafka"])
def test_a_process_that_sleeps_past_its_session_changes_nothing_when_it_wakes(
    ledger: str, sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = f"stall-{ledger}"
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger=ledger)
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(6000))
    sleeper = start(config, tmp_path / "log-sleeper")
    wait_until(lambda: committed(config, topic, PARTITIONS) > 0, "a commit")
    sleeper.send(signal.SIGSTOP)
    produce(sandbox, topic, PARTITIONS, range(6000, 9000))
    start(config, tmp_path / "log-other")
    wait_until(lambda: committed(config, topic, PARTITIONS) == 9000, "the other took over")
    sleeper.send(signal.SIGCONT)
    produce(sandbox, topic, PARTITIONS, range(9000, 12000))
    wait_until(lambda: committed(config, topic, PARTITIONS) == 12000, "both go on")
    assert "12,000 messages" in verified(config)


def test_members_come_and_go(sandbox: Sandbox, tmp_path: Path, start: Start) -> None:
    topic = "come-and-go"
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger="zookeeper")
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(3000))
    first = start(config, tmp_path / "log-1")
    second = start(config, tmp_path / "log-2")
    wait_until(lambda: committed(config, topic, PARTITIONS) == 3000, "all of it")
    first.send(signal.SIGTERM)
    assert first.wait() == 0, first.text()
    produce(sandbox, topic, PARTITIONS, range(3000, 6000))
    start(config, tmp_path / "log-3")
    second.kill()
    wait_until(lambda: committed(config, topic, PARTITIONS) == 6000, "the rest")
    assert "6,000 messages" in verified(config)
