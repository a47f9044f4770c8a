"""What each unit test finds as it was: how the process logs."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from secor.service.logs import LibraryHandler


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
