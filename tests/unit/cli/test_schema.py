"""``secor schema infer``: the latest messages, as the topic's parser decodes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from secor.adapters.local import DirectoryStore
from secor.archive.kept_schemas import KeptSchema, KeptSchemas
from secor.cli.parsing.schema import command
from secor.core.errors import ConfigurationError
from secor.core.model import Chunk, LogRange, TopicPartition
from secor.schema.schema import RowSchema
from secor.wiring import clients
from tests.unit.parsing.parsing_cases import json_chunk

CONFIG = """
[group]
name = "g"
kind = "partition"
[kafka]
bootstrap_servers = ["127.0.0.1:1"]
topics = ["clicks"]
[store]
kind = "local"
[store.local]
directory = "/nowhere"
[output]
format = "parquet"
[parser]
time_field = "at"
max_bad_messages = 0
transforms = [{kind = "drop", field = "secret"}]
"""
AT = 1_772_366_706


class Topic:
    """A reader of one topic whose partitions begin at offset 10."""

    def __init__(self, *logs: list[object]) -> None:
        self.logs = logs
        self.withheld = 0
        self.key: bytes | None = None
        self.read_from: list[int] = []

    def partitions(self, topic: str) -> list[TopicPartition]:
        known = range(len(self.logs)) if topic == "clicks" else range(0)
        return [TopicPartition(topic, number) for number in known]

    def log_range(self, topic_partition: TopicPartition) -> LogRange:
        end = 10 + len(self.logs[topic_partition.partition])
        return LogRange(10, end, high_watermark=end + self.withheld)

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        self.read_from.append(start)
        # A fetch begins where a batch begins, which may be earlier.
        chunk = json_chunk(self.logs[topic_partition.partition], first=10)
        keys = pa.array([self.key] * chunk.records.num_rows, pa.binary())
        records = chunk.records.set_column(3, chunk.records.schema.field(3), keys)
        yield replace(chunk, records=records).until(end)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(CONFIG)
    return path


def run(topic: Topic, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Result:
    @contextmanager
    def opened(_: object) -> Iterator[Any]:
        yield topic

    monkeypatch.setattr(clients, "open_reader", opened)
    given = ["infer", *map(str, arguments)]
    return CliRunner().invoke(command, given, catch_exceptions=False, standalone_mode=False)


def test_all_messages_looked_at_fit_what_is_proposed(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic([{"at": AT, "n": 1, "secret": "x"}, {"at": AT, "n": 1.5}], [{"at": AT, "s": "a"}])
    result = run(topic, monkeypatch, config, "clicks")
    assert json.loads(result.stdout) == {
        "fields": [
            {"name": "at", "type": "int64"},
            {"name": "n", "type": "double"},
            {"name": "s", "type": "string"},
        ]
    }
    assert "looked at 3 messages" in result.stderr
    assert RowSchema.parse(result.stdout, "it").declared


@pytest.mark.parametrize(
    ("settings", "fields", "words"),
    [
        ("", ["n"], "; keys are not read (parser.key.decoder)"),
        ('decoder = "text"', ["n", "key"], "; keys are read as text\n"),
        ('decoder = "text"\nfield = "none"', ["n"], "; keys are read as text, for no field"),
    ],
)
def test_keys_give_fields_where_they_are_read_and_the_summary_says_so(
    config: Path, monkeypatch: pytest.MonkeyPatch, settings: str, fields: list[str], words: str
) -> None:
    config.write_text(f"{CONFIG}[parser.key]\n{settings}\n")
    topic = Topic([{"at": AT, "n": 1}])
    topic.key = b"k"
    result = run(topic, monkeypatch, config, "clicks")
    proposed = [field["name"] for field in json.loads(result.stdout)["fields"]]
    assert sorted(proposed) == sorted(["at", *fields])
    assert words in result.stderr


def test_the_kind_of_99_of_100_values_and_times_are_proposed(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    when = "2026-11-21T04:05:06Z"
    right: list[object] = [{"at": AT, "who": {"name": "a"}, "when": when}] * 1000
    topic = Topic([{"at": AT, "who": "root", "when": when}], right)
    result = run(topic, monkeypatch, config, "clicks")
    fields = {it["name"]: it for it in json.loads(result.stdout)["fields"]}
    assert fields["who"]["type"]["struct"] == [{"name": "name", "type": "string"}]
    assert fields["when"]["type"] == "timestamp(us, UTC)"
    assert "would be in quarantine: who (1 of 1,001 are texts, not objects)" in result.stderr


def test_only_the_latest_of_each_partition_are_looked_at(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old: list[object] = [{"at": AT, "old": 1}] * 5
    topic = Topic([*old, {"at": AT, "a": 1}], [], [*old, {"at": AT, "b": 1}, {"at": AT, "b": 2}])
    result = run(topic, monkeypatch, config, "clicks", "--limit", 3)
    assert [field["name"] for field in json.loads(result.stdout)["fields"]] == ["at", "a", "b"]
    assert topic.read_from == [15, 16]


def test_messages_that_cannot_be_parsed_are_counted_and_do_not_stop_it(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(Topic([{"n": "no time"}, {"at": AT}]), monkeypatch, config, "clicks")
    assert [field["name"] for field in json.loads(result.stdout)["fields"]] == ["at"]
    assert "1 message; 1 more cannot be parsed" in result.stderr


def test_messages_behind_an_open_transaction_are_said_to_be_missing(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic([{"at": AT}])
    topic.withheld = 500
    result = run(topic, monkeypatch, config, "clicks")
    assert "1 message; 500 offsets wait behind an open transaction" in result.stderr
    topic.logs = ([],)
    with pytest.raises(ConfigurationError, match="no message can be read yet; 500 offsets wait"):
        run(topic, monkeypatch, config, "clicks")


def test_a_file_that_exists_is_not_overwritten(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    topic, path = Topic([{"at": AT}]), tmp_path / "schema.json"
    assert run(topic, monkeypatch, config, "clicks", "-o", path).stdout == ""
    assert RowSchema.parse(path.read_text(), "it").declared
    with pytest.raises(ConfigurationError, match="cannot be written"):
        run(topic, monkeypatch, config, "clicks", "-o", path)


def test_a_topic_without_messages_or_without_being_there_is_an_error(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="no fields to infer"):
        run(Topic([]), monkeypatch, config, "clicks")
    with pytest.raises(ConfigurationError, match="no topic 'clack'"):
        run(Topic([]), monkeypatch, config, "clack")
    config.write_text(CONFIG.replace('kind = "partition"', "").split("[output]")[0])
    with pytest.raises(ConfigurationError, match='only "partition" keeps schemas'):
        run(Topic([]), monkeypatch, config, "clicks")


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A configuration over a directory with two versions of a schema."""
    bucket = tmp_path / "bucket"
    kept = KeptSchemas(DirectoryStore(bucket), "partition/clicks", 1)
    kept.add(KeptSchema(1, pa.struct({"a": pa.int64()})))
    kept.add(KeptSchema(2, pa.struct({"a": pa.float64(), "b": pa.list_(pa.string())})))
    path = tmp_path / "stored.toml"
    path.write_text(CONFIG.replace("/nowhere", str(bucket)))
    return path


def show(*arguments: object) -> Result:
    given = ["show", *map(str, arguments)]
    return CliRunner().invoke(command, given, catch_exceptions=False, standalone_mode=False)


def test_the_kept_schema_is_shown_as_the_setting_takes_it(stored: Path, tmp_path: Path) -> None:
    done = show(stored, "clicks")
    fields = [{"name": "a", "type": "double"}, {"name": "b", "type": {"list": "string"}}]
    assert json.loads(done.stdout) == {"fields": fields}
    assert done.stderr == "version 2 of 2\n"
    assert json.loads(show(stored, "clicks", "--version", 1).stdout)["fields"] == [
        {"name": "a", "type": "int64"}
    ]
    file = tmp_path / "declared.json"
    show(stored, "clicks", "-o", file)
    assert RowSchema.parse(file.read_text(), "file").declared


def test_a_declared_schema_is_shown_as_its_file_has_it(stored: Path, tmp_path: Path) -> None:
    file = tmp_path / "declared.json"
    show(stored, "clicks", "-o", file)
    stored.write_text(stored.read_text().replace("[output]", f'[output]\nschema_file = "{file}"'))
    done = show(stored, "clicks")
    assert done.stdout == file.read_text()
    assert done.stderr == f"declared in {file}\n"
    with pytest.raises(ConfigurationError, match="it has no versions"):
        show(stored, "clicks", "--version", 1)
    file.unlink()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        show(stored, "clicks")


CONNECTS = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "n", "type": ["null", {"type": "int", "connect.type": "int8"}], "default": None}
    ],
}


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_the_schema_of_a_connectors_newest_object_is_given(
    stored: Path, tmp_path: Path, kind: str
) -> None:
    directory = tmp_path / "bucket" / "partition" / "clicks" / "partition=0"
    directory.mkdir(parents=True)
    for offset, name in ((5, "Order"), (0, "Earlier")):
        schema = {**CONNECTS, "name": name}
        path = directory / f"clicks+0+{offset:010d}.{kind}"
        if kind == "avro":
            with path.open("wb") as file:
                fastavro.writer(file, schema, [{"n": 1}])
        else:
            rows = pa.table({"n": pa.array([1], pa.int32())})
            text = {"parquet.avro.schema": json.dumps(schema)}
            parquet.write_table(rows.replace_schema_metadata(text), path)
    arguments = ["stored", str(stored), "clicks"]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)
    given = json.loads(done.stdout)
    assert (given["name"], given["fields"]) == ("Order", CONNECTS["fields"])
    assert done.stderr == f"of partition/clicks/partition=0/clicks+0+0000000005.{kind}\n"
    [field] = RowSchema.parse(done.stdout, "stored").type
    assert field.type == pa.int32()


def test_objects_without_a_schema_give_none(stored: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has no object of a connector"):
        CliRunner().invoke(
            command,
            ["stored", str(stored), "clicks"],
            catch_exceptions=False,
            standalone_mode=False,
        )
    directory = tmp_path / "bucket" / "partition" / "clicks"
    directory.mkdir(parents=True)
    path = directory / "clicks+0+0000000000.parquet"
    parquet.write_table(pa.table({"n": [1]}), path)
    with pytest.raises(ConfigurationError, match=r"clicks\+0.*has no schema in it"):
        CliRunner().invoke(
            command,
            ["stored", str(stored), "clicks"],
            catch_exceptions=False,
            standalone_mode=False,
        )


def test_a_schema_that_is_not_kept_is_not_shown(stored: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"1_0003\.json is not there: versions are 1 to 2"):
        show(stored, "clicks", "--version", 3)
    with pytest.raises(ConfigurationError, match="nothing was stored yet"):
        show(stored, "orders")
    stored.write_text(stored.read_text().replace('"parquet"', '"jsonlines"'))
    with pytest.raises(ConfigurationError, match="has no schema: parquet, orc and avro have one"):
        show(stored, "clicks")
