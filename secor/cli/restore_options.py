"""What the commands of ``secor restore`` share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.core.errors import ConfigurationError

if TYPE_CHECKING:
    from secor.config.restore import RestoreConfig

configuration = click.argument(
    "config", type=click.Path(path_type=Path, dir_okay=False), metavar="JOB.toml"
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def load_job(path: Path) -> RestoreConfig:
    """Read a job's file with the environment over it.  Raises ``ConfigurationError``."""
    from secor.config.load import is_restore, load_as
    from secor.config.restore import RestoreConfig

    if not is_restore(path):
        raise ConfigurationError(
            f'{path}: is no job of a restore, which has group.kind = "restore"; see'
            " 'secor config example config/restore.toml'"
        )
    settings, _ = load_as(RestoreConfig, path, os.environ)
    return settings
