"""Names of tables that messages choose: hostile ones, and a great many."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from secor.core.model import Chunk, TopicPartition
from secor.parsing.placement import Lost, Work
from secor.parsing.rows import Decoded
from secor.tables.routing import Route, route_rows
from tests.fakes.archive import messages

IN_NAMESPACE = Route((("db.", "fields.t"),))
WHOLE_NAME = Route((("", "fields.t"),))


def work_of(values: list[str | None]) -> Work:
    rows = len(values)
    decoded = pa.StructArray.from_arrays([pa.array(values, pa.string())], ["t"])
    chunk = Chunk(TopicPartition("a", 0), messages(range(rows)), rows)
    return Work(chunk, Decoded(decoded, {}), np.ones(rows, bool), np.arange(rows), Lost())


def route(route: Route, values: list[str | None]) -> tuple[dict[str, list[int]], dict[int, str]]:
    work = work_of(values)
    by_table = route_rows([route], work, skip_unrouted=False)
    return {name: rows.tolist() for name, (_, rows) in by_table.items()}, work.lost.bad


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("../../etc", "db.______etc"),
        ("a.b", "db.a_b"),
        ("\x00\n", "db.__"),
        ("ａ\u202e", "db.__"),
        ("'; drop table x", "db.___drop_table_x"),
        ("a" * 200, "db." + "a" * 200),
    ],
)
def test_a_value_never_leaves_the_namespace_of_its_template(value: str, name: str) -> None:
    assert route(IN_NAMESPACE, [value]) == ({name: [0]}, {})


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
