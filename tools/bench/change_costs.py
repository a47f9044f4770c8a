"""Figures of commits of changed rows, and how they come from the process that measures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

GOAL = 1.2
"""How many times what Spark alone takes a commit may take."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one commit; CPU seconds of Python and the JVM."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class ChangeCost:
    """Commits of ``changes`` rows into a table of ``rows`` rows: the median of several.

    ``peak_bytes`` is what all processes held at most, with both tables.
    """

    engine: str
    rows: int
    changes: int
    secor: Cost
    plain: Cost
    peak_bytes: int

    def line(self) -> str:
        """Return it in one line."""
        secor, plain = self.secor, self.plain
        return (
            f"{self.engine:15} {self.changes:9,} changes into {self.rows:9,} rows:"
            f" {secor.seconds:6.2f} s, {secor.cpu_seconds:5.1f} s of CPU; Spark alone"
            f" {plain.seconds:6.2f} s, {plain.cpu_seconds:5.1f} s of CPU:"
            f" {secor.seconds / plain.seconds:.2f} and"
            f" {secor.cpu_seconds / plain.cpu_seconds:.2f} times (goal {GOAL});"
            f" {self.peak_bytes >> 20:,} MiB"
        )


def costs_in(lines: Iterable[str]) -> Iterator[ChangeCost]:
    """Give the figures among the lines of such a process; what Java prints goes to stderr."""
    for line in lines:
        if line.startswith('{"engine": '):
            data = json.loads(line)
            sides = {side: Cost(**data[side]) for side in ("secor", "plain")}
            yield ChangeCost(**{**data, **sides})
        else:
            sys.stderr.write(line)
