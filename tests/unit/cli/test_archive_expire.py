from __future__ import annotations

import json
import re
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from secor.cli.archive import commands as archive
from secor.cli.archive import expire as archive_expire
from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange, TopicPartition
from secor.formats import make_format
from tests.fakes.archive import Shelf, messages

DAY = 86_400


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    return tmp_path / "bucket"


@pytest.fixture
def config(tmp_path: Path, bucket: Path) -> Path:
    shelf = Shelf(bucket, make_format("sequencefile"))
    now = time.time()
    for partition in (0, 1):
        for start, age in ((0, 500), (10, 450), (20, 30), (30, 1)):
            shelf.put(
                messages(range(start, start + 10)),
                OffsetRange(start, start + 10),
                topic_partition=TopicPartition("clicks", partition),
                greatest_timestamp=int((now - age * DAY) * 1000),
            )
    path = tmp_path / "backup.toml"
    path.write_text(
        '[group]\nname = "g"\n[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\n'
        'topics = ["clicks"]\n[store]\nkind = "local"\n[store.local]\n'
        f'directory = "{bucket}"\n'
    )
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(
        archive.command,
        ["expire", *(str(it) for it in arguments)],
        catch_exceptions=False,
        standalone_mode=False,
    )


def objects(bucket: Path) -> int:
    return len(list(bucket.rglob("*.seq")))


def test_a_dry_run_shows_topics_and_days_and_removes_nothing(config: Path, bucket: Path) -> None:
    shown = run(config, "--older-than", "400d", "--dry-run").stdout.splitlines()
    assert re.split(r"\s+", shown[0].strip()) == ["topic", "day", "objects", "messages", "size"]
    assert [line.split()[0] for line in shown[1:3]] == ["clicks", "clicks"]
    assert [line.split()[2:4] for line in shown[1:3]] == [["2", "20"], ["2", "20"]]
    assert shown[3:5] == [
        f"clicks/{partition}: the archive would begin at offset 20 (before: 0)"
        for partition in (0, 1)
    ]
    assert shown[5].startswith("4 objects, ")
    assert shown[5].endswith(": would be removed")
    assert objects(bucket) == 8
    assert not list(bucket.rglob("_beginning/*.json"))


def test_what_is_old_is_removed_and_again_is_nothing(
    config: Path, bucket: Path, tmp_path: Path
) -> None:
    metrics = tmp_path / "expire.prom"
    document = json.loads(
        run(config, "--older-than", "400d", "--json", "--metrics-file", metrics).stdout
    )
    assert (document["objects"], objects(bucket)) == (4, 4)
    assert [it["beginning"] for it in document["beginnings"]] == [20, 20]
    assert 'secor_expire_objects{group="g"} 4.0' in metrics.read_text()
    assert "begun" not in metrics.read_text()
    assert run(config, "--older-than", "400d").stdout == "nothing has expired\n"


def test_notes_say_where_archives_begin(config: Path, bucket: Path) -> None:
    assert run(config, "--note").stdout == "every archive begins where it did\n"
    for path in bucket.rglob("*_0_00000000000000000000.seq"):
        path.unlink()
    noted = "clicks/0: the archive begins at offset 10\n"
    assert run(config, "--note").stdout == noted
    assert objects(bucket) == 7


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "say what goes"),
        (["--note", "--older-than", "1d"], "--note removes nothing"),
        (["--older-than", "tomorrow"], "no duration"),
        (["--keep-bytes", "much"], "no size"),
    ],
)
def test_wrong_options_are_explained(config: Path, options: list[str], text: str) -> None:
    with pytest.raises(click.UsageError, match=text):
        run(config, *options)


def test_a_clock_that_jumped_lets_nothing_go(
    config: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def jumped(*_: object) -> str:
        raise ConfigurationError("this machine's clock is 40000000 s ahead of the store's")

    monkeypatch.setattr(archive_expire, "clock", jumped)
    with pytest.raises(ConfigurationError, match="clock"):
        run(config, "--older-than", "400d")
    assert objects(bucket) == 8


def test_a_topic_that_is_not_stored_is_refused(config: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing is stored for topic 'orders'"):
        run(config, "--older-than", "1d", "--topic", "orders")
