"""Names stay plain: ceilings for the figures of ``scripts/check --figures`` that count them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.figures import (
    PACKAGE,
    VAGUE_NAMES,
    Module,
    read_modules,
    repeated_classes,
    vague_variables,
)

ROOT = Path(__file__).parents[3]

MOST_VAGUE = {"at": 20, "it": 16, "found": 1}
"""Times that records of the store call ``at``, and what was left when this test was made; a
name that is not here is not used.  Lower a number when you can, never raise one.
"""

TWO_MEANINGS = {
    "Catalog",  # the section [catalog], and the tables by their names
    "Commit",  # the section [commit], and the coordinator's action
    "KeptCluster",  # keys of [kafka], and what a recovery reads of them
    "Keys",  # of messages to erase, and of the records of SequenceFiles
    "Metrics",  # the section [metrics], and the metrics
    "Policy",  # the section [policy], and its decisions
    "RestoreMetrics",  # likewise
    "Target",  # the section [target] of a restore, and the format of joined objects
    "Transform",  # the section [[parser.transforms]], and a step of the parser
}
"""Class names with two meanings: a section of the configuration, and what it configures."""


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    return read_modules(ROOT / PACKAGE)


@pytest.mark.parametrize("name", VAGUE_NAMES)
def test_variables_say_what_they_hold(modules: list[Module], name: str) -> None:
    users = {m.name: m.vague_variables[name] for m in modules if m.vague_variables[name]}
    assert vague_variables(modules)[name] <= MOST_VAGUE.get(name, 0), users


def test_a_class_name_has_one_meaning(modules: list[Module]) -> None:
    repeated = repeated_classes(modules)
    assert {name: repeated[name] for name in repeated.keys() - TWO_MEANINGS} == {}
