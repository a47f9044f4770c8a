"""tests/README.md names files that are there, and numbers that tests carry."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
README = (TESTS / "README.md").read_text()


def test_every_path_is_there() -> None:
    paths = set(re.findall(r"`(tests/[^`*]+)`", README))
    assert paths
    assert [path for path in sorted(paths) if not (TESTS.parent / path).exists()] == []


def test_every_number_of_a_simulated_scenario_is_in_the_table() -> None:
    source = (TESTS / "simulation/test_scenarios.py").read_text()
    names = re.findall(r"^def test_([0-9_]+)_", source, re.MULTILINE)
    numbers = {int(part) for name in names for part in name.split("_")}
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    assert numbers
    assert numbers <= listed
