"""Fixtures of tests with real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.daemons import Start, daemons


@pytest.fixture
def start() -> Iterator[Start]:
    """Give what starts daemons; they end with the test."""
    with daemons() as start:
        yield start
