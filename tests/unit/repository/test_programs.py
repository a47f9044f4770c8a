"""Getting programs for tests: what is said where it cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from secor.core.errors import ConfigurationError, Unavailable
from tests.programs import NEEDED, program


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without programs, by its PATH, and with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def place(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_machine_s_own_is_taken(bare: Path) -> None:
    own = place(bare, "promtool", "exit 0")
    assert program("promtool", print) == own


def test_without_apt_it_says_what_to_install(bare: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no apt-get and no dpkg-deb .*: install prom"):
        program("prometheus", print)


def test_where_apt_fails_it_says_how_and_leaves_nothing(bare: Path, tmp_path: Path) -> None:
    for name in NEEDED:
        place(bare, name, "echo no route to host; exit 100")
    with pytest.raises(Unavailable, match=r"code 100; install prom(.|\n)*no route to host"):
        program("prometheus", print)
    assert [path.name for path in (tmp_path / "cache" / "secor").iterdir()] == ["lock"]
