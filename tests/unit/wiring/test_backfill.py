"""The local files of a backfill."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from secor.wiring.backfill import open_workspace


def test_temporary_files_are_no_ones_elses_and_go_with_the_backfill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    taken = tmp_path / "secor-backfill"
    taken.touch()  # another user's
    with open_workspace(None) as workspace:
        assert tmp_path in workspace.directory.parents
    assert list(tmp_path.iterdir()) == [taken]


def test_a_directory_that_was_named_is_used_and_stays(tmp_path: Path) -> None:
    with open_workspace(tmp_path / "mine") as workspace:
        assert workspace.directory.parent == tmp_path / "mine"
    assert (tmp_path / "mine").is_dir()
