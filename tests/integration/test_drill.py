"""A drill on real servers: everything into a broker of its own, which is gone afterwards."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from secor.adapters.kafka.cluster_admin import AccessRule
from secor.adapters.local import DirectoryStore
from secor.archive.cluster_journal import ClusterJournal, Item
from secor.archive.kept_topics import KeptTopic, KeptTopics
from secor.core.clock import SystemClock
from secor.core.model import OffsetRange, TopicPartition
from secor.formats import make_format
from tests.fakes.archive import Shelf, messages
from tests.integration.daemons import run_secor

RULE = AccessRule("TOPIC", "orders", "LITERAL", "User:mallory", "*", "READ", "DENY")


def test_a_drill_proves_the_archive_and_tells_what_would_not_come_back(tmp_path: Path) -> None:
    bucket, job = tmp_path / "bucket", tmp_path / "lost.toml"
    fill(bucket)
    job.write_text(
        f"""
[group]
name = "lost"
kind = "restore"
[kafka]
bootstrap_servers = ["127.0.0.1:1"]
[store]
kind = "local"
[store.local]
directory = "{bucket}"
[source]
prefix = "backup"
[writing]
offsets_partitions = 3
"""
    )
    key, public, report = tmp_path / "key.pem", tmp_path / "key.pem.pub", tmp_path / "drill.json"
    run_secor("evidence", "keygen", str(key))
    passed = run_secor(
        *("drill", str(job), "--report", str(report), "--sign-with", str(key)),
        *("--metrics-file", str(tmp_path / "drill.prom"), "--directory", str(tmp_path)),
    )
    assert passed.returncode == 0, passed.stdout + passed.stderr
    content = json.loads(report.read_bytes())
    assert content["passed"] is True
    assert content["compared"] == {"messages": 1000, "partitions": 2}
    assert content["cluster"] == "lost-cluster"
    assert {it["kind"]: it["done"] for it in content["kinds"]} == {
        "messages": 1000,
        "groups": 1,
        "acls": 1,
        "quotas": 1,
        "settings": 1,
    }
    assert not list(tmp_path.glob("secor-drill-*")), "the broker's data is gone"
    judged = subprocess.run(
        [
            *("openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", str(public)),
            *("-sigfile", f"{report}.sig", "-in", str(report)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Verified Successfully" in judged.stdout, judged.stderr
    assert 'secor_drill_succeeded{group="lost"} 1.0' in (tmp_path / "drill.prom").read_text()


def fill(bucket: Path) -> None:
    """Make an archive as a backup group does, of a cluster that is gone."""
    shelf = Shelf(bucket, make_format("sequencefile"), prefix="backup")
    place = TopicPartition("orders", 0)
    shelf.put(messages(range(1000)), OffsetRange(0, 1000), topic_partition=place)
    store, now = DirectoryStore(bucket), SystemClock().now()
    settings = {"cleanup.policy": "compact"}
    topic = KeptTopic("orders", "id", 2, 1, settings)
    KeptTopics(store, "backup/orders").keep(topic, "2026-11-21T10:00:00Z")
    kept: dict[str, Item] = {
        "groups": ("shop", {"orders": {"0": 777}}),
        "acls": ("TOPIC:LITERAL:orders", [vars_of(RULE)]),
        "quotas": (
            "client-id=loader",
            {"entity": {"client-id": "loader"}, "values": {"producer_byte_rate": 1024.0}},
        ),
    }
    for kind, item in kept.items():
        journal = ClusterJournal(store, "backup", kind, "lost-cluster")
        journal.append(lambda item=item: only(item), lambda: now)  # type: ignore[misc]


def only(item: Item) -> Iterator[Item]:
    yield item


def vars_of(rule: AccessRule) -> dict[str, str]:
    return {name: getattr(rule, name) for name in AccessRule.__dataclass_fields__}
