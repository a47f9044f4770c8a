"""The first message that needs a wider schema, found before the others are brought to this one."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from secor.config.parser import Parser
from secor.core.errors import SchemaGrew
from secor.core.model import Chunk
from secor.parsing import pipeline
from secor.schema.growth import GrowthFinder
from secor.schema.schema import RowSchema
from secor.wiring.parsers import pipeline_for
from tests.unit.parsing.parsing_cases import json_chunk

NONE = pa.struct([])
SOME = pa.struct([pa.field("a", pa.int64())])
SETTINGS = Parser.model_validate({"decoder": "json", "layout": "all", "max_bad_ratio": None})

Outcome = tuple[int | None, list[pa.StructType]]


class CountingSchema(RowSchema):
    """Counts the rows that are brought to it."""

    rows = 0

    def fit(self, rows: pa.StructArray) -> tuple[pa.StructArray, Mapping[int, str]]:
        CountingSchema.rows += len(rows)
        return super().fit(rows)


def outcome(fields: pa.StructType, chunk: Chunk) -> Outcome:
    """Return the offset at which the schema grows, and what it is to become."""
    proposed: list[pa.StructType] = []

    def propose(kind: pa.StructType, _: Sequence[str]) -> None:
        proposed.append(kind)

    schema = CountingSchema(fields, "json", exact=True, any_text=True)
    parser = pipeline_for(SETTINGS, typed=True, schema=schema, growth=GrowthFinder(schema, propose))
    CountingSchema.rows = 0
    try:
        parser.split(chunk)
    except SchemaGrew as grown:
        return grown.offset, proposed
    return None, proposed


def test_where_the_first_message_grows_the_schema_no_other_is_brought_to_this_one() -> None:
    offset, proposed = outcome(NONE, json_chunk({"a": row} for row in range(100)))
    assert (offset, proposed) == (0, [SOME])
    assert CountingSchema.rows == 1


VALUES: tuple[dict[str, object], ...] = (
    {"a": 1},
    {"a": 1.5},
    {"a": "x", "b": 1},
    {"a": 1, "b": 2},
    {"b": []},
    {"c": {"d": 1}},
)


@pytest.mark.parametrize("fields", [NONE, SOME])
def test_it_grows_by_the_same_message_and_to_the_same_as_when_all_were_looked_at(
    fields: pa.StructType, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)
    chunks = [json_chunk(chance.choices(VALUES, k=chance.randrange(1, 6))) for _ in range(60)]
    at_once = [outcome(fields, chunk) for chunk in chunks]
    monkeypatch.setattr(pipeline, "look_at_first", lambda *_: None)
    assert at_once == [outcome(fields, chunk) for chunk in chunks]
    assert len({offset for offset, _ in at_once}) > 2
