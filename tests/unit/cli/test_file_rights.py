"""What lies within a directory that this user may not enter is named in one sentence."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from secor.adapters.local import DirectoryStore
from secor.adapters.s3.client import ModelLoader
from secor.cli.doctor import checks as doctor_checks
from secor.cli.exit_codes import Exit
from secor.cli.main import run
from secor.config.load import validate
from secor.core.errors import AccessDenied, ConfigurationError, SecorError
from secor.sandbox.sandbox import Sandbox
from secor.sandbox.state import load_plan

NOBODY = 65534


@pytest.fixture
def shut(tmp_path: Path) -> Iterator[Path]:
    """A directory of somebody else's, for whom its owner alone may enter."""
    directory = tmp_path / "shut"
    directory.mkdir()
    (directory / "file.seq").write_bytes(b"SEQ")
    directory.chmod(0)
    is_root = os.geteuid() == 0
    if is_root:  # who may enter everything
        os.seteuid(NOBODY)
    yield directory
    if is_root:
        os.seteuid(0)
    directory.chmod(0o700)


def disk(shut: Path) -> None:
    config, faults = validate(
        {
            "group": {"name": "g"},
            "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["clicks"]},
            "store": {"kind": "local", "local": {"directory": "/nowhere"}},
            "local": {"directory": str(shut)},
        }
    )
    assert config is not None, faults
    doctor_checks.disk(config)


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda shut: DirectoryStore(shut / "store").check(), AccessDenied),
        (disk, ConfigurationError),
        (load_plan, ConfigurationError),
        (Sandbox.of, ConfigurationError),
        (lambda shut: Sandbox.up(shut / "new"), ConfigurationError),
    ],
    ids=["a store", "local files", "a plan", "a sandbox", "a new sandbox"],
)
def test_it_is_said_what_cannot_be_entered(
    shut: Path, use: Callable[[Path], object], kind: type[SecorError]
) -> None:
    with pytest.raises(kind, match=rf"{shut}.*[Pp]ermission denied"):
        use(shut)


def test_a_file_that_cannot_be_read_is_named(
    shut: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cat", str(shut / "file.seq")]) == Exit.CONFIGURATION
    assert "file.seq: cannot be read (Permission denied)" in capsys.readouterr().err


def test_models_of_services_are_not_looked_for_where_nobody_may_look(shut: Path) -> None:
    loader = ModelLoader(extra_search_paths=[str(shut / "models")])
    assert "s3" in loader.list_available_services("service-2")
