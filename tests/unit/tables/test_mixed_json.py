"""A sample of the topic of mixed JSON; ``scripts/conformance mixed`` stores the whole."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.mixed_json import SHAPES, corpus
from tests.conformance.mixed_rows import differences, store_corpus


def test_every_message_that_a_column_can_hold_is_a_row_with_its_values(tmp_path: Path) -> None:
    outcome = store_corpus(tmp_path, seed=7, messages=400, numbers="decimal", fetched=200)
    assert outcome.lost == []
    assert outcome.different == []
    assert outcome.rows >= 395


def test_the_corpus_is_that_of_its_seed_and_has_every_shape() -> None:
    messages = list(corpus(7, 2000, "decimal"))
    assert messages == list(corpus(7, 2000, "decimal"))
    shapes = {name for it in messages for name in it.shape.split(", ")}
    assert all(set(shape.name.split(", ")) <= shapes for shape in SHAPES)
    assert any(not it.storable for it in messages)


def test_the_comparison_sees_a_difference() -> None:
    message = {"a": 1, "b": {"x": [1.5, None]}, "c": "2026-01-01"}
    row = {"a": 1, "b": '{"x":[1.5,null]}', "c": "2026-01-01"}
    assert list(differences(message, row)) == []
    assert list(differences(message, {**row, "a": 2})) == ["a: 1 is 2"]
    assert list(differences(message, {**row, "b": {"x": [1.5, 3]}})) == []
    assert list(differences(message, {**row, "b": {"x": [2.5]}})) != []
    assert list(differences({"d": 1}, {})) == ["d: 1 is None"]
