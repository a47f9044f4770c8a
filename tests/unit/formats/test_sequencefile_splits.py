from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.core.errors import CorruptFile
from secor.formats.sequencefile import SequenceFileFormat
from secor.formats.sequencefile.header import sync_of
from tests.unit.formats.sequencefile_messages import SEED, Row, batch, read, varied, write

FORMATS = [SequenceFileFormat(codec="none"), SequenceFileFormat(codec="lz4")]
MESSAGES = varied(9000)
FILES = [write(form, batch(MESSAGES)) for form in FORMATS]


def _split(data: bytes, start: int, end: int) -> list[Row]:
    batches = SequenceFileFormat().read_split(io.BytesIO(data), start, end, "a.seq")
    return [one for part in batches for one in part.to_pylist()]


def _offsets(data: bytes, start: int, end: int) -> list[int]:
    batches = SequenceFileFormat().read_split(io.BytesIO(data), start, end, "a.seq")
    return [offset for part in batches for offset in part.column("offset").to_pylist()]


ALL = [one["offset"] for one in MESSAGES]


@pytest.mark.parametrize("data", FILES, ids=["records", "blocks"])
@given(drawn=st.data())
@settings(deadline=None, max_examples=12, derandomize=True)
def test_splits_that_cover_a_file_give_each_record_once(data: bytes, drawn: Any) -> None:
    cuts = sorted(drawn.draw(st.lists(st.integers(0, len(data)), max_size=5)))
    bounds = zip([0, *cuts], [*cuts, len(data)], strict=True)
    assert [one for start, end in bounds for one in _offsets(data, start, end)] == ALL


@pytest.mark.parametrize("data", FILES, ids=["records", "blocks"])
def test_cuts_around_every_edge_of_header_and_markers_lose_nothing(data: bytes) -> None:
    small = data[: data.index(b"\xff\xff\xff\xff" + sync_of(SEED), 250_000)]
    whole = [one["offset"] for one in read(small)]
    markers = [0]
    while (at := small.find(b"\xff\xff\xff\xff" + sync_of(SEED), markers[-1] + 1)) >= 0:
        markers.append(at)
    head = small.index(sync_of(SEED)) + 16
    edges = [1, 10, head, *markers[1:3]]
    for cut in {max(0, edge + by) for edge in edges for by in (-1, 0, 1, 3, 4, 5, 19, 20, 21)}:
        assert _offsets(small, 0, cut) + _offsets(small, cut, len(small)) == whole, cut


def test_a_split_holds_the_records_after_the_markers_that_begin_in_it() -> None:
    data = FILES[0]
    marker = b"\xff\xff\xff\xff" + sync_of(SEED)
    first = data.index(marker)
    second = data.index(marker, first + 1)
    before = _split(data, 0, first)
    assert _split(data, first, second) == _split(data, 1000, first + 1)
    assert _split(data, first + 1, second) == []
    assert before + _split(data, first, second) == MESSAGES[: len(_split(data, 0, second))]


def test_a_split_beyond_the_file_is_empty() -> None:
    assert _split(FILES[0], len(FILES[0]), len(FILES[0]) + 100) == []
    assert _split(FILES[0], 0, 0) == []


def test_a_split_of_a_broken_file_names_the_place() -> None:
    data = FILES[1][:-5]
    with pytest.raises(CorruptFile, match=r"a\.seq: at byte \d+: the file ends at byte"):
        _split(data, 0, len(data))
