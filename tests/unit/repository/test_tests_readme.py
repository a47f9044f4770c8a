"""tests/README.md names files that are there, and numbers that tests carry."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
README = (TESTS / "README.md").read_text()


def test_every_path_is_there() -> None:
    paths = set(re.findall(r"`(tests/[^`*]+)`", README))
    assert paths
    assert [path for path in sorted(paths) if not (TESTS.parent / path).exists()] == []


def test_the_table_has_every_scenario_once() -> None:
    listed = [int(number) for number in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)]
    assert listed == sorted(set(listed))
    assert {*range(1, 32), *range(40, 46)} <= set(listed) <= set(range(1, 46))


def test_every_number_of_a_simulated_scenario_is_in_the_table() -> None:
    source = (TESTS / "simulation/test_scenarios.py").read_text()
    names = re.findall(r"^def test_([0-9_]+)_", source, re.MULTILINE)
    numbers = {int(part) for name in names for part in name.split("_")}
    rows = dict(re.findall(r"^\| (\d+) \|(.*)$", README, re.MULTILINE))
    assert numbers
    assert [one for one in numbers if "test_scenarios.py" not in _row(rows, one)] == []


def test_every_line_about_data_is_in_the_name_of_a_test_in_a_file_of_its_row() -> None:
    rows = dict(re.findall(r"^\| (\d+) \|(.*)$", README, re.MULTILINE))
    for number in range(18, 24):
        paths = re.findall(r"`(tests/[^`]+)`", _row(rows, number))
        assert any(f"def test_line_{number}_" in (TESTS.parent / one).read_text() for one in paths)
    for path in TESTS.rglob("test_*.py"):
        for number in set(re.findall(r"^def test_line_(\d+)_", path.read_text(), re.MULTILINE)):
            assert str(path.relative_to(TESTS.parent)) in _row(rows, int(number)), (path, number)


def _row(rows: dict[str, str], number: int) -> str:
    """The row, where "the same" means the row before."""
    row = rows[str(number)]
    return row + (_row(rows, number - 1) if "| the same" in row else "")
