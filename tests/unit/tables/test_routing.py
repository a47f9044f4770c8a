"""Names of tables that messages choose: hostile ones, and a great many."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from secor.config.route_checks import shared_by_topics
from secor.config.table_routes import TableRoute, parts_of
from secor.config.tables import Rows
from secor.core.model import Chunk, TopicPartition
from secor.core.text import escaped_name, unescaped_name
from secor.parsing.placement import Lost, Work
from secor.parsing.rows import Decoded
from secor.tables.rows.routing import Route, TableSettings, route_rows
from tests.fakes.archive import messages

IN_NAMESPACE = Route((("db.", "fields.t"),))
WHOLE_NAME = Route((("", "fields.t"),))


def work_of(values: Sequence[str | None], topic: str = "a") -> Work:
    rows = len(values)
    decoded = pa.StructArray.from_arrays([pa.array(values, pa.string())], ["t"])
    chunk = Chunk(TopicPartition(topic, 0), messages(range(rows)), rows)
    return Work(chunk, Decoded(decoded, {}), np.ones(rows, bool), np.arange(rows), Lost())


def route(
    route: Route, values: Sequence[str | None]
) -> tuple[dict[str, list[int]], dict[int, str]]:
    work = work_of(values)
    by_table = route_rows([route], work, skip_unrouted=False)
    return {name: rows.tolist() for name, (_, rows) in by_table.items()}, work.lost.bad


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("../../etc", "db._x002E__x002E__x002F__x002E__x002E__x002F_etc"),
        ("a.b", "db.a_x002E_b"),
        ("\x00\n", "db._x0000__x000A_"),
        ("ａ\u202e", "db._xFF41__x202E_"),
        ("'; x", "db._x0027__x003B__x0020_x"),
        ("😀", "db._x01F600_"),
        ("a" * 200, "db." + "a" * 200),
    ],
)
def test_a_value_never_leaves_the_namespace_of_its_template(value: str, name: str) -> None:
    assert route(IN_NAMESPACE, [value]) == ({name: [0]}, {})


ALIKE = ["a.b", "a/b", "a-b", "a b", "a_b", "表", "é", "-", "_", "a_x002E_b", "_x005F_"]


@example("_x002E.")
@given(
    st.lists(st.sampled_from(["a", "_", "x", "0", "002E", "_x002E_", ".", "é", "😀", "A"])).map(
        "".join
    )
)
def test_a_name_tells_its_value(value: str) -> None:
    name = escaped_name(value)
    assert re.fullmatch(r"[A-Za-z0-9_]*", name)
    assert unescaped_name(name) == value


def test_different_values_have_different_tables() -> None:
    tables, bad = route(IN_NAMESPACE, ALIKE)
    assert sorted(tables.values()) == [[row] for row in range(len(ALIKE))]
    assert not bad
    assert "db.a_b" in tables
    whole, _ = route(WHOLE_NAME, [f"n.{value}" for value in ALIKE if "." not in value])
    assert len(whole) == len(ALIKE) - 1


def test_a_setting_goes_on_with_underscores_or_refuses_such_values() -> None:
    replacing = replace(IN_NAMESPACE, settings=TableSettings(names="replace"))
    assert route(replacing, ["a.b", "a-b", "a_b"]) == ({"db.a_b": [0, 1, 2]}, {})
    refusing = replace(IN_NAMESPACE, settings=TableSettings(names="quarantine"))
    tables, bad = route(refusing, ["a.b", "a_b"])
    assert tables == {"db.a_b": [1]}
    assert "names no table" in bad[0]
    assert len({it.identity for it in (IN_NAMESPACE, replacing, refusing)}) == 3


@pytest.mark.parametrize("value", ["", None, "a" * 201, "a" * 10_000])
def test_what_can_name_no_table_is_in_quarantine(value: str | None) -> None:
    tables, bad = route(IN_NAMESPACE, ["good", value])
    assert tables == {"db.good": [0]}
    assert list(bad) == [1]
    assert len(bad[1]) < 200


@pytest.mark.parametrize("value", ["..", ".a", "a.", "a..b", "a", "", "a" * 300 + ".b"])
def test_what_is_no_whole_name_is_in_quarantine(value: str) -> None:
    tables, bad = route(WHOLE_NAME, ["x.y", value])
    assert tables == {"x.y": [0]}
    assert list(bad) == [1]


def test_memory_grows_with_the_rows_and_not_with_rows_times_names() -> None:
    """Each name had a mask of all rows: 32,000 messages took 1 GB, a chunk has up to 300,000."""
    work = work_of([f"t{row}" for row in range(20_000)])
    tracemalloc.start()
    try:
        tables = route_rows([IN_NAMESPACE], work, skip_unrouted=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(tables) == 20_000
    assert [rows.tolist() for _, rows in list(tables.values())[:3]] == [[0], [1], [2]]
    assert peak < 60 << 20


JOINED = Route((("db.p_", "fields.a"), ("_", "fields.b"), ("_v_", "fields.c")))
PIECES = st.lists(st.sampled_from(["a", "_", "x", "005F", "v", "."]), min_size=1, max_size=4)
VALUES = st.tuples(*[PIECES.map("".join)] * 3)


def tables_of(route: Route, messages_: Sequence[tuple[str, ...]]) -> dict[str, list[int]]:
    columns = [pa.array(values, pa.string()) for values in zip(*messages_, strict=True)]
    work = work_of([""] * len(messages_))
    rows = pa.StructArray.from_arrays(columns, ["a", "b", "c"][: len(columns)])
    work = replace(work, decoded=Decoded(rows, {}))
    by_table = route_rows([route], work, skip_unrouted=False)
    return {name: rows.tolist() for name, (_, rows) in by_table.items()}


@example([("x_", "y", "z"), ("x", "_y", "z")])
@example([("p", "x005F_q", "r"), ("p_q", "r", "s")])
@example([("p", "x005F", "q"), ("p_q", "r", "s"), ("p", "x005Fv", "q")])
@example([("a", "b_v", "c"), ("a", "b", "v_c")])
@settings(max_examples=60)
@given(st.lists(VALUES, min_size=1, max_size=4, unique=True))
def test_different_values_of_several_fields_have_different_tables(
    values: list[tuple[str, ...]],
) -> None:
    assert sorted(tables_of(JOINED, values).values()) == [[row] for row in range(len(values))]


TEMPLATES = [
    "db.{topic}_{fields.t}",
    "db.{topic}{fields.t}",
    "db.{fields.t}_{topic}",
    "db.{topic}-{fields.t}",
    "{topic}.{fields.t}",
    "b_{topic}.a_{fields.t}",
    "db.a{topic}_b{fields.t}_a",
]
ALL_VALUES = ["".join(it) for size in range(1, 6) for it in product("a_b", repeat=size)]


@settings(max_examples=60)
@given(
    st.sampled_from(TEMPLATES),
    st.lists(st.text("a_b-", min_size=1, max_size=3), min_size=2, max_size=3, unique=True),
)
def test_topics_share_no_table_unless_the_configuration_refuses_them(
    template: str, topics: list[str]
) -> None:
    route = Route(tuple(parts_of(template)))
    tables: dict[str, set[str]] = {}
    for topic in topics:
        for name in route.tables(work_of(ALL_VALUES, topic), np.ones(len(ALL_VALUES), bool))[0]:
            tables.setdefault(name, set()).add(topic)
    shared = {tuple(sorted(pair)) for it in tables.values() for pair in combinations(it, 2)}
    refused: set[tuple[str, ...]] = set()
    for names, _ in shared_by_topics([TableRoute(table=template)], topics, Rows()):
        refused |= {tuple(sorted(pair)) for pair in combinations(names, 2)}
    assert refused == shared


def test_values_without_an_underscore_have_the_names_they_always_had() -> None:
    two = Route((("db.", "fields.a"), ("_", "fields.b")))
    named = tables_of(two, [("shop", "orders"), ("shop", "x1234"), ("shop", "a_b"), ("my", "o.p")])
    assert list(named) == ["db.shop_orders", "db.shop_x1234", "db.shop_a_b", "db.my_o_x002E_p"]
    apart = Route((("db.", "fields.a"), ("-", "fields.b")))
    assert list(tables_of(apart, [("a_b", "c"), ("a", "b_c")])) == ["db.a_b-c", "db.a-b_c"]
    refusing = replace(two, settings=TableSettings(names="quarantine"))
    assert tables_of(refusing, [("a_b", "c"), ("a", "b_c")]) == {"db.a_b_c": [1]}
    replacing = replace(two, settings=TableSettings(names="replace"))
    assert tables_of(replacing, [("a_b", "c"), ("a", "b_c")]) == {"db.a_b_c": [0, 1]}
