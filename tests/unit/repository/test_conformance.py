"""The comparison of tables with their sources: every difference is seen, and nothing else."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.conformance.cdc import Outcome
from tests.conformance.columns import Kind
from tests.conformance.comparing import Comparison, compare
from tests.conformance.message_cases import cases
from tests.conformance.message_page import PAGE, without_reason
from tests.conformance.message_tables import Outcome as Rows
from tests.conformance.message_tables import differences
from tests.conformance.messages import Difference
from tests.conformance.postgresql_columns import KINDS
from tests.conformance.source_tables import SourceTable
from tests.conformance.storing import logged_stops
from tests.conformance.workload import Workload

COLUMNS: dict[str, Kind] = {
    "id": KINDS["c_bigint"],
    "amount": KINDS["c_numeric_9_2"],
    "seen": KINDS["c_double"],
}
SOURCE = SourceTable("orders", ("id",), COLUMNS)
SCHEMA = pa.schema([(name, kind.arrow) for name, kind in COLUMNS.items()])
ROWS: dict[tuple[Any, ...], dict[str, Any]] = {
    (1,): {"id": 1, "amount": Decimal("1.50"), "seen": "nan"},
    (2,): {"id": 2, "amount": None, "seen": "-0.0"},
}
STORED: list[dict[str, Any]] = [
    {"id": 1, "amount": Decimal("1.50"), "seen": float("nan")},
    {"id": 2, "amount": None, "seen": -0.0},
]


def compared(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> Comparison:
    return compare(SOURCE, ROWS, pa.Table.from_pylist(rows, schema))


def test_equal_tables() -> None:
    assert compared(STORED).lines() == ["orders: 2 rows, equal"]
    assert Outcome([compared(STORED)], {}, {}).equal


def test_rows_that_are_missing_or_extra_or_there_twice() -> None:
    third = {"id": 3, "amount": None, "seen": None}
    result = compared([STORED[0], STORED[0], third])
    assert (result.missing, result.extra, result.twice) == ([(2,)], [(3,)], [(1,)])
    assert not result.equal
    assert not compare(SOURCE, ROWS, None).equal


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("amount", Decimal("1.51"), "(1,): source Decimal('1.50'), table Decimal('1.51')"),
        ("amount", None, "(1,): source Decimal('1.50'), table None"),
        ("seen", 0.0, "(1,): source 'nan', table '0.0'"),
    ],
)
def test_a_value_that_differs(column: str, value: object, shown: str) -> None:
    result = compared([{**STORED[0], column: value}, STORED[1]])
    assert result.columns == {column: [shown]}
    assert f"    {column}: 1: {shown}" in result.lines()


def test_a_column_of_another_type() -> None:
    text = SCHEMA.set(1, pa.field("amount", pa.string()))
    [first, *_] = compared([{**STORED[0], "amount": "1.50"}, STORED[1]], text).columns["amount"]
    assert first == "type string, expected decimal128(9, 2) for numeric(9,2)"


def test_what_is_stopped_or_in_quarantine_is_no_success() -> None:
    equal = [compared(STORED)]
    assert not Outcome(equal, {"shop.public.orders/0": "a reason"}, {}).equal
    assert not Outcome(equal, {}, {"shop.public.orders: a reason": 1}).equal


class Recorder:
    """A cursor that keeps what is executed."""

    def __init__(self) -> None:
        self.statements: list[object] = []

    def execute(self, statement: str, values: object = None) -> None:
        self.statements.append((statement, values))


def test_a_seed_and_a_number_of_transactions_are_the_same_changes_again() -> None:
    def statements(seed: int, *counts: int) -> list[object]:
        recorder = Recorder()
        workload = Workload(recorder, seed)
        for count in counts:
            workload.run_counted(count, 1e9)
        assert recorder.statements.count(("COMMIT", None)) == sum(counts)
        return recorder.statements

    assert statements(7, 40) == statements(7, 13, 27)
    assert statements(7, 40) != statements(8, 40)


def test_what_a_daemon_stopped_and_did_not_begin_again() -> None:
    events = [("a", 0, "stopped"), ("a", 1, "stopped"), ("a", 1, "running"), ("a", 2, "running")]
    lines = [
        json.dumps({"topic": topic, "partition": number, "event": event, "error": "a reason"})
        for topic, number, event in events
    ]
    assert logged_stops("\n".join(["no JSON", *lines, '{"event": "sto'])) == {"a/0": "a reason"}


def test_every_difference_from_the_sink_is_seen_and_has_its_reason() -> None:
    case = next(it for it in cases() if it.table == "j_integer_then_fraction")
    columns = {"n": "long", "v": "long"}
    sink = Rows(columns, {0: {"n": 0, "v": 10}, 1: {"n": 1, "v": 10}})
    ours = Rows({**columns, "v": "double"}, {0: {"n": 0, "v": 10.0}, 1: {"n": 1, "v": 10.5}})
    assert differences(case, sink, sink) is None
    texts = differences(case, sink, ours)
    assert texts == ("`v` long: 10, 10", "`v` double: 10.0, 10.5")
    lost = Rows(columns, {0: sink.rows[0]}, {1: "schema: v"})
    assert differences(case, sink, lost) == (
        "`v` long: 10, 10",
        "`v` long: 10, –; message 2 in quarantine: schema: v",
    )
    other = next(it for it in cases() if it.table == "j_integer")
    found = [Difference(case, *texts), Difference(other, *texts)]
    assert without_reason(found) == found[1:]


def test_the_page_has_a_reason_for_each_difference() -> None:
    names = {case.name for case in cases()}
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    listed = [row for row in rows if row[0] != "| case"]
    assert len(listed) > 20
    for row in listed:
        assert row[0].removeprefix("| ") in names
        assert len(row[-1].removesuffix(" |")) > 10, row
