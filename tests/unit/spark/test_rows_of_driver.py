"""Rows that the driver hands to Spark: held, or in a file."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.spark.last_of_keys import ChangeOrder
from secor.spark.rows_of_driver import GROUP_ROWS, DriverRows, fill_rows, keep_rows
from secor.spark.staged_frame import _masks
from secor.tables.rows.row_changes import DELETE, UPSERT
from secor.tables.rows.staged_rows import staged_schema
from tests.unit.spark.test_last_of_keys import COLUMNS, batch

ROW = pa.struct(list(COLUMNS))


def changes(first: int, count: int) -> pa.RecordBatch:
    """Return changes with numbers from ``first`` on."""
    return batch(
        *((0, "t", 0, number, 1, number, "x" * 50) for number in range(first, first + count))
    )


def test_few_rows_are_held_and_more_are_in_a_file(tmp_path: Path) -> None:
    few = DriverRows(ROW, tmp_path / "few", 1 << 20)
    many = DriverRows(ROW, tmp_path / "many", 10_000)
    nowhere = DriverRows(ROW, None, 10_000)
    for rows in (few, many, nowhere):
        for first in range(0, 1000, 100):
            rows.add(changes(first, 100))
        rows.close()
    assert few.local is not None
    assert (few.path, many.local, nowhere.local, nowhere.path) == (None, None, None, None)
    assert many.path == tmp_path / "many"
    assert list(tmp_path.iterdir()) == [many.path]
    assert pq.read_table(many.path) == few.local
    assert few.local.column_names[-3:] == ["column_0", "column_1", "column_2"]
    assert few.local.column("column_0").to_pylist() == list(range(1000))


def test_no_rows_have_their_columns(tmp_path: Path) -> None:
    rows = DriverRows(ROW, tmp_path / "none", 0)
    rows.close()
    assert rows.local is not None
    assert rows.local.num_rows == 0
    assert len(rows.local.column_names) == 9


def test_rows_that_are_kept_go_to_another_file_in_groups(tmp_path: Path) -> None:
    rows = DriverRows(ROW, tmp_path / "all", 0)
    each, batches = 10_000, 2 * GROUP_ROWS // 10_000 + 1
    for number in range(batches):
        rows.add(changes(number * each, each))
    rows.close()
    kept = np.arange(batches * each) % 7 == 0
    keep_rows(tmp_path / "all", tmp_path / "kept", kept)
    offsets = pq.read_table(tmp_path / "kept").column("offset").to_pylist()
    assert offsets == list(range(0, batches * each, 7))
    assert pq.ParquetFile(tmp_path / "all").num_row_groups == 2
    assert pq.ParquetFile(tmp_path / "kept").num_row_groups == 1


@pytest.mark.parametrize("counts", [(3, 9, 8), (0, 4, 0, 17)])
def test_each_file_has_its_bits(counts: tuple[int, ...]) -> None:
    starts = [0, *np.cumsum(counts).tolist()]
    kept = np.arange(starts[-1]) % 3 > 0
    kept[: starts[2]] = True
    kept[starts[1]] = False
    masks = _masks(kept, starts)
    for at, mask in enumerate(masks):
        of_file = kept[starts[at] : starts[at + 1]]
        if mask is None:
            assert of_file.all()
        else:
            bits = np.unpackbits(np.frombuffer(mask, np.uint8))[: counts[at]]
            assert bits.astype(bool).tolist() == of_file.tolist()


WIDE = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("a", pa.string()),
        pa.field("b", pa.list_(pa.string())),
        pa.field("c", pa.map_(pa.string(), pa.int32())),
    ]
)
VALUES: dict[int, list[Any]] = {1: ["x", None, ""], 2: [["y"], None, []], 3: [[("k", 1)], None, []]}
LEFT_OUT = "left out"

Update = dict[int, Any]
"""The values of columns by number, ``LEFT_OUT`` where an update does not bring them."""

UPDATES = st.fixed_dictionaries(
    {number: st.sampled_from([LEFT_OUT, *values]) for number, values in VALUES.items()}
)
CHANGES_OF_ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([("t", 0), ("t", 1)]),
        st.sampled_from([0, 5]),
        st.one_of(st.just(None), UPDATES, UPDATES),
    ),
    max_size=14,
)


def apply_one_after_the_other(changes: list[Any]) -> tuple[dict[int, Update | None], int]:
    """Return what the last change of each key leaves, None for a deletion, and what is unknown.

    Each topic partition's changes of a key are together, ordered by their last ones.
    """
    of_keys: dict[int, dict[Any, list[tuple[int, int, Any]]]] = defaultdict(dict)
    for offset, (key, source, time, update) in enumerate(changes):
        of_keys[key].setdefault(source, []).append((offset, time, update))
    rows: dict[int, Update | None] = {}
    unknown = 0
    for key, sources in of_keys.items():
        in_time = sorted(sources, key=lambda it: (sources[it][-1][1], it, sources[it][-1][0]))
        row: Update | None = dict.fromkeys(VALUES, LEFT_OUT)  # the table's
        lost: set[int] = set()
        for _, _, update in (it for source in in_time for it in sources[source]):
            if update is None:
                row = None
                continue
            if row is None:
                row, lost = dict.fromkeys(VALUES), set(VALUES)
            known = {number for number, value in update.items() if value != LEFT_OUT}
            lost -= known
            row = {**row, **{number: update[number] for number in known}}
        rows[key] = row
        unknown += len(lost) if row is not None else 0
    return rows, unknown


def staged_batch(changes: list[Any]) -> pa.RecordBatch:
    staged = []
    for offset, (key, (topic, partition), time, update) in changes:
        left_out = [number for number, value in (update or {}).items() if value == LEFT_OUT]
        values = {n: None if n in left_out else value for n, value in (update or {}).items()}
        staged.append(
            {
                "operation": DELETE if update is None else UPSERT,
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "timestamp": time,
                "kept": left_out,
                "row": {"id": key, **{WIDE.names[n]: value for n, value in values.items()}},
            }
        )
    return pa.RecordBatch.from_pylist(staged, schema=staged_schema(WIDE, keeping=True))


def rows_by_key(flat: pa.Table) -> dict[int, Update | None]:
    rows: dict[int, Update | None] = {}
    for row in flat.to_pylist():
        values = {number: row[f"column_{number}"] for number in VALUES}
        kept = dict.fromkeys(row["kept"] or (), LEFT_OUT)
        assert row["column_0"] not in rows
        rows[row["column_0"]] = None if row["operation"] == DELETE else {**values, **kept}
    return rows


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES_OF_ROWS, pieces=st.integers(1, 3), seed=st.randoms())
def test_a_column_that_is_left_out_has_the_last_known_value(
    changes: list[Any], pieces: int, seed: Any
) -> None:
    numbered = list(enumerate(changes))
    seed.shuffle(numbered)
    batches = [staged_batch(numbered[at::pieces]) for at in range(pieces)]
    expected, unknown = apply_one_after_the_other(changes)
    order = ChangeOrder(["id"])
    with TemporaryDirectory() as directory:
        path = Path(directory) / "all"
        held = DriverRows(pa.struct(list(WIDE)), None, 1 << 30)
        written = DriverRows(pa.struct(list(WIDE)), path, -1)
        for each in batches:
            order.add(each)
            held.add(each)
            written.add(each)
        held.close()
        written.close()
        last = order.last()
        assert last.known.unknown == unknown
        assert held.local is not None
        filled = fill_rows(held.local, last.known).take(pa.array(last.rows))
        assert rows_by_key(filled) == expected
        if not changes:
            return
        kept = np.zeros(len(changes), dtype=bool)
        kept[last.rows] = True
        assert keep_rows(path, path.with_name("last"), kept, last.known)
        assert rows_by_key(pq.read_table(path.with_name("last"))) == expected


def test_too_many_values_of_others_are_written_nowhere(tmp_path: Path) -> None:
    update = {1: "x" * 1000, 2: [], 3: []}
    changes = [(0, ("t", 0), 0, update), (0, ("t", 0), 0, dict.fromkeys(VALUES, LEFT_OUT))]
    rows = DriverRows(pa.struct(list(WIDE)), tmp_path / "all", -1)
    order = ChangeOrder(["id"])
    batch = staged_batch(list(enumerate(changes)))
    rows.add(batch)
    order.add(batch)
    rows.close()
    kept = np.array([False, True])
    known = order.last().known
    assert not keep_rows(tmp_path / "all", tmp_path / "last", kept, known, most_bytes=500)
    assert not (tmp_path / "last").exists()
    assert keep_rows(tmp_path / "all", tmp_path / "last", kept, known)
    assert pq.read_table(tmp_path / "last").column("column_1").to_pylist() == ["x" * 1000]
