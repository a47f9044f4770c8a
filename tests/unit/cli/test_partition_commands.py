"""``secor quarantine`` and ``secor finalize`` from the command line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import click
import pytest
from click.testing import CliRunner, Result
from moto import mock_aws

from secor.adapters.local import DirectoryStore
from secor.batch.batch import Batch
from secor.batch.policy import Reason
from secor.batch.workspace import Workspace
from secor.cli.archive import finalize, quarantine
from secor.cli.archive.quarantine_report import schema_remedy
from secor.cli.exit_codes import Exit
from secor.cli.verify import command as verify
from secor.config.load import load
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError
from secor.core.model import Chunk, Entry, TopicPartition
from secor.wiring import clients
from secor.wiring.plans import plan_for
from tests.fakes.archive import MemoryLog, OperatorLedger, messages
from tests.fakes.clock import FakeClock
from tests.unit.archive.parsed_world import HERE, VALUES

TEXT = """
    group.name = "g"
    group.kind = "partition"
    kafka.bootstrap_servers = ["127.0.0.1:1"]
    kafka.topics = ["clicks"]
    store.kind = "local"
    store.local.directory = "{bucket}"
    parser.time_field = "time"
    parser.max_bad_ratio = "none"
    finalize.delay = 0
"""


class Reader(MemoryLog):
    """A log in memory that knows its topics."""

    def topic_id(self, topic: str) -> str | None:
        return f"id of {topic}"

    def partitions(self, topic: str) -> list[TopicPartition]:
        return sorted(one for one in self.ranges if one.topic == topic)


@dataclass
class World:
    config: Path
    reader: Reader = field(default_factory=Reader)
    ledger: OperatorLedger = field(default_factory=OperatorLedger)

    def run(self, command: click.Command, *arguments: object) -> Result:
        return CliRunner().invoke(
            command,
            [str(argument) for argument in arguments],
            catch_exceptions=False,
            standalone_mode=False,
        )

    def consume(self, owner: TopicPartition, values: Mapping[int, bytes] = VALUES) -> None:
        """Put six messages into a log, and do what the daemon does with them."""
        self.reader.put(owner, messages(range(6), values.get), 6)
        self.ledger.entries[owner] = Entry(6)
        workspace = Workspace(
            self.config.parent / "local", f"daemon of {owner.topic}-{owner.partition}"
        )
        plan = plan_for(load(self.config, {}), owner.topic)
        batch = Batch(owner, 0, plan=plan, workspace=workspace, clock=FakeClock())
        batch.append(Chunk(owner, messages(range(6), values.get), 6))
        store = DirectoryStore(self.config.parent / "bucket")
        for file in batch.seal(Reason.AGE).files:
            store.put(file.key, file.local.path, file.local.crc32c, file.info.metadata())

    def change(self, old: str, new: str) -> None:
        text = self.config.read_text()
        assert old in text
        self.config.write_text(text.replace(old, new))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    config = tmp_path / "partition.toml"
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    config.write_text(TEXT.format(bucket=bucket))
    made = World(config)
    made.consume(HERE)

    @contextmanager
    def ledger(_config: object) -> Iterator[OperatorLedger]:
        yield made.ledger

    @contextmanager
    def reader(_config: object) -> Iterator[Reader]:
        yield made.reader

    monkeypatch.setattr(clients, "open_ledger_for_operator", ledger)
    monkeypatch.setattr(clients, "open_reader", reader)
    return made


def test_ls_counts_by_reason(world: World) -> None:
    shown = world.run(quarantine.command, "ls", world.config).stdout
    assert "4 messages in 1 object, by reason:" in shown
    found = json.loads(world.run(quarantine.command, "ls", world.config, "--json").stdout)
    [one] = found["objects"]
    assert (one["topic"], one["partition"], one["messages"]) == ("clicks", 0, 4)
    assert sum(one["reasons"].values()) == 4


def test_ls_counts_reasons_that_differ_in_values_as_one(world: World) -> None:
    world.change('time_field = "time"', 'time_field = "n.at"')
    values = [b'{"n": {"at": "%s"}}' % text for text in (b"x y", b"it's", b"z", b"z", b"1")]
    world.consume(TopicPartition("clicks", 1), dict(enumerate([*values, b"[]"])))
    shown = world.run(quarantine.command, "ls", world.config).stdout.splitlines()
    assert "  4  time: n.at … is no time of format auto, such as 'z'" in shown
    assert any(line.startswith("  1  decode: ") for line in shown)


def test_cat_gives_messages_as_they_came_with_the_reason(world: World) -> None:
    lines = world.run(quarantine.command, "cat", world.config, "clicks").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["offset"] for row in rows] == [1, 2, 4, 5]
    assert rows[1]["value"] == "{broken"
    assert rows[1]["reason"].startswith("decode: ")
    assert rows[3]["headers"] == [{"key": "h", "value": "5"}]
    raw = world.run(quarantine.command, "cat", world.config, "--raw", "--limit", 2)
    assert raw.stdout_bytes.splitlines() == [VALUES[1], VALUES[2]]


def test_replay_tells_what_became_of_the_messages(world: World) -> None:
    world.change('time_field = "time"', 'time_field = "when"')
    dry = world.run(quarantine.command, "replay", world.config, "--dry-run", "--verbose")
    assert "3 would be placed" in dry.stdout
    done = world.run(quarantine.command, "replay", world.config)
    assert "1 object: 3 messages placed, 0 filtered, 1 still bad" in done.stdout
    assert done.return_value == Exit.DIFFERENT
    verified = world.run(verify.command, world.config)
    assert "nothing missing, nothing twice" in verified.stdout
    assert "1 message is in quarantine" in verified.stdout
    assert verified.return_value == 0


def test_replay_sums_up_what_is_still_bad_and_names_no_object_unless_it_is_asked(
    world: World,
) -> None:
    done = world.run(quarantine.command, "replay", world.config).stdout
    assert done.startswith("1 object: 0 messages placed, 0 filtered, 4 still bad\n  ")
    told = world.run(quarantine.command, "replay", world.config, "--verbose").stdout
    assert "left as it is: every message is still bad" in told


def test_replay_with_an_empty_quarantine_is_done_at_once(world: World) -> None:
    world.change('topics = ["clicks"]', 'topics = ["clicks", "views"]')
    assert "nothing" in world.run(quarantine.command, "replay", world.config, "views").stdout


@pytest.mark.parametrize("what", [(quarantine.command, "replay"), (finalize.command,)])
def test_a_backup_group_has_neither(world: World, what: tuple[click.Command, ...]) -> None:
    world.config.write_text(
        "\n".join(
            line
            for line in world.config.read_text().splitlines()
            if not line.strip().startswith(("parser.", "group.kind", "finalize."))
        )
    )
    with pytest.raises(ConfigurationError, match="backup"):
        world.run(what[0], *what[1:], world.config)


def test_finalize_marks_what_is_complete_and_says_so_once(world: World) -> None:
    dry = world.run(finalize.command, world.config, "--dry-run")
    assert "partition/clicks/dt=2023-11-14: would be marked (1 object)" in dry.stdout
    done = world.run(finalize.command, world.config)
    assert "partition/clicks/dt=2023-11-14: marked (1 object)" in done.stdout
    assert done.return_value == Exit.OK
    assert world.run(finalize.command, world.config).stdout == ""


def test_finalize_names_the_partition_that_never_committed(world: World) -> None:
    world.ledger.entries.clear()
    shown = world.run(finalize.command, world.config, "clicks").stdout
    assert "1 not complete yet, the first is dt=2023-11-14: partition clicks/0 has never" in shown


def test_finalize_tells_when_an_hour_that_waits_for_its_end_is_complete(world: World) -> None:
    world.change("finalize.delay = 0", 'finalize.delay = "9999h"')
    now = int(SystemClock().now())
    world.consume(TopicPartition("clicks", 1), {0: b'{"time": %d}' % now})
    shown = world.run(finalize.command, world.config).stdout
    ends = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    complete = (ends + timedelta(days=1, hours=9999)).isoformat()
    day = f"dt={ends:%Y-%m-%d}"
    assert f"1 not complete yet, the first is {day}: at the earliest at {complete}" in shown


def test_what_a_route_sent_is_finalized_as_a_part_of_the_other_topic(
    world: World, tmp_path: Path
) -> None:
    """Its table is the other topic's: in that of its own it would stand for other messages."""
    out, script = tmp_path / "out", tmp_path / "script"
    script.write_text(f'printf "%s\\n" "$@" >>{out}')
    world.change(
        "finalize.delay = 0",
        f"""finalize.delay = 0
    finalize.command = "sh {script} {{topic}} {{path}} ({{partition}})"
    parser.transforms = [{{kind = "route", field = "to", topics = ["views"]}}]""",
    )
    world.consume(TopicPartition("clicks", 1), {0: b'{"time": 1700000000, "to": "views"}'})
    done = world.run(finalize.command, world.config)
    assert "partition/views/from=clicks/dt=2023-11-14: marked (1 object)" in done.stdout
    assert out.read_text().splitlines() == [
        *("clicks", "dt=2023-11-14", "(`dt`='2023-11-14')"),
        *("views", "from=clicks/dt=2023-11-14", "(`from`='clicks', `dt`='2023-11-14')"),
    ]


def test_a_table_that_does_not_suit_what_a_route_sent_keeps_no_other_topic_from_being_finalized(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    world.change('["clicks"]', '["clicks", "views"]')
    world.change(
        "finalize.delay = 0",
        """finalize.delay = 0
    finalize.glue = {database = "logs", table = "{topic}", region = "us-east-1"}
    parser.transforms = [{kind = "route", field = "to", topics = ["views"]}]""",
    )
    world.consume(TopicPartition("clicks", 1), {0: b'{"time": 1700000000, "to": "views"}'})
    world.consume(TopicPartition("views", 0))
    with mock_aws():
        glue = boto3.client("glue", region_name="us-east-1")
        glue.create_database(DatabaseInput={"Name": "logs"})
        for name in ("clicks", "views"):
            table = {"Name": name, "PartitionKeys": [{"Name": "dt", "Type": "string"}]}
            glue.create_table(DatabaseName="logs", TableInput=table)
        done = world.run(finalize.command, world.config)
    for topic in ("clicks", "views"):
        assert f"partition/{topic}/dt=2023-11-14: marked (1 object)" in done.stdout
    refused = "partition/views/from=clicks/dt=2023-11-14: not marked: finalize.glue: logs.views"
    assert f"{refused} is partitioned by dt, the layout by from, dt" in done.stderr
    assert done.return_value == Exit.DIFFERENT


def test_a_topic_that_is_not_there_keeps_no_other_from_being_finalized(world: World) -> None:
    world.change('["clicks"]', '["absent", "clicks"]')
    done = world.run(finalize.command, world.config)
    assert "partition/clicks/dt=2023-11-14: marked (1 object)" in done.stdout
    assert "warning: the broker has no topic 'absent'" in done.stderr
    assert done.return_value == Exit.OK
    with pytest.raises(ConfigurationError, match="absent"):
        world.run(finalize.command, world.config, "absent")


def test_finalize_warns_of_what_a_replay_puts_into_a_marked_day(world: World) -> None:
    world.run(finalize.command, world.config)
    world.change('time_field = "time"', 'time_field = "when"')
    world.run(quarantine.command, "replay", world.config)
    told = world.run(finalize.command, world.config, "--json")
    [topic] = json.loads(told.stdout)["topics"]
    assert topic["marked"] == ["dt=2023-11-15"]
    [late] = topic["late"]
    assert late["partition"] == "dt=2023-11-14"
    assert told.return_value == Exit.OK


def test_finalize_leaves_for_prometheus_when_it_succeeded(world: World, tmp_path: Path) -> None:
    left = tmp_path / "secor.prom"
    world.run(finalize.command, world.config, "--dry-run", "--metrics-file", left)
    assert not left.exists()
    world.change("finalize.delay = 0", 'finalize.delay = 0\n    finalize.command = "false"')
    world.run(finalize.command, world.config, "--metrics-file", left)
    assert 'secor_finalize_begun_timestamp_seconds{group="g"}' in left.read_text()
    world.change('    finalize.command = "false"', "")
    world.run(finalize.command, world.config, "--metrics-file", left)
    assert 'secor_finalize_partitions{group="g",state="marked"} 1.0' in left.read_text()


def test_a_command_that_fails_leaves_the_day_unmarked(world: World, tmp_path: Path) -> None:
    world.change("finalize.delay = 0", 'finalize.delay = 0\n    finalize.command = "false {path}"')
    done = world.run(finalize.command, world.config, "--metrics-file", tmp_path / "secor.prom")
    assert "last_success" not in (tmp_path / "secor.prom").read_text()
    assert "not marked: false dt=2023-11-14: ended with 1" in done.stderr
    assert done.return_value == Exit.DIFFERENT


def test_line_21_a_topic_that_is_called_quarantine_does_not_meet_the_quarantine(
    world: World,
) -> None:
    world.change('["clicks"]', '["clicks", "_quarantine"]')
    world.consume(TopicPartition("_quarantine", 0))
    for archived in ([], ["--archive-only"]):
        verified = world.run(verify.command, world.config, *archived)
        assert verified.return_value == 0, verified.stdout
    found = json.loads(world.run(quarantine.command, "ls", world.config, "--json").stdout)
    assert [one["topic"] for one in found["objects"]] == ["_quarantine", "clicks"]
    world.change('time_field = "time"', 'time_field = "when"')
    world.run(quarantine.command, "replay", world.config, "_quarantine")
    found = json.loads(world.run(quarantine.command, "ls", world.config, "--json").stdout)
    assert {one["topic"]: one["messages"] for one in found["objects"]} == {
        "_quarantine": 1,
        "clicks": 4,
    }
    assert world.run(verify.command, world.config).return_value == 0


def test_replay_names_the_remedy_for_conflicts_with_the_schema() -> None:
    assert schema_remedy(Counter({"decode: invalid JSON": 3})) is None
    told = schema_remedy(Counter({"schema: a: 'x' is no int64": 2, "time: missing": 1}))
    assert told is not None
    assert told.startswith("2 are in conflict")
    assert "output.schema_file" in told
    assert "secor backfill" in told


def test_a_group_with_tables_is_told_of_columns_and_routes() -> None:
    told = schema_remedy(Counter({"schema: db.t: a: 'x' is no long": 2}), into_tables=True)
    assert told is not None
    assert "ALTER TABLE" in told
    assert "output.schema_file" not in told  # which its configuration refuses


@pytest.mark.parametrize("arguments", [("ls",), ("cat",), ("replay",), ("replay", "--dry-run")])
def test_quarantine_of_a_topic_that_is_not_stored_is_an_error(
    world: World, arguments: tuple[str, ...]
) -> None:
    name, *options = arguments
    with pytest.raises(ConfigurationError, match="nothing is stored for topic 'clikcs'"):
        world.run(quarantine.command, name, world.config, "clikcs", *options)


def test_quarantine_of_a_configured_topic_may_be_empty(world: World) -> None:
    world.change('topics = ["clicks"]', 'topics = ["clicks", "views"]')
    shown = world.run(quarantine.command, "ls", world.config, "views")
    assert shown.return_value is None
    assert shown.stdout == "nothing is in quarantine\n"
