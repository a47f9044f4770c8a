"""Fixtures of all tests; the sandbox starts only when a test asks for it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest
import structlog

from secor.service.logs import LibraryHandler

if TYPE_CHECKING:
    from xdist.remote import Producer

    from secor.sandbox import Sandbox
    from tests.workers import GroupScheduling

# Speed is for benchmarks: a machine that does other things too must fail no property.
hypothesis.settings.register_profile("secor", deadline=None)
hypothesis.settings.load_profile("secor")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests unless --all asks for them; a worker begins with what takes longest."""
    if not config.option.all:
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    if hasattr(config, "workerinput"):
        from tests.workers import start_order

        background = config.option.background
        items.sort(key=lambda item: start_order(item.path, background=background))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    """Return what gives groups of tests to the workers; None where another way is asked for."""
    if config.option.dist != "loadscope":
        return None
    from tests.workers import GroupScheduling

    return GroupScheduling(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Lower the priority of the background worker and of all that it starts."""
    if config.option.background:
        from tests.workers import BACKGROUND_NICENESS, is_in_background

        if is_in_background(config):
            os.nice(BACKGROUND_NICENESS)


def pytest_report_header() -> list[str]:
    """Say which stores the contract suite does not run against here, and why."""
    from tests import emulators

    return [f"store {name} is not run: {why}" for name, why in emulators.absent().items()]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options: which tests run, how far the simulation goes, a worker in the background."""
    parser.addoption("--all", action="store_true", help="also run the tests marked long")
    parser.addoption("--background", action="store_true", help="the last worker: tests/workers.py")
    group = parser.getgroup("simulation")
    group.addoption("--schedules", default=600, type=int, help="random schedules to run")
    group.addoption("--exhaustive", action="store_true", help="run every pair of crash points")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Commands that run in this process configure its logs, for streams that are then closed."""
    root = logging.getLogger()
    level = root.level
    yield
    structlog.reset_defaults()
    root.setLevel(level)
    for handler in [it for it in root.handlers if isinstance(it, LibraryHandler)]:
        root.removeHandler(handler)


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Kafka, ZooKeeper and an S3 server, shared by all tests: name topics and keys apart."""
    from secor.sandbox import Sandbox

    with Sandbox.up(tmp_path_factory.mktemp("sandbox")) as running:
        yield running
