"""``secor doctor``: what it says when all is well, and what to do when not."""

from __future__ import annotations

import json
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secor.adapters.local import DirectoryStore
from secor.cli.config import commands as config
from secor.cli.doctor import checks as doctor_checks
from secor.cli.doctor import command as doctor
from secor.cli.doctor import store_checks
from secor.config.model import Config
from secor.core.errors import AccessDenied, ConfigurationError, LedgerCorrupt, Unavailable
from secor.core.model import Entry, Intent, LogRange, TopicPartition
from secor.core.ports import ObjectStore
from secor.wiring import clients
from tests.fakes.archive import CLICKS, OperatorLedger, messages
from tests.fakes.store import FakeStore
from tests.unit.cli.test_progress import Reader


@dataclass
class World:
    config: Path
    reader: Reader = field(default_factory=Reader)
    ledger: OperatorLedger = field(default_factory=OperatorLedger)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(
            doctor.command,
            [str(self.config), *arguments],
            catch_exceptions=False,
            standalone_mode=False,
        )

    def faults(self) -> dict[str, str]:
        told = json.loads(self.run("--json").stdout)
        return {one["check"]: one["text"] for one in told["checks"] if not one["ok"]}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    config = tmp_path / "backup.toml"
    config.write_text(
        f"""
        group.name = "g"
        kafka.bootstrap_servers = ["127.0.0.1:1"]
        kafka.topics = ["clicks"]
        store.kind = "local"
        store.local.directory = "{tmp_path / "bucket"}"
        local.directory = "{tmp_path / "cache"}"
        limits.local_bytes = "1MB"
        limits.open_files = 16
        metrics.port = 0
        """
    )
    world = World(config)
    world.reader.put(CLICKS, messages(range(30)), 30)
    world.ledger.entries = {CLICKS: Entry(25, Intent(25, 28, "f", "host-1", 0.0, "b/clicks"))}

    def given(value: object) -> Callable[[Config], object]:
        @contextmanager
        def opened(_config: Config) -> Iterator[object]:
            yield value

        return opened

    monkeypatch.setattr(clients, "open_group", given(world.ledger))
    monkeypatch.setattr(clients, "open_ledger_for_operator", given(world.ledger))
    monkeypatch.setattr(clients, "open_reader", given(world.reader))
    return world


def test_every_line_is_ok_when_nothing_is_to_be_done(world: World, tmp_path: Path) -> None:
    shown = world.run()
    assert shown.return_value == 0
    assert all(line.startswith("ok ") for line in shown.stdout.splitlines())
    assert "topics: 1, partitions: 1" in shown.stdout
    assert "entries: 1 of 1, with an open intent: 1, locks can be taken" in shown.stdout
    assert world.ledger.leased == []
    assert not list(DirectoryStore(tmp_path / "bucket").list(""))


def test_offsets_behind_an_open_transaction_are_named_and_no_fault(world: World) -> None:
    world.reader.ranges[CLICKS] = LogRange(0, 30, high_watermark=530)
    shown = world.run()
    assert shown.return_value == 0
    assert (
        "ok     partitions  none is stopped by ledger, log or objects; 500 offsets wait behind an"
        " open transaction: see secor progress" in shown.stdout
    )


def test_an_offset_beyond_the_last_stable_one_does_not_stop_a_partition(world: World) -> None:
    """Java Secor and Kafka's own tools commit high watermarks."""
    world.reader.ranges[CLICKS] = LogRange(0, 20, high_watermark=25)
    assert world.faults() == {}
    world.reader.ranges[CLICKS] = LogRange(0, 20, high_watermark=24)
    assert "the log ends at 24" in world.faults()["partitions"]


def test_the_lines_are_there_as_json(world: World) -> None:
    told = json.loads(world.run("--json").stdout)
    assert told["ok"] is True
    assert ", decoder: " in told["checks"][0]["text"]
    assert [one["check"] for one in told["checks"]] == [
        *("versions", "disk", "open files", "port", "kafka", "group", "ledger", "partitions"),
        *("store", "clock", "put", "get", "list", "put once", "delete"),
    ]


def test_a_check_of_the_configuration_may_look_at_the_servers_too(world: World) -> None:
    def check() -> Result:
        arguments = ["check", str(world.config), "--online"]
        runner = CliRunner()
        return runner.invoke(
            config.command, arguments, catch_exceptions=False, standalone_mode=False
        )

    shown = check()
    assert shown.return_value == 0
    assert shown.stdout.splitlines()[0] == f"{world.config}: valid"
    assert "ok     kafka" in shown.stdout
    world.ledger.busy.add(TopicPartition(doctor_checks.SCRATCH, 0))
    shown = check()
    assert shown.return_value == 5
    assert "FAULT  ledger" in shown.stdout


def test_one_fault_does_not_hide_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_config: Config) -> Iterator[Reader]:
        raise Unavailable("no broker answers")

    monkeypatch.setattr(clients, "open_reader", silent)
    world.ledger.busy.add(TopicPartition(doctor_checks.SCRATCH, 0))
    shown = world.run()
    assert shown.return_value == 5
    assert "FAULT  kafka       no broker answers" in shown.stdout
    assert set(world.faults()) == {"kafka", "ledger"}


def test_brokers_that_hold_the_ledger_too_are_waited_for_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_config: Config) -> Iterator[object]:
        raise Unavailable("no broker answers")

    monkeypatch.setattr(clients, "open_reader", silent)
    monkeypatch.setattr(clients, "open_ledger_for_operator", silent)
    world.config.write_text(f'ledger.kind = "kafka"\n{world.config.read_text()}')
    assert set(world.faults()) == {"kafka"}


def test_a_topic_that_is_missing_is_named(world: World) -> None:
    world.config.write_text(world.config.read_text().replace('"clicks"', '"clicks", "clocks"'))
    assert "no topic clocks" in world.faults()["kafka"]


def test_a_pattern_without_a_topic_is_a_fault(world: World) -> None:
    text = world.config.read_text()
    world.config.write_text(text.replace('topics = ["clicks"]', 'topics_pattern = "x.*"'))
    world.reader.ranges.clear()
    assert "no topic matches kafka.topics_pattern 'x.*'" in world.faults()["kafka"]


def test_what_parsing_is_made_from_is_looked_at(world: World) -> None:
    with world.config.open("a") as file:
        file.write("""
            group.kind = "partition"
            output.format = "parquet"
            parser.decoder = "json"
            output.schema_file = "/nowhere/clicks.json"
            """)
    assert "/nowhere/clicks.json: cannot be read" in world.faults()["parser"]
    text = world.config.read_text()
    plugin = text.replace("output.schema_file", "parser.plugin").replace("parquet", "text")
    world.config.write_text(plugin.replace("/nowhere/clicks.json", "no.where:Place"))
    assert "parser.plugin: plug-in class 'no.where:Place'" in world.faults()["parser"]
    world.config.write_text(text.replace("output.schema_file", "#"))
    assert world.faults() == {}


def test_a_topic_for_copies_that_is_missing_is_named(world: World) -> None:
    with world.config.open("a") as file:
        file.write('group.kind = "partition"\nparser.dead_letter_topic = "dead"\n')
    assert "no topic dead: make it" in world.faults()["kafka"]


def test_an_entry_that_cannot_be_read_is_a_fault(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(topic_partition: TopicPartition) -> Entry:
        raise LedgerCorrupt(f"{topic_partition}: x is no offset")

    monkeypatch.setattr(world.ledger, "read", read)
    assert world.faults()["ledger"] == "clicks/0: x is no offset"


def test_entries_that_cannot_be_read_hide_no_other_partition_that_is_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = TopicPartition("views", 0)
    world.config.write_text(world.config.read_text().replace('["clicks"]', '["clicks", "views"]'))
    world.reader.put(other, messages(range(30)), 30)
    world.reader.ids["views"] = "id"

    def read(topic_partition: TopicPartition) -> Entry:
        if topic_partition == CLICKS:
            raise LedgerCorrupt(f"{topic_partition}: x is no offset")
        return Entry(25, topic_id="another")

    monkeypatch.setattr(world.ledger, "read", read)
    told = world.faults()
    assert told["ledger"] == "clicks/0: x is no offset"
    assert told["partitions"].startswith("views/0 is stopped (topic_recreated): ")


def test_a_partition_that_is_stopped_is_named(world: World) -> None:
    world.reader.ids["clicks"] = "id"
    world.ledger.entries[CLICKS] = Entry(25, topic_id="another")
    told = world.faults()
    assert list(told) == ["partitions"]
    assert told["partitions"].startswith("clicks/0 is stopped (topic_recreated): ")
    assert "secor offsets accept" in told["partitions"]


def test_a_coordinator_that_has_only_just_started_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def read(topic_partition: TopicPartition) -> Entry:
        if len(slept) < 3:
            raise Unavailable("the coordinator loads its groups")
        return Entry(25)

    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(world.ledger, "read", read)
    assert world.faults() == {}
    slept.clear()
    monkeypatch.setattr(doctor, "PATIENCE", -1.0)
    assert set(world.faults()) == {"group", "ledger"}


def test_too_little_room_is_told_with_the_limit(world: World) -> None:
    world.config.write_text(world.config.read_text().replace("1MB", "9000TB"))
    assert "limits.local_bytes is" in world.faults()["disk"]


def test_what_lies_in_the_cache_counts_as_room(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cache" / "g" / "one"
    file.parent.mkdir(parents=True)
    full = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: full)
    file.write_bytes(b"")
    assert "1000 B free" in world.faults()["disk"]
    file.write_bytes(bytes(1_000_000))
    assert world.faults() == {}


def test_a_directory_that_is_a_file_is_a_fault(world: World, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    assert "correct local.directory" in world.faults()["disk"]


def test_too_few_open_files_are_told_with_what_is_needed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (100, 100))
    assert "need 144: raise it (ulimit -n" in world.faults()["open files"]


def test_a_library_of_another_version_than_the_tested_one_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor_checks, "requires", lambda _name: ["kafka-python==0.1", "boto3>=1"])
    with pytest.raises(ConfigurationError, match=r"pip install kafka-python==0\.1"):
        doctor_checks.versions()


@dataclass
class Clocked(FakeStore):
    at: float | None = None

    def server_time(self) -> float | None:
        return self.at


@pytest.mark.parametrize(
    ("at", "words"), [(970.0, "30 s from"), (None, "nothing to compare"), (1030.0, "30 s from")]
)
def test_a_clock_that_is_right_is_ok(at: float | None, words: str) -> None:
    assert words in store_checks.clock(Clocked(at=at), lambda: 1000.0)


@pytest.mark.parametrize(("at", "words"), [(900.0, "100 s ahead of"), (1100.0, "100 s behind")])
def test_a_clock_that_is_wrong_is_a_fault(at: float, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        store_checks.clock(Clocked(at=at), lambda: 1000.0)


def told(store: ObjectStore) -> dict[str, str]:
    return {one.check: one.text for one in store_checks.rights(store, "b/_x") if not one.ok}


class Overwriting(FakeStore):
    def put(self, key: str, content: Path | bytes, crc32c: int, metadata: object) -> None:
        self.delete(key)
        super().put(key, content, crc32c, {})


class Keeping(FakeStore):
    def delete(self, key: str) -> None:
        """Nothing goes."""


class Denying(FakeStore):
    def put(self, key: str, content: Path | bytes, crc32c: int, metadata: object) -> None:
        raise AccessDenied(f"cannot put {key}: allow s3:PutObject")


def test_a_store_that_overwrites_is_found_out() -> None:
    assert "If-None-Match" in told(Overwriting())["put once"]


def test_a_store_that_does_not_delete_is_found_out() -> None:
    assert "allow s3:DeleteObject" in told(Keeping())["delete"]


def test_without_the_right_to_put_nothing_else_is_tried() -> None:
    found = list(store_checks.rights(Denying(), "b/_x"))
    assert [(one.check, one.ok) for one in found] == [("put", False)]
    assert "allow s3:PutObject" in found[0].text


def test_every_prefix_has_rights_of_its_own(world: World) -> None:
    with world.config.open("a") as file:
        file.write('\n[[topics]]\nmatch = "x"\noutput.prefix = "other"\n')
    text = world.run().stdout
    assert "ok     put         backup/_secor-doctor/" in text
    assert "ok     put         other/_secor-doctor/" in text


def test_a_store_that_does_not_answer_is_not_waited_for_as_the_service_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Config] = []

    @contextmanager
    def opened(config: Config) -> Iterator[FakeStore]:
        asked.append(config)
        yield FakeStore()

    monkeypatch.setattr(clients, "open_store", opened)
    text = world.config.read_text().replace('kind = "local"', 'kind = "s3"')
    text += "\n[store.s3]\nbucket = 'b'\nread_timeout = '2m'\nconnect_timeout = '3s'\n"
    world.config.write_text(text)
    world.run()
    (s3,) = (config.store.s3 for config in asked)
    assert (s3.max_attempts, s3.read_timeout, s3.connect_timeout) == (2, 10, 3)
