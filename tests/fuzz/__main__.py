"""``scripts/fuzz``: hostile messages through whole paths, for minutes or by their seeds."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from itertools import count

import structlog

from tests.fuzz.fuzzer import CORPUS, Failure, case_of, corpus, run, smallest


def main() -> int:
    """Run what the arguments ask for; 1 if something failed."""
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz",
        description="Hostile messages through whole paths, in one process and without servers."
        " Nothing may end the loop; every message is stored once, as it was meant, or is in"
        " quarantine with a reason. The corpus comes first. A failure is printed with its seed and"
        " as few messages as it needs; put it into tests/fuzz/corpus.",
        epilog="example: scripts/fuzz --minutes 60 --seed 1000000",
    )
    parser.add_argument("--minutes", type=float, help="run new cases for so long (default: one)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first case")
    parser.add_argument("--cases", type=int, help="run so many cases instead")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first failure")
    parser.add_argument("--no-corpus", action="store_true", help="leave the corpus out")
    arguments = parser.parse_args()
    quiet = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(wrapper_class=quiet)
    failed = 0
    if not arguments.no_corpus:
        failed += _run_corpus()
    if failed and not arguments.keep_going:
        return 1
    minutes = arguments.minutes if arguments.minutes is not None else 1.0
    limit = (arguments.cases, float("inf")) if arguments.cases else (None, minutes * 60)
    failed += _run_seeds(arguments.seed, *limit, keep_going=arguments.keep_going)
    return 1 if failed else 0


def _run_corpus() -> int:
    failed = 0
    cases = list(corpus())
    for name, case in cases:
        failure = run(case)
        if failure is not None:
            failed += 1
            print(f"FAILED corpus {name}, {case.path.name}: {failure.kind}: {failure.text}")
    print(f"corpus: {len(cases)} cases, {failed} failed")
    return failed


def _run_seeds(first: int, cases: int | None, seconds: float, *, keep_going: bool) -> int:
    end = time.monotonic() + seconds
    kinds: Counter[str] = Counter()
    failures: Counter[tuple[str, str]] = Counter()
    printed = time.monotonic()
    for seed in count(first):
        now = time.monotonic()
        if now >= end or (cases is not None and seed - first >= cases):
            break
        if now - printed > 10:
            printed = now
            print(f"{seed - first} cases, {sum(failures.values())} failed", file=sys.stderr)
        case = case_of(seed)
        kinds[case.path.kind] += 1
        failure = run(case)
        if failure is None:
            continue
        signature = (failure.kind, failure.trace.rpartition('File "')[2].partition(" in ")[0])
        failures[signature] += 1
        if failures[signature] == 1:
            _show(seed, smallest(failure))
        if not keep_going:
            break
    print(f"{sum(kinds.values())} cases from seed {first}: {dict(kinds)}, ", end="")
    print(f"{sum(failures.values())} failed")
    return sum(failures.values())


def _show(seed: int, failure: Failure) -> None:
    print(f"FAILED seed {seed}: {failure.kind}: {failure.text}")
    print(failure.trace)
    print(f"as a file of {CORPUS.name}:")
    print(json.dumps(failure.case.dump("what is hostile here"), indent=1))


if __name__ == "__main__":
    sys.exit(main())
