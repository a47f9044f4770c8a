"""How pytest-xdist's workers share the tests: what stays together, what begins first.

With ``--background`` the last worker is the background worker: it runs at low priority and takes
tests that mostly need the processor.  Tests with daemons mostly wait: it fills the gaps.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TESTS = Path(__file__).parent

ONE_AT_A_TIME = ("spark", "monitoring", "browser")
"""Folders whose files share something large: a Spark, a Prometheus, a browser."""

TIMED = (
    "contracts/test_source.py",
    "contracts/test_zookeeper.py",
    "integration/test_failures.py",
    "integration/test_health_server.py",
    "integration/test_schema_registry.py",
)
"""Files that bound how long something takes: none runs beside another of them."""

LONGEST_GROUPS = (
    "spark",
    "timed",
    "integration/test_demo.py",
    "integration/test_restore.py",
    "integration/test_row_changes.py",
    "integration/test_table_group.py",
    "monitoring",
    "integration/test_table_steps.py",
    "integration/test_processes.py",
)
"""Groups that take a minute or more, the longest first: one that begins last is waited for."""

BACKGROUND = ("contracts", "browser", "model", "fuzz", "unit", "simulation")
"""Folders whose tests may take as long as they like: they mostly need the processor, and no
daemon has to keep its session (those of ``TIMED`` are not meant).  The background worker takes
the last of them first.
"""

BACKGROUND_FILES = tuple(
    f"integration/test_{name}.py"
    for name in (
        "backfill_s3",
        "journal",
        "notifier",
        "release",
        "s3_access",
        "schema_command",
        "wheel",
    )
)
"""Likewise files of another folder.  They come before those folders."""

BACKGROUND_NICENESS = 10


class GroupScheduling(LoadScopeScheduling):
    """Groups in their order.  The background worker takes those of ``BACKGROUND``, from the end.

    It asks ``group_of``, and no marks: pytest-xdist 3.8 loses them with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(TESTS.parent / nodeid.partition("::")[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self.config.option.background and node.gateway.id == last_worker(self.numnodes):
            group = next(filter(in_background, reversed(self.workqueue)), None)
            if group is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(group, last=False)
        super()._assign_work_unit(node)


def last_worker(count: int) -> str:
    """Return the name of the last of ``count`` workers."""
    return f"gw{count - 1}"


def is_in_background(config: pytest.Config) -> bool:
    """Tell whether this process is the background worker."""
    worker = getattr(config, "workerinput", None)
    if worker is None or not config.option.background:
        return False
    name: str = worker["workerid"]
    return name == last_worker(worker["workercount"])


def group_of(path: Path) -> str:
    """Return the group of a file's tests: one worker runs all of a group."""
    name = path.relative_to(TESTS).as_posix()
    folder = name.partition("/")[0]
    if name in TIMED:
        return "timed"
    return folder if folder in ONE_AT_A_TIME else name


def in_background(group: str) -> bool:
    """Tell whether the background worker may run a group."""
    return group in BACKGROUND_FILES or group.partition("/")[0] in BACKGROUND


def start_order(path: Path, *, background: bool = True) -> tuple[int, int]:
    """Return when a file's turn is, the smallest first.

    Without a background worker, which begins at the end, the longest of all folders come first.
    """
    group = group_of(path)
    folder = group.partition("/")[0]
    turn = -2 + (group in BACKGROUND_FILES)
    if folder in BACKGROUND:
        turn = BACKGROUND.index(folder) if background else -BACKGROUND.index(folder)
    return (
        turn,
        LONGEST_GROUPS.index(group) if group in LONGEST_GROUPS else len(LONGEST_GROUPS),
    )
