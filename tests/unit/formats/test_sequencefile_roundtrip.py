from __future__ import annotations

import io
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.core.errors import ConfigurationError, RecordRefused
from secor.core.model import SCHEMA
from secor.formats.sequencefile import SequenceFileFormat, format, record_writer
from tests.unit.formats.sequencefile_messages import (
    CODECS,
    KEYS,
    ROWS,
    SEED,
    Row,
    batch,
    expected,
    header,
    read,
    row,
    varied,
    write,
)

QUICK = settings(deadline=None, max_examples=60, derandomize=True)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("keys", KEYS)
def test_what_is_written_is_read_back(keys: Any, codec: Any) -> None:
    rows = varied(700)
    form = SequenceFileFormat(keys, codec)
    assert read(write(form, batch(rows))) == expected(keys, rows)


@given(ROWS, st.sampled_from(KEYS), st.sampled_from(["none", "gzip", "lz4"]))
@QUICK
def test_every_message_that_columns_can_hold_survives(
    rows: list[Row], keys: Any, codec: Any
) -> None:
    form = SequenceFileFormat(keys, codec)
    assert read(write(form, batch(rows))) == expected(keys, rows)


@pytest.mark.parametrize("codec", ["none", "default"])
@given(data=st.data())
@settings(deadline=None, max_examples=15, derandomize=True)
def test_bytes_do_not_depend_on_how_records_were_handed_over(
    codec: Any, data: st.DataObject
) -> None:
    rows = batch(varied(900, 1500))
    form = SequenceFileFormat(codec=codec)
    cuts = sorted(data.draw(st.lists(st.integers(0, rows.num_rows), max_size=12)))
    bounds = list(zip([0, *cuts], [*cuts, rows.num_rows], strict=True))
    parts = [rows.slice(start, end - start) for start, end in bounds]
    assert write(form, *parts) == write(form, rows)


def test_one_message_at_a_time_gives_the_same_file() -> None:
    rows = batch(varied(300))
    for codec in ("none", "snappy"):
        form = SequenceFileFormat(codec=codec)
        assert write(form, *(rows.slice(at, 1) for at in range(300))) == write(form, rows)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_file_without_messages_is_a_header_alone(codec: Any) -> None:
    form = SequenceFileFormat(codec=codec)
    data = write(form)
    assert data.startswith(b"SEQ\x06")
    assert read(data) == []
    assert write(form, batch([])) == data


def test_batches_read_have_the_schema_and_a_bounded_size() -> None:
    rows = batch([row(offset, b"") for offset in range(45_000)])
    for codec in ("none", "lz4"):
        data = write(SequenceFileFormat(codec=codec), rows)
        batches = list(SequenceFileFormat().read(io.BytesIO(data), "a.seq"))
        assert all(one.schema.equals(SCHEMA) and one.num_rows <= 10_000 for one in batches)
        assert sum(one.num_rows for one in batches) == 45_000


def test_a_value_larger_than_every_buffer_survives() -> None:
    rows = [row(1, b"a" * 9_000_000, key=b"k" * 70_000), row(2, b"b"), row(3, b"c" * 5_000_000)]
    for codec in CODECS:
        assert read(write(SequenceFileFormat(codec=codec), batch(rows))) == rows  # type: ignore[arg-type]


def test_a_record_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_writer, "LARGEST", 1000)
    with pytest.raises(RecordRefused, match="offset 7 takes 10"):
        write(SequenceFileFormat(), batch([row(6), row(7, b"x" * 1000)]))


class _Counting:
    """A sink that remembers the sizes it was given."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def write(self, data: Any) -> None:
        self.sizes.append(len(data))


@pytest.mark.parametrize("codec", ["none", "snappy"])
@pytest.mark.parametrize("at_once", [50, 20_000])
def test_the_sink_gets_large_pieces_and_memory_is_told_and_bounded(
    codec: Any, at_once: int
) -> None:
    chance = random.Random(1)
    rows = batch([row(offset, chance.randbytes(200)) for offset in range(20_000)])
    sink = _Counting()
    form = SequenceFileFormat(codec=codec)
    making = form.create(sink, SEED)
    most = whole = 0
    for at in range(0, rows.num_rows, at_once):
        making.append(rows.slice(at, at_once))
        most = max(most, making.buffered())
        whole += rows.slice(at, at_once).nbytes
        assert making.buffered() + sum(sink.sizes) >= 0.9 * whole
    assert most < format.BLOCK_SIZE + (2 << 20)
    making.close()
    assert making.buffered() == 0
    assert sum(sink.sizes) == len(write(form, rows))
    assert max(sink.sizes) <= 1 << 20
    assert sum(sink.sizes) / len(sink.sizes) > 200_000


def test_a_slice_that_waits_does_not_hold_the_batch_it_was_cut_from() -> None:
    rows = batch([row(offset, b"x" * 1000) for offset in range(1000)])
    making = SequenceFileFormat().create(io.BytesIO(), SEED)
    making.append(rows.slice(10, 20))
    assert making.buffered() < 30_000


def test_settings_that_change_bytes_change_the_identity() -> None:
    forms = [SequenceFileFormat(keys, codec) for keys in KEYS for codec in CODECS]  # type: ignore[arg-type]
    assert len({form.identity for form in forms}) == len(forms)
    assert {form.extension for form in forms} == {".seq"}


def test_unknown_settings_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="use one of none, gzip"):
        SequenceFileFormat(codec="lzo")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="use one of messagepack, legacy"):
        SequenceFileFormat(keys="text")  # type: ignore[arg-type]


def test_few_and_many_headers_stand_side_by_side() -> None:
    counts = (0, 1, 15, 16, 0, 40, 2)
    rows = [
        row(
            at, headers=[header("n" * (20 * index), b"v" * index or None) for index in range(count)]
        )
        for at, count in enumerate(counts)
    ]
    assert read(write(SequenceFileFormat(), batch(rows))) == rows
