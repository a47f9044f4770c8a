"""Two processes of one group with two ledgers: the second is refused, nothing is stored twice.

Then the ledger is changed as docs/upgrade.md says.
"""

from __future__ import annotations

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

PARTITIONS = 4
EACH = 2_000

pytestmark = pytest.mark.slow


def test_a_process_with_another_ledger_is_refused_and_nothing_is_stored_twice(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "two-ledgers"
    create_topic(sandbox, topic, PARTITIONS)

    def with_ledger(kind: str) -> Path:
        (tmp_path / kind).mkdir()
        return write_config(tmp_path / kind, sandbox, group=topic, topic=topic, ledger=kind)

    first, second = with_ledger("zookeeper"), with_ledger("kafka")
    running = start(first, tmp_path / "first.log")
    produce(sandbox, topic, PARTITIONS, range(EACH))
    wait_until(lambda: committed(first, topic, PARTITIONS) == EACH, "the first messages stored")

    other = start(second, tmp_path / "second.log")
    produce(sandbox, topic, PARTITIONS, range(EACH, 2 * EACH))
    assert other.wait() == 2, other.text()
    assert "ledger: kafka, not zookeeper at" in other.text()
    wait_until(lambda: committed(first, topic, PARTITIONS) == 2 * EACH, "all messages stored")
    assert committed(second, topic, PARTITIONS) == 0
    assert running.stop() == 0
    checked = run_secor("verify", str(first))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{2 * EACH:,} messages" in checked.stdout

    # "Move the ledger" of docs/upgrade.md: from ZooKeeper to Kafka.
    moved = run_secor("offsets", "move", str(first), str(second), "--yes")
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert f"moved {PARTITIONS} entries" in moved.stdout
    produce(sandbox, topic, PARTITIONS, range(2 * EACH, 3 * EACH))
    late = start(first, tmp_path / "late.log")
    running = start(second, tmp_path / "moved.log")
    assert late.wait() == 2, late.text()
    assert "its offsets were moved from" in late.text()
    wait_until(lambda: committed(second, topic, PARTITIONS) == 3 * EACH, "the new ones stored")
    back = run_secor("offsets", "move", str(second), str(first), "--yes")
    assert back.returncode == 5, back.stdout + back.stderr
    assert "is running" in back.stderr
    assert running.stop() == 0
    checked = run_secor("verify", str(second))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{3 * EACH:,} messages" in checked.stdout
