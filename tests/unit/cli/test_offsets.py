from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from secor.cli import offsets, verify
from secor.core.errors import ConfigurationError, LedgerCorrupt
from secor.core.model import Entry, Intent, OffsetRange, TopicPartition
from secor.formats import make_format
from secor.wiring import clients
from tests.fakes.archive import CLICKS, MemoryLog, OperatorLedger, Shelf, messages

OTHER = TopicPartition("clicks", 1)


class Reader(MemoryLog):
    """A log in memory that knows its topics."""

    def topics(self, pattern: str | None = None, exclude: str | None = None) -> list[str]:
        del pattern, exclude
        return sorted({one.topic for one in self.ranges})

    def topic_id(self, topic: str) -> str | None:
        return f"id of {topic}"

    def partitions(self, topic: str) -> list[TopicPartition]:
        return sorted(one for one in self.ranges if one.topic == topic)


@dataclass
class World:
    shelf: Shelf
    config: Path
    reader: Reader = field(default_factory=Reader)
    ledger: OperatorLedger = field(default_factory=OperatorLedger)

    def run(self, command: click.Command, *arguments: object, answer: str | None = None) -> Result:
        return CliRunner().invoke(
            command,
            [str(argument) for argument in arguments],
            input=answer,
            catch_exceptions=False,
            standalone_mode=False,
        )


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    bucket = tmp_path / "bucket"
    config = tmp_path / "backup.toml"
    config.write_text(
        f"""
        group.name = "g"
        kafka.bootstrap_servers = ["127.0.0.1:1"]
        kafka.topics_pattern = ".*"
        store.kind = "local"
        store.local.directory = "{bucket}"
        """
    )
    world = World(Shelf(bucket, make_format("sequencefile")), config)
    for start, end in [(0, 10), (10, 25)]:
        world.shelf.put(messages(range(start, end)), OffsetRange(start, end))
    world.reader.put(CLICKS, messages(range(30)), 30)
    world.reader.put(OTHER, messages([]), 0)
    world.ledger.entries = {CLICKS: Entry(25), OTHER: Entry(0)}

    @contextmanager
    def ledger(_config: object) -> Iterator[OperatorLedger]:
        yield world.ledger

    @contextmanager
    def reader(_config: object) -> Iterator[Reader]:
        yield world.reader

    monkeypatch.setattr(clients, "open_ledger_for_operator", ledger)
    monkeypatch.setattr(clients, "open_reader", reader)
    return world


def test_show_tells_offsets_lag_and_intents(world: World) -> None:
    world.ledger.entries[CLICKS] = Entry(25, Intent(25, 28, "f", "host-1", 0.0, "backup/clicks"))
    shown = world.run(offsets.command, "show", world.config)
    assert "[25, 28) host-1" in shown.stdout
    rows = json.loads(world.run(offsets.command, "show", world.config, "--json").stdout)["offsets"]
    assert [(row["partition"], row["committed"], row["lag"]) for row in rows] == [
        (0, 25, 5),
        (1, 0, 0),
    ]


def test_show_goes_on_after_an_entry_that_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(topic_partition: TopicPartition) -> Entry:
        if topic_partition == CLICKS:
            raise LedgerCorrupt("clicks/0: 127.0.0.1 is no offset")
        return Entry(0)

    monkeypatch.setattr(world.ledger, "read", read)
    shown = world.run(offsets.command, "show", world.config)
    assert shown.return_value == 5
    assert "unreadable" in shown.stdout
    assert "127.0.0.1 is no offset" in shown.stdout


def test_set_asks_before_it_deletes(world: World) -> None:
    arguments = ("set", world.config, "clicks", 0, 10, "--delete-objects")
    with pytest.raises(click.Abort):
        world.run(offsets.command, *arguments, answer="n\n")
    assert world.ledger.entries[CLICKS] == Entry(25)
    shown = world.run(offsets.command, *arguments, answer="y\n")
    assert f"delete backup/clicks/offset=0/1_0_{10:020d}.seq" in shown.stdout
    assert world.ledger.entries[CLICKS] == Entry(10)
    assert len(list(world.shelf.store.list("backup/"))) == 1


def test_set_takes_the_generation_of_the_configuration(world: World) -> None:
    arguments = ("set", world.config, "clicks", 0, 12, "--new-generation", "--yes")
    with pytest.raises(ConfigurationError, match=r"output\.generation = 2"):
        world.run(offsets.command, *arguments)
    with world.config.open("a") as file:
        file.write("output.generation = 2\n")
    world.run(offsets.command, *arguments)
    assert world.ledger.entries[CLICKS] == Entry(12)


def test_recover_writes_what_is_missing_and_nothing_else(world: World) -> None:
    del world.ledger.entries[CLICKS]
    shown = world.run(offsets.command, "recover", world.config, "--yes")
    assert "clicks/0: committed is 25" in shown.stdout
    assert world.ledger.entries == {CLICKS: Entry(25), OTHER: Entry(0)}
    shown = world.run(offsets.command, "recover", world.config, "clicks")
    assert "nothing to recover" in shown.stdout


def test_accept_begins_at_the_new_log(world: World) -> None:
    with pytest.raises(ConfigurationError, match="generation"):
        world.run(offsets.command, "accept", world.config, "clicks")
    with world.config.open("a") as file:
        file.write("output.generation = 2\n")
    world.run(offsets.command, "accept", world.config, "clicks", "--yes")
    assert world.ledger.entries == {CLICKS: Entry(0), OTHER: Entry(0)}


def test_an_unknown_topic_is_named(world: World) -> None:
    with pytest.raises(ConfigurationError, match="clocks"):
        world.run(offsets.command, "accept", world.config, "clocks")


def test_verify_prints_one_line_when_all_is_well_and_findings_when_not(world: World) -> None:
    result = world.run(verify.command, world.config)
    assert result.return_value == 0
    assert result.stdout == (
        "verified 25 messages in 2 objects: nothing missing, nothing twice, nothing different\n"
    )
    world.ledger.entries[CLICKS] = Entry(28)
    result = world.run(verify.command, world.config, "clicks", "--partition", 0)
    assert result.return_value == 5
    assert "clicks/0: missing offsets [25, 28) (3 messages)" in result.stdout
    world.ledger.entries[CLICKS] = Entry(25, topic_id="another")
    result = world.run(verify.command, world.config)
    assert "deleted and created again (id another, now id of clicks)" in result.stdout
