"""Options that the commands of ``secor restore`` share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.core.errors import ConfigurationError

if TYPE_CHECKING:
    from secor.config.restore import RestoreConfig


Show = Callable[[int, int, int], None]
"""Given the offsets that are done and those that there are, and messages since the beginning."""


def _ignore(done: int, total: int, messages: int) -> None:
    del done, total, messages


@contextmanager
def progress_bar(what: str) -> Iterator[Show]:
    """Show how much is done, messages a second and the time left; nothing without a terminal."""
    if not sys.stderr.isatty():
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[messages]:,} messages, {task.fields[rate]:,.0f}/s"),
        TextColumn("left:"),
        TimeRemainingColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as bars:
        task = bars.add_task(what, total=None, messages=0, rate=0.0)

        def show(done: int, total: int, messages: int) -> None:
            elapsed = bars.tasks[0].elapsed or 0.0
            rate = messages / elapsed if elapsed else 0.0
            bars.update(task, completed=done, total=total, messages=messages, rate=rate)

        yield show


configuration = click.argument(
    "config", type=click.Path(path_type=Path, dir_okay=False), metavar="JOB.toml"
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def load_job(path: Path) -> RestoreConfig:
    """Read a job's file with the environment over it.  Raises ``ConfigurationError``."""
    from secor.config.environment import stray_variables
    from secor.config.load import is_restore, load_as
    from secor.config.restore import RestoreConfig

    if not is_restore(path):
        raise ConfigurationError(
            f'{path}: is no job of a restore, which has group.kind = "restore"; see'
            " 'secor config example config/restore.toml'"
        )
    settings, _ = load_as(RestoreConfig, path, os.environ)
    for warning in stray_variables(os.environ, RestoreConfig):
        click.echo(f"warning: {warning}", err=True)
    return settings
