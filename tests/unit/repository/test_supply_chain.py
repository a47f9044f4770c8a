"""What the scripts install: locked, with hashes, and nothing past the lock."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LOCKS = ("requirements.lock", "requirements-spark-3.5.lock")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(lock: str) -> dict[str, set[str]]:
    """The versions of each package in a lock."""
    versions: dict[str, set[str]] = {}
    for match in re.finditer(r"^([a-z0-9._-]+)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE):
        versions.setdefault(normal(match[1]), set()).add(match[2])
    return versions


def requirements() -> set[str]:
    """What setup.py names, in texts such as ``boto3>=1.44``."""
    texts = {
        node.value
        for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    versioned = re.compile(r"[A-Za-z0-9._-]+(?:\[[\w,-]+\])?(?:[<>=]=?[\w.,<>=]+)")
    return {text for text in texts if versioned.fullmatch(text)} - {">=3.11"}


def test_all_that_setup_names_is_locked_in_a_version_that_it_allows() -> None:
    versions = locked("requirements.lock")
    # The extra hudi has an older Spark, in a lock of its own.
    versions["pyspark"] |= locked("requirements-spark-3.5.lock")["pyspark"]
    for text in requirements():
        name = _NAME.match(text)
        assert name is not None
        assert normal(name[0]) in versions, f"{text}: run scripts/lock"
        if "==" in text:
            assert text.partition("==")[2] in versions[normal(name[0])], "run scripts/lock"
        else:
            for bound in re.findall(r">=([\d.]+)", text):
                least = [int(part) for part in bound.split(".")]
                for version in versions[normal(name[0])]:
                    numbers = [int(part) for part in re.findall(r"\d+", version)]
                    assert numbers >= least, f"{text}: run scripts/lock"


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_version_has_hashes_and_no_registry_is_named(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert "--index" not in text
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == sum(len(versions) for versions in locked(lock).values())
    for block in blocks:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block


def test_the_scripts_install_what_is_locked_only() -> None:
    environment = (ROOT / "scripts" / "_environment").read_text()
    installs = re.findall(r"^\s+_pip .*", environment, re.MULTILINE)
    assert len(installs) == 4
    for line in installs:
        own = line.strip().startswith("_pip --no-deps --no-build-isolation -e .")
        assert own or '"${locked[@]}"' in line
    programs = (ROOT / "tests" / "programs.py").read_text()
    assert '"--require-hashes"' in programs
    assert 'ROOT / "requirements-spark-3.5.lock"' in programs
