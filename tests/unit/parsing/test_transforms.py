"""Fields dropped, renamed and masked; messages filtered and routed."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pyarrow as pa
import pytest

from secor.parsing.decoders import make_decoder
from secor.parsing.fields import field_at, texts
from secor.parsing.rows import Decoded
from secor.parsing.transforms import Drop, Filter, Mask, Rename, RouteTransform
from tests.unit.parsing.decoder_cases import decode
from tests.unit.parsing.parsing_cases import rows_of

ROWS = [
    {"id": 1, "user": {"name": "ann", "mail": "a@x"}},
    None,
    {"id": 2, "user": None},
    {"id": None, "user": {"name": None, "mail": "b@x"}},
]


def values(decoded: Decoded) -> list[Any]:
    decoded.rows.validate(full=True)
    return list(decoded.rows.to_pylist())


def test_drop_leaves_the_other_fields_and_the_bad_rows_as_they_are() -> None:
    assert values(Drop("user.mail").apply(rows_of(ROWS))) == [
        {"id": 1, "user": {"name": "ann"}},
        None,
        {"id": 2, "user": None},
        {"id": None, "user": {"name": None}},
    ]
    assert values(Drop("user").apply(rows_of(ROWS)))[0] == {"id": 1}
    assert values(Drop("none.such").apply(rows_of(ROWS))) == ROWS


def test_drop_of_the_last_field_leaves_empty_rows() -> None:
    assert values(Drop("a").apply(rows_of([{"a": 1}, None]))) == [{}, None]


def test_rename_stays_in_its_structure() -> None:
    renamed = values(Rename("user.mail", "email").apply(rows_of(ROWS)))
    assert renamed[0] == {"id": 1, "user": {"name": "ann", "email": "a@x"}}
    assert renamed[2] == {"id": 2, "user": None}
    assert values(Rename("none", "x").apply(rows_of(ROWS))) == ROWS


def test_rename_onto_a_field_that_is_there_is_decided_by_message_and_never_loses() -> None:
    done = Rename("a", "b").apply(rows_of([{"a": 1}, {"b": 2}, {"a": 3, "b": 4}]))
    assert values(done)[:2] == [{"b": 1}, {"b": 2}]
    assert done.bad == {2: "has a and b, too"}


def test_rename_onto_a_field_of_another_type_takes_the_rows_apart() -> None:
    step, rows = Rename("a", "b"), rows_of([{"a": "x"}, {}, {}, {"a": "y"}]).rows
    fields = [rows.type.field("a"), pa.field("b", pa.int64())]
    both = pa.StructArray.from_arrays(
        [rows.field("a"), pa.array([None, 2, None, 3])], fields=fields
    )
    groups = [it.tolist() for it in step.apart(Decoded(both))]
    assert groups == [[1, 2, 3], [0]]
    done = [step.apply(Decoded(both.take(pa.array(group)))) for group in groups]
    assert values(done[0])[:2] == [{"b": 2}, {"b": None}]
    assert values(done[1]) == [{"b": "x"}]
    assert [it.bad for it in done] == [{2: "has a and b, too"}, {}]
    assert [it.tolist() for it in Rename("a", "c").apart(Decoded(both))] == [[0, 1, 2, 3]]


def test_rename_of_a_name_with_a_dot_takes_no_other_field_away() -> None:
    done = Rename("a.x", "w").apply(rows_of([{"a.x": 1, "w": 2}, {"a.x": 3}, {"w": 4}]))
    assert values(done)[1:] == [{"w": 3}, {"w": 4}]
    assert done.bad == {0: "has a.x and w, too"}


def test_rename_of_a_name_with_a_dot_may_give_it_the_name_of_a_structure() -> None:
    rows = rows_of([{"a.x": {"x": 5}}, {"a": {"x": 6}}, {"a.x": {"x": 7}, "a": {"x": 8}}])
    step = Rename("a.x", "a")
    groups = [it.tolist() for it in step.apart(rows)]
    assert groups == [[1, 2], [0]]
    done = [step.apply(Decoded(rows.rows.take(pa.array(group)))) for group in groups]
    assert [it.bad for it in done] == [{1: "has a.x and a, too"}, {}]
    assert [values(it)[0] for it in done] == [{"a": {"a": 6}}, {"a": {"x": 5}}]


def test_mask_by_constant_or_salted_hash_keeps_null() -> None:
    masked = values(Mask("user.mail", "***").apply(rows_of(ROWS)))
    assert [it and it["user"] and it["user"]["mail"] for it in masked] == ["***", None, None, "***"]
    hashed = values(Mask("id", salt=b"pepper").apply(rows_of(ROWS)))
    assert hashed[0]["id"] == hmac.new(b"pepper", b"1", hashlib.sha256).hexdigest()
    assert hashed[3]["id"] is None


WITHIN: list[Any] = [
    {"u": {"mail": "a@x"}},
    {"u": [{"mail": "b@x"}]},
    {"u": [1, [{"mail": "c@x"}]]},
    {"u": {"mail": [{"mail": "d@x"}]}},
    {"u": [{"mail": None}, {"name": "e"}]},
    {"u": [1, "mail"]},
    {"u": "mail"},
    {"u": None},
]


@pytest.mark.parametrize("step", [Mask("u.mail", "***"), Drop("u.mail")])
@pytest.mark.parametrize("alone", [True, False])
def test_a_secret_within_a_list_is_never_left_where_it_is(step: Mask | Drop, alone: bool) -> None:
    decoder = make_decoder("json")
    lines = [json.dumps(item).encode() for item in WITHIN]
    groups = [[line] for line in lines] if alone else [lines]
    bad: list[str | None] = []
    for group in groups:
        made = step.apply(decode(decoder, group))
        made.rows.validate(full=True)
        bad += [made.bad.get(row) for row in range(len(group))]
    why = "u.mail is within a list or a map: "
    assert [None if one is None else one.startswith(why) for one in bad] == [
        *(None, True, True),
        *(None, None, None, None, None),
    ]


def test_a_secret_within_a_map_is_never_left_where_it_is() -> None:
    kind = pa.struct({"tags": pa.map_(pa.string(), pa.string()), "name": pa.string()})
    items = [{"tags": {"mail": "a@x"}}, {"tags": {"name": "b"}}, {"tags": {"mail": None}}, {}]
    rows = pa.array(items, kind)
    assert list(Mask("tags.mail", "***").apply(Decoded(rows)).bad) == [0]
    assert list(Drop("tags.mail").apply(Decoded(rows)).bad) == [0]
    assert Drop("tags").apply(Decoded(rows)).bad == {}
    assert texts(field_at(rows, "tags.mail")).at(0) == "a@x"


def test_the_identity_of_a_mask_tells_of_its_salt_without_telling_it() -> None:
    assert "pepper" not in Mask("id", salt=b"pepper").identity + repr(Mask("id", salt=b"pepper"))
    assert Mask("id", salt=b"pepper").identity != Mask("id", salt=b"salt").identity


@pytest.mark.parametrize(
    ("step", "kept"),
    [
        (Filter("f", ("NL", "DE")), [0, 4]),
        (Filter("f", ("NL", "DE"), negated=True), [1, 2, 3]),
        (Filter("f", (5,)), [1]),
        (Filter("f", pattern="N."), [0]),
        (Filter("f", pattern="N"), []),
        (Filter("f", pattern="N|NL|D."), [0, 4]),
        (Filter("f", pattern=""), [3]),
        (Filter("f"), [0, 1, 3, 4]),
        (Filter("f", negated=True), [2]),
        (Filter("none.such"), []),
        (Filter("f", ("",)), [3]),
    ],
)
def test_filters_keep_by_value_pattern_or_presence(step: Filter, kept: list[int]) -> None:
    decoded = rows_of([{"f": value} for value in ("NL", "5", None, "", "DE")])
    assert [row for row, it in enumerate(step.keep(decoded)) if it] == kept


def test_a_pattern_takes_linear_time_whatever_the_value() -> None:
    decoded = rows_of([{"f": "a" * 50_000 + "!"}, {"f": "a" * 50_000}, {"f": "a\n"}])
    assert Filter("f", pattern="(a+)+$").keep(decoded).tolist() == [False, True, False]


def test_numbers_compare_alike_in_every_column_that_they_may_stand_in() -> None:
    for column in ([5, 6], [5.0, 6.5], ["5", "x"]):
        decoded = Decoded(pa.array([{"f": value} for value in column]))
        assert Filter("f", (5,)).keep(decoded).tolist() == [True, False]
        assert Filter("f", (5.0,)).keep(decoded).tolist() == [True, False]


def test_a_route_by_field_accepts_only_the_topics_that_it_names() -> None:
    decoded = rows_of([{"type": "views"}, {"type": None}, {"type": "../x"}])
    topics, bad = RouteTransform(("views", "clicks"), "type").route(decoded)
    assert (topics.at(0), topics.at(1)) == ("views", None)
    assert bad == {2: "type '../x' is none of the topics that this may go to"}


def test_identities_differ_by_every_setting() -> None:
    steps: list[Any] = [
        Drop("a"),
        Drop("b"),
        Rename("a", "b"),
        Mask("a", "x"),
        Mask("a", "y"),
        Filter("a"),
        Filter("a", negated=True),
        Filter("a", (1,)),
        Filter("a", (2,)),
        Filter("a", pattern="x"),
        RouteTransform(("x",)),
        RouteTransform(("x",), "a"),
    ]
    assert len({step.identity for step in steps}) == len(steps)
