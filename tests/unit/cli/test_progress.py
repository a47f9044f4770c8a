"""``secor progress``, over a log and a ledger in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from secor.cli import progress
from secor.cli.exit_codes import Exit
from secor.config.model import Config
from secor.core.errors import ConfigurationError, CorruptBatch, LedgerCorrupt, RestartPartition
from secor.core.model import Chunk, Entry, Intent, LogRange, OffsetRange, TopicPartition
from secor.formats import make_format
from secor.wiring import clients
from tests.fakes.archive import CLICKS, MemoryLog, OperatorLedger, Shelf, messages

OTHER = TopicPartition("clicks", 1)
NOW = 1_700_000_100.0


@dataclass
class Reader(MemoryLog):
    ids: dict[str, str] = field(default_factory=dict)

    def topics(self, pattern: str | None = None, exclude: str | None = None) -> list[str]:
        del pattern, exclude
        return sorted({one.topic for one in self.ranges})

    def topic_id(self, topic: str) -> str | None:
        return self.ids.get(topic)

    def partitions(self, topic: str) -> list[TopicPartition]:
        return sorted(one for one in self.ranges if one.topic == topic)


@dataclass
class World:
    config: Path
    reader: Reader = field(default_factory=Reader)
    ledger: OperatorLedger = field(default_factory=OperatorLedger)
    asked: list[int] = field(default_factory=list)

    def run(self, *arguments: object) -> Result:
        return CliRunner().invoke(
            progress.command,
            [str(self.config), *map(str, arguments)],
            catch_exceptions=False,
            standalone_mode=False,
        )

    def partitions(self, *arguments: object) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(self.run(*arguments, "--json").stdout)[
            "partitions"
        ]
        return found


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    config = tmp_path / "backup.toml"
    config.write_text(
        f"""
        group.name = "g"
        kafka.bootstrap_servers = ["127.0.0.1:1"]
        kafka.topics_pattern = ".*"
        store.kind = "local"
        store.local.directory = "{tmp_path / "bucket"}"
        """
    )
    world = World(config)
    world.reader.put(CLICKS, messages(range(30)), 30)
    world.reader.put(OTHER, messages([]), 0)
    world.ledger.entries = {CLICKS: Entry(25), OTHER: Entry(0)}

    @contextmanager
    def ledger(_config: Config) -> Iterator[OperatorLedger]:
        yield world.ledger

    @contextmanager
    def reader(config: Config) -> Iterator[Reader]:
        world.asked.append(config.kafka.max_partition_fetch_bytes)
        yield world.reader

    monkeypatch.setattr(clients, "open_ledger_for_operator", ledger)
    monkeypatch.setattr(clients, "open_reader", reader)
    monkeypatch.setattr("time.time", lambda: NOW)
    return world


def test_lag_and_age_are_those_of_what_is_not_committed(world: World) -> None:
    behind, level = world.partitions()
    assert (behind["committed"], behind["log_end"], behind["lag"]) == (25, 30, 5)
    assert behind["age"] == pytest.approx(100 - 0.025)
    assert (level["lag"], level["age"], level["fault"]) == (0, None, None)


def test_only_a_little_is_read_to_learn_an_age(world: World) -> None:
    world.run()
    assert world.asked == [progress.PEEK]


def test_the_table_ends_with_a_line_that_sums_it_up(world: World) -> None:
    world.ledger.entries[CLICKS] = Entry(25, Intent(25, 28, "f", "host-1", 0.0, "backup/clicks"))
    shown = world.run()
    assert shown.return_value == 0
    assert "[25, 28)" in shown.stdout
    assert shown.stdout.splitlines()[-1] == (
        "g: 2 topic partitions, 5 offsets behind, the oldest message is 1m 39s old"
    )


def test_offsets_behind_an_open_transaction_are_named_with_the_transaction(world: World) -> None:
    world.ledger.entries[CLICKS] = Entry(30)
    world.reader.ranges[CLICKS] = LogRange(0, 30, high_watermark=530)
    waiting, level = world.partitions()
    assert (waiting["lag"], waiting["withheld"], level["withheld"]) == (0, 500, 0)
    assert waiting["transaction"] == {
        "start_offset": 30,
        "producer_id": 7,
        "transactional_id": "writer of clicks",
        "since": 1_700_000_000.0,
        "hanging": False,
        "last_written": None,
    }
    shown = world.run()
    assert shown.return_value == 0
    named, summed_up = shown.stdout.splitlines()[-2:]
    assert named.startswith("clicks/0: 500 offsets wait behind an open transaction (")
    assert "transactional id 'writer of clicks', producer id 7, from offset 30 on" in named
    assert "since 2023-11-14T22:13:20+00:00" in named
    assert summed_up.endswith("0 offsets behind, 500 more behind open transactions")


def test_an_offset_beyond_the_last_stable_one_is_no_offset_of_another_topic(world: World) -> None:
    world.ledger.entries[CLICKS] = Entry(400)
    world.reader.ranges[CLICKS] = LogRange(0, 30, high_watermark=530)
    assert world.partitions()[0]["fault"] is None
    world.reader.ranges[CLICKS] = LogRange(0, 30, high_watermark=399)
    assert "the log ends at 399" in str(world.partitions()[0]["fault"])


def test_partitions_that_only_their_process_may_know_to_be_stopped_are_named(world: World) -> None:
    with world.config.open("a") as file:
        file.write('policy.max_age = "30s"\n')
    shown = world.run()
    assert shown.return_value == 0
    last = shown.stdout.splitlines()[-1]
    assert last.startswith("more than 3 times policy.max_age behind: clicks/0. No process runs,")
    assert last.endswith("its page, its log (event stopped) or secor_partition_stopped")
    assert [partition["overdue"] for partition in world.partitions()] == [True, False]
    for partition in range(2, 10):
        other = TopicPartition("clicks", partition)
        world.reader.put(other, messages(range(30)), 30)
        world.ledger.entries[other] = Entry(25)
    assert "clicks/5 and 4 more. No process" in world.run().stdout.splitlines()[-1]


def test_what_retention_took_is_told_and_the_age_is_that_of_what_is_left(world: World) -> None:
    world.reader.put(CLICKS, messages(range(10, 30)), 30)
    world.ledger.entries[CLICKS] = Entry(4)
    shown = world.run()
    assert shown.return_value == 5
    assert "clicks/0: retention has removed 6 offsets that are not stored" in shown.stdout
    assert world.partitions()[0]["age"] == pytest.approx(100 - 0.01)


def test_a_log_that_ends_below_the_committed_offset_is_told(world: World) -> None:
    world.ledger.entries[CLICKS] = Entry(99)
    shown = world.run("clicks")
    assert shown.return_value == 5
    assert "secor offsets accept CONFIG clicks" in shown.stdout


def test_no_entry_is_no_fault_and_an_unreadable_one_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    del world.ledger.entries[OTHER]
    shown = world.run()
    assert shown.return_value == 0
    assert shown.stdout.rstrip().endswith(", 1 without an entry yet")
    assert world.partitions()[1]["lag"] == 0, "its log has nothing"

    def read(topic_partition: TopicPartition) -> Entry:
        raise LedgerCorrupt(f"{topic_partition}: 127.0.0.1 is no offset")

    monkeypatch.setattr(world.ledger, "read", read)
    shown = world.run()
    assert shown.return_value == 5
    assert "clicks/1: stopped (ledger_corrupt): 127.0.0.1 is no offset" in shown.stdout
    assert ", the lag of 2 is unknown" in shown.stdout
    whole = json.loads(world.run("--json").stdout)
    assert whole["lag"] is None, "who waits for 0 is not done"


@pytest.mark.parametrize(
    ("reset", "lag", "age"), [("earliest", 20, 100 - 0.01), ("latest", 0, None)]
)
def test_a_partition_without_an_entry_is_behind_by_what_will_be_read(
    world: World, reset: str, lag: int, age: float | None
) -> None:
    with world.config.open("a") as file:
        file.write(f'kafka.reset = "{reset}"\n')
    world.reader.put(CLICKS, messages(range(10, 30)), 30)
    del world.ledger.entries[CLICKS]
    shown = world.run()
    assert shown.return_value == 0
    assert f", {lag} offsets behind" in shown.stdout
    first = world.partitions()[0]
    assert (first["committed"], first["lag"]) == (None, lag)
    assert first["age"] == (None if age is None else pytest.approx(age))


@pytest.mark.parametrize(("timestamps", "age"), [([None, 8], 100 - 0.008), ([None, None], None)])
def test_a_message_without_a_timestamp_has_the_age_of_the_next_that_has_one(
    world: World, timestamps: list[int | None], age: float | None
) -> None:
    records = messages(range(2))
    times = [None if time is None else 1_700_000_000_000 + time for time in timestamps]
    column = pa.array(times, records.schema.field("timestamp").type)
    records = records.set_column(1, records.schema.field("timestamp"), column)
    world.reader.put(CLICKS, records, 2)
    world.ledger.entries[CLICKS] = Entry(0)
    shown = world.run()
    assert shown.return_value == 0
    assert ", 2 offsets behind" in shown.stdout
    first = world.partitions()[0]
    assert (first["lag"], first["age"]) == (2, None if age is None else pytest.approx(age))


STOPPED = {
    "topic_recreated": (Entry(25, topic_id="another"), "secor offsets accept CONFIG clicks"),
    "ledger_edited": (Entry(25, Intent(26, 28, "f", "host-1", 0.0, "r")), "secor offsets set"),
    "ledger_lost": (None, "secor offsets recover"),
}


@pytest.mark.parametrize(("reason", "entry", "advice"), [(k, *v) for k, v in STOPPED.items()])
def test_a_partition_that_stops_is_named_with_its_reason_and_what_to_do(
    world: World, tmp_path: Path, reason: str, entry: Entry | None, advice: str
) -> None:
    world.reader.ids["clicks"] = "id"
    shelf = Shelf(tmp_path / "bucket", make_format("sequencefile"))
    shelf.put(messages(range(25)), OffsetRange(0, 25))
    if entry is None:
        del world.ledger.entries[CLICKS]
    else:
        world.ledger.entries[CLICKS] = entry
    shown = world.run()
    assert shown.return_value == 5
    [line] = [line for line in shown.stdout.splitlines() if line.startswith("clicks/0: ")]
    assert line.startswith(f"clicks/0: stopped ({reason}): ")
    assert advice in line
    assert shown.stdout.rstrip().endswith(", 1 stopped")
    assert [one["stopped"] for one in world.partitions()] == [reason, None]


def test_a_batch_that_cannot_be_read_is_told_as_what_stops_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        raise CorruptBatch(f"{topic_partition}: the batch at offset {start} fails its CRC")

    monkeypatch.setattr(world.reader, "read", read)
    shown = world.run()
    assert shown.return_value == 5
    assert "clicks/0: stopped (corrupt_batch): the batch at offset 25" in shown.stdout
    assert "5 offsets behind, 1 stopped" in shown.stdout


def test_no_entry_and_no_reset_stop_it(world: World) -> None:
    with world.config.open("a") as file:
        file.write('\nkafka.reset = "none"\n')
    world.ledger.entries = {CLICKS: Entry(None), OTHER: Entry(0)}
    shown = world.run()
    assert shown.return_value == 5
    assert "clicks/0: stopped (no_offset): the group has no offset" in shown.stdout


def test_a_loss_stops_where_the_configuration_says_so(world: World) -> None:
    world.reader.put(CLICKS, messages(range(10, 30)), 30)
    world.ledger.entries[CLICKS] = Entry(4)
    assert world.partitions()[0]["stopped"] is None
    with world.config.open("a") as file:
        file.write('kafka.on_data_loss = "stop"\n')
    assert world.partitions()[0]["stopped"] == "data_lost"
    assert "secor offsets set CONFIG clicks 0 10" in world.run().stdout


def test_messages_that_vanish_while_we_look_leave_the_lag(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        raise RestartPartition(f"{topic_partition}: the log has no offset {start} of {end}")

    monkeypatch.setattr(world.reader, "read", read)
    behind = world.partitions()[0]
    assert (behind["lag"], behind["age"]) == (5, None)


def test_watching_looks_again_until_it_is_interrupted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.ledger.entries[CLICKS] = Entry(30)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    shown = world.run("--watch", "--json")
    assert shown.return_value == 0
    assert [json.loads(line)["lag"] for line in shown.stdout.splitlines()] == [5, 0]


def test_an_unknown_topic_is_named(world: World) -> None:
    with pytest.raises(ConfigurationError, match="clocks"):
        world.run("clocks")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0s"), (59.9, "59s"), (200, "3m 20s"), (3700, "1h 1m"), (90_000, "1d 1h")],
)
def test_ages_are_said_in_two_units(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text


def test_without_a_topic_nobody_is_told_that_nothing_is_behind(world: World) -> None:
    world.reader.ranges.clear()
    shown = world.run()
    assert shown.return_value == Exit.DIFFERENT
    assert shown.stdout == (
        "g: no topic matches kafka.topics_pattern '.*': correct it, or make the topic\n"
    )
    report = json.loads(world.run("--json").stdout)
    assert (report["lag"], report["partitions"]) == (None, [])


def test_a_topic_that_does_not_exist_is_an_error(world: World) -> None:
    with pytest.raises(ConfigurationError, match="the broker has no topic 'clikcs'"):
        world.run("clikcs")
