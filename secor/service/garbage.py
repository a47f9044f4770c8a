"""When Python's collector looks for garbage."""

from __future__ import annotations

import gc

SELDOM = (50_000, 20, 100)
"""Thresholds of the three generations while a command is being loaded."""

USUAL = (700, 10, 10)
"""Python's own."""


def collect_seldom() -> None:
    """Look seldom: what is loaded stays, and looking at it is a sixth of a start."""
    gc.set_threshold(*SELDOM)


def keep_what_is_loaded() -> None:
    """Look as usual from now on, but never again at what is there already."""
    gc.freeze()
    gc.set_threshold(*USUAL)
