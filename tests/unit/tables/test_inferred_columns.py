"""Columns that were inferred take what they were made from, and what follows, on every path."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from secor.config.tables import Rows
from secor.parsing.decoders.json import JsonDecoder
from secor.schema.growth import KEPT, grow_schema
from secor.schema.new_columns import ANY_TEXT, NOTHING, Numbers, seen_together
from secor.schema.schema import RowSchema
from secor.tables.rows.schema_changes import columns_of
from tests.unit.formats.typed_rows import messages
from tests.unit.tables.worker_world import WorkerWorld

STEADY = settings(deadline=None, max_examples=40, derandomize=True)

SHARE = 0.99

Draw = Callable[[random.Random], str]
"""Gives the JSON of one value."""


def integer(below: int) -> Draw:
    return lambda chance: str(chance.randrange(-below, below))


def of_text(chance: random.Random) -> str:
    return json.dumps(chance.choice(["a", "", "7", "true", "é", "2026-11-27"]))


KINDS: dict[str, Draw] = {
    "small integer": integer(1000),
    "long integer": integer(1 << 53),
    "64 bits": integer(1 << 62),
    "beyond 64 bits": lambda chance: str((1 << 64) + chance.randrange(1 << 40)),
    "fraction": lambda chance: f"{chance.randrange(5000)}.{chance.choice([0, 5])}",
    "whole fraction first": lambda chance: f"{chance.randrange(5000)}.0",
    "exponent": lambda chance: f"{chance.randrange(1, 9)}e{chance.randrange(20)}",
    "text": of_text,
    "time": lambda chance: json.dumps(f"2026-11-{chance.randrange(1, 28):02d}T04:05:06Z"),
    "boolean": lambda chance: chance.choice(["true", "false"]),
    "null": lambda _: "null",
    "nothing in an object": lambda _: "{}",
    "nothing in a list": lambda _: "[]",
    "object": lambda chance: f'{{"x": {chance.randrange(9)}, "y": {of_text(chance)}}}',
    "object of fractions": lambda chance: f'{{"x": {chance.randrange(9)}.5}}',
    "list": lambda chance: f"[{chance.randrange(9)}, {chance.randrange(9)}]",
    "list of text": lambda chance: f"[{of_text(chance)}]",
    "list of objects": lambda chance: f'[{{"x": {chance.randrange(9)}}}]',
    "list of objects with fractions": lambda chance: f'[{{"x": {chance.randrange(9)}.25}}]',
    "list of objects with text": lambda chance: f'[{{"x": {of_text(chance)}}}]',
}

Shape = dict[str, list[tuple[str, int]]]
"""By field the kinds of its values, each with a weight."""

SHAPES: st.SearchStrategy[Shape] = st.dictionaries(
    st.sampled_from("abcdef"),
    st.lists(
        st.tuples(st.sampled_from(sorted(KINDS)), st.sampled_from([1, 2, 30, 300])),
        min_size=1,
        max_size=3,
    ),
    min_size=1,
)


def stream(kinds: Sequence[dict[str, str]], chance: random.Random) -> list[bytes]:
    """Return a message for each choice of kinds."""
    values = ({name: KINDS[kind](chance) for name, kind in own.items()} for own in kinds)
    return [_message({"id": "1", **own}) for own in values]


def _message(values: dict[str, str]) -> bytes:
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in values.items()) + "}").encode()


def choices(shape: Shape, count: int, chance: random.Random) -> list[dict[str, str]]:
    return [
        {
            name: chance.choices([it for it, _ in kinds], [it for _, it in kinds])[0]
            for name, kinds in shape.items()
        }
        for _ in range(count)
    ]


def decoded(values: list[bytes]) -> list[tuple[np.ndarray, pa.StructArray]]:
    groups = JsonDecoder().decode_apart(messages(values), None)
    assert not any(group.bad for _, group in groups)
    return [(rows, group.rows) for rows, group in groups]


def table_of(first: list[bytes], numbers: Numbers) -> RowSchema:
    seen = seen_together([rows for _, rows in decoded(first)], numbers=numbers, rules=ANY_TEXT)
    return RowSchema(columns_of(seen.type), any_text=True)


def kept_of(first: list[bytes], numbers: Numbers) -> RowSchema:
    seen = seen_together([rows for _, rows in decoded(first)], numbers=numbers, rules=KEPT)
    return RowSchema(grow_schema(NOTHING, seen.type), "json", exact=True, any_text=True)


def misfits(schema: RowSchema, values: list[bytes]) -> list[str]:
    return [why for _, rows in decoded(values) for why in schema.fit(rows)[1].values()]


@pytest.mark.parametrize("make", [table_of, kept_of])
@STEADY
@given(
    shape=SHAPES,
    count=st.sampled_from([1, 3, 10, 99, 400]),
    numbers=st.sampled_from(["as seen", "double", "decimal"]),
    seed=st.integers(0, 1 << 30),
)
def test_of_any_first_fetch_and_of_a_stream_like_it_99_of_100_are_rows(
    make: Callable[[list[bytes], Numbers], RowSchema],
    shape: Shape,
    count: int,
    numbers: Numbers,
    seed: int,
) -> None:
    chance = random.Random(seed)
    kinds = choices(shape, count, chance)
    first = stream(kinds, chance)
    schema = make(first, numbers)
    own = misfits(schema, first)
    assert len(own) <= count * (1 - SHARE), own[:3]
    following = [message for _ in range(3) for message in stream(kinds, chance)]
    refused = misfits(schema, following)
    assert len(refused) <= len(following) * (1 - SHARE), (schema.fields, refused[:3])


TABLE = {"table": "db.flights", "auto_create": True, "evolve": True}


def kinds(world: WorkerWorld) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in world.catalog.load_table("db.flights").schema}


def test_objects_and_a_number_are_text_which_takes_both(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [TABLE])
    world.write(*({"id": at, "a": {"x": at}} for at in range(9)), {"id": 9, "a": 5})
    world.write({"id": 10, "a": "t"}, {"id": 11, "a": [1, None, {}]}, {"id": 12, "a": 2.50})
    assert kinds(world)["a"] == pa.string()
    values = [row["a"] for row in sorted(world.rows(), key=lambda row: row["id"])]
    assert values == [*(f'{{"x":{at}}}' for at in range(9)), "5", "t", "[1,null,{}]", "2.5"]
    assert not world.reasons()


def test_a_fraction_without_digits_makes_a_column_of_fractions(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [TABLE])
    world.write(b'{"id": 1, "x": 2826.0, "y": 1e3}', b'{"id": 2, "x": 7, "y": 8}')
    world.write({"id": 3, "x": 2826.5, "y": 0.5})
    assert kinds(world) == {"id": pa.int64(), "x": pa.float64(), "y": pa.float64()}
    assert sorted(row["x"] for row in world.rows()) == [7.0, 2826.0, 2826.5]


def test_ids_beyond_64_bits_make_no_later_one_bad(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [TABLE])
    world.write({"id": 1 << 64}, {"id": 1}, {"id": 2})
    world.write({"id": 3}, {"id": 4.5}, {"id": "five"}, {"id": -(1 << 70)})
    assert sorted(row["id"] for row in world.rows()) == sorted(
        ["1", "2", "3", "4.5", "five", str(1 << 64), str(-(1 << 70))]
    )


@pytest.mark.parametrize(
    ("numbers", "kind", "refused"),
    [
        ("as seen", pa.int64(), [10.5, 1 << 64]),
        ("double", pa.float64(), [1 << 64]),
        ("decimal", pa.decimal128(38, 18), []),
    ],
)
def test_a_setting_says_what_new_columns_of_numbers_are(
    tmp_path: Path, numbers: str, kind: pa.DataType, refused: list[float]
) -> None:
    world = WorkerWorld(tmp_path, [TABLE], {"rows": {"numbers": numbers}})
    world.write({"id": "a", "n": 10}, {"id": "b", "n": 11})
    world.write({"id": "c", "n": 10.5}, {"id": "d", "n": 1 << 64})
    assert kinds(world)["n"] == kind
    assert len(world.rows()) == 4 - len(refused)
    reasons = world.reasons()
    assert len(reasons) == len(refused)
    assert all("rows.numbers" in why for why in reasons)


def test_a_table_whose_text_was_a_trap_takes_its_quarantine(tmp_path: Path) -> None:
    strict = {"rows": {"text_columns": "text"}}
    world = WorkerWorld(tmp_path, [TABLE], strict)
    world.write(*({"id": at, "a": f"t{at}"} for at in range(3)))
    world.write({"id": 3, "a": {"x": 1}}, {"id": 4, "a": "again"})
    [why] = world.reasons()
    assert "a: {'x': 1} is no string" in why
    assert len(world.rows()) == 4
    world.config = world.config.model_copy(update={"rows": Rows()})
    world.plans = world.new_plans()
    world.write({"id": 3, "a": {"x": 1}})
    assert [row["a"] for row in world.rows() if row["id"] == 3] == ['{"x":1}']


def test_kinds_of_a_field_are_in_a_warning_with_what_to_do(
    tmp_path: Path,
) -> None:
    world = WorkerWorld(tmp_path, [TABLE])
    with capture_logs() as lines:
        world.write(*({"id": at, "a": {"x": at}} for at in range(9)), {"id": 9, "a": 5})
    [changed] = [line for line in lines if line["event"] == "table_changed"]
    assert changed["log_level"] == "warning"
    assert changed["text"] == ["a (text, of 9 objects and 1 numbers)"]
    assert "schema_file" in changed["remedy"]
