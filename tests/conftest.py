"""Fixtures of all tests; the sandbox starts only when a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from secor.sandbox import Sandbox


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
