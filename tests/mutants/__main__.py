"""``scripts/mutants``: take out each safety step, one at a time, and see the tests fail."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("secor", "tools", "tests", "config", "scripts", "pyproject.toml", "setup.py", "DESIGN.md")
TIMEOUT = 600


def main() -> int:
    """Run the chosen mutants; 1 if one survives."""
    parser = argparse.ArgumentParser(
        prog="scripts/mutants",
        description="Take out each safety step, one at a time, and run the tests that should"
        " notice.",
        epilog="example: scripts/mutants lease --tests tests/simulation",
    )
    parser.add_argument("words", nargs="*", help="only mutants whose name has one of these")
    parser.add_argument("--tests", action="append", help="tests to run instead of each one's own")
    parser.add_argument("--schedules", default="400", help="random schedules for each mutant")
    arguments = parser.parse_args()
    chosen = [
        mutant
        for mutant in MUTANTS
        if not arguments.words or any(word in mutant.name for word in arguments.words)
    ]
    with tempfile.TemporaryDirectory(prefix="secor-mutants-") as directory:
        tree = Path(directory)
        _copy(tree)
        survivors = [
            mutant
            for mutant in chosen
            if not _noticed(mutant, tree, arguments.tests or mutant.tests, arguments.schedules)
        ]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed")
    for mutant in survivors:
        print(f"SURVIVED: {mutant.name} ({mutant.file})")
    return 1 if survivors else 0


def _copy(tree: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.so", ".pytest_cache")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=ignored)
        else:
            shutil.copy2(source, tree / name)


def _noticed(mutant: Mutant, tree: Path, tests: Sequence[str], schedules: str) -> bool:
    file = tree / mutant.file
    text = file.read_text()
    if text.count(mutant.before) != 1:
        raise SystemExit(f"{mutant.name}: its text is not once in {mutant.file}")
    began = time.monotonic()
    file.write_text(text.replace(mutant.before, mutant.after))
    try:
        failed = _run(tree, tests, schedules)
    finally:
        file.write_text(text)
    said = failed or "SURVIVED"
    print(f"{time.monotonic() - began:6.1f} s  {mutant.name}: {said}", flush=True)
    return failed is not None


def _run(tree: Path, tests: Sequence[str], schedules: str) -> str | None:
    """Return the first test that failed, None if none did."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "--no-header", "--tb=no"]
    command += ["-p", "no:cacheprovider", "--schedules", schedules, *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"still running after {TIMEOUT} s"
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode != 1 or not failed:
        raise SystemExit(f"{' '.join(command)} went wrong:\n{done.stdout}{done.stderr}")
    return failed[0].partition(" - ")[0]


if __name__ == "__main__":
    sys.exit(main())
