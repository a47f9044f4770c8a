"""``secor offsets move`` as it is typed: what it shows, asks and refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner, Result

from secor.cli.offsets import commands as offsets
from secor.config.model import Config
from secor.core.errors import ConfigurationError, Refused
from secor.core.model import Entry, Intent, TopicPartition
from secor.wiring import clients
from tests.fakes.movable_ledger import FakeMovableLedger

CLICKS, GONE = TopicPartition("clicks", 0), TopicPartition("gone", 3)
INTENT = Intent(5, 9, "f", "host-1", 0.0, "backup/clicks")
CONFIG = """
group.name = "g"
kafka.bootstrap_servers = ["127.0.0.1:1"]
kafka.topics_pattern = ".*"
store.kind = "local"
store.local.directory = "/nowhere"
"""


def ledger() -> FakeMovableLedger:
    old = FakeMovableLedger("zookeeper", "old")
    old.put(CLICKS, Entry(5, INTENT, "id-1", leader_epoch=3))
    old.put(GONE, Entry(2))
    return old


@dataclass
class World:
    old: Path
    new: Path
    source: FakeMovableLedger = field(default_factory=ledger)
    target: FakeMovableLedger = field(default_factory=lambda: FakeMovableLedger("kafka", "new"))
    members: list[str] = field(default_factory=list)
    clusters: dict[str, str] = field(default_factory=dict)

    def run(self, *options: str, answer: str | None = None) -> Result:
        return CliRunner().invoke(
            offsets.command,
            ["move", str(self.old), str(self.new), *options],
            input=answer,
            catch_exceptions=False,
            standalone_mode=False,
        )


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path / "old.toml", tmp_path / "new.toml")
    world.old.write_text(CONFIG)
    world.new.write_text(CONFIG + 'ledger.kind = "kafka"\n')

    @contextmanager
    def movable(config: Config) -> Iterator[FakeMovableLedger]:
        yield world.source if config.ledger.kind == "zookeeper" else world.target

    @contextmanager
    def reader(config: Config) -> Iterator[object]:
        cluster = world.clusters.get(config.kafka.bootstrap_servers[0], "c")
        yield SimpleNamespace(
            partitions=lambda topic: [CLICKS] if topic == "clicks" else [],
            cluster_id=lambda: cluster,
        )

    @contextmanager
    def group(_: Config) -> Iterator[object]:
        yield SimpleNamespace(members=lambda: list(world.members))

    monkeypatch.setattr(clients, "open_movable_ledger", movable)
    monkeypatch.setattr(clients, "open_reader", reader)
    monkeypatch.setattr(clients, "open_group", group)
    return world


def test_a_dry_run_shows_everything_and_writes_nothing(world: World) -> None:
    world.members = ["secor/10.0.0.1"]
    shown = world.run("--dry-run").stdout
    assert "from: zookeeper old\nto:   kafka new\n" in shown
    assert "clicks          0          5  [5, 9)             3  id-1" in shown
    assert "gone/3: Kafka has no such partition, its entry stays behind" in shown
    assert "1 upload was interrupted: the open intents move" in shown
    assert shown.endswith("nothing is changed: this was a dry run\n")
    assert (world.source.record(), world.target.entries) == (None, {})


def test_it_asks_then_moves_and_says_how_to_go_on(world: World) -> None:
    with pytest.raises(click.Abort):
        world.run(answer="n\n")
    assert world.target.entries == {}
    shown = world.run(answer="y\n").stdout
    assert "Move them?" in shown
    assert f"moved 1 entry; processes with {world.old} are refused from now on" in shown
    assert world.target.daemon_reads(CLICKS) == Entry(5, INTENT, "id-1")
    assert not world.source.is_open(CLICKS)
    assert "the offsets were moved before: nothing is left to do" in world.run().stdout


def test_json_is_for_scripts_that_are_not_asked(world: World) -> None:
    with pytest.raises(click.UsageError, match="--yes or --dry-run"):
        world.run("--json")
    shown = json.loads(world.run("--json", "--yes").stdout)
    assert shown["moved"]
    assert shown["entries"] == [
        {
            "topic": "clicks",
            "partition": 0,
            "committed": 5,
            "intent": {"start": 5, "end": 9},
            "leader_epoch": 3,
            "topic_id": "id-1",
        }
    ]


def test_members_and_holders_of_locks_are_named(world: World) -> None:
    world.members = ["secor/10.0.0.1"]
    world.source.running = ["process 7 on host-2 (lock of clicks/0)"]
    why = r"is running \(process 7 on host-2 \(lock of clicks/0\), secor/10.0.0.1\): stop"
    with pytest.raises(Refused, match=why):
        world.run("--yes")
    assert world.target.entries == {}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (('group.name = "g"', 'group.name = "h"'), "OLD is of group g, NEW of h"),
        (("/nowhere", "/elsewhere"), "OLD stores in local:///nowhere, NEW in local:///elsewhere"),
        (("127.0.0.1:1", "127.0.0.1:2"), "OLD reads the Kafka cluster c, NEW d"),
    ],
)
def test_nothing_but_the_ledger_may_differ(world: World, change: tuple[str, str], why: str) -> None:
    world.clusters = {"127.0.0.1:2": "d"}
    world.new.write_text(world.new.read_text().replace(*change))
    with pytest.raises(ConfigurationError, match=why):
        world.run("--yes")


def test_other_names_of_the_same_brokers_are_the_same_cluster(world: World) -> None:
    world.new.write_text(world.new.read_text().replace("127.0.0.1:1", "localhost:1"))
    world.run("--yes")
    assert world.target.daemon_reads(CLICKS).committed == 5
