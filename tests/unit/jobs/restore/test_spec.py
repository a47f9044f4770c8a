"""What a job's spec is made of: a plug-in by the bytes of its module."""

from __future__ import annotations

from pathlib import Path

import pytest

from secor.config.load import load_as
from secor.config.restore import RestoreConfig
from secor.core.errors import ConfigurationError
from secor.restore.model import JobSpec
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


def job_spec(folder: Path, more: str = "", job: str = JOB) -> JobSpec:
    path = folder / "job.toml"
    path.write_text(job + more)
    return spec_of(load_as(RestoreConfig, path, {})[0])


def hash_of(folder: Path, more: str = "") -> str:
    return job_spec(folder, more).hash


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


@pytest.mark.parametrize(
    ("store", "archive"),
    [
        ('[store.s3]\nbucket = "b"', "s3://b"),
        ('[store.s3]\nbucket = "b"\nendpoint_url = "https://mirror"\nregion = "eu"', "s3://b"),
        ('[store.s3]\nbucket = "b"\naccess_key = "a"\nsecret_key = "s"', "s3://b"),
        ('[store.s3]\nbucket = "c"', "s3://c"),
        ('[store]\nkind = "gcs"\n[store.gcs]\nbucket = "b"', "gcs://b"),
        (
            '[store]\nkind = "azure"\n[store.azure]\naccount = "abc"\ncontainer = "logs"',
            "azure://abc/logs",
        ),
        ('[store]\nkind = "local"\n[store.local]\ndirectory = "/a/b"', "local:///a/b"),
    ],
)
def test_a_store_is_its_bucket_and_neither_the_way_to_it_nor_the_rights(
    tmp_path: Path, store: str, archive: str
) -> None:
    spec = job_spec(tmp_path, job=JOB.replace('[store.s3]\nbucket = "b"', store))
    assert spec.archive == archive
    assert spec.hash == hash_of(tmp_path), "jobs from before go on"


def test_a_source_that_reads_no_store_has_none(tmp_path: Path) -> None:
    assert job_spec(tmp_path, 'kind = "json-lines"\ndirectory = "/a"\n').archive is None
