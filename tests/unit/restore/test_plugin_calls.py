"""What a filter or a transform of a user does wrong names the plug-in and the partition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from secor.core.errors import PluginFailed
from secor.restore.model import Piece, SourcePartition
from secor.restore.routing import Routing
from tests.fakes.archive import messages

CLICKS = SourcePartition("archive", "clicks", 1)
ROWS = messages(range(3))


def written(**plugins: Any) -> list[int]:
    route = Routing("{topic}", {"clicks": 2}, **plugins)
    targets = route(CLICKS, Piece(ROWS, 3))
    return [offset for it in targets for offset in it.records.column("offset").to_pylist()]


@pytest.mark.parametrize(
    "mask",
    [
        pa.array([True, False, True]),
        pa.chunked_array([[True], [False, True]]),
        np.array([True, False, True]),
    ],
)
def test_a_filter_gives_a_column_of_truths(mask: object) -> None:
    assert written(row_filter=lambda _topic, _rows: mask) == [0, 2]


@pytest.mark.parametrize(
    ("mask", "what"),
    [
        (None, "gave None"),
        ([True] * 3, "gave a builtins.list"),
        (np.array([1, 0, 1]), "gave a numpy.ndarray"),
        (pa.array([1, 0, 1]), "gave 3 of int64 for 3 rows"),
        (pa.array([True]), "gave 1 of bool for 3 rows"),
        (pa.array([True, None, True]), "gave 1 null"),
    ],
)
def test_another_answer_of_a_filter_is_named(mask: object, what: str) -> None:
    with pytest.raises(PluginFailed, match=f"clicks/1: source.filter {what}: it has to give"):
        written(row_filter=lambda _topic, _rows: mask)


def test_an_exception_of_a_plug_in_stops_its_partition_alone() -> None:
    def fails(_topic: str, _rows: pa.RecordBatch) -> Any:
        raise KeyError("country")

    with pytest.raises(
        PluginFailed,
        match=r"clicks/1: source.filter failed with KeyError: 'country' on the messages of offsets"
        " 0 to 2",
    ):
        written(row_filter=fails)
    with pytest.raises(PluginFailed, match=r"clicks/1: source.transform failed with KeyError"):
        written(transform=fails)


def test_a_transform_may_give_a_table() -> None:
    parts = [ROWS.slice(0, 1), ROWS.slice(1)]
    assert written(transform=lambda _topic, _rows: pa.Table.from_batches(parts)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("result", "what"),
    [
        (None, "gave None"),
        (pa.Table.from_batches([ROWS.slice(0, 0)]), "gave "),
        (ROWS.select(["offset"]), r"gave the columns offset \(int64\)"),
        (ROWS.slice(1), "gave other offsets for 3 rows"),
    ],
)
def test_another_answer_of_a_transform_is_named(result: object, what: str) -> None:
    with pytest.raises(PluginFailed, match=f"clicks/1: source.transform {what}"):
        written(transform=lambda _topic, _rows: result)
