"""``secor parser try``: where messages would go, and why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from secor.cli import main
from secor.cli.exit_codes import Exit

CONFIG = """
group.name = "g"
group.kind = "partition"
kafka.bootstrap_servers = ["127.0.0.1:1"]
kafka.topics = ["clicks"]
store.s3.bucket = "b"
output.format = "parquet"
parser.time_field = "at"
[[parser.transforms]]
kind = "filter"
field = "robot"
exists = true
negated = true
"""
LINES = b"""{"at": "2026-11-21T06:00:00Z", "id": 7}
{"at": "2026-11-22T06:00:00Z", "id": 8, "name": "ada"}
{"at": "2026-11-21T06:00:00Z", "robot": true}
{"at": "2026-11-21
{"id": 9}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "partition.toml"
    path.write_text(CONFIG)
    (tmp_path / "messages").write_bytes(LINES)
    return path


def test_each_message_is_told_where_it_would_go_or_why_not(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = str(config.parent / "messages")
    assert main.run(["parser", "try", str(config), messages]) == Exit.DIFFERENT
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "1: dt=2026-11-21"
    assert shown[1] == "2: dt=2026-11-22"
    assert shown[2] == "3: left out by a filter"
    assert shown[3].startswith("4: quarantine: decode: ")
    assert shown[4].startswith("5: quarantine: time: ")
    assert shown[5].startswith("columns: ")
    assert "id int64" in shown[5]
    assert "name string" in shown[5]
    assert shown[6] == "5 messages: 2 placed, 1 filtered, 2 in quarantine"


def test_it_is_there_as_json_lines(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages = config.parent / "messages"
    messages.write_bytes(LINES.splitlines()[0])
    assert main.run(["parser", "try", str(config), str(messages), "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == {"message": 1, "directory": "dt=2026-11-21"}


def test_a_file_may_be_one_message(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages = config.parent / "messages"
    messages.write_bytes(b'{"at": "2026-11-21T06:00:00Z",\n"id": 7}\n')
    assert main.run(["parser", "try", str(config), str(messages), "--whole"]) == Exit.OK
    assert "1 message: 1 placed" in capsys.readouterr().out


def test_nothing_is_parsed_in_a_backup_group(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CONFIG.partition("output.format")[0].replace('kind = "partition"', 'kind = "backup"')
    config.write_text(text)
    messages = str(config.parent / "messages")
    assert main.run(["parser", "try", str(config), messages]) == Exit.CONFIGURATION
    assert 'only "partition"' in capsys.readouterr().err


def test_without_a_message_nothing_was_tried(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = config.parent / "messages"
    messages.write_bytes(b"")
    for option in ((), ("--json",)):
        code = main.run(["parser", "try", str(config), str(messages), *option])
        assert code == Exit.DIFFERENT
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err == f"nothing was tried: {messages} has no message\n"
