"""Scenario 7: Java Secor was killed while it made a node, which then holds an address."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from kazoo.client import KazooClient

from secor.sandbox import Sandbox
from tests.integration.daemons import (
    create_topic,
    daemons,
    produce,
    run_secor,
    wait_until,
    write_config,
)

TOPIC = "over-address"


def test_an_address_in_place_of_an_offset_stops_its_partition_until_a_person_says(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    config = write_config(tmp_path, sandbox, group=TOPIC, topic=TOPIC, ledger="zookeeper")
    zookeeper = KazooClient(sandbox.zookeeper)
    zookeeper.start()
    create_topic(sandbox, TOPIC, 2)
    produce(sandbox, TOPIC, 2, range(600))
    node = f"/consumers/{TOPIC}/offsets/{TOPIC}"
    zookeeper.create(f"{node}/0", b"10.1.2.3", makepath=True)
    zookeeper.create(f"{node}/1", b"100")
    with daemons() as start:
        daemon = start(config, tmp_path / "log")
        wait_until(lambda: zookeeper.get(f"{node}/1")[0] == b"300", "the other partition goes on")
        wait_until(lambda: daemon.total("secor_partition_stopped") == 1, "one is stopped")
        assert zookeeper.get(f"{node}/0")[0] == b"10.1.2.3"
        shown = run_secor("offsets", "show", str(config), "--json")
        assert shown.returncode == 5
        first, second = json.loads(shown.stdout)["offsets"]
        assert "b'10.1.2.3', which is no offset" in first["fault"]
        assert "secor offsets set" in first["fault"]
        assert second["fault"] is None
        daemon.send(signal.SIGTERM)
        assert daemon.wait() == 0, daemon.text()
        settled = run_secor("offsets", "set", str(config), TOPIC, "0", "0", "--yes")
        assert settled.returncode == 0, settled.stderr
        start(config, tmp_path / "log-again")
        wait_until(lambda: zookeeper.get(f"{node}/0")[0] == b"300", "it goes on, too")
    zookeeper.stop()
    zookeeper.close()
    # The 100 messages below the other's offset were for Java Secor to store.
    assert "missing offsets [0, 100)" in run_secor("verify", str(config)).stdout
    compared = run_secor("verify", str(config), "--from", "100")
    assert compared.returncode == 0, compared.stdout
