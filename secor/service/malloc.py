"""The choice of the process's memory allocator."""

from __future__ import annotations

import ctypes
import gc
import os

SELDOM = (50_000, 20, 100)
"""Thresholds of the three generations in commands, which mostly load modules."""

USUAL = (700, 10, 10)
"""Python's own."""


def collect_nothing() -> None:
    """Do not look while a program is loaded: all of that stays, and to look is a part of a start.

    ``collect_seldom`` or ``keep_what_is_loaded`` ends this.
    """
    gc.disable()


def collect_seldom() -> None:
    """Look seldom from now on, if nobody looks."""
    if not gc.isenabled():
        gc.set_threshold(*SELDOM)
        gc.enable()


def keep_what_is_loaded() -> None:
    """Look as usual from now on, but never again at what is there already."""
    # Modules and classes live until the end: the collector would look at all of them in each full
    # collection, and find nothing.
    gc.freeze()
    gc.set_threshold(*USUAL)
    gc.enable()


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
    Columns of megabytes come and go: glibc would take them from the system and give them
    back each time, and half of the CPU time in the kernel went into that.
    ``ARROW_DEFAULT_MEMORY_POOL`` in the environment overrules it for Arrow.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Other C libraries have no such function, nor such heaps.
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:
        # glibc's own default is eight heaps a core, and what one has freed no other thread gets.
        limit(_ARENA_MAX, 1)
        # Setting it also switches off glibc's growing threshold, which would keep any block up to
        # 32 MB.
        limit(_MMAP_THRESHOLD, _LARGE)
        limit(_TRIM_THRESHOLD, _KEPT)
