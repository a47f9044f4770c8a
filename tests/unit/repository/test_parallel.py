"""Tests that run side by side: what belongs together stays in one worker."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tests.workers import (
    BACKGROUND,
    BACKGROUND_FILES,
    LONGEST_GROUPS,
    TESTS,
    TIMED,
    GroupScheduling,
    group_of,
    in_background,
    is_in_background,
    start_order,
)

IN_BACKGROUND = {"unit/core/test_text.py", "simulation/test_tables.py"}
FILES = (
    "integration/test_a.py",
    "spark/test_b.py",
    "spark/test_c.py",
    *(f"integration/test_{each}.py" for each in "defgh"),
    *sorted(IN_BACKGROUND, reverse=True),
)


class Worker:
    """A worker of pytest-xdist that runs what it is given at once."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.waiting: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.waiting += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def run_all(config: Any, count: int) -> dict[str, list[str]]:
    """Return by worker the files whose tests it ran, in their order."""
    scheduling = GroupScheduling(config)
    workers: list[Any] = [Worker(f"gw{number}") for number in range(count)]
    tests = [f"tests/{name}::test_{number}[a@b::c]" for name in FILES for number in range(3)]
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, tests)
    scheduling.schedule()
    ran: dict[str, list[str]] = {worker.gateway.id: [] for worker in workers}
    while scheduling.has_pending:
        for worker in workers:
            if worker.waiting:
                index = worker.waiting.pop(0)
                ran[worker.gateway.id].append(tests[index].split("::")[0].removeprefix("tests/"))
                scheduling.mark_test_complete(worker, index)
    assert all(worker.shutting_down for worker in workers)
    return ran


def configuration(count: int, *, background: bool) -> Any:
    option = SimpleNamespace(background=background, loadscopereorder=False)
    return SimpleNamespace(option=option, getvalue=lambda name: ["popen"] * count)


@pytest.mark.parametrize("background", [True, False])
def test_each_test_runs_once_and_a_group_in_one_worker(background: bool) -> None:
    ran = run_all(configuration(3, background=background), 3)
    assert sorted(name for names in ran.values() for name in names) == sorted(FILES * 3)
    groups = [{group_of(TESTS / name) for name in names} for names in ran.values()]
    assert sum(map(len, groups)) == len(set.union(*groups)) == len(FILES) - 1


def test_the_last_worker_takes_only_its_folders_and_the_last_first() -> None:
    ran = run_all(configuration(3, background=True), 3)
    assert set(ran["gw2"]) == IN_BACKGROUND
    assert ran["gw2"][0] == FILES[-1]


def test_who_is_in_the_background() -> None:
    config = configuration(3, background=True)
    assert not is_in_background(config)
    config.workerinput = {"workerid": "gw2", "workercount": 3}
    assert is_in_background(config)
    config.workerinput["workerid"] = "gw1"
    assert not is_in_background(config)


def test_this_run_keeps_groups_together(pytestconfig: pytest.Config) -> None:
    """What gives the tests to the workers of this very run, where there are any."""
    scheduling = pytestconfig.hook.pytest_xdist_make_scheduler
    chosen = configuration(2, background=False)
    chosen.option.dist = "loadscope"
    assert isinstance(scheduling(config=chosen, log=None), GroupScheduling)


def test_every_timed_file_is_there_and_they_are_one_group() -> None:
    assert all((TESTS / name).is_file() for name in TIMED)
    assert {group_of(TESTS / name) for name in TIMED} == {"timed"}


def test_a_file_is_a_group_and_a_folder_with_one_large_thing_too() -> None:
    spark = {group_of(path) for path in (TESTS / "spark").glob("test_*.py")}
    assert spark == {"spark"}
    unit = list((TESTS / "unit" / "core").glob("test_*.py"))
    assert len({group_of(path) for path in unit}) == len(unit)


def test_the_longest_groups_begin_and_what_the_background_may_run_comes_last() -> None:
    files = [path for path in TESTS.rglob("test_*.py") if path.parent != TESTS]
    groups = list(dict.fromkeys(group_of(path) for path in sorted(files, key=start_order)))
    assert tuple(groups[: len(LONGEST_GROUPS)]) == LONGEST_GROUPS
    folders = list(dict.fromkeys(group.partition("/")[0] for group in groups))
    assert folders[-len(BACKGROUND) :] == list(BACKGROUND)
    foreground = [group for group in groups if not in_background(group)]
    assert groups[: len(foreground)] == foreground
    assert set(BACKGROUND_FILES) < set(groups)


def test_without_a_background_worker_the_simulation_begins() -> None:
    files = [TESTS / "unit" / "a.py", TESTS / "simulation" / "b.py", TESTS / "unit" / "c.py"]
    ordered = sorted(files, key=partial(start_order, background=False))
    assert [path.name for path in ordered] == ["b.py", "a.py", "c.py"]
