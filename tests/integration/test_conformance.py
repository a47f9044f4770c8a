"""Changes of a real database: a short run of ``scripts/conformance cdc``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0


@pytest.mark.long
@pytest.mark.parametrize("form", ["json-schemas", "json", "avro"])
def test_tables_of_changes_are_equal_to_their_database(form: str) -> None:
    """Each takes some 80 s on an idle machine: most of it is the start of Connect and of Spark."""
    command = [sys.executable, "-m", "tests.conformance", "cdc", "--minutes", "0.03", "--seed", "7"]
    finished = subprocess.run(
        [*command, "--format", form],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
