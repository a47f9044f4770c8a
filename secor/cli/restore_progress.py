"""How far a restore or its verification is, for a person who watches: a bar on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
