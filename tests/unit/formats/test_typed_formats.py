from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import random
from decimal import Decimal
from typing import Any, cast

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from secor.core.errors import ConfigurationError, CorruptFile, RecordRefused
from secor.core.model import SCHEMA
from secor.core.ports import LogFormat
from secor.formats import format_of_key, make_format
from secor.schema.growth import grow_schema
from secor.schema.inference import observe
from secor.schema.new_columns import NOTHING
from secor.schema.schema import RowSchema
from tests.unit.formats.typed_rows import (
    FIRST_TIMESTAMP,
    HEADERS,
    batch,
    decoded,
    fitting,
    messages,
    read,
    split,
    wild_messages,
    with_rows,
    with_schema,
    written,
)

STEADY = settings(deadline=None, max_examples=40, derandomize=True)

ALL = ("_offset", "_timestamp", "_key", "_headers")
GROUPS: dict[str, dict[str, Any]] = {
    "typed-parquet": {"row_group_rows": 7},
    "orc": {"stripe_rows": 1000},
    "avro": {"block_rows": 7},
    "jsonlines": {},
}
FORMATS = list(GROUPS)
COLUMNAR = ["typed-parquet", "orc", "avro"]


def small(name: str, **settings: Any) -> LogFormat:
    return make_format(name, **GROUPS[name], **settings)


def rows_of(name: str, data: bytes) -> list[dict[str, Any]]:
    """Read with the format's own library."""
    file = io.BytesIO(data)
    if name == "typed-parquet":
        return list(pq.read_table(file).to_pylist())
    if name == "orc":
        return list(orc.read_table(file).to_pylist())
    if name == "avro":
        return cast("list[dict[str, Any]]", list(fastavro.reader(file)))
    return [json.loads(line) for line in data.splitlines()]


def declared(fields: list[dict[str, Any]], **settings: Any) -> RowSchema:
    return RowSchema.parse(json.dumps({"fields": fields}), "schema", **settings)


def kept(log_format: LogFormat, *batches: pa.RecordBatch) -> LogFormat:
    """Return the format with the schema that growth makes of these rows."""
    fields = NOTHING
    for records in batches:
        fields = grow_schema(fields, observe(records.column("row")).type)
    schema = RowSchema(fields, "json", exact=True, any_text=True)
    return log_format if log_format.extension == ".json" else with_schema(log_format, schema)


# ------------------------------------------------------------------- round trips

NESTED = {
    "text": "ünïcode \U0001f600 \u0000 tab\t",
    "number": 2**62,
    "half": 0.5,
    "yes": True,
    "items": [{"a": 1, "b": "x"}, {"a": 2}],
    "user": {"name": "Ann", "tags": ["p", "q"], "deep": {"er": [[1], [], [2, 3]]}},
}


@pytest.mark.parametrize("name", FORMATS)
def test_nested_rows_come_back_from_the_format_s_own_reader(name: str) -> None:
    rows = [{**NESTED, "number": at} for at in range(20)]
    found = rows_of(name, written(small(name), batch(rows)))
    for row in found:
        for item in row["items"]:
            item.setdefault("b", None)
    expected = [
        {**row, "items": [{"b": None, **item} for item in cast("list[Any]", row["items"])]}
        for row in rows
    ]
    assert found == expected


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("inferred", [True, False])
def test_dates_times_and_decimals_keep_their_types(name: str, inferred: bool) -> None:
    utc = dt.UTC
    row = {
        "at": dt.datetime(2026, 11, 21, 4, 5, 6, 789000, tzinfo=utc),
        "local": dt.datetime(1969, 12, 31, 23, 59, 59, 1),  # noqa: DTZ001
        "day": dt.date(1969, 7, 20),
        "price": Decimal("-12.340"),
        "raw": b"\x00\xff",
    }
    kind = pa.struct(
        {
            "at": pa.timestamp("ms", "UTC"),
            "local": pa.timestamp("us"),
            "day": pa.date32(),
            "price": pa.decimal128(20, 3),
            "raw": pa.binary(),
        }
    )
    schema = RowSchema() if inferred else RowSchema(kind)
    found = rows_of(name, written(small(name, schema=schema), batch([row], kind=kind)))
    if name == "jsonlines":
        texts = {
            "at": "2026-11-21T04:05:06.789Z",
            "local": "1969-12-31T23:59:59.000001",
            "day": "1969-07-20",
            "price": "-12.340",
            "raw": "AP8=",
        }
        assert found == [texts]
    elif name == "orc":  # its own type of instants is one that Spark does not read
        assert found == [row | {"at": dt.datetime(2026, 11, 21, 4, 5, 6, 789000)}]  # noqa: DTZ001
    else:
        assert found == [row]


@pytest.mark.parametrize("name", FORMATS)
def test_38_digits_and_nanoseconds_are_the_same_when_they_are_read(name: str) -> None:
    kind = pa.struct({"number": pa.decimal128(38, 10), "at": pa.timestamp("ns", "UTC")})
    numbers = [Decimal("9" * 28 + "." + "9" * 10), Decimal("-1E-10"), Decimal(0), None]
    counts = [1_700_000_000_123_456_789, -1, (1 << 63) - 1, -(1 << 63)]
    rows = pa.StructArray.from_arrays(
        [pa.array(numbers, kind.field(0).type), pa.array(counts).cast(kind.field(1).type)],
        fields=list(kind),
    )
    body = written(small(name, schema=RowSchema(kind)), batch(rows))
    if name == "jsonlines":
        texts = [json.loads(line) for line in body.splitlines()]
        assert [text.get("number") and Decimal(text["number"]) for text in texts] == numbers
        assert [text["at"] for text in texts] == [
            "2023-11-14T22:13:20.123456789Z",
            "1969-12-31T23:59:59.999999999Z",
            "2262-04-11T23:47:16.854775807Z",
            "1677-09-21T00:12:43.145224192Z",
        ]
        return
    if name == "avro":
        records: list[Any] = list(fastavro.reader(io.BytesIO(body)))
        assert [(row["number"], row["at"]) for row in records] == [
            *zip(numbers, counts, strict=True)
        ]
        return
    table = (orc if name == "orc" else pq).read_table(io.BytesIO(body))
    assert table.column("number").to_pylist() == numbers
    assert table.column("at").cast(pa.int64()).to_pylist() == counts


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_any_number_are_written_or_do_not_fit_and_break_no_writer(
    name: str, unit: str
) -> None:
    schema = declared([{"name": "at", "type": f"timestamp({unit})"}])
    values = [b'{"at": %d}' % (sign * 10**digits) for digits in range(19) for sign in (1, -1)]
    records = decoded(values)
    rows, bad = schema.fit(records.column("row"))
    good = with_rows(records.select(range(6)), rows).filter(rows.is_valid())
    data = written(small(name, schema=schema), good)
    assert len(bad) == {"s": 15, "ms": 9, "us": 3, "ns": 0}[unit]
    if name != "orc":  # Arrow reads nanoseconds only
        assert len(rows_of(name, data)) == len(values) - len(bad)


@pytest.mark.parametrize("name", COLUMNAR)
def test_enums_are_text_and_maps_are_maps(name: str) -> None:
    color = pa.array(["RED", None, "RED"]).dictionary_encode()
    kind = pa.map_(pa.string(), pa.int64())
    tags = pa.array([[("a", 1)], None, [("b", None), ("c", 3)]], kind)
    rows = pa.StructArray.from_arrays([color, tags], ["color", "tags"])
    found = rows_of(name, written(small(name), batch(rows)))
    assert [row["color"] for row in found] == ["RED", None, "RED"]
    pairs = [None if row["tags"] is None else dict(row["tags"]) for row in found]
    expected = [{"a": 1}, None, {"b": None, "c": 3}]
    assert [p and {k: v for k, v in p.items() if v is not None} for p in pairs] == [
        e and {k: v for k, v in e.items() if v is not None} for e in expected
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_metadata_columns_come_first_and_are_read_back(name: str) -> None:
    log_format = small(name, metadata_columns=ALL)
    data = written(log_format, batch([{"a": 1}, {"a": None}], first=40))
    assert list(rows_of(name, data)[0])[:4] == [*ALL] if name != "jsonlines" else True
    table = read(format_of_key(f"t/1_0_0{log_format.extension}"), data)
    assert table.column("offset").to_pylist() == [40, 41]
    assert table.column("timestamp").to_pylist() == [FIRST_TIMESTAMP + 40, FIRST_TIMESTAMP + 41]
    assert table.column("key").to_pylist() == [b"key", b"key"]
    assert table.column("headers").to_pylist() == [HEADERS, HEADERS]
    assert table.column("value").to_pylist() == [b'{"a":1}', b"{}"]


@pytest.mark.parametrize("name", FORMATS)
def test_without_metadata_columns_only_the_values_are_known(name: str) -> None:
    table = read(small(name), written(small(name), batch([{"b": 1.5, "a": ["x"]}])))
    assert table.column("offset").to_pylist() == [None]
    assert table.column("value").to_pylist() == [b'{"a":["x"],"b":1.5}']


@pytest.mark.parametrize("name", FORMATS)
def test_topic_and_partition_come_from_columns_of_the_batch(name: str) -> None:
    records = batch([{"a": 1}])
    for column, value in (("partition", pa.array([3])), ("topic", pa.array(["clicks"]))):
        records = records.add_column(0, column, value)
    log_format = small(name, metadata_columns=["_partition", "_topic"])
    assert rows_of(name, written(log_format, records)) == [
        {"_topic": "clicks", "_partition": 3, "a": 1}
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_a_field_named_like_a_metadata_column_steps_aside(name: str) -> None:
    log_format = small(name, metadata_columns=("_offset",))
    rows = [{"_offset": "mine", "__offset": "too"}]
    assert rows_of(name, written(log_format, batch(rows, first=5))) == [
        {"_offset": 5, "___offset": "mine", "__offset": "too"}
    ]


def test_a_field_that_differs_from_a_metadata_column_in_capitals_steps_aside_too() -> None:
    log_format = small("typed-parquet", metadata_columns=("_offset",))
    rows = [{"_OFFSET": 1, "__offset": 2}]
    [found] = rows_of("typed-parquet", written(log_format, batch(rows)))
    assert found == {"_offset": 0, "___OFFSET": 1, "__offset": 2}


def test_names_that_avro_forbids_are_changed_and_kept_apart() -> None:
    rows = [{"a-b": 1, "a b": {"1": 2}, "a_b": 3, "naïve": 4}]
    found = rows_of("avro", written(small("avro"), batch(rows)))
    assert found == [{"a_b": 1, "a_b_2": {"_1": 2}, "a_b_3": 3, "na_ve": 4}]


# ------------------------------------------------------------------- the files


@pytest.mark.parametrize("name", FORMATS)
def test_a_writer_without_rows_writes_no_file(name: str) -> None:
    empty = batch(pa.array([], pa.struct({"a": pa.int64()})))
    log_format = small(name, schema=declared([{"name": "a", "type": "int64"}]))
    assert written(log_format) == b""
    assert written(log_format, empty) == b""


def test_row_groups_and_blocks_have_exactly_the_rows_asked_for() -> None:
    parts = split(batch([{"a": at} for at in range(2500)]), [3, 4, 900, 901, 2499])
    for schema in (RowSchema(), declared([{"name": "a", "type": "int64"}])):
        parquet = written(make_format("typed-parquet", row_group_rows=1000, schema=schema), *parts)
        meta = pq.ParquetFile(io.BytesIO(parquet)).metadata
        assert [meta.row_group(at).num_rows for at in range(3)] == [1000, 1000, 500]
        avro = written(make_format("avro", block_rows=1000, schema=schema), *parts)
        blocks = fastavro.block_reader(io.BytesIO(avro))
        assert [block.num_records for block in blocks] == [1000, 1000, 500]


def test_stripes_have_the_rows_asked_for_or_a_multiple_where_they_are_tiny() -> None:
    chance = random.Random(1)
    rows = [{"a": chance.getrandbits(62)} for _ in range(25_000)]
    log_format = make_format("orc", stripe_rows=10_000)
    file = orc.ORCFile(io.BytesIO(written(log_format, batch(rows))))
    stripes = [file.read_stripe(at).num_rows for at in range(file.nstripes)]
    assert stripes == [10_000, 10_000, 5_000]
    tiny = orc.ORCFile(io.BytesIO(written(log_format, batch([{"a": 1}] * 25_000))))
    assert tiny.nrows == 25_000


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("inferred", [True, False])
def test_the_bytes_do_not_depend_on_the_split(name: str, inferred: bool) -> None:
    rows = [{"a": at, "b": "x" * (at % 5), "c": None if at % 3 else [at]} for at in range(60)]
    fields: list[dict[str, Any]] = [
        {"name": "c", "type": {"list": "int32"}},
        {"name": "a", "type": "double"},
    ]
    schema = RowSchema() if inferred else declared(fields, extra_fields="json")
    log_format = small(name, schema=schema, metadata_columns=ALL)
    whole = batch(rows)
    once = written(log_format, whole)

    @STEADY
    @given(st.lists(st.integers(0, 60), max_size=8))
    def check(cuts: list[int]) -> None:
        assert written(log_format, *split(whole, cuts)) == once

    check()


@pytest.mark.parametrize("name", FORMATS)
def test_the_bytes_do_not_depend_on_how_messages_were_decoded_together(name: str) -> None:
    @STEADY
    @given(st.integers(0, 1 << 32))
    def check(seed: int) -> None:
        chance = random.Random(seed)
        values = wild_messages(chance)
        whole = decoded(values)
        log_format = kept(small(name, metadata_columns=("_offset",)), whole)
        once = written(log_format, whole)
        parts, at = [], 0
        while at < len(values):
            size = chance.randrange(1, len(values) + 1)
            parts.append(decoded(values[at : at + size], at))
            at += size
        assert written(log_format, *parts) == once
        assert read(log_format, once).column("offset").to_pylist() == [*range(len(values))]

    check()


@pytest.mark.parametrize("name", FORMATS)
def test_rows_of_other_places_in_the_chunk_leave_no_trace(name: str) -> None:
    values = [b'{"a":1,"b":2}', b'{"a":1.5,"c":"x"}', b'{"a":3,"b":4}']
    chosen = decoded(values).take(pa.array([0, 2]))
    same = decoded([values[0], values[2]])
    log_format = fitting(small(name), same)
    assert written(log_format, chosen) == written(log_format, same)


@pytest.mark.parametrize("name", COLUMNAR)
def test_another_seed_changes_nothing_but_avro_s_marker(name: str) -> None:
    files = []
    records = batch([{"a": 1}])
    for seed in (b"one", b"two"):
        sink = io.BytesIO()
        writer = fitting(small(name), records).create(sink, seed)
        writer.append(records)
        writer.close()
        files.append(sink.getvalue())
    assert (files[0] == files[1]) is (name != "avro")


@pytest.mark.parametrize("name", COLUMNAR)
def test_memory_is_bounded_and_told(name: str) -> None:
    rows = next(iter(GROUPS[name].values()))
    most = batch([{"a": "x" * 100}] * (rows - 1))
    writer = fitting(small(name), most).create(io.BytesIO(), b"x")
    assert writer.buffered() == 0
    writer.append(most)
    assert writer.buffered() > 100 * (rows - 1)
    writer.append(batch([{"a": "x" * 100}]))
    assert writer.buffered() == 0
    writer.close()


def test_slices_of_a_chunk_do_not_keep_the_chunk() -> None:
    whole = batch([{"a": "x" * 100}] * 10_000)
    writer = fitting(small("typed-parquet"), whole).create(io.BytesIO(), b"x")
    writer.append(whole.slice(5, 2))
    assert writer.buffered() < 5_000


def test_many_small_pieces_are_put_together() -> None:
    parts = split(batch([{"a": at, "b": str(at)} for at in range(1000)]), list(range(1, 1000)))
    log_format = fitting(make_format("typed-parquet"), *parts)
    writer = log_format.create(io.BytesIO(), b"x")
    for part in parts:
        writer.append(part)
    assert writer.buffered() < 1000 * 64
    assert written(log_format, *parts) == written(log_format, pa.concat_batches(parts))


# ------------------------------------------------------------------- settings

CODECS = [
    *(("typed-parquet", codec) for codec in ("zstd", "none", "gzip", "snappy", "lz4")),
    *(("orc", codec) for codec in ("zstd", "none", "gzip", "snappy", "lz4")),
    *(("avro", codec) for codec in ("deflate", "none", "snappy")),
]


@pytest.mark.parametrize(("name", "codec"), CODECS)
def test_every_codec_is_read_back(name: str, codec: str) -> None:
    log_format = make_format(name, codec=codec)
    data = written(log_format, batch([{"a": "x" * 50, "n": at} for at in range(100)]))
    assert [row["n"] for row in rows_of(name, data)] == list(range(100))
    assert codec in log_format.identity


def test_json_lines_have_the_codec_in_their_extension() -> None:
    records = batch([{"a": 1}, {"a": 2}])
    plain = b'{"a":1}\n{"a":2}\n'
    assert written(make_format("jsonlines"), records) == plain
    packed = make_format("jsonlines", codec="gzip")
    assert packed.extension == ".json.gz"
    assert gzip.decompress(written(packed, records)) == plain
    packed = make_format("jsonlines", codec="zstd")
    assert packed.extension == ".json.zst"
    data = written(packed, records)
    assert zstandard.ZstdDecompressor().decompressobj().decompress(data) == plain
    assert read(format_of_key("t/1_0_0.json.zst"), data).num_rows == 2


def test_wrong_settings_are_told() -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        ("typed-parquet", {"codec": "lzma"}),
        ("orc", {"stripe_rows": 0}),
        ("avro", {"codec": "gzip"}),
        ("jsonlines", {"codec": "snappy"}),
        ("jsonlines", {"metadata_columns": ["_colour"]}),
    ]
    for name, wrong in cases:
        with pytest.raises(ConfigurationError, match=r"codec|at least 1|_colour"):
            make_format(name, **wrong)


def test_every_setting_is_in_the_identity() -> None:
    one = declared([{"name": "a", "type": "int64"}])
    for name in FORMATS:
        variants = [
            make_format(name),
            make_format(name, metadata_columns=["_offset"]),
            make_format(name, schema=one),
            make_format(name, schema=RowSchema(one.fields, "json")),
            make_format(name, schema=declared([{"name": "a", "type": "int32"}])),
        ]
        assert len({variant.identity for variant in variants}) == len(variants)


def test_parquet_of_whole_messages_is_told_from_parquet_of_rows() -> None:
    whole = messages([b"payload"], first=9)
    backup = written(make_format("parquet"), whole)
    rows = written(make_format("typed-parquet"), batch([{"value": 1, "offset": 2}]))
    reader = format_of_key("t/1_0_0.parquet")
    assert read(reader, backup).to_batches()[0].equals(whole)
    assert read(reader, rows).column("value").to_pylist() == [b'{"offset":2,"value":1}']
    assert read(format_of_key("t/1_0_0", io.BytesIO(rows)), rows).num_rows == 1


@pytest.mark.parametrize(
    "table",
    [
        {"id": [1], "timestamp": [2], "value": ["x"]},
        {"offset": [1], "key": ["k"]},
        {name: [1] for name in SCHEMA.names},
    ],
)
def test_columns_that_are_only_called_as_ours_are_somebody_elses(table: dict[str, Any]) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table(table), sink)
    found = read(format_of_key("t/1_0_0.parquet"), sink.getvalue())
    row = {name: values[0] for name, values in table.items()}
    assert [json.loads(it) for it in found.column("value").to_pylist()] == [row]
    for name in ("offset", "timestamp", "key", "headers"):
        assert found.column(name).null_count == 1


def test_messages_that_another_program_wrote_with_all_columns_are_whole() -> None:
    whole = messages([b"payload", b""], first=9)
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_batches([whole]), sink, store_schema=False)
    assert read(format_of_key("t/1_0_0.parquet"), sink.getvalue()).to_batches()[0].equals(whole)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_told_by_name(name: str) -> None:
    log_format = small(name)
    data = written(log_format, batch([{"a": at} for at in range(50)]))
    for broken in (data[: len(data) // 2 - 1], data[:-1], b"garbage"):
        # Nothing is missing then: of Avro a part of the last marker, of JSON lines the last end.
        if not (name in ("avro", "jsonlines") and broken == data[:-1]):
            with pytest.raises(CorruptFile, match="file: "):
                read(log_format, broken)
    reader = format_of_key(f"t/1_0_0{log_format.extension}")
    with pytest.raises(CorruptFile, match="file: "):
        read(reader, b"garbage")


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_that_does_not_fit_the_declared_schema_is_refused(name: str) -> None:
    schema = declared([{"name": "a", "type": "int64"}])
    writer = small(name, schema=schema).create(io.BytesIO(), b"x")
    writer.append(batch([{"a": 1}]))
    with pytest.raises(RecordRefused, match="offset 8: a: 'x' is no int64"):
        writer.append(batch([{"a": "1"}, {"a": "x"}], first=7))


def test_what_is_read_has_the_columns_of_messages() -> None:
    for name in FORMATS:
        data = written(small(name), batch([{"a": 1}]))
        for records in small(name).read(io.BytesIO(data), "file"):
            assert records.schema.equals(SCHEMA)
