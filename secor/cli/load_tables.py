"""The configuration of a group with tables, for the commands that need one."""

from __future__ import annotations

import os
from pathlib import Path

from secor.config.load import load
from secor.config.model import Config


def load_tables(config: Path) -> Config:
    """Load a configuration.  Raises ``ConfigurationError`` if its group has no tables."""
    from secor.wiring.table_group import require_tables

    settings = load(config, os.environ)
    require_tables(settings, config)
    return settings
