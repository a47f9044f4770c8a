"""Every command under each fault that a library would stumble over: one message, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from secor.cli import main
from secor.cli.exit_codes import Exit

SOUND = """
group.name = "g"
kafka.bootstrap_servers = ["127.0.0.1:1"]
kafka.topics = ["clicks"]
local.directory = "{local}"
metrics.port = 0
"""
STORE = "store.s3.bucket = 'b'\n"

PLAN = ("plan", "{c}", "{c}", "clicks", "--offsets", "0:0-5", "-o", "{c}.json")

COMMANDS = [
    ("progress", "{c}"),
    ("ls", "{c}"),
    ("cat", "{c}", "clicks"),
    ("verify", "{c}"),
    ("verify", "{c}", "--archive-only"),
    ("quarantine", "ls", "{c}"),
    ("quarantine", "cat", "{c}"),
    ("quarantine", "replay", "{c}"),
    ("finalize", "{c}"),
    ("offsets", "show", "{c}"),
    ("offsets", "set", "{c}", "clicks", "0", "1", "--yes"),
    ("offsets", "recover", "{c}", "--yes"),
    ("offsets", "accept", "{c}", "clicks", "--yes"),
    ("schema", "show", "{c}", "clicks"),
    ("schema", "infer", "{c}", "clicks"),
    ("backfill", *PLAN),
]
TABLE_COMMANDS = [
    ("tables", "ls", "{c}"),
    ("tables", "show", "{c}", "db.t"),
    ("tables", "status", "{c}"),
    ("tables", "run", "{c}"),
    ("tables", "commit", "{c}"),
    ("tables", "accept", "{c}", "db.t"),
    ("tables", "replay", "{c}", "db.t"),
    ("tables", "expire", "{c}"),
    ("tables", "maintain", "{c}", "db.t"),
    ("tables", "repair", "{c}", "db.t"),
    ("verify", "{c}"),
    ("quarantine", "ls", "{c}"),
    ("offsets", "show", "{c}"),
    ("progress", "{c}"),
]
RESTORE_COMMANDS = [
    *(("restore", name, "{c}") for name in ("plan", "run", "status", "pause", "resume", "stop")),
    ("restore", "fence", "{c}"),
    ("restore", "verify", "{c}"),
    ("restore", "groups", "{c}", "--from", "{c}"),
    ("restore", "offsets", "show", "{c}"),
    ("restore", "offsets", "set", "{c}", "clicks", "0", "1"),
    ("restore", "offsets", "reset", "{c}"),
]
CHECKS = [("config", "check", "{c}"), ("config", "show", "{c}"), ("doctor", "{c}")]

READ = {
    "an address without a scheme": STORE + 'store.s3.endpoint_url = "minio:9000"',
    "a password in an address": STORE + 'store.s3.endpoint_url = "http://u:geheim@h"',
    "an address for a bucket": "store.s3.bucket = 's3://b/prefix'",
    "a server that is none": STORE + 'ledger.zookeeper.hosts = ["zk:2181/chroot"]',
    "a parser in a backup group": STORE + 'parser.decoder = "json"',
    "too little memory": STORE + 'limits.memory = "1KiB"',
    "a variable that is not set": STORE + 'output.prefix = "${NOWHERE_TO_BE_FOUND}"',
    "not TOML": STORE + "[output",
}
"""Faults that are seen when the file is read; beside a sound rest."""

TLS = """
kafka.security_protocol = "SSL"
kafka.ssl_cafile = "/nowhere/kafka.pem"
ledger.zookeeper.use_tls = true
ledger.zookeeper.tls_ca = "/nowhere/zookeeper.pem"
"""
OPENED = {
    "no such certificates": TLS + STORE + 'store.s3.ca_bundle = "/nowhere/s3.pem"',
    "no such profile": TLS + STORE + 'store.s3.profile = "nobody"',
    "a file for the store": TLS + 'store.kind = "local"\nstore.local.directory = "{file}"',
    "an address of the environment": TLS + STORE,
}
"""Faults that are seen when store, ledger or brokers are opened, before any is connected to."""

TABLES = """
group.kind = "table"
tables = [{table = "db.t"}]
catalog.name = "c"
catalog.properties = {type = "sql", uri = "sqlite:////nowhere/catalog.db", warehouse = "s3://b/w"}
"""
RESTORE = """
group.name = "g"
group.kind = "restore"
kafka.bootstrap_servers = ["127.0.0.1:1"]
source.topics = ["clicks"]
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Nothing of this machine's own settings.
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "minio:9000")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    (tmp_path / "file").write_text("")
    return tmp_path / "c.toml"


def written(config: Path, text: str) -> None:
    sound = SOUND.replace("{local}", str(config.parent / "local"))
    config.write_text(sound + text.replace("{file}", str(config.parent / "file")))


def run(command: tuple[str, ...], config: Path) -> int:
    return main.run([word.replace("{c}", str(config)) for word in command])


@pytest.mark.parametrize("fault", READ)
@pytest.mark.parametrize("command", [*COMMANDS, *CHECKS], ids=lambda words: " ".join(words[:3]))
def test_what_is_wrong_in_the_file_is_one_message(
    command: tuple[str, ...], fault: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(config, READ[fault])
    assert run(command, config) == Exit.CONFIGURATION
    told = capsys.readouterr()
    assert told.err.startswith(f"secor: {config}: ")
    assert "geheim" not in told.err + told.out


@pytest.mark.parametrize("fault", OPENED)
@pytest.mark.parametrize("kind", ["backup", "partition"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words[:3]))
def test_what_cannot_be_opened_is_one_message(
    command: tuple[str, ...],
    kind: str,
    fault: str,
    config: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    written(config, OPENED[fault] + f'\ngroup.kind = "{kind}"')
    assert run(command, config) in (Exit.CONFIGURATION, Exit.DENIED, Exit.UNAVAILABLE)
    told = capsys.readouterr().err
    assert told
    assert "Traceback" not in told


@pytest.mark.parametrize("fault", ["a variable that is not set", *OPENED])
@pytest.mark.parametrize(
    "command", [*TABLE_COMMANDS, *RESTORE_COMMANDS], ids=lambda words: " ".join(words[:3])
)
def test_tables_and_restores_are_told_of_it_in_one_message(
    command: tuple[str, ...], fault: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = {**READ, **OPENED}[fault]
    if command in RESTORE_COMMANDS:
        text = text.replace("ledger.zookeeper.use_tls = true\n", "")
        text = text.replace('ledger.zookeeper.tls_ca = "/nowhere/zookeeper.pem"\n', "")
        config.write_text(RESTORE + text.replace("{file}", str(config.parent / "file")))
    else:
        written(config, text + TABLES)
    assert run(command, config) in (Exit.CONFIGURATION, Exit.DENIED, Exit.UNAVAILABLE)
    told = capsys.readouterr().err
    assert told.splitlines()[0].startswith(("secor: ", "{")), "commands that go on log in JSON"
    assert "secor: " in told
    assert "Traceback" not in told


@pytest.mark.parametrize("fault", OPENED)
def test_the_doctor_goes_on_after_what_cannot_be_opened(
    fault: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(config, OPENED[fault])
    assert run(("doctor", "{c}"), config) == Exit.DIFFERENT
    told = capsys.readouterr().out
    for check in ("kafka", "ledger", "store"):
        assert f"FAULT  {check}" in told


@pytest.mark.parametrize("fault", ["not TOML", *OPENED])
def test_the_service_does_not_start_and_says_why(fault: str, config: Path) -> None:
    written(config, {**READ, **OPENED}[fault])
    done = subprocess.run(
        [sys.executable, "-m", "secor", "run", str(config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode in (Exit.CONFIGURATION, Exit.DENIED)
    assert "secor: " in done.stderr
    assert "Traceback" not in done.stderr
