"""What is imported is a part of every start, and so of every recovery."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from secor.config.load import validate
from secor.core.errors import SecorError
from secor.service.malloc import (
    SELDOM,
    USUAL,
    collect_nothing,
    collect_seldom,
    keep_what_is_loaded,
)
from secor.wiring.service import build

LOAD = """
import sys
from secor.config.model import Config
import {modules}
print(*sys.modules, sep="\\n")
"""
DAEMON = "secor.wiring.service, secor.wiring.check_references, secor.adapters.s3"
LISTING = "secor.cli.archive.ls, secor.adapters.s3"


@cache
def loaded(modules: str) -> frozenset[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOAD.format(modules=modules)],
        capture_output=True,
        text=True,
        check=True,
    )
    return frozenset(done.stdout.split())


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        (DAEMON, ("secor.tables.commit.table_commit", "secor.wiring.tables")),
        (DAEMON, ("secor.archive.kept_schemas", "secor.parsing.decoders.json")),
        (DAEMON, ("boto3", "s3transfer", "pyiceberg", "msgspec")),
        (DAEMON, ("secor.config.reference",)),
        (LISTING, ("kafka", "boto3", "kazoo", "secor.parsing.pipeline", "secor.wiring.plans")),
    ],
)
def test_what_a_backup_group_does_not_need_is_not_imported(
    modules: str, unwanted: tuple[str, ...]
) -> None:
    names = loaded(modules)
    assert "secor.config.model" in names
    assert not [name for name in names if name.startswith(tuple(unwanted))]


def test_a_restore_does_not_import_pandas(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('[group]\nname = "job"\nkind = "restore"\n')
    script = (
        "import sys\nfrom click.testing import CliRunner\n"
        "from secor.cli.{0}.commands import command\n"
        "CliRunner().invoke(command, {1})\n"
        "import secor.jobs.recover.recovery, secor.jobs.restore.run\n"
        "print(*sys.modules)"
    )
    for command in ("restore", "recover"):
        line = script.format(command, ["plan", str(job)])
        done = subprocess.run(
            [sys.executable, "-c", line], capture_output=True, text=True, check=True
        )
        assert "pandas" not in done.stdout.split()


def test_a_restore_loads_nothing_of_the_configuration_of_groups(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('[group]\nname = "job"\nkind = "restore"\n')
    script = (
        "import sys\nfrom click.testing import CliRunner\n"
        "from secor.cli.restore.commands import command\n"
        f"CliRunner().invoke(command, {['run', str(job)]})\n"
        "import secor.jobs.restore.run, secor.wiring.http_server, secor.config.restore\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    unwanted = (
        *("secor.config.model", "secor.config.tables", "secor.archive.finalize"),
        *("secor.parsing.layout", "secor.restore.sources.foreign", "fastavro"),
    )
    names = done.stdout.split()
    assert "secor.jobs.restore.plan" in names
    assert not [name for name in names if name.startswith(unwanted)]


@pytest.fixture
def collector() -> Iterator[None]:
    """Leave the collector as it was."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    gc.enable()


@pytest.mark.usefixtures("collector")
def test_nothing_is_looked_at_while_it_is_loaded_and_later_garbage_is_collected_as_usual() -> None:
    frozen = gc.get_freeze_count()
    collect_nothing()
    assert not gc.isenabled()
    keep_what_is_loaded()
    assert gc.isenabled()
    assert gc.get_threshold() == USUAL
    assert gc.get_freeze_count() > frozen + 1000


@pytest.mark.usefixtures("collector")
def test_who_collects_already_goes_on_as_before() -> None:
    before = gc.get_threshold()
    collect_seldom()
    assert gc.get_threshold() == before
    collect_nothing()
    collect_seldom()
    assert gc.isenabled()
    assert gc.get_threshold() == SELDOM


COLLECTOR = """
import gc, sys
from secor.cli import entry, main
from secor.cli.main import cli
def run(arguments):
    print(gc.isenabled(), cli.get_command(None, {name!r}) is not None, gc.isenabled())
main.run = run
entry.main()
"""


@pytest.mark.parametrize(("name", "then"), [("version", "True"), ("run", "False")])
def test_a_command_collects_once_it_is_loaded_and_a_daemon_when_it_is_connected(
    name: str, then: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLLECTOR.format(name=name)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "True", then]


@pytest.mark.usefixtures("collector")
@pytest.mark.slow
def test_who_waits_for_a_server_collects_meanwhile(tmp_path: Path) -> None:
    directory = tmp_path / "of nobody"
    config, faults = validate(
        {
            "group": {"name": "g"},
            "kafka": {"bootstrap_servers": ["localhost:1"], "topics": ["clicks"]},
            "store": {"kind": "local", "local": {"directory": str(directory)}},
            "local": {"directory": str(tmp_path / "local")},
            "metrics": {"port": "none"},
        }
    )
    assert config is not None, faults
    collect_nothing()
    daemon = build(config, {})
    connect = vars(vars(daemon)["_connecting"])["_connect"]
    with pytest.raises(SecorError):
        connect(lambda server: None)
    vars(daemon)["_close"]()
    assert gc.isenabled()
