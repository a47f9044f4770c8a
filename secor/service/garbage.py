"""When Python's collector looks for garbage."""

from __future__ import annotations

import gc

SELDOM = (50_000, 20, 100)
"""Thresholds of the three generations in commands, most of whose life is loading."""

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
    gc.freeze()
    gc.set_threshold(*USUAL)
    gc.enable()
