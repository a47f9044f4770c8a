"""DESIGN.md tells what a crash leaves at each point, and it is so."""

from __future__ import annotations

from tests.simulation.crash_table import table, written


def test_the_table_in_the_design_is_what_crashes_leave() -> None:
    assert written() == table(), "rewrite it with: scripts/simulate --crash-table"
