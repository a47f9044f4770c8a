"""The fuzzer of whole paths: its corpus, then cases of fixed seeds."""

from __future__ import annotations

import pytest

from tests.fuzz.fuzzer import Case, corpus, run


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{name}:{case.path.name}") for name, case in corpus()]
)
def test_inputs_that_failed_once_are_stored_or_in_quarantine(case: Case) -> None:
    failure = run(case)
    assert failure is None, f"{failure.kind}: {failure.text}\n{failure.trace}"
