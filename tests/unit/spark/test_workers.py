from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile
from zipimport import zipimporter

import pytest

from secor.spark.workers import spare_next_task


def test_only_sparks_own_zip_files_are_spared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {}
    for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip", "job.zip"):
        with ZipFile(tmp_path / name, "w") as file:
            file.writestr("inner/__init__.py", "")
        for path in (str(tmp_path / name), str(tmp_path / name / "inner")):
            paths[path] = name
            monkeypatch.setitem(sys.path_importer_cache, path, zipimporter(path))
    before = set(sys.path_importer_cache)
    spare_next_task()
    gone = before - set(sys.path_importer_cache)
    assert gone == {path for path, name in paths.items() if name != "job.zip"}
