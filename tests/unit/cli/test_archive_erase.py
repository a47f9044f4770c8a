"""``secor archive erase`` at the command line: which keys, what it says, what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from secor.cli.archive import cat
from secor.cli.archive import commands as archive
from secor.config.model import Config
from secor.core.errors import ConfigurationError
from secor.core.model import Entry, OffsetRange
from secor.formats import make_format
from secor.wiring import clients
from tests.fakes.archive import CLICKS, OperatorLedger, Shelf, messages


@pytest.fixture(autouse=True)
def ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(_: Config) -> Iterator[OperatorLedger]:
        yield OperatorLedger({CLICKS: Entry(20)})

    monkeypatch.setattr(clients, "open_ledger_for_operator", opened)
    monkeypatch.setenv("SECOR_ERASE__SECRET", "a secret of some length")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    shelf = Shelf(tmp_path / "bucket", make_format("sequencefile"))
    for start in (0, 10):
        shelf.put(messages(range(start, start + 10)), OffsetRange(start, start + 10))
    path = tmp_path / "backup.toml"
    path.write_text(
        '[group]\nname = "g"\n[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\n'
        'topics = ["clicks"]\n[store]\nkind = "local"\n[store.local]\n'
        f'directory = "{tmp_path / "bucket"}"\n'
    )
    return path


def run(*arguments: object, data: bytes = b"") -> Result:
    return CliRunner().invoke(
        archive.command,
        ["erase", *(str(it) for it in arguments)],
        catch_exceptions=False,
        standalone_mode=False,
        input=data,
    )


def objects(config: Path) -> list[str]:
    return sorted(path.name for path in (config.parent / "bucket").rglob("*.seq"))


def test_keys_of_a_file_and_none_are_erased_and_no_key_is_printed(config: Path) -> None:
    before = objects(config)
    keys = config.parent / "keys.txt"
    keys.write_bytes(b"k\nalice@example.com\n")
    shown = run(config, "--topic", "clicks", "--keys", keys, "--dry-run")
    lines = shown.stdout.splitlines()
    assert lines[0] == "clicks: 13 messages would be erased, in 2 objects of 2"
    assert lines[-2:] == ["no object has a message of 1 key:", "  line 2"]
    assert objects(config) == before
    copy = f"backup/clicks/offset=0/{before[0]}.bak"
    (config.parent / "bucket" / copy).write_bytes(b"what it was")
    shown = run(config, "--topic", "clicks", "--keys", keys, "--null-key")
    assert shown.return_value == 0
    assert f"  {copy}: a copy of an object; delete it" in shown.stdout.splitlines()
    assert shown.stdout.startswith("clicks: 20 messages erased, in 2 objects of 2\n")
    assert "alice" not in shown.output
    assert "the topic in Kafka" in shown.stdout
    assert all(".rewrite-1-to-" in name for name in objects(config))
    printed = CliRunner().invoke(cat.command, [str(config), "clicks"], catch_exceptions=False)
    assert printed.stdout == ""


def test_keys_come_in_base64_and_on_standard_input(config: Path) -> None:
    arguments = (config, "--topic", "clicks", "--keys", "-", "--format", "base64", "--json")
    told = json.loads(run(*arguments, data=b"aw==\r\n").stdout)
    assert (told["messages"], told["absent"], told["failed"]) == (13, [], [])
    assert len(told["objects"]) == 2


@pytest.mark.parametrize(
    ("content", "encoding", "why"),
    [
        (b"k\n\nl\n", "text", "line 2: is empty"),
        (b"k\r\n", "text", "line 1: ends with a carriage return"),
        (b"k\n", "base64", "line 1: is no base64"),
        (b"", "text", "there are no keys"),
    ],
)
def test_a_file_that_may_mean_something_else_is_refused(
    config: Path, content: bytes, encoding: str, why: str
) -> None:
    before = objects(config)
    keys = config.parent / "keys.txt"
    keys.write_bytes(content)
    with pytest.raises(ConfigurationError, match=why):
        run(config, "--topic", "clicks", "--keys", keys, "--format", encoding)
    assert objects(config) == before


def test_without_a_secret_or_a_backup_nothing_is_erased(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, why in (("partition", "only a backup keeps"), ("backup", "openssl rand -hex 32")):
        monkeypatch.delenv("SECOR_ERASE__SECRET", raising=False)
        text = f'[group]\nname = "g"\nkind = "{kind}"'
        config.write_text(config.read_text().replace('[group]\nname = "g"', text))
        if kind == "partition":
            config.write_text(config.read_text() + '[parser]\ntime_field = "at"\n')
        with pytest.raises(ConfigurationError, match=why):
            run(config, "--topic", "clicks", "--null-key")
        config.write_text(
            config.read_text().replace(f'\nkind = "{kind}"', "").partition("[parser]")[0]
        )
    assert not any("rewrite" in name for name in objects(config))
    monkeypatch.setenv("SECOR_ERASE__SECRET", "short")
    with pytest.raises(ConfigurationError, match="at least 16 characters"):
        run(config, "--topic", "clicks", "--null-key")


def test_a_group_that_was_backfilled_is_told_and_nothing_is_erased(config: Path) -> None:
    text = config.read_text().replace(
        '[group]\nname = "g"', '[group]\nname = "g"\nkind = "partition"'
    )
    config.write_text(
        text + '[parser]\ntime_field = "at"\n[output]\nprefix = "backup"\nformat = "text"\n'
    )
    before = objects(config)
    told = run(config, "--topic", "clicks", "--null-key", "--note")
    assert told.stdout == "clicks: noted that 1 key is erased\n"
    assert objects(config) == before
    assert len(list((config.parent / "bucket").rglob("_erased/*.json"))) == 1
    with pytest.raises(click.UsageError, match="erases nothing"):
        run(config, "--topic", "clicks", "--null-key", "--note", "--dry-run")


def parser_of(config: Path) -> Path:
    path = config.parent / "clicks.toml"
    path.write_text(
        config.read_text().replace('"g"\n', '"p"\nkind = "partition"\n', 1)
        + '[parser]\ndecoder = "json"\ntime_field = "none"\n'
    )
    return path


def test_values_of_a_field_choose_messages_and_are_printed_nowhere(config: Path) -> None:
    shelf = Shelf(config.parent / "bucket", make_format("sequencefile"))
    users = messages(range(20, 30), lambda offset: b'{"user": {"id": "u%d"}}' % (offset % 3))
    bad = messages(range(30, 33), lambda offset: b"no JSON")
    shelf.put(users, OffsetRange(20, 30))
    shelf.put(bad, OffsetRange(30, 33))
    values = config.parent / "values.txt"
    values.write_text("u1\nu9\n")
    arguments = ("--topic", "clicks", "--field", "user.id", "--values", values)
    with clients_committed(33):
        done = run(config, *arguments, "--parser", parser_of(config))
    assert done.return_value == 5
    assert "clicks: 3 messages erased, in 1 object of 4" in done.stdout
    assert "23 messages not searched: the parser cannot decode them" in done.stderr
    assert "no message has 1 value of the file" in done.stdout
    assert "u1" not in done.output


@contextmanager
def clients_committed(end: int) -> Iterator[None]:
    """Let the ledger say that so much is committed."""

    @contextmanager
    def opened(_: Config) -> Iterator[OperatorLedger]:
        yield OperatorLedger({CLICKS: Entry(end)})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "open_ledger_for_operator", opened)
        yield


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--field", "id", "--keys", "k"], "take --keys"),
        (["--values", "v"], "are for --field"),
        (["--field", "id", "--values", "/nowhere"], "--field needs --parser CONFIG"),
    ],
)
def test_a_field_needs_values_and_a_parser(config: Path, arguments: list[str], why: str) -> None:
    with pytest.raises((click.UsageError, ConfigurationError), match=why):
        run(config, "--topic", "clicks", *arguments)
    assert len(objects(config)) == 2
