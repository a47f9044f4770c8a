from __future__ import annotations

import gzip
import io
import itertools
import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.core.errors import ConfigurationError, CorruptFile, RecordRefused
from secor.core.model import SCHEMA
from secor.core.ports import LogFormat
from secor.formats import format_of_key, make_format
from secor.formats.parquet import ParquetFormat
from secor.formats.streams import (
    BLOCK,
    FED,
    GZIP_STATE,
    MOST_SPILLED,
    SPILLED,
    UNFED_STATE,
    WRITTEN,
    ZSTD_STATE,
    GzipStream,
    ZstdStream,
)
from secor.formats.text import TextFormat

STEADY = settings(deadline=None, max_examples=40, derandomize=True)


def batch(values: Sequence[bytes | None], first: int = 0, **columns: object) -> pa.RecordBatch:
    rows = len(values)
    data = {
        "offset": list(range(first, first + rows)),
        "timestamp": [1_700_000_000_000 + at for at in range(rows)],
        "timestamp_type": [0] * rows,
        "key": [None] * rows,
        "value": list(values),
        "headers": [[] for _ in range(rows)],
        **columns,
    }
    return pa.RecordBatch.from_pydict(data, schema=SCHEMA)


def written(log_format: LogFormat, batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = io.BytesIO()
    writer = log_format.create(sink, b"seed")
    for records in batches:
        writer.append(records)
    writer.close()
    return sink.getvalue()


def values_of(log_format: LogFormat, data: bytes) -> list[bytes | None]:
    batches = list(log_format.read(io.BytesIO(data), "file"))
    assert all(records.schema.equals(SCHEMA) for records in batches)
    return [value for records in batches for value in records.column("value").to_pylist()]


def split(records: pa.RecordBatch, cuts: Sequence[int]) -> list[pa.RecordBatch]:
    edges = [0, *sorted(min(cut, records.num_rows) for cut in cuts), records.num_rows]
    return [records.slice(a, b - a) for a, b in itertools.pairwise(edges)]


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_text_comes_back_as_it_went_in(codec: str) -> None:
    log_format = make_format("text", codec=codec)
    values = [b"one", b"", b"\xff\x00", b"x" * (2 * BLOCK)]
    data = written(log_format, [batch(values)])
    assert values_of(log_format, data) == values
    assert values_of(log_format, written(log_format, [])) == []


def test_gzip_text_is_gzip_to_everybody_and_has_no_time_in_it() -> None:
    data = written(TextFormat(codec="gzip"), [batch([b"a", b"b"])])
    assert gzip.decompress(data) == b"a\nb\n"
    assert data[4:8] == bytes(4)


@pytest.mark.parametrize(
    "log_format",
    [
        TextFormat(),
        TextFormat(codec="gzip"),
        TextFormat(codec="zstd"),
        ParquetFormat(row_group_rows=700),
        ParquetFormat(codec="none", row_group_rows=64),
    ],
    ids=lambda log_format: log_format.identity,
)
def test_bytes_do_not_depend_on_how_records_were_appended(log_format: LogFormat) -> None:
    draw = random.Random(5)
    values = [None if at % 50 == 9 else draw.randbytes(draw.randrange(400)) for at in range(3000)]
    headers = [[{"key": "h", "value": None}] if at % 7 == 0 else [] for at in range(3000)]
    records = batch(values, headers=headers, key=[b"k"] * 3000)
    whole = written(log_format, [records])
    for seed in range(3):
        cuts = random.Random(seed).sample(range(3000), 20)
        assert written(log_format, split(records, cuts)) == whole


@pytest.mark.parametrize(("stream", "state"), [(GzipStream, GZIP_STATE), (ZstdStream, ZSTD_STATE)])
@STEADY
@given(cuts=st.lists(st.integers(0, 3 * BLOCK), max_size=6))
def test_compressed_bytes_depend_on_the_content_alone(
    stream: type[GzipStream] | type[ZstdStream], state: int, cuts: list[int]
) -> None:
    content = random.Random(1).randbytes(1000) * (3 * BLOCK // 1000)
    results = []
    for edges in ([0, len(content)], [0, *sorted(cuts), len(content)]):
        sink = io.BytesIO()
        target = stream(sink)
        for start, end in itertools.pairwise(edges):
            target.write(content[start:end])
        assert target.buffered() < FED + state + WRITTEN
        target.close()
        results.append(sink.getvalue())
    assert results[0] == results[1]


class SpillSink(io.BytesIO):
    """Asks to spill from the start, or from ``after`` requests on."""

    def __init__(self, after: int = 0) -> None:
        super().__init__()
        self.spilled = b""
        self.most_spilled = 0
        self._until_spills = after

    @property
    def should_spill(self) -> bool:
        self._until_spills -= 1
        return self._until_spills < 0

    def spill(self, data: bytes | memoryview) -> None:
        assert not self.tell(), "something was written before"
        self.spilled += data
        self.most_spilled = max(self.most_spilled, len(self.spilled))

    def take_spilled(self) -> Iterator[bytes]:
        for at in range(0, len(self.spilled), FED - 1):
            yield self.spilled[at : at + FED - 1]
        self.spilled = b""


@pytest.mark.parametrize(("stream", "state"), [(GzipStream, GZIP_STATE), (ZstdStream, ZSTD_STATE)])
@STEADY
@given(
    size=st.integers(0, MOST_SPILLED + 2 * FED),
    cuts=st.lists(st.integers(0, MOST_SPILLED), max_size=6),
    after=st.integers(0, 2),
)
def test_compressed_bytes_do_not_depend_on_what_was_spilled(
    stream: type[GzipStream] | type[ZstdStream], state: int, size: int, cuts: list[int], after: int
) -> None:
    content = (random.Random(1).randbytes(700) * (size // 700 + 1))[:size]
    sink, spilling = io.BytesIO(), SpillSink(after)
    target = stream(sink)
    target.write(content)
    target.close()
    target = stream(spilling)
    for start, end in itertools.pairwise([0, *sorted(min(cut, size) for cut in cuts), size]):
        target.write(content[start:end])
        if spilling.spilled:
            assert target.buffered() < SPILLED + UNFED_STATE, "its compressor has begun"
    target.close()
    assert spilling.getvalue() == sink.getvalue()
    assert spilling.spilled == b""
    assert spilling.most_spilled <= MOST_SPILLED


def test_the_first_blocks_of_a_file_are_spilled_only_where_many_are_open() -> None:
    spilling, roomy = SpillSink(), SpillSink(after=1)
    for sink in (spilling, roomy):
        target = GzipStream(sink)
        target.write(b"x" * (3 * FED + 1))
        target.write(b"x" * FED)
        assert len(sink.spilled) == (4 * FED + 1 if sink is spilling else 0)
        target.close()


def test_line_23_payloads_that_hold_the_delimiter_are_counted() -> None:
    sink = io.BytesIO()
    writer = TextFormat().create(sink, b"")
    writer.append(batch([b"a\nb", None, b"c", b"\n\n"]))
    writer.close()
    assert writer.losses == {"delimiter_in_value": 2, "no_value": 1}
    assert sink.getvalue() == b"a\nb\nc\n\n\n\n"


def test_a_refused_payload_is_named_by_its_offset_and_nothing_is_written() -> None:
    sink = io.BytesIO()
    writer = TextFormat(on_delimiter="refuse").create(sink, b"")
    with pytest.raises(RecordRefused, match="offset 41"):
        writer.append(batch([b"fine", b"two\nlines"], first=40))
    assert sink.getvalue() == b""


def test_line_23_a_delimiter_of_two_bytes_is_found_across_the_end_of_a_payload() -> None:
    log_format = TextFormat(delimiter=b"aa", on_delimiter="refuse")
    with pytest.raises(RecordRefused, match="offset 1"):
        written(log_format, [batch([b"xb", b"xa"])])


def test_null_payloads_become_empty_when_asked() -> None:
    assert written(TextFormat(null_values="empty"), [batch([None, b"a"])]) == b"\na\n"
    assert written(TextFormat(null_values="skip"), [batch([None, None])]) == b""


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_text_that_was_cut_short_is_corrupt(codec: str) -> None:
    log_format = make_format("text", codec=codec)
    data = written(log_format, [batch([b"one" * 100, b"two" * 100])])
    with pytest.raises(CorruptFile, match="object-7"):
        list(log_format.read(io.BytesIO(data[:-9]), "object-7"))


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_text_whose_bytes_changed_is_corrupt(codec: str) -> None:
    log_format = make_format("text", codec=codec)
    draw = random.Random(3)
    data = bytearray(written(log_format, [batch([draw.randbytes(50).hex().encode()] * 90)]))
    data[len(data) // 2] ^= 0x5A
    with pytest.raises(CorruptFile):
        list(log_format.read(io.BytesIO(bytes(data)), "x"))
    with pytest.raises(CorruptFile, match="empty"):
        list(log_format.read(io.BytesIO(b""), "x"))


@pytest.mark.parametrize("codec", ["zstd", "snappy", "none", "gzip", "lz4"])
def test_parquet_keeps_every_column(codec: str) -> None:
    records = batch(
        [b"v", None, b""],
        first=7,
        timestamp=[-5, None, 1 << 60],
        timestamp_type=[0, 0, 1],
        key=[None, b"", b"\x00"],
        headers=[[{"key": "a", "value": None}, {"key": "a", "value": b""}], [], []],
    )
    log_format = make_format("parquet", codec=codec)
    data = written(log_format, [records])
    assert pa.Table.from_batches(log_format.read(io.BytesIO(data), "f")).to_pylist() == (
        records.to_pylist()
    )
    assert pq.read_table(io.BytesIO(data)).column("offset").to_pylist() == [7, 8, 9]


def test_parquet_row_groups_have_exactly_their_rows_and_statistics() -> None:
    log_format = ParquetFormat(row_group_rows=100)
    sink = io.BytesIO()
    writer = log_format.create(sink, b"")
    for first in range(0, 250, 30):
        writer.append(batch([b"value"] * min(30, 250 - first), first=first))
    assert writer.buffered() > 0
    writer.close()
    assert writer.buffered() == 0
    metadata = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [100, 100, 50]
    assert groups[1].column(0).statistics.min == 100
    assert groups[1].column(0).statistics.max == 199


def test_a_few_rows_of_a_large_batch_do_not_keep_it_in_memory() -> None:
    large = batch([b"x" * 1000] * 1000)
    writer = ParquetFormat().create(io.BytesIO(), b"")
    writer.append(large.slice(500, 2))
    assert writer.buffered() < 20_000


def test_damaged_parquet_is_corrupt_and_named() -> None:
    log_format = ParquetFormat(codec="none")
    data = bytearray(written(log_format, [batch([b"payload-%d" % at for at in range(500)])]))
    with pytest.raises(CorruptFile, match="half"):
        list(log_format.read(io.BytesIO(bytes(data[: len(data) // 2])), "half"))
    data[data.index(b"payload-250")] ^= 1
    with pytest.raises(CorruptFile, match="bit"):
        list(log_format.read(io.BytesIO(bytes(data)), "bit"))


def test_formats_are_found_by_extension_and_by_their_first_bytes() -> None:
    assert format_of_key("a/1_0_0.txt.zst").extension == ".txt.zst"
    assert format_of_key("a/1_0_0.parquet").extension == ".parquet"
    assert format_of_key("a/1_0_0.gz").extension == ".txt.gz"
    file = io.BytesIO(written(ParquetFormat(), [batch([b"a"])]))
    assert format_of_key("a/1_0_00000000000000000000", file).extension == ".parquet"
    assert file.tell() == 0
    assert format_of_key("a/1_0_0", io.BytesIO(b"{}\n")).extension == ".txt"


def test_unknown_formats_and_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="orc"):
        make_format("csv")
    with pytest.raises(ConfigurationError, match="codec"):
        make_format("text", codec="lzma")
    with pytest.raises(ConfigurationError, match="colour"):
        make_format("parquet", colour="red")


@pytest.mark.parametrize(("stream", "state"), [(GzipStream, GZIP_STATE), (ZstdStream, ZSTD_STATE)])
def test_the_memory_of_a_compressor_counts_while_it_has_some(
    stream: type[GzipStream] | type[ZstdStream], state: int
) -> None:
    sink = io.BytesIO()
    target = stream(sink)
    target.write(b"x" * 100)
    assert target.buffered() == 100 + UNFED_STATE
    target.write(b"x" * FED)
    assert target.buffered() - 100 - state in range(FED // 8)
    chance = random.Random(1)
    for _ in range(8):
        target.write(chance.randbytes(FED))
        assert target.buffered() - 100 - state < WRITTEN
    assert sink.tell() > 6 * FED
    target.close()
    assert target.buffered() == 0


def test_text_without_any_delimiter_says_what_it_may_be() -> None:
    log_format = make_format("text", codec="none")
    with pytest.raises(CorruptFile, match=r"Java Secor's, written without secor\.file\.writer"):
        list(log_format.read(io.BytesIO(b'{"a":1}{"a":2}'), "clicks/1_0_0"))
    with pytest.raises(CorruptFile, match="cut short") as caught:
        list(log_format.read(io.BytesIO(b'{"a":1}\n{"a":2'), "clicks/1_0_0"))
    assert "Java" not in str(caught.value)


PAYLOADS = st.lists(
    st.none() | st.binary(max_size=4) | st.sampled_from([b"\n", b"a\nb", b"xa", b"aa"]),
    min_size=1,
    max_size=30,
)


@STEADY
@given(PAYLOADS, st.data(), st.sampled_from([b"\n", b"aa"]), st.sampled_from(["skip", "empty"]))
def test_rows_rendered_for_many_files_are_those_that_each_would_write(
    payloads: list[bytes | None], data: st.DataObject, delimiter: bytes, null_values: str
) -> None:
    log_format = TextFormat(delimiter=delimiter, null_values=null_values)  # type: ignore[arg-type]
    records = batch(payloads)
    rows = records.num_rows
    cuts = sorted(data.draw(st.sets(st.integers(0, rows), max_size=5)) | {0, rows})
    rendered = log_format.render_rows(records)
    for first, end in itertools.pairwise(cuts):
        together, apart = io.BytesIO(), io.BytesIO()
        writer = log_format.create(together, b"seed")
        writer.append_rendered(rendered, first, end)
        alone = log_format.create(apart, b"seed")
        alone.append(records.slice(first, end - first))
        assert (together.getvalue(), writer.losses) == (apart.getvalue(), alone.losses)


def test_a_payload_that_is_refused_stops_only_the_file_that_would_have_it() -> None:
    log_format = TextFormat(on_delimiter="refuse")
    rendered = log_format.render_rows(batch([b"a", b"b\nc", b"d"], first=7))
    sink = io.BytesIO()
    writer = log_format.create(sink, b"seed")
    writer.append_rendered(rendered, 0, 1)
    writer.append_rendered(rendered, 2, 3)
    with pytest.raises(RecordRefused, match="offset 8: its payload contains the delimiter"):
        writer.append_rendered(rendered, 1, 2)
    assert sink.getvalue() == b"a\nd\n"
