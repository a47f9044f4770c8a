"""Rows that the driver hands to Spark: held, or in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from secor.spark.rows_of_driver import GROUP_ROWS, DriverRows, keep_rows
from secor.spark.staged_frame import _masks
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
    assert len(rows.local.column_names) == 8


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
