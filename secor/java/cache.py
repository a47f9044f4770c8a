"""The user's cache folder: jars and programs that all sandboxes share."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Progress = Callable[[str], None]
"""Called with one short line of progress for a waiting person."""


def cache_folder() -> Path:
    """Return ``secor`` in ``$XDG_CACHE_HOME``, or in ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "secor"


@contextmanager
def exclusive(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the folder's lock: of two sandboxes that start at once, one fetches.

    The kernel gives the lock back when its process ends, however it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"another process is at work in {folder}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
