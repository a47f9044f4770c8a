"""Generated classes by their import path."""

from __future__ import annotations

import importlib
from typing import Any

from secor.errors import ConfigurationError


def imported(what: str, place: str) -> Any:
    """Return ``Class`` of ``package.module:Class``; ConfigurationError names ``what``."""
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{what} class {place!r}: {error}; write module:Class, of a module that can be"
            " imported with all that it needs"
        ) from error
