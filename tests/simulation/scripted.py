"""Runs of a small world under a script of faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

import pytest

from secor.core.errors import SecorError
from tests.simulation.chaos import Call, Fault, ScriptedFaults
from tests.simulation.world import Scene, World, new_world

Prepare = Callable[[World], None]
"""Fills the logs and starts processes."""


COMMIT_PROTOCOL = ("lease", "lease.read", "record", "put", "commit", "release")


def calls_of(scene: Scene, script: Mapping[int, Fault], prepare: Prepare) -> list[Call]:
    """Run to rest; return what was called.  A broken promise names the script.

    The first fault of the script must have taken place: else nothing was tested.
    """
    faults = ScriptedFaults(script)
    with new_world(scene, faults=faults) as world:
        try:
            prepare(world)
            world.settle()
            assert not script or min(script) in faults.happened, "the fault did not take place"
        except (AssertionError, SecorError, OSError) as error:
            trace = "\n".join([f"{scene}", *world.hub.trace, f"{error!r}"])
            pytest.fail(f"with {dict(script)}:\n{trace}", pytrace=False)
        return world.calls


def calls_without_faults(scene: Scene, prepare: Prepare) -> list[Call]:
    """Return the calls at which something may go wrong: no step of the protocol is missing."""
    calls = calls_of(scene, {}, prepare)
    assert [call.number for call in calls] == list(range(len(calls)))
    for name, phase in product(COMMIT_PROTOCOL, ("before", "after")):
        assert any((call.name, call.phase) == (name, phase) for call in calls), f"no {phase} {name}"
    return calls


def all_pairs(calls: int) -> list[tuple[int, int]]:
    """After the first crash the run is longer: what was begun is done again."""
    return [(first, second) for first in range(calls) for second in range(first + 1, calls + 40)]
