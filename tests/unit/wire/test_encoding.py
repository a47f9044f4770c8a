from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from secor.core.model import SCHEMA
from secor.wire import decode_chunks, parse_header
from secor.wire.codecs import CODECS, compress, decompress
from secor.wire.encoding import (
    BatchProducer,
    encode_batch,
    record_sizes,
    sequence_after,
    split_rows,
)
from tests.unit.wire.wire_batches import CLICKS

FIXED = settings(deadline=None, max_examples=150, derandomize=True, database=None)

contents = st.one_of(
    st.none(), st.binary(max_size=20), st.binary(min_size=3, max_size=3).map(lambda b: b * 3000)
)
headers = st.lists(
    st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=70))), max_size=40
)
timestamps = st.one_of(
    st.none(), st.integers(0, 2**42), st.integers(-(2**40), 0), st.just(0), st.just(-1)
)
messages = st.tuples(timestamps, contents, contents, st.one_of(st.just([]), headers))


Rows = Sequence[tuple[int | None, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]]


def columns(
    rows: Rows,
) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset": 100 + 3 * at,
                "timestamp": timestamp,
                "timestamp_type": 0,
                "key": key,
                "value": value,
                "headers": [{"key": name, "value": content} for name, content in found],
            }
            for at, (timestamp, key, value, found) in enumerate(rows)
        ],
        schema=SCHEMA,
    )


def as_the_client_writes(rows: Rows, codec: int, producer: BatchProducer) -> bytes:
    builder = DefaultRecordBatchBuilder(
        2,
        codec,
        producer.transactional,
        producer.producer_id,
        producer.epoch,
        producer.base_sequence,
        1 << 30,
    )
    for at, (timestamp, key, value, found) in enumerate(rows):
        builder.append(at, -1 if timestamp is None else timestamp, key, value, list(found))
    return bytes(builder.build())


@given(st.lists(messages, min_size=1, max_size=30), st.booleans(), st.sampled_from([0, 4]))
@FIXED
def test_batches_are_byte_for_byte_the_clients(rows: Rows, transactional: bool, codec: int) -> None:
    producer = BatchProducer(77, 3, 41, transactional=True) if transactional else BatchProducer()
    batch = encode_batch(columns(rows), codec=codec, producer=producer)
    assert batch == as_the_client_writes(rows, codec, producer)


@given(st.lists(messages, min_size=1, max_size=30), st.integers(0, 4))
@FIXED
def test_what_is_encoded_is_decoded_again(rows: Rows, codec: int) -> None:
    records = columns(rows)
    (chunk,) = decode_chunks(CLICKS, [encode_batch(records, codec=codec)], 0)
    assert chunk.records.column("offset").to_pylist() == list(range(len(rows)))
    wanted = records.to_pylist()
    for row in wanted:
        # The wire has one word for "no time" and for the time -1.
        row["timestamp"] = None if row["timestamp"] == -1 else row["timestamp"]
    found = chunk.records.to_pylist()
    for row, expected in zip(found, wanted, strict=True):
        assert {**row, "offset": 0} == {**expected, "offset": 0}


@given(st.lists(messages, min_size=1, max_size=20))
@FIXED
def test_no_batch_is_larger_than_its_records_were_counted(rows: Rows) -> None:
    records = columns(rows)
    assert len(encode_batch(records)) <= 61 + int(record_sizes(records).sum())


@given(st.lists(messages, min_size=1, max_size=30), st.integers(61, 9000), st.integers(1, 7))
@FIXED
def test_rows_are_split_within_the_limits_and_none_is_lost(
    rows: Rows,
    most_bytes: int,
    most_records: int,
) -> None:
    records = columns(rows)
    parts = list(split_rows(records, most_bytes, most_records))
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([records]))
    for part in parts:
        assert part.num_rows <= most_records
        assert part.num_rows == 1 or len(encode_batch(part)) <= most_bytes


def test_a_slice_is_encoded_as_what_it_shows() -> None:
    rows = [(at, b"k%d" % at, b"v", [("h", b"%d" % at)]) for at in range(20)]
    part = columns(rows).slice(7, 5)
    assert encode_batch(part) == encode_batch(columns(rows[7:12]))


@pytest.mark.parametrize("codec", range(1, 5))
def test_every_codec_repeats_its_bytes_and_is_decompressed(codec: int) -> None:
    data = b"some bytes that repeat " * 9000
    smaller = compress(codec, data)
    assert smaller == compress(codec, data)
    assert len(smaller) < len(data)
    assert bytes(decompress(codec, memoryview(smaller), len(data))) == data
    assert len(CODECS) == 5


def test_lz4_has_no_block_that_depends_on_the_one_before() -> None:
    # Brokers answer such a batch with an unknown server error.
    independent = compress(3, b"x" * 200_000)[4] & 0x20
    assert independent


def test_compression_that_gains_nothing_is_left_out() -> None:
    batch = encode_batch(columns([(1, None, b"\x00\x01\x02", [])]), codec=1)
    assert parse_header(batch).codec == 0


def test_no_records_are_no_batch() -> None:
    with pytest.raises(ValueError):
        encode_batch(columns([]))


def test_sequences_begin_again_behind_the_greatest() -> None:
    assert sequence_after(0, 5) == 5
    assert sequence_after(2**31 - 2, 3) == 1
