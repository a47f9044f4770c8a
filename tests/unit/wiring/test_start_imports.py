"""What is imported is a part of every start, and so of every recovery."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from secor.service.garbage import SELDOM, USUAL, collect_seldom, keep_what_is_loaded

LOAD = """
import sys
from secor.config.model import Config
import {modules}
print(*sys.modules, sep="\\n")
"""
DAEMON = "secor.wiring.service, secor.wiring.check_references, secor.adapters.s3"
LISTING = "secor.cli.ls, secor.adapters.s3"


def loaded(modules: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOAD.format(modules=modules)],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        (DAEMON, ("secor.tables.table_commit", "secor.wiring.tables")),
        (DAEMON, ("secor.archive.kept_schemas", "secor.parsing.decoders.json")),
        (DAEMON, ("boto3", "s3transfer", "pyiceberg", "msgspec")),
        (LISTING, ("kafka", "boto3", "kazoo", "secor.parsing.pipeline", "secor.wiring.plans")),
    ],
)
def test_what_a_backup_group_does_not_need_is_not_imported(
    modules: str, unwanted: tuple[str, ...]
) -> None:
    names = loaded(modules)
    assert "secor.config.model" in names
    assert not [name for name in names if name.startswith(tuple(unwanted))]


def test_what_is_loaded_is_not_looked_at_again_and_garbage_is_collected_as_usual() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        collect_seldom()
        assert gc.get_threshold() == SELDOM
        keep_what_is_loaded()
        assert gc.get_threshold() == USUAL
        assert gc.get_freeze_count() > frozen + 1000
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
