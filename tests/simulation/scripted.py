"""Runs of a small world under a script of faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from secor.core.errors import SecorError
from tests.simulation.chaos import Call, Fault, ScriptedFaults
from tests.simulation.world import Scene, World, world

Prepare = Callable[[World], None]
"""Fills the logs and starts processes."""


def calls_of(scene: Scene, script: Mapping[int, Fault], prepare: Prepare) -> list[Call]:
    """Run to rest; return what was called.  A broken promise names the script."""
    with world(scene, faults=ScriptedFaults(script)) as made:
        try:
            prepare(made)
            made.settle()
        except (AssertionError, SecorError, OSError) as error:
            told = "\n".join([f"{scene}", *made.hub.trace, f"{error!r}"])
            pytest.fail(f"with {dict(script)}:\n{told}", pytrace=False)
        return made.calls


def all_pairs(calls: int) -> list[tuple[int, int]]:
    """After the first crash the run is longer: what was begun is done again."""
    return [(first, second) for first in range(calls) for second in range(first + 1, calls + 40)]
