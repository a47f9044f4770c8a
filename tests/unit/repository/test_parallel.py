"""Tests that run side by side: what belongs together stays in one process."""

from __future__ import annotations

from tests.conftest import TESTS, TIMED, group_of, start_order


def test_every_timed_file_is_there_and_they_are_one_group() -> None:
    assert all((TESTS / name).is_file() for name in TIMED)
    assert {group_of(TESTS / name) for name in TIMED} == {"timed"}


def test_a_file_is_a_group_and_a_folder_with_one_large_thing_too() -> None:
    spark = {group_of(path) for path in (TESTS / "spark").glob("test_*.py")}
    assert spark == {"spark"}
    unit = list((TESTS / "unit" / "core").glob("test_*.py"))
    assert len({group_of(path) for path in unit}) == len(unit)


def test_folders_with_servers_begin_before_the_short_tests() -> None:
    order = [start_order(TESTS / name) for name in ("integration/a", "contracts/a", "unit/a")]
    assert order == sorted(order)
    assert len(set(order)) == 3
