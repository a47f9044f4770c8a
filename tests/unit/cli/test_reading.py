from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

from secor.cli.archive import cat, ls
from secor.cli.archive import commands as archive
from secor.cli.exit_codes import Exit
from secor.cli.verify import command as verify
from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange, TopicPartition
from secor.formats import make_format
from tests.fakes.archive import Shelf, messages

VECTORS = Path(__file__).parents[2] / "vectors" / "java-secor"
STEM = "00000000000000000000"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    bucket = tmp_path / "bucket"
    shelf = Shelf(bucket, make_format("sequencefile"))
    shelf.put(messages(range(10)), OffsetRange(0, 10))
    shelf.put(messages(range(10, 25)), OffsetRange(10, 25))
    shelf.put(messages([3]), OffsetRange(0, 9), topic_partition=TopicPartition("clicks", 1))
    path = tmp_path / "backup.toml"
    path.write_text(
        f"""
        [group]
        name = "g"
        [kafka]
        bootstrap_servers = ["127.0.0.1:1"]
        topics = ["clicks"]
        [store]
        kind = "local"
        [store.local]
        directory = "{bucket}"
        """
    )
    return path


def run(command: object, *arguments: object) -> Result:
    return CliRunner().invoke(
        command,  # type: ignore[arg-type]
        [str(argument) for argument in arguments],
        catch_exceptions=False,
        standalone_mode=False,
    )


def lines(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_ls_lists_topics_and_objects(config: Path) -> None:
    topics = json.loads(run(ls.command, config, "--json").stdout)["topics"]
    assert [(one["topic"], one["partitions"], one["objects"]) for one in topics] == [
        ("clicks", 2, 3)
    ]
    shown = run(ls.command, config, "clicks").stdout
    assert "[10, 25)" in shown
    assert "3 objects, 26 messages" in shown
    assert "f" * 16 in run(ls.command, config, "clicks", "--long").stdout
    listed = json.loads(run(ls.command, config, "clicks", "--partition", 0, "--json").stdout)
    assert [(one["start"], one["end"], one["records"]) for one in listed["objects"]] == [
        (0, 10, 10),
        (10, 25, 15),
    ]


def test_ls_tells_which_objects_do_not_say_what_they_hold(config: Path) -> None:
    shelf = Shelf(config.parent / "bucket", make_format("sequencefile"))
    theirs = VECTORS / "s3/msgpack/c_raw/offset=0" / f"1_0_{STEM}"
    shelf.put_bytes(f"backup/clicks/offset=0/1_2_{STEM}", theirs.read_bytes(), {})
    shown = run(ls.command, config, "clicks").stdout
    assert "[0, ?)" in shown
    assert "4 objects, 26 messages (and those in 1 without a number)" in shown


def test_cat_prints_a_topic_between_offsets(config: Path) -> None:
    shown = lines(run(cat.command, config, "clicks", "--partition", 0, "--from", 8, "--to", 12))
    assert [one["offset"] for one in shown] == [8, 9, 10, 11]
    assert shown[2] == {
        "topic": "clicks",
        "partition": 0,
        "offset": 10,
        "timestamp": 1_700_000_000_010,
        "key": "k",
        "value": "payload 10",
        "headers": [{"key": "h", "value": "10"}],
    }
    assert len(lines(run(cat.command, config, "clicks", "--limit", 12))) == 12


def test_cat_prints_objects_by_key_and_payloads_alone(config: Path) -> None:
    key = f"backup/clicks/offset=0/1_0_{10:020d}.seq"
    shown = run(cat.command, config, key, "--raw", "--limit", 2, "--delimiter", r"\t")
    assert shown.stdout == "payload 10\tpayload 11\t"


@pytest.mark.parametrize("delimiter", [r"\x", r"\u20ac"])
def test_a_delimiter_that_is_no_bytes_is_refused(delimiter: str, config: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"--delimiter .*: write bytes as"):
        run(cat.command, config, "clicks", "--raw", "--delimiter", delimiter)


def source(topic: str, partition: int, below: int) -> list[dict[str, object]]:
    rows = map(json.loads, (VECTORS / "source" / f"{topic}.jsonl").read_text().splitlines())
    return [row for row in rows if row["partition"] == partition and row["offset"] < below]


def as_bytes(row: dict[str, object], name: str) -> bytes | None:
    value = row[name]
    if row.get(f"{name}_encoding"):
        return b64decode(str(value))
    return None if value is None else str(value).encode()


def test_cat_reads_java_secors_sequence_files(config: Path) -> None:
    file = VECTORS / "s3" / "msgpack" / "c_raw" / "offset=0" / f"1_0_{STEM}"
    shown = lines(run(cat.command, file))
    wanted = source("c_raw", 0, 20)
    assert [one["offset"] for one in shown] == [one["offset"] for one in wanted]
    assert [one["timestamp"] for one in shown] == [one["timestamp"] for one in wanted]
    assert [as_bytes(one, "value") or b"" for one in shown] == [
        bytes.fromhex(str(one["value"] or "")) for one in wanted
    ]
    assert any("value_encoding" in one for one in shown)

    file = VECTORS / "s3" / "seq_default" / "c_raw" / "offset=0" / f"1_0_{STEM}"
    assert [one["offset"] for one in lines(run(cat.command, file))] == list(range(20))


def test_cat_reads_java_secors_text(config: Path) -> None:
    file = VECTORS / "s3" / "text_raw" / "c_raw" / "offset=0" / f"1_0_{STEM}"
    assert run(cat.command, file, "--raw").stdout_bytes == file.read_bytes()
    files = sorted((VECTORS / "s3" / "json_dt_gz" / "c_json").glob("*/1_0_*.gz"))
    shown = lines(run(cat.command, *files))
    assert len({one["object"] for one in shown}) == len(files)
    payloads = {bytes.fromhex(str(one["value"])) for one in source("c_json", 0, 40) if one["value"]}
    assert {as_bytes(one, "value") for one in shown} <= payloads


def test_cat_says_what_it_cannot_find(config: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        run(cat.command, tmp_path / "absent")
    for command in (cat.command, ls.command):
        with pytest.raises(ConfigurationError, match="for topic 'absent'; stored are: clicks"):
            run(command, config, "absent")
        assert "no objects of clicks in" in run(command, config, "clicks", "--partition", 7).stderr
    with pytest.raises(ConfigurationError, match="TOPIC or KEY"):
        run(cat.command, config)


def test_verify_of_the_archive_alone_proves_nothing_of_a_topic_without_objects(
    config: Path,
) -> None:
    with pytest.raises(ConfigurationError, match="stored for topic 'clocks'; stored are: clicks"):
        run(verify.command, config, "clocks", "--archive-only")


def test_cat_of_an_object_that_is_not_there_says_how_to_list_them(config: Path) -> None:
    with pytest.raises(ConfigurationError, match="no/such: the store has no such object; secor ls"):
        run(cat.command, config, "no/such")


def test_verify_of_the_archive_alone_needs_no_broker(config: Path) -> None:
    result = run(verify.command, config, "--archive-only")
    assert result.return_value == 0
    assert result.stdout.splitlines()[-1] == (
        "read (archive only) 26 messages in 3 objects: nothing missing, nothing twice"
    )
    bucket = config.parent / "bucket" / "backup" / "clicks" / "offset=0"
    damaged = bucket / f"1_0_{10:020d}.seq"
    damaged.write_bytes(damaged.read_bytes()[:-7])
    result = run(verify.command, config, "--archive-only", "--json")
    assert result.return_value == 5
    assert json.loads(result.stdout)["counts"]["corrupt"] == 1


@pytest.mark.parametrize(("command", "more"), [(ls, []), (ls, ["t"]), (cat, []), (cat, ["t"])])
def test_a_group_with_tables_is_read_by_other_commands(
    tmp_path: Path, command: ModuleType, more: list[str]
) -> None:
    path = tmp_path / "table.toml"
    path.write_text(
        f"""
        group = {{ name = "g", kind = "table" }}
        kafka = {{ bootstrap_servers = ["127.0.0.1:1"], topics = ["t"] }}
        store = {{ kind = "local", local = {{ directory = "{tmp_path}" }} }}
        tables = [{{ table = "db.t" }}]
        """
    )
    result = CliRunner().invoke(command.command, [str(path), *more])
    assert isinstance(result.exception, ConfigurationError)
    assert "secor tables ls" in str(result.exception)


def test_compact_joins_what_the_other_commands_read_as_before(config: Path) -> None:
    shelf = Shelf(config.parent / "bucket", make_format("sequencefile"))
    shelf.put(messages(range(25, 30)), OffsetRange(25, 30))
    before = run(cat.command, config, "clicks").stdout
    arguments = ("compact", config, "--older-than", "0s")
    shown = run(archive.command, *arguments, "--dry-run").stdout
    assert "2 objects (" in shown
    assert "would be joined to 1" in shown
    assert "clicks/0 [0, 25): 2 to 1" in shown
    assert "3 objects" in run(ls.command, config, "clicks", "--partition", 0).stdout
    metrics = config.parent / "secor.prom"
    result = run(archive.command, *arguments, "--json", "--metrics-file", metrics)
    (topic,) = json.loads(result.stdout)["topics"]
    assert [(it["start"], it["end"], len(it["objects"])) for it in topic["ranges"]] == [(0, 25, 1)]
    assert 'secor_compact_objects{group="g",state="replaced"} 2.0' in metrics.read_text()
    assert run(cat.command, config, "clicks").stdout == before
    listed = json.loads(run(ls.command, config, "clicks", "--partition", 0, "--json").stdout)
    assert [(it["start"], it["end"], it["records"]) for it in listed["objects"]] == [
        (0, 25, 25),
        (25, 30, 5),
    ]
    assert run(verify.command, config, "--archive-only").return_value in (None, 0)
    assert "clicks: nothing to join" in run(archive.command, *arguments).stdout


def test_compact_names_what_is_damaged_and_leaves_it(config: Path) -> None:
    shelf = Shelf(config.parent / "bucket", make_format("sequencefile"))
    shelf.put(messages(range(25, 30)), OffsetRange(25, 30))
    key = f"backup/clicks/offset=0/1_0_{STEM}.seq"
    shelf.change(key, lambda data: data[:-3])
    metrics = config.parent / "secor.prom"
    arguments = ("compact", config, "--older-than", "0s", "--metrics-file", metrics)
    result = run(archive.command, *arguments)
    assert result.return_value == Exit.DIFFERENT
    assert f"clicks/0 [0, 25): left as it is: {key}" in result.stderr
    assert "begun" in metrics.read_text()
    assert (config.parent / "bucket" / key).exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--older-than", "yesterday"), "'yesterday' is no duration"),
        (("--target-size", "big"), "'big' is no size"),
        (("--target-size", "0"), "give a time such as 1d and a size"),
    ],
)
def test_compact_says_what_it_takes(config: Path, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run(archive.command, "compact", config, *arguments)
