from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner, Result

from secor.cli import main
from secor.cli.exit_codes import Exit
from secor.cli.offsets import commands as offsets
from secor.cli.verify import command as verify
from secor.core.errors import ConfigurationError, LedgerCorrupt, Refused, TopicRecreated
from secor.core.model import Committed, Entry, Intent, LogRange, OffsetRange, TopicPartition
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

    def offset_at(self, topic_partition: TopicPartition, timestamp: int) -> int | None:
        records = self.records[topic_partition]
        for row in records.to_pylist():
            if row["timestamp"] >= timestamp:
                return int(row["offset"])
        return None

    def partitions(self, topic: str) -> list[TopicPartition]:
        return sorted(one for one in self.ranges if one.topic == topic)


@dataclass
class Groups:
    """Consumer groups of the cluster."""

    running: str = "empty"
    committed: dict[TopicPartition, Committed] = field(default_factory=dict)

    def states(self) -> dict[str, str]:
        return {"connect-sink": self.running}

    def offsets(self, group: str) -> dict[TopicPartition, Committed]:
        return dict(self.committed) if group == "connect-sink" else {}

    def commit(
        self, group: str, offsets: dict[TopicPartition, Committed]
    ) -> dict[TopicPartition, Exception]:
        assert group == "connect-sink"
        self.committed |= offsets
        return {}


@dataclass
class World:
    shelf: Shelf
    config: Path
    reader: Reader = field(default_factory=Reader)
    ledger: OperatorLedger = field(default_factory=OperatorLedger)
    members: list[str] = field(default_factory=list)
    groups: Groups = field(default_factory=Groups)

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

    @contextmanager
    def group(_config: object) -> Iterator[object]:
        yield SimpleNamespace(members=lambda: world.members)

    @contextmanager
    def groups(_config: object) -> Iterator[Groups]:
        yield world.groups

    monkeypatch.setattr(clients, "open_reader", reader)
    monkeypatch.setattr(clients, "open_group", group)
    monkeypatch.setattr(clients, "open_groups", groups)
    return world


TAKEN = ("import", "--from-group", "connect-sink")


def test_the_offsets_of_another_group_are_taken_over_once_it_has_stopped(world: World) -> None:
    world.ledger.entries = {CLICKS: Entry(None), OTHER: Entry(None)}
    world.groups.committed = {CLICKS: Committed(25)}
    world.groups.running = "stable"
    with pytest.raises(Refused, match="connect-sink is running"):
        world.run(offsets.command, *TAKEN, world.config, "--yes")
    world.groups.running = "empty"
    world.members = ["secor/10.0.0.1"]
    with pytest.raises(Refused, match="the group g is running"):
        world.run(offsets.command, *TAKEN, world.config, "--yes")
    world.members = []
    shown = world.run(offsets.command, *TAKEN, world.config, "--dry-run").stdout
    assert "the group has no offset: begins where kafka.reset says" in shown
    assert world.ledger.entries[CLICKS].committed is None
    shown = world.run(offsets.command, *TAKEN, world.config, "--yes").stdout
    assert "1 offset of connect-sink taken over" in shown
    assert world.ledger.entries[CLICKS].committed == 25
    assert world.ledger.entries[OTHER].committed is None
    again = world.run(offsets.command, *TAKEN, world.config, "--yes", "--json")
    assert json.loads(again.stdout)["offsets"][0]["remark"] == "as it is"


def test_an_import_stores_no_message_twice_and_overwrites_nothing_unasked(world: World) -> None:
    world.groups.committed = {CLICKS: Committed(10), OTHER: Committed(0)}
    with pytest.raises(ConfigurationError, match="has offset 25 already, the other 10: add --rep"):
        world.run(offsets.command, *TAKEN, world.config, "--yes")
    with pytest.raises(ConfigurationError, match="1 object begins at or above 10, such as"):
        world.run(offsets.command, *TAKEN, world.config, "--yes", "--replace")
    world.groups.committed = {CLICKS: Committed(31)}
    with pytest.raises(ConfigurationError, match="beyond the log's end 30"):
        world.run(offsets.command, *TAKEN, world.config, "--yes", "--replace")
    with pytest.raises(ConfigurationError, match="the cluster has no group other"):
        world.run(offsets.command, "import", "--from-group", "other", world.config)
    assert world.ledger.entries[CLICKS] == Entry(25)


def test_an_export_lets_another_group_go_on(world: World) -> None:
    arguments = ("export", world.config, "--to-group", "connect-sink")
    world.ledger.entries[CLICKS] = Entry(25, Intent(25, 28, "f", "host-1", 0.0, "backup/clicks"))
    with pytest.raises(Refused, match=r"objects of \[25, 28\) are being put"):
        world.run(offsets.command, *arguments, "--yes")
    world.ledger.entries[CLICKS] = Entry(25)
    world.run(offsets.command, *arguments, "--dry-run")
    assert world.groups.committed == {}
    shown = world.run(offsets.command, *arguments, "--yes").stdout
    assert "2 offsets written for connect-sink" in shown
    assert world.groups.committed == {CLICKS: Committed(25), OTHER: Committed(0)}


def test_show_tells_offsets_lag_and_intents(world: World) -> None:
    world.ledger.entries[CLICKS] = Entry(25, Intent(25, 28, "f", "host-1", 0.0, "backup/clicks"))
    shown = world.run(offsets.command, "show", world.config)
    assert "[25, 28) host-1" in shown.stdout
    rows = json.loads(world.run(offsets.command, "show", world.config, "--json").stdout)["offsets"]
    assert [(row["partition"], row["committed"], row["lag"]) for row in rows] == [
        (0, 25, 5),
        (1, 0, 0),
    ]


def test_show_names_what_waits_behind_an_open_transaction(world: World) -> None:
    world.reader.ranges[CLICKS] = LogRange(0, 30, high_watermark=530)
    shown = world.run(offsets.command, "show", world.config)
    assert shown.return_value == 0
    assert "clicks/0: 500 offsets wait behind an open transaction: see secor progress" in (
        shown.stdout.splitlines()
    )
    rows = json.loads(world.run(offsets.command, "show", world.config, "--json").stdout)["offsets"]
    assert [(row["lag"], row["withheld"]) for row in rows] == [(5, 500), (0, 0)]


def test_an_offset_of_the_log_may_be_set_though_nobody_may_read_up_to_it_yet(world: World) -> None:
    world.reader.ranges[CLICKS] = LogRange(0, 30, high_watermark=530)
    arguments = ("set", world.config, "clicks", 0, "--yes")
    with pytest.raises(ConfigurationError, match="beyond the log's end 530"):
        world.run(offsets.command, *arguments[:4], 531, "--yes")
    world.run(offsets.command, *arguments[:4], 530, "--yes")
    assert world.ledger.entries[CLICKS] == Entry(530)


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


def test_show_names_a_log_that_was_cut_and_has_grown_again(world: World) -> None:
    committed = world.ledger.entries[CLICKS].committed
    world.ledger.entries[CLICKS] = Entry(committed, None, leader_epoch=3)
    assert "log_diverged" not in world.run(offsets.command, "show", world.config).stdout
    world.reader.epoch_ends[CLICKS] = 24
    shown = world.run(offsets.command, "show", world.config)
    assert shown.return_value == 5
    assert "log_diverged" in shown.stdout
    assert "24 --new-generation" in shown.stdout


def test_show_names_partitions_that_are_stopped(world: World) -> None:
    world.ledger.entries[CLICKS] = Entry(25, topic_id="another")
    del world.ledger.entries[OTHER]
    shown = world.run(offsets.command, "show", world.config)
    assert shown.return_value == 5
    assert "clicks/0: stopped (topic_recreated): the topic was deleted" in shown.stdout
    assert "clicks/1: " not in shown.stdout
    rows = json.loads(world.run(offsets.command, "show", world.config, "--json").stdout)["offsets"]
    assert [row["stopped"] for row in rows] == ["topic_recreated", None]


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


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (("clicks", 7, 0), "topic clicks has no partition 7, but 0 to 1; with --force"),
        (("clocks", 0, 0), "the broker has no topic 'clocks': look at the spelling; with --force"),
        (("clicks", 0, 31), "offset 31 is beyond the log's end 30"),
    ],
)
def test_set_takes_only_what_is_there_unless_it_is_forced(
    world: World, target: tuple[str, int, int], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        world.run(offsets.command, "set", world.config, *target, "--yes")
    assert world.ledger.entries == {CLICKS: Entry(25), OTHER: Entry(0)}
    world.run(offsets.command, "set", world.config, *target, "--yes", "--force")
    assert world.ledger.entries[TopicPartition(*target[:2])] == Entry(target[2])


def test_set_waits_until_nobody_runs_unless_it_is_forced(world: World) -> None:
    world.members = ["secor/10.0.0.1"]
    with pytest.raises(Refused, match=r"is running \(secor/10\.0\.0\.1\)"):
        world.run(offsets.command, "set", world.config, "clicks", 0, 30, "--yes")
    world.run(offsets.command, "set", world.config, "clicks", 0, 28, "--dry-run")
    assert world.ledger.entries[CLICKS] == Entry(25)
    world.run(offsets.command, "set", world.config, "clicks", 0, 30, "--yes", "--force")
    assert world.ledger.entries[CLICKS] == Entry(30)


def test_set_finds_the_offsets_of_a_time_in_all_partitions(world: World) -> None:
    world.reader.put(OTHER, messages(range(4)), 4)
    arguments = ("set", world.config, "clicks", "--to-time", "2023-11-14T22:13:20.027Z")
    dry = world.run(offsets.command, *arguments, "--dry-run")
    assert dry.stdout.splitlines() == [
        "clicks/0: 25 -> 27; the messages in [25, 27) will never be stored",
        "clicks/1: 0 -> 4; the messages in [0, 4) will never be stored",
        "nothing is changed: this was a dry run",
    ]
    assert world.ledger.entries == {CLICKS: Entry(25), OTHER: Entry(0)}
    world.run(offsets.command, *arguments, "--yes")
    assert world.ledger.entries == {CLICKS: Entry(27), OTHER: Entry(4)}
    one = ("set", world.config, "clicks", 1, "--to-time", "2023-11-14T22:13:20.001Z", "--yes")
    world.run(offsets.command, *one)
    assert world.ledger.entries == {CLICKS: Entry(27), OTHER: Entry(1)}


@pytest.mark.parametrize(
    "arguments",
    [
        ("clicks",),
        ("clicks", 0),
        ("clicks", 0, 1, "--to-time", "2023-11-14T22:13:20Z"),
        ("clicks", "--to-time", "yesterday"),
        ("clicks", "--to-time", "2023-11-14T22:13:20"),
    ],
)
def test_set_says_what_it_needs(world: World, arguments: tuple[object, ...]) -> None:
    with pytest.raises(click.UsageError):
        world.run(offsets.command, "set", world.config, *arguments)


def test_recover_overwrites_what_cannot_be_read(world: World) -> None:
    world.ledger.corrupt = {CLICKS}
    shown = world.run(offsets.command, "recover", world.config, "--yes")
    assert "clicks/0: committed is 25" in shown.stdout
    assert world.ledger.read(CLICKS) == Entry(25)


def test_recover_of_a_group_that_runs_ends_with_the_documented_code(world: World) -> None:
    del world.ledger.entries[CLICKS]
    world.ledger.busy = {CLICKS}
    code = main.run(["offsets", "recover", str(world.config), "--yes"])
    assert (code, Exit.DIFFERENT.value) == (Exit.DIFFERENT, 5)
    assert CLICKS not in world.ledger.entries
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    assert "| 5 | differences found, a partition is stopped, the group is running" in readme


def test_recover_refuses_objects_of_a_topic_that_was_deleted(world: World) -> None:
    world.shelf.put(messages(range(25, 30)), OffsetRange(25, 30), topic_id="another")
    del world.ledger.entries[CLICKS]
    with pytest.raises(TopicRecreated, match=r"raise output\.generation"):
        world.run(offsets.command, "recover", world.config, "--yes")
    assert CLICKS not in world.ledger.entries


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


def test_accept_overwrites_what_cannot_be_read(world: World) -> None:
    world.ledger.corrupt = {CLICKS}
    with world.config.open("a") as file:
        file.write("output.generation = 2\n")
    shown = world.run(offsets.command, "accept", world.config, "clicks", "--yes")
    assert "clicks/0: unreadable -> 0" in shown.stdout
    assert world.ledger.read(CLICKS) == Entry(0)


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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_verify_proves_nothing_of_a_partition_that_no_topic_has(world: World) -> None:
    for more in ([], ["--archive-only"]):
        with pytest.raises(ConfigurationError, match=r"none of these topics has .*partition 7"):
            world.run(verify.command, world.config, "clicks", "--partition", 7, *more)


def test_verify_shows_a_watching_person_total_rate_and_time_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr("secor.verify.archive.verifier.LOOKED", 1)
    world.ledger.corrupt = {OTHER}
    assert verify.command.main([str(world.config)], standalone_mode=False) == 5
    assert "looking at clicks: 2 objects" in screen.getvalue()
    assert "25 of 25 offsets" in screen.getvalue()
    assert "/s" in screen.getvalue()
    assert "left:" in screen.getvalue()


@pytest.mark.parametrize(("reset", "lag"), [("earliest", 20), ("latest", 0)])
def test_show_says_how_much_waits_where_there_is_no_entry(
    world: World, reset: str, lag: int
) -> None:
    with world.config.open("a") as file:
        file.write(f'kafka.reset = "{reset}"\n')
    world.reader.put(OTHER, messages(range(10, 30)), 30)
    del world.ledger.entries[OTHER]
    shown = world.run(offsets.command, "show", world.config, "--json")
    row = json.loads(shown.stdout)["offsets"][1]
    assert (row["committed"], row["lag"]) == (None, lag)
    [line] = [
        line
        for line in world.run(offsets.command, "show", world.config).stdout.splitlines()
        if line.split()[:2] == ["clicks", "1"]
    ]
    assert line.split() == ["clicks", "1", "none", "[10,", "30)", str(lag), "-"]


def test_show_and_recover_do_not_take_a_pattern_without_topics_for_success(world: World) -> None:
    world.reader.ranges.clear()
    shown = world.run(offsets.command, "show", world.config)
    assert shown.return_value == Exit.DIFFERENT
    assert shown.stdout.startswith("no topic matches kafka.topics_pattern '.*'")
    recovered = world.run(offsets.command, "recover", world.config, "--yes")
    assert recovered.return_value == Exit.DIFFERENT
    assert recovered.stdout.startswith("nothing was looked at: no topic matches")


def test_show_names_a_topic_that_does_not_exist(world: World) -> None:
    text = world.config.read_text().replace('topics_pattern = ".*"', 'topics = ["clikcs"]')
    world.config.write_text(text)
    with pytest.raises(ConfigurationError, match="the broker has no topic 'clikcs'"):
        world.run(offsets.command, "show", world.config)
