"""Where the process takes its memory from."""

from __future__ import annotations

import ctypes
import os

# Of glibc's malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8

_LARGE = 8 << 20
"""Bytes of a block that is given back to the system as soon as it is freed."""
_KEPT = 32 << 20
"""Free bytes at the end of the heap that are kept for what comes next."""


def share_one_heap() -> None:
    """Let Arrow and all threads use one heap.  To be called before Arrow is imported.

    What one stage has freed is then there for the next: with Arrow's own allocator, and a
    heap for each thread, the process keeps 15 to 45 MB more, and is no faster for it.
    Columns come and go by the megabyte: glibc would take them from the system and give them
    back each time, and half of the CPU time in the kernel went into that.
    ``ARROW_DEFAULT_MEMORY_POOL`` in the environment overrules it for Arrow.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Other C libraries have no such function, nor such heaps.
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:
        limit(_ARENA_MAX, 1)
        limit(_MMAP_THRESHOLD, _LARGE)
        limit(_TRIM_THRESHOLD, _KEPT)
