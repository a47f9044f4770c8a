"""``scripts/mutants``: take out each safety step, one at a time, and see the tests fail."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("secor", "tools", "tests", "config", "scripts", "pyproject.toml", "setup.py", "DESIGN.md")
NOTICED_BY = ROOT / ".cache" / "mutants.json"
TIMEOUT = 600


def main() -> int:
    """Run the chosen mutants; 1 if one survives."""
    parser = argparse.ArgumentParser(
        prog="scripts/mutants",
        description="Take out each safety step, one at a time, and run the tests that should"
        " notice: first the one that noticed it the last time, which is kept in .cache.",
        epilog="example: scripts/mutants lease --tests tests/simulation",
    )
    parser.add_argument("words", nargs="*", help="only mutants whose name has one of these")
    parser.add_argument("--tests", action="append", help="tests to run instead of each one's own")
    parser.add_argument("--schedules", default="400", help="random schedules for each mutant")
    parser.add_argument("--jobs", type=int, default=2, help="mutants side by side (default 2)")
    arguments = parser.parse_args()
    chosen = [
        mutant
        for mutant in MUTANTS
        if not arguments.words or any(word in mutant.name for word in arguments.words)
    ]
    with tempfile.TemporaryDirectory(prefix="secor-mutants-") as directory:
        run = Run(Path(directory), arguments.jobs, arguments.tests, arguments.schedules)
        with ThreadPoolExecutor(arguments.jobs) as pool:
            noticed = list(pool.map(run.is_noticed, chosen))
    survivors = [mutant for mutant, seen in zip(chosen, noticed, strict=True) if not seen]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed")
    for mutant in survivors:
        print(f"SURVIVED: {mutant.name} ({mutant.file})")
    return 1 if survivors else 0


class Run:
    """Mutants in copies of the tree, one copy for each that runs at the same time."""

    def __init__(
        self, directory: Path, jobs: int, tests: Sequence[str] | None, schedules: str
    ) -> None:
        self._tests = tests
        self._schedules = schedules
        self._seconds = itertools.count(1)
        self._trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            _copy(directory / str(number))
            self._trees.put(directory / str(number))
        self._noticed_by: dict[str, str] = (
            json.loads(NOTICED_BY.read_text()) if NOTICED_BY.is_file() else {}
        )

    def is_noticed(self, mutant: Mutant) -> bool:
        """Run the tests of a mutant and print what they said of it."""
        tree = self._trees.get()
        began = time.monotonic()
        file = tree / mutant.file
        text = file.read_text()
        if text.count(mutant.before) != 1:
            raise SystemExit(f"{mutant.name}: its text is not once in {mutant.file}")
        self._write(file, text.replace(mutant.before, mutant.after))
        try:
            failed = self._failed_test(mutant, tree)
        finally:
            self._write(file, text)
            self._trees.put(tree)
        said = failed or "SURVIVED"
        print(f"{time.monotonic() - began:6.1f} s  {mutant.name}: {said}", flush=True)
        return failed is not None

    def _write(self, file: Path, text: str) -> None:
        """Write with a time that the file never had: Python caches its code by second and size."""
        file.write_text(text)
        second = next(self._seconds)
        os.utime(file, (second, second))

    def _failed_test(self, mutant: Mutant, tree: Path) -> str | None:
        """Return the first test that failed, None if none did."""
        if self._tests:
            return _run(tree, self._tests, self._schedules)
        last = self._noticed_by.get(mutant.name)
        failed = last and _run(tree, [last], self._schedules)
        failed = failed or _run(tree, mutant.tests, self._schedules)
        if failed and "::" in failed:
            self._noticed_by[mutant.name] = failed.partition(" ")[2]
            NOTICED_BY.parent.mkdir(exist_ok=True)
            NOTICED_BY.write_text(json.dumps(self._noticed_by, indent=1, sort_keys=True))
        return failed


def _copy(tree: Path) -> None:
    tree.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.so", ".pytest_cache")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=ignored)
        else:
            shutil.copy2(source, tree / name)


def _run(tree: Path, tests: Sequence[str], schedules: str) -> str | None:
    """Return the first test that failed, None if none did."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no"]
    # Runs side by side would clean up each other's folders.
    command += ["--basetemp", str(tree.with_suffix(".tmp"))]
    command += ["-p", "no:cacheprovider", "--schedules", schedules, *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"still running after {TIMEOUT} s"
    was_renamed = done.returncode == pytest.ExitCode.USAGE_ERROR and "::" in tests[0]
    if done.returncode == pytest.ExitCode.OK or was_renamed:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode != 1 or not failed:
        raise SystemExit(f"{' '.join(command)} went wrong:\n{done.stdout}{done.stderr}")
    return failed[0].partition(" - ")[0]


if __name__ == "__main__":
    sys.exit(main())
