"""The fuzzer of whole paths: its corpus, then cases of fixed seeds."""

from __future__ import annotations

import pytest

from tests.fuzz.fuzzer import Case, case_of, corpus, run, smallest

SEEDS = range(1000, 1060)
BLOCK = 10
"""Seeds of one test; ``scripts/fuzz`` runs as many as you like."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{name}:{case.path.name}") for name, case in corpus()]
)
def test_inputs_that_failed_once_are_stored_or_in_quarantine(case: Case) -> None:
    failure = run(case)
    assert failure is None, f"{failure.kind}: {failure.text}\n{failure.trace}"


@pytest.mark.parametrize("first", SEEDS[::BLOCK])
def test_nothing_that_a_seed_gives_ends_a_process_or_is_stored_wrongly(first: int) -> None:
    for seed in range(first, first + BLOCK):
        failure = run(case_of(seed))
        if failure is not None:
            least = smallest(failure)
            pytest.fail(f"seed {seed}: {least.text}\n{least.trace}\n{least.case.dump('')}")
