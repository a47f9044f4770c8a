"""``scripts/simulate``: run seeds by hand, for minutes, or one with its trace."""

from __future__ import annotations

import argparse
import itertools
import sys
import time

from tests.simulation import crash_table, state_diagrams
from tests.simulation.storm import Outcome, run, smallest


def main() -> int:
    """Run what the arguments ask for; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Simulated processes, crashes and accidents; every promise is checked.",
        epilog="example: scripts/simulate --minutes 5",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, help="run one schedule")
    what.add_argument("--minutes", type=float, help="run new schedules for so long")
    what.add_argument("--crash-table", action="store_true", help="rewrite DESIGN.md's table")
    what.add_argument("--states", action="store_true", help="redraw DESIGN.md's state diagrams")
    parser.add_argument("--first", type=int, default=100_000, help="first seed of --minutes")
    parser.add_argument("--trace", action="store_true", help="tell all that happened")
    arguments = parser.parse_args()
    if arguments.crash_table:
        crash_table.rewrite()
        return 0
    if arguments.states:
        state_diagrams.rewrite()
        return 0
    if arguments.seed is not None:
        return _show(run(arguments.seed), trace=arguments.trace)
    return _run_for(arguments.minutes * 60, arguments.first)


def _show(outcome: Outcome, *, trace: bool) -> int:
    if outcome.failure is not None:
        least = smallest(outcome)
        print(f"seed {outcome.seed}, {len(least.faults)} of {len(outcome.faults)} faults:")
        print("\n".join(least.trace))
        print(f"FAILED {least.failure}")
        return 1
    if trace:
        print("\n".join(outcome.trace))
    print(f"seed {outcome.seed}: {outcome.messages} messages, {outcome.calls} calls, all well")
    return 0


def _run_for(seconds: float, first: int) -> int:
    end = time.monotonic() + seconds
    printed = 0.0
    counts: dict[str, int] = {}
    for seed in itertools.count(first):
        now = time.monotonic()
        if now >= end:
            print(f"{seed - first} schedules, all well: {counts}")
            return 0
        if now - printed > 5:
            printed = now
            print(f"{seed - first} schedules, {end - now:.0f} s to go", file=sys.stderr)
        outcome = run(seed)
        for name, many in outcome.counts.items():
            counts[name] = counts.get(name, 0) + many
        if outcome.failure is not None:
            return _show(outcome, trace=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
