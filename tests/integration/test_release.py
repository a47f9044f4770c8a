"""``scripts/release`` from beginning to end, in a copy of the tree, without a network.

Its Python makes no environments and fetches nothing: setuptools is that of the tests, and what
would be installed is written down.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from secor import __version__

ROOT = Path(__file__).parents[2]
SOURCE = "https://example.org/secor"

PYTHON = """#!/usr/bin/env bash
case "$1 $2 ${{3:-}}" in
"-m venv"*)
    mkdir -p "${{@: -1}}/bin"
    cp "$0" "${{@: -1}}/bin/python"
    cp "{folder}/cyclonedx-py" "{folder}/auditwheel" "${{@: -1}}/bin"
    ;;
"-m pip install") echo "$@" >>"{folder}/installed" ;;
*) exec "{real}" "$@" ;;
esac
"""
CYCLONEDX = """#!/usr/bin/env bash
echo "$@" >>"{folder}/installed"
cp "{folder}/bill.json" "${{@: -1}}"
"""
AUDITWHEEL = """#!/usr/bin/env bash
echo "$@" >>"{folder}/installed"
cp "${{@: -1}}" "$3"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the tree, as it is committed or will be, in ``tree``, and with the programs."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            copy = tmp_path / "tree" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / name).read_bytes())
            copy.chmod((ROOT / name).stat().st_mode)
    for command in (["init", "-q"], ["add", "--all"], ["commit", "-qm", "a release"]):
        options = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *options, *command], check=True, cwd=tmp_path / "tree")
    programs = (("python", PYTHON), ("cyclonedx-py", CYCLONEDX), ("auditwheel", AUDITWHEEL))
    for name, text in programs:
        (tmp_path / name).write_text(text.format(folder=tmp_path, real=sys.executable))
        (tmp_path / name).chmod(0o755)
    wheel = {"type": "distribution", "url": f"file://{tmp_path}/tree/dist/secor.whl"}
    secor = {"name": "secor", "version": __version__, "externalReferences": [wheel]}
    (tmp_path / "bill.json").write_text(json.dumps({"components": [secor]}))
    return tmp_path


def release(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["scripts/release", str(folder / "python")],
        capture_output=True, text=True, check=False, cwd=folder / "tree",
        env={**os.environ, "SECOR_PROJECT_URL": source},
    )  # fmt: skip


def test_a_release_is_whole_and_names_nothing_of_this_machine(folder: Path) -> None:
    refused = release(folder, "")
    assert refused.returncode != 0
    assert "SECOR_PROJECT_URL: must be the address" in refused.stderr
    leftover = folder / "tree" / "secor" / "not_committed.py"
    leftover.touch()

    done = release(folder, SOURCE)
    assert done.returncode == 0, done.stdout + done.stderr
    dist = folder / "tree" / "dist"
    stem = f"secor-{__version__}"
    sdist, wheel = dist / f"{stem}.tar.gz", dist / f"{stem}-py3-none-any.whl"
    bill, sums = dist / f"{stem}.cdx.json", dist / "SHA256SUMS"
    [compiled] = set(dist.glob("*.whl")) - {wheel}
    assert set(dist.iterdir()) == {sdist, wheel, compiled, bill, sums}

    digests = {name: digest for digest, name in map(str.split, sums.read_text().splitlines())}
    published = (sdist, wheel, compiled, bill)
    assert digests == {it.name: hashlib.sha256(it.read_bytes()).hexdigest() for it in published}

    modules = {str(it.relative_to(ROOT)) for it in (ROOT / "secor").rglob("*.py")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"{stem}.dist-info/METADATA").decode()
    assert modules <= names
    with zipfile.ZipFile(compiled) as archive_of_compiled:
        only_compiled = set(archive_of_compiled.namelist()) - names
    assert [name for name in only_compiled if name.startswith("secor/") and name.endswith(".so")]
    assert "secor/not_committed.py" not in names
    assert f"Project-URL: Source, {SOURCE}\n" in metadata
    with tarfile.open(sdist) as archive_of_sources:
        sources = set(archive_of_sources.getnames())
        of_sources = archive_of_sources.extractfile(f"{stem}/PKG-INFO")
        assert of_sources is not None
        assert f"Project-URL: Source, {SOURCE}\n" in of_sources.read().decode()
    assert f"{stem}/setup.py" in sources
    assert not [name for name in (*names, *sources) if "tests/" in name]

    assert str(folder) not in bill.read_text()
    installed = (folder / "installed").read_text()
    assert f"dist/{wheel.name}[" in installed, "the SBOM is of the wheel with its optional parts"
    assert "cyclonedx-bom==" in installed
    assert (folder / "tree" / ".cache/release/versions.txt").read_text().count("==") > 50
