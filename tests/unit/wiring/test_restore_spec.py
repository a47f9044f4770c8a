"""What a job's spec is made of: a plug-in by the bytes of its module."""

from __future__ import annotations

from pathlib import Path

import pytest

from secor.config.load import load_as
from secor.config.restore import RestoreConfig
from secor.core.errors import ConfigurationError
from secor.wiring.restore_sources import spec_of

JOB = """
[group]
name = "job"
kind = "restore"
[kafka]
bootstrap_servers = ["127.0.0.1:9092"]
[store.s3]
bucket = "b"
[source]
topics = ["clicks"]
"""


def hash_of(folder: Path, more: str = "") -> str:
    path = folder / "job.toml"
    path.write_text(JOB + more)
    return spec_of(load_as(RestoreConfig, path, {})[0]).hash


def test_a_plug_in_is_another_when_its_module_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "odd_filter_of_a_test.py"
    module.write_text("class Odd:\n    pass\n")
    more = 'filter = "odd_filter_of_a_test:Odd"\n'
    before = hash_of(tmp_path, more)
    assert before == hash_of(tmp_path, more) != hash_of(tmp_path)
    module.write_text("class Odd:\n    limit = 3\n")
    assert hash_of(tmp_path, more) != before


def test_a_plug_in_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no_such_module"):
        hash_of(tmp_path, 'transform = "no_such_module:Class"\n')
