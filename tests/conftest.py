"""Fixtures of all tests; the sandbox starts only when a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from secor.sandbox import Sandbox


TESTS = Path(__file__).parent

LONGEST_FIRST = ("integration", "spark", "monitoring", "contracts", "simulation", "model")
"""Folders that begin when tests run side by side; the many short tests fill what is left."""

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker of pytest-xdist, keep what belongs together in one process."""
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item.path)))
    items.sort(key=lambda item: start_order(item.path))


def pytest_report_header() -> list[str]:
    """Say which stores the contract suite does not run against here, and why."""
    from tests import emulators

    return [f"store {name} is not run: {why}" for name, why in emulators.absent().items()]


def group_of(path: Path) -> str:
    """Return the group of a file's tests: one worker runs all of a group."""
    name = path.relative_to(TESTS).as_posix()
    folder = name.partition("/")[0]
    if name in TIMED:
        return "timed"
    return folder if folder in ONE_AT_A_TIME else name


def start_order(path: Path) -> int:
    """Return when a file's turn is, the smallest first."""
    folder = path.relative_to(TESTS).parts[0]
    known = folder in LONGEST_FIRST
    return LONGEST_FIRST.index(folder) if known else len(LONGEST_FIRST)


def pytest_addoption(parser: pytest.Parser) -> None:
    """How far the simulation goes."""
    group = parser.getgroup("simulation")
    group.addoption("--schedules", default=2000, type=int, help="random schedules to run")
    group.addoption("--exhaustive", action="store_true", help="run every pair of crash points")


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Kafka, ZooKeeper and an S3 server, shared by all tests: name topics and keys apart."""
    from secor.sandbox import Sandbox

    with Sandbox.up(tmp_path_factory.mktemp("sandbox")) as running:
        yield running
