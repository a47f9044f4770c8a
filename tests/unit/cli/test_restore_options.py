"""Which files the commands of a restore take."""

from __future__ import annotations

from pathlib import Path

import pytest

from secor.cli.restore.options import load_job
from secor.core.errors import ConfigurationError

EXAMPLES = Path(__file__).parents[3] / "config"


def test_the_example_is_a_job() -> None:
    assert load_job(EXAMPLES / "restore.toml").group.kind == "restore"


def test_the_configuration_of_another_group_is_named_as_such_and_not_key_by_key() -> None:
    with pytest.raises(ConfigurationError, match=r"backup\.toml: is no job of a restore") as told:
        load_job(EXAMPLES / "backup.toml")
    assert "unknown key" not in str(told.value)
