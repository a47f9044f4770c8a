"""Schemas that grow: what fits, what grows them, what is in conflict."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.archive.kept_schemas import KeptSchema
from secor.arrow.nested_arrays import JSON
from secor.schema.growth import (
    DEEPEST,
    LONGEST_NAME,
    MOST_FIELDS,
    GrowthFinder,
    changes,
    field_count,
    grow_schema,
)
from secor.schema.inference import observe
from secor.schema.new_columns import NOTHING
from secor.schema.schema import RowSchema
from tests.unit.formats.typed_rows import decoded, wild_messages

STEADY = settings(deadline=None, max_examples=15, derandomize=True)


def kept(*fields: tuple[str, Any]) -> pa.StructType:
    return pa.struct([pa.field(name, kind) for name, kind in fields])


def seen(*messages: Any) -> pa.StructType:
    """Return the type that these messages show, as the JSON decoder reads them together."""
    values = [json.dumps(message).encode() for message in messages]
    return observe(decoded(values).column("row")).type


class Topic:
    """One version of a topic's schema, and what it is asked to become."""

    def __init__(self, fields: pa.StructType) -> None:
        self.proposed: list[pa.StructType] = []
        self.reasons: Mapping[int, str] = {}
        self.outvoted: list[str] = []
        self.rows = KeptSchema(1, fields).rows
        self.growth = GrowthFinder(self.rows, self._propose)

    def _propose(self, fields: pa.StructType, outvoted: Sequence[str]) -> None:
        self.proposed.append(fields)
        self.outvoted = list(outvoted)

    def first(self, *messages: Any, live: list[bool] | None = None) -> int | None:
        values = [json.dumps(message).encode() for message in messages]
        rows = decoded(values).column("row")
        fitted, bad = self.rows.fit(rows)
        chosen = np.array(live or [True] * len(rows))
        first, self.reasons = self.growth.look(rows, fitted, bad, chosen)
        if first is not None:
            chosen[list(bad)] = False
            chosen[:first] = False
            chosen[first] = True
            self.growth.grow(rows.slice(first, 1), [rows.filter(pa.array(chosen))])
        return first

    def verdicts(self, *messages: Any) -> str:
        """Return f(its), g(rows) or c(onflict) for each message by itself."""
        found = ""
        for message in messages:
            rows = decoded([json.dumps(message).encode()]).column("row")
            fitted, bad = self.rows.fit(rows)
            first, _ = self.growth.look(rows, fitted, bad, np.array([True]))
            found += "g" if first == 0 else "c" if bad else "f"
        return found


INT, TEXT, DOUBLE = pa.int64(), pa.string(), pa.float64()


@pytest.mark.parametrize(
    ("kind", "values", "verdicts"),
    [
        (INT, [5, 5.0, None, 5.5, 1 << 62, 1 << 70, "5", "007"], "fffgfccc"),
        (INT, [True, [], {}, [5]], "cccc"),
        (DOUBLE, [5, 5.5, 1 << 53, (1 << 53) + 1, "5.5"], "fffcc"),
        (TEXT, ["x", "", 5, True, {}], "fffff"),
        (pa.bool_(), [True, 1, "true"], "fcc"),
        (pa.list_(INT), [[], [5], [None], [5.5], ["x"], [[5]], 5], "fffgccc"),
        (kept(("b", INT)), [{}, {"b": 5}, {"b": 5.5}, {"c": 1}, {"b": "x"}, [1]], "ffggcc"),
        (pa.list_(kept(("b", INT))), [[{"b": 5}], [{"b": 5, "c": 6}], [{"b": "x", "c": 6}]], "fgc"),
        (pa.map_(TEXT, INT), [{"any": 5}, {"any": 5.5}, {"any": "x"}], "fgc"),
        (JSON, [5, "x", {"b": [1]}, [5, "x"], 1 << 70], "fffff"),
    ],
)
def test_a_value_fits_its_column_grows_it_or_is_in_conflict(
    kind: pa.DataType, values: list[Any], verdicts: str
) -> None:
    topic = Topic(kept(("a", kind)))
    found = topic.verdicts(*({"a": value} for value in values))
    assert found == verdicts


def test_new_fields_grow_and_what_shows_no_type_is_kept_as_json() -> None:
    topic = Topic(kept(("a", INT)))
    assert topic.verdicts({"a": 1, "b": None}, {"b": []}, {"b": {}}, {"b": [{}]}) == "ffff"
    rows = decoded([b'{"b": [[], {}], "a": 1}']).column("row")
    fitted, bad = topic.rows.fit(rows)
    assert not bad
    assert fitted.to_pylist() == [{"a": 1, "_extra": '{"b":[[],{}]}'}]
    assert topic.verdicts({"b": [5]}, {"b": {"c": [{"d": 5}]}}, {"b": 0}) == "ggg"


def test_empty_objects_and_lists_of_one_field_grow_nothing_together() -> None:
    topic = Topic(kept(("a", INT)))
    empty: list[Any] = [{"b": {}}, {"b": []}, {"b": [{}]}, {"c": {"d": []}}, {"c": {"d": {}}}]
    assert topic.first(*empty) is None
    assert topic.first({"b": 1}, *empty) == 0
    assert topic.first(*empty, {"b": {}, "c": {"d": [1]}}, {"b": [1]}) == len(empty)


def test_a_message_that_is_in_conflict_brings_no_new_fields() -> None:
    assert Topic(kept(("a", INT))).verdicts({"a": "x", "new": 1}) == "c"


def test_a_reason_names_what_is_in_conflict_not_what_would_have_grown() -> None:
    topic = Topic(kept(("a", INT), ("b", pa.bool_()), ("c", kept(("d", INT)))))
    conflicts = [{"a": 1.5, "b": 5, "new": 1}, {"a": "x", "b": 5}, {"a": 1.5, "c": {"d": "y"}}]
    assert topic.first(*conflicts) is None
    assert topic.reasons == {
        0: "b: 5 is no bool",
        1: "a: 'x' is no int64",
        2: "c.d: 'y' is no int64",
    }
    assert topic.first(conflicts[0], {"a": 1.5}) == 1


def test_the_first_that_grows_is_named_and_all_after_it_are_in_the_proposal() -> None:
    topic = Topic(kept(("a", INT)))
    fit = [{"a": 1}, {"a": "x"}, {"e": []}]
    messages = [*fit, {"a": 2, "b": 1}, {"a": 1.5}, {"c": {"d": "x"}}, {"a": "y"}]
    assert topic.first(*messages) == 3
    [proposed] = topic.proposed
    assert proposed == kept(("a", INT), ("b", INT), ("c", kept(("d", TEXT))))
    # The text among the numbers shows no type for all: the next step widens what is left.
    again = Topic(proposed)
    assert again.first(*messages) == 4
    assert again.proposed == [
        kept(("a", DOUBLE), ("b", INT), ("c", kept(("d", TEXT)))),
    ]
    assert Topic(again.proposed[0]).first(*messages) is None


def test_a_field_of_several_kinds_where_it_first_turns_up_is_text() -> None:
    topic = Topic(kept(("a", INT)))
    assert topic.first({"b": 1}, {"b": "x"}) == 0
    assert topic.proposed == [kept(("a", INT), ("b", TEXT))]


def test_rows_that_are_out_already_grow_nothing() -> None:
    topic = Topic(kept(("a", INT)))
    messages = [{"a": 1.5}, {"b": 1}, {"a": 1, "c": 2}]
    assert topic.first(*messages, live=[False, False, True]) == 2
    assert topic.proposed == [kept(("a", INT), ("c", INT))]
    assert topic.first(*messages, live=[False] * 3) is None


def test_new_fields_come_last_and_what_is_there_stays_where_it_is() -> None:
    before = kept(("z", INT), ("a", kept(("y", INT))))
    new = kept(("d", INT), ("c", INT))
    after = grow_schema(before, seen({"b": {"d": 1, "c": 1}, "a": {"x": 1, "y": 1.5}, "z": 1}))
    assert after == kept(("z", INT), ("a", kept(("y", DOUBLE), ("x", INT))), ("b", new))
    shown = "b (struct<d: int64, c: int64>)"
    assert changes(before, after) == ["a.y (int64 to double)", "a.x (int64)", shown]
    lists = kept(("l", pa.list_(before)), ("m", pa.map_(TEXT, INT)))
    grew = kept(("l", pa.list_(after)), ("m", pa.map_(TEXT, pa.decimal128(20, 1))))
    assert changes(lists, grew) == [
        *("l[].a.y (int64 to double)", "l[].a.x (int64)", f"l[].{shown}"),
        "m{} (int64 to decimal(20, 1))",
    ]


@pytest.mark.parametrize(
    ("kind", "other", "wide"),
    [
        (pa.decimal128(10, 2), pa.decimal128(8, 4), pa.decimal128(12, 4)),
        (INT, pa.uint64(), pa.decimal128(20, 0)),
        (INT, pa.decimal128(5, 2), pa.decimal128(22, 2)),
        (INT, pa.decimal128(38, 18), pa.decimal128(38, 18)),
        (pa.decimal128(5, 2), INT, pa.decimal128(21, 2)),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.date32(), TEXT, pa.date32()),
        (pa.list_(INT), INT, pa.list_(INT)),
        (pa.map_(TEXT, INT), pa.map_(TEXT, DOUBLE), pa.map_(TEXT, DOUBLE)),
        (kept(("b", INT)), pa.map_(TEXT, INT), kept(("b", INT))),
        (JSON, INT, JSON),
        (INT, JSON, INT),
    ],
)
def test_types_widen_as_far_as_nothing_is_lost(
    kind: pa.DataType, other: pa.DataType, wide: pa.DataType
) -> None:
    assert grow_schema(kept(("a", kind)), kept(("a", other))) == kept(("a", wide))


def test_types_that_no_schema_writes_down_become_what_holds_them() -> None:
    odd = kept(("n", pa.uint64()), ("t", pa.duration("ms")), ("nothing", pa.null()))
    assert grow_schema(NOTHING, odd) == kept(("n", pa.decimal128(20, 0)), ("t", TEXT))


def test_there_is_an_end_of_fields_of_names_and_of_depth() -> None:
    many = grow_schema(NOTHING, seen({f"k{at}": {"x": at} for at in range(MOST_FIELDS)}))
    assert field_count(many) == MOST_FIELDS
    assert KeptSchema(1, many).full
    assert grow_schema(many, seen({"one": 1})) == many
    assert grow_schema(NOTHING, seen({"k" * (LONGEST_NAME + 1): 1, "_extra": 1})) == NOTHING
    deep: Any = 1
    for _ in range(DEEPEST + 10):
        deep = {"d": deep}
    fields = grow_schema(NOTHING, seen(deep))
    assert field_count(fields) == DEEPEST
    topic = Topic(fields)
    assert topic.verdicts(deep, {"_extra": 1}, {"k" * 300: 1}) == "fff"


def test_names_that_readers_take_for_one_get_one_column_and_no_name_gets_none() -> None:
    before = kept(("id", INT), ("in", kept(("X", INT))))
    message = {"ID": 1, "a": 1, "A": 2, "": 3, "_EXTRA": 4, "in": {"x": 5, "y": 6}}
    after = grow_schema(before, seen(message))
    assert after == kept(("id", INT), ("in", kept(("X", INT), ("y", INT))), ("a", INT))
    topic = Topic(after)
    assert topic.verdicts(message, {"Id": 1}, {"id": 1, "ID": "x"}) == "fff"
    rows = decoded([json.dumps(message).encode()]).column("row")
    [extra] = topic.rows.fit(rows)[0].field("_extra").to_pylist()
    assert json.loads(extra) == {"": 3, "A": 2, "ID": 1, "_EXTRA": 4, "in": {"x": 5}}
    lists = {"l": [{"b": 1, "B": 2}], "new": {"c": 1, "C": 2}}
    assert grow_schema(NOTHING, seen(lists)) == kept(
        ("l", pa.list_(kept(("b", INT)))), ("new", kept(("c", INT)))
    )


def test_a_field_called_as_the_column_of_what_has_none_is_kept_in_it() -> None:
    rows = decoded([b'{"_extra": {"a": 1}}']).column("row")
    fitted, _ = KeptSchema().rows.fit(rows)
    assert fitted.to_pylist() == [{"_extra": '{"_extra":{"a":1}}'}]


def fits(schema: RowSchema, value: bytes) -> bool:
    return not schema.fit(decoded([value]).column("row"))[1]


@STEADY
@given(st.integers(0, 1 << 32))
def test_growing_twice_changes_nothing_and_the_text_of_a_schema_is_all_of_it(seed: int) -> None:
    chance = random.Random(seed)
    fields = NOTHING
    for _ in range(4):
        rows = decoded(wild_messages(chance)).column("row")
        step = grow_schema(fields, observe(rows).type)
        assert grow_schema(fields, step) == step == grow_schema(step, observe(rows).type)
        fields = step
    again = KeptSchema.parse(KeptSchema(1, fields).text, "text", 1)
    assert again == KeptSchema(1, fields)


@STEADY
@given(st.integers(0, 1 << 32))
def test_what_becomes_of_a_message_depends_on_no_other(seed: int) -> None:
    chance = random.Random(seed)
    topic = Topic(grow_schema(NOTHING, observe(decoded(wild_messages(chance)).column("row")).type))
    values = wild_messages(chance)
    alone = topic.verdicts(*map(json.loads, values))
    assert topic.first(*map(json.loads, values)) == (alone.find("g") if "g" in alone else None)
    together_said = topic.reasons
    for row in (at for at, verdict in enumerate(alone) if verdict == "c"):
        topic.first(json.loads(values[row]))
        assert topic.reasons == {0: together_said[row]}
    rows = decoded(values).column("row")
    together, bad = topic.rows.fit(rows)
    for row, value in enumerate(values):
        single, wrong = topic.rows.fit(decoded([value]).column("row"))
        assert single.to_pylist() == [together[row].as_py()]
        assert bool(wrong) == (row in bad)


@STEADY
@given(st.integers(0, 1 << 32))
def test_each_step_grows_and_after_a_few_all_that_can_be_stored_is(seed: int) -> None:
    """However the log is cut: whatever did not fit in the end is in conflict by itself."""
    chance = random.Random(seed)
    log = [value for _ in range(3) for value in wild_messages(chance)]
    fields, at, steps = NOTHING, 0, 0
    while at < len(log):
        topic = Topic(fields)
        end = at + chance.randrange(1, 9)
        first = topic.first(*map(json.loads, log[at:end]))
        if first is None:
            at = end
            continue
        [proposed] = topic.proposed
        assert grow_schema(fields, proposed) == proposed != fields
        assert fits(KeptSchema(1, proposed).rows, log[at + first])
        fields, at, steps = proposed, at + first, steps + 1
    assert steps <= 60
    final = Topic(fields)
    assert "g" not in final.verdicts(*map(json.loads, log))


INSTANT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")


def actors(count: int, wrong: list[Any]) -> list[Any]:
    right = [{"id": at, "actor": {"name": f"n{at}", "age": at}} for at in range(count - len(wrong))]
    return [*[{"id": -1, "actor": it} for it in wrong], *right]


ACTOR = kept(("name", TEXT), ("age", INT))


@pytest.mark.parametrize("wrong", [["root"] * 4, ["root", 5, [1], True]])
def test_a_new_fields_kind_is_that_of_99_of_100_values(wrong: list[Any]) -> None:
    topic = Topic(NOTHING)
    messages = actors(1000, wrong)
    assert topic.first(*messages) == 0
    assert topic.proposed == [kept(("id", INT), ("actor", ACTOR))]
    [outvoted] = topic.outvoted
    assert outvoted.startswith("actor (4 of 1,000 are texts")
    assert outvoted.endswith(", not objects)")
    after = Topic(topic.proposed[0])
    assert after.first(*messages) is None
    assert sorted(after.reasons) == [0, 1, 2, 3]
    assert after.reasons[0].startswith("actor: 'root' is no struct")


def test_below_99_of_100_a_field_of_several_kinds_is_text() -> None:
    topic = Topic(NOTHING)
    assert topic.first(*actors(1000, ["root"] * 11)) == 0
    assert topic.proposed == [kept(("id", INT), ("actor", TEXT))]
    assert topic.outvoted == []


def test_the_kind_wins_at_every_level_and_numbers_are_one_kind() -> None:
    topic = Topic(NOTHING)
    right = [{"a": {"b": [at, at + 0.5], "c": "x"}} for at in range(200)]
    messages = [{"a": {"b": ["x"], "c": 5}}, *right]
    assert topic.first(*messages) == 0
    assert topic.proposed == [kept(("a", kept(("b", pa.list_(DOUBLE)), ("c", TEXT))))]
    assert topic.outvoted == ["a.b[] (1 of 401 are texts, not numbers)"]


def test_what_is_known_is_not_voted_on() -> None:
    topic = Topic(kept(("a", JSON)))
    messages: list[Any] = [{"a": at, "b": at} for at in range(500)]
    assert topic.first({"a": "x"}, *messages) == 1
    assert topic.proposed == [kept(("a", JSON), ("b", INT))]
    assert topic.outvoted == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2026-11-21T04:05:%02d.123Z", INSTANT),
        ("2026-11-21 04:05:%02d+01:00", INSTANT),
        ("2026-11-21T04:05:%02d.123456", LOCAL),
        ("2026-11-21T04:05:%02d.123456789Z", TEXT),
        ("2026-02-30T04:05:%02dZ", TEXT),
        ("2026-11-%02d", TEXT),
        ("%02d", TEXT),
    ],
)
def test_text_whose_first_thousand_values_are_times_is_a_timestamp(
    text: str, kind: pa.DataType
) -> None:
    messages: list[Any] = [{"in": {"at": text % (row % 28 + 1)}} for row in range(1000)]
    topic = Topic(NOTHING)
    assert topic.first(*messages[1:]) == 0  # one is missing
    assert topic.first(*messages, {"in": {"at": "soon"}}) == 0
    assert topic.first(*messages[1:], {"in": {"at": "soon"}}, *messages) == 0
    assert topic.proposed == [kept(("in", kept(("at", found)))) for found in (TEXT, kind, TEXT)]
    after = Topic(topic.proposed[1])
    bad = {} if kind == TEXT else {1000: f"in.at: 'soon' is no {kind}"}
    assert after.first(*messages, {"in": {"at": "soon"}}) is None
    assert after.reasons == bad


def test_a_time_without_date_offset_or_of_more_digits_does_not_fit_an_inferred_instant() -> None:
    topic = Topic(kept(("at", INSTANT)))
    fit = [{"at": "2026-11-21T04:05:06Z"}, {"at": "1969-12-31 23:59:59.999999-08:00"}]
    misfit: list[Any] = ["2026-11-21", "2026-11-21T04:05:06", "2026-11-21T23:59:60Z", 5, ""]
    misfit += ["2026-11-21T04:05:06.1234567Z", " 2026-11-21T04:05:06Z", "0000-01-01T00:00:00Z"]
    assert topic.verdicts(*fit) == "ff"
    assert topic.verdicts(*({"at": value} for value in misfit)) == "c" * len(misfit)
    [row] = topic.rows.fit(decoded([json.dumps(fit[1]).encode()]).column("row"))[0].to_pylist()
    assert row["at"].isoformat() == "1970-01-01T07:59:59.999999+00:00"
