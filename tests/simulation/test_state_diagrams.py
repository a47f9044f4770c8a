"""DESIGN.md shows the states that the program goes through."""

from __future__ import annotations

import pytest

from tests.simulation.state_diagrams import diagrams, written


@pytest.mark.parametrize("subject", sorted(diagrams()))
def test_the_diagram_in_the_design_is_drawn_from_the_table(subject: str) -> None:
    assert written(subject) == diagrams()[subject], "redraw with: scripts/simulate --states"
