"""Decode, transform, time, layout and split as one parser."""

from __future__ import annotations

import io
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
import msgpack
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from secor.config.parser import Parser
from secor.core.errors import TooManyBad
from secor.core.model import QUARANTINE, SCHEMA, Chunk
from secor.parsing.parts import quarantine_part, release_part
from secor.parsing.pipeline import Pipeline
from secor.wiring.parsers import pipeline_for, routed_streams
from tests.unit.parsing.parsing_cases import TP, chunk_of, json_chunk, places, reasons

AT = 1_772_366_706
"""2026-03-01T12:05:06Z, in seconds."""


def pipeline(*, typed: bool = False, count: Any = None, **given: Any) -> Pipeline:
    return pipeline_for(Parser.model_validate(given), typed=typed, count=count)


def test_messages_go_where_their_time_and_fields_say_in_order() -> None:
    parser = pipeline(time_field="at", layout="{c}/dt={time:%Y-%m-%d}")
    items = [{"at": AT + 86_400 * (row % 2), "c": "NL"} for row in range(5)]
    chunk = json_chunk(items, first=7)
    parts = parser.split(chunk)
    assert places(parts) == {"NL/dt=2026-03-01": [7, 9, 11], "NL/dt=2026-03-02": [8, 10]}
    for part in parts:
        assert part.records.schema == SCHEMA
        rows = chunk.records.take(pa.compute.subtract(part.records.column("offset"), 7))
        assert part.records.equals(rows)


def test_one_output_partition_is_the_chunk_itself() -> None:
    chunk = json_chunk([{"at": AT}] * 4)
    [part] = pipeline(time_field="at").split(chunk)
    assert part.records is chunk.records


def test_an_empty_chunk_has_no_parts() -> None:
    chunk = json_chunk([])
    assert pipeline(time_field="at").split(Chunk(TP, chunk.records, 9)) == []


def test_kafkas_timestamp_is_milliseconds_whatever_its_digits_and_may_be_missing() -> None:
    chunk = chunk_of([b"{}"] * 4, timestamps=[AT * 1000, None, 0, 86_400_000])
    parts = pipeline(decoder="none").split(chunk)
    assert places(parts) == {
        "dt=2026-03-01": [0],
        "dt=1970-01-02": [3],
        "quarantine:": [1, 2],
    }
    assert reasons(parts)[1] == "time: Kafka's timestamp is missing"


# ------------------------------------------------------------------ quarantine


def test_line_18_what_cannot_be_parsed_is_in_quarantine_with_its_reason_and_nothing_lost() -> None:
    counts: Counter[str] = Counter()
    values = [b"{", b'{"at": 0}', b"{}", None, b"", b"\xff", f'{{"at": {AT}}}'.encode(), b"[]"]
    chunk = chunk_of(values)
    parts = pipeline(time_field="at", count=lambda _, name, n: counts.update({name: n})).split(
        chunk
    )
    found = places(parts)
    assert found["dt=2026-03-01"] == [6]
    assert found["quarantine:"] == [0, 1, 2, 3, 4, 5, 7]
    assert not any("1970" in path for path in found)
    why = reasons(parts)
    assert all(reason.startswith(("decode: ", "time: ")) for reason in why.values())
    assert why[2] == "time: at is missing"
    assert "no time was set" in why[1]
    assert counts == {"quarantined_decode": 5, "quarantined_time": 2}


def test_quarantine_keeps_the_whole_message_and_adds_the_reason_as_the_last_header() -> None:
    before: list[list[dict[str, object]] | None] = [
        None,
        [{"key": "a", "value": None}, {"key": "secor-reason", "value": b"old"}],
    ]
    chunk = chunk_of([b"no", None], headers=before)
    [part] = pipeline(time_field="at").split(chunk)
    assert (part.stream, part.output_partition) == (QUARANTINE, "")
    assert part.records.schema == SCHEMA
    part.records.validate(full=True)
    headers = part.records.column("headers").to_pylist()
    assert [it[:-1] for it in headers] == [[], before[1]]
    for name in SCHEMA.names[:-1]:
        assert part.records.column(name).equals(chunk.records.column(name))


def test_limits_stop_the_partition_with_the_last_reason() -> None:
    bad, good = {"x": 1}, {"at": AT}
    parser = pipeline(time_field="at", max_bad_messages=2, max_bad_ratio="none")
    parser.split(json_chunk([bad, bad, good]))
    with pytest.raises(TooManyBad, match=r"clicks/3: 3 of the last 4 .* at is missing"):
        parser.split(json_chunk([bad], first=3))


def test_the_share_is_judged_over_a_window_and_windows_begin_anew() -> None:
    bad, good = {"x": 1}, {"at": AT}
    parser = pipeline(time_field="at", max_bad_ratio=0.5, bad_window=10)
    for first in range(0, 40, 10):
        parser.split(json_chunk([bad] * 5, first=first))
        parser.split(json_chunk([good] * 5, first=first + 5))
    parser.split(json_chunk([bad] * 5, first=40))
    with pytest.raises(TooManyBad, match=r"max_bad_ratio = 0\.5"):
        parser.split(json_chunk([bad], first=45))


def test_messages_that_are_read_again_are_not_counted_twice() -> None:
    parser = pipeline(time_field="at", max_bad_messages=2)
    for _ in range(5):
        parser.split(json_chunk([{"x": 1}] * 2, first=10))


# ------------------------------------------------------------------ transforms


def test_rows_that_are_parsed_apart_are_counted_and_told_as_those_of_one_chunk() -> None:
    counts: Counter[str] = Counter()
    items = [{"a": 1}, {"b": "x"}, {"a": 2, "b": "x"}, 5, {"b": "bot"}, {"a": 3}, {"b": "y"}]
    parts = pipeline(
        typed=True,
        layout="x",
        transforms=[
            {"kind": "rename", "field": "a", "to": "b"},
            {"kind": "filter", "field": "b", "equals": "bot", "negated": True},
        ],
        count=lambda _, name, n: counts.update({name: n}),
    ).split(json_chunk(items))
    assert counts == {"filtered": 1, "quarantined_transform": 1, "quarantined_decode": 1}
    assert sorted(reasons(parts)) == [2, 3]
    rows = [
        row for part in parts[:-1] for row in part.records.select(["offset", "row"]).to_pylist()
    ]
    assert [(row["offset"], row["row"]["b"]) for row in rows] == [
        (0, 1),
        (1, "x"),
        (5, 3),
        (6, "y"),
    ]


def test_filtered_messages_are_counted_and_not_quarantined_for_a_later_fault() -> None:
    counts: Counter[str] = Counter()
    parser = pipeline(
        time_field="at",
        transforms=[{"kind": "filter", "field": "c", "equals": "NL"}],
        count=lambda _, name, n: counts.update({name: n}),
    )
    items = [{"c": "NL", "at": AT}, {"c": "DE"}, {"c": "NL"}, {"at": AT}]
    assert places(parser.split(json_chunk(items))) == {"dt=2026-03-01": [0], "quarantine:": [2]}
    assert counts == {"filtered": 2, "quarantined_time": 1}


def test_a_chunk_of_filtered_messages_has_no_parts() -> None:
    parser = pipeline(time_field="at", transforms=[{"kind": "filter", "field": "c", "equals": 1}])
    assert parser.split(json_chunk([{"c": 2, "at": AT}] * 3)) == []


def test_routes_give_a_lane_for_each_topic_and_the_topic_of_the_layout() -> None:
    given: dict[str, Any] = {
        "layout": "{topic}/{time:%Y}",
        "time_field": "at",
        "transforms": [{"kind": "route", "field": "t", "topics": ["views", "clicks"]}],
    }
    items = [{"t": it, "at": AT} for it in ("views", None, "clicks", "other")]
    assert places(pipeline(**given).split(json_chunk(items))) == {
        "topic=views:views/2026": [0],
        "clicks/2026": [1, 2],
        "quarantine:": [3],
    }
    assert routed_streams(Parser.model_validate(given), "clicks") == {"topic=views": "views"}


def test_typed_parts_have_the_decoded_and_changed_fields_beside_the_message() -> None:
    parser = pipeline(
        typed=True,
        time_field="at",
        transforms=[
            {"kind": "drop", "field": "u.x"},
            {"kind": "mask", "field": "u.mail", "value": "***"},
            {"kind": "rename", "field": "u", "to": "user"},
        ],
    )
    items = [{"at": AT, "u": {"x": 1, "mail": "a@b"}}, {"at": "?"}]
    data, bad = parser.split(json_chunk(items))
    assert data.records.schema.names == [*SCHEMA.names, "row"]
    [row] = data.records.column("row").to_pylist()
    assert (set(row), row["user"]) == ({"at", "user"}, {"mail": "***"})
    assert bad.records.schema == SCHEMA


# ----------------------------------------------------------------- determinism

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([5, 5.0, 1e18, 10**18, -0.0, 0.5, 2**53 + 1]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from([AT, AT * 1000, float(AT), str(AT), "2026-03-01", "2026-03-01T04:05:06.5Z"]),
)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(
    st.lists(st.tuples(SCALARS, SCALARS), min_size=1, max_size=12),
    st.lists(st.integers(0, 12), max_size=3),
    st.booleans(),
)
@example([(AT, 5.0), (AT, "x")], [1], False)
@example([(AT, 5.0), (AT, 2**70)], [1], True)
@example([(float(AT), 1e18), (str(AT), True)], [1], False)
@example([(AT, True), (AT, 1)], [1], True)
def test_results_do_not_depend_on_how_the_log_is_cut_into_chunks(
    items: list[tuple[Any, Any]], cuts: list[int], typed: bool
) -> None:
    parser = pipeline(
        typed=typed,
        time_field="at",
        time_zero="accept",
        layout="{f}/dt={time:%Y-%m-%d}/h={time:%H%M%S}",
        transforms=[{"kind": "filter", "field": "f", "equals": "x", "negated": True}],
        max_bad_ratio="none",
    )
    values = [json.dumps({"at": at, "f": f}).encode() for at, f in items]
    whole = parser.split(chunk_of(values))
    edges = sorted({0, len(values), *(cut for cut in cuts if cut < len(values))})
    pieces = [
        part
        for start, end in pairwise(edges)
        for part in parser.split(chunk_of(values[start:end], first=start))
    ]
    assert places(pieces) == places(whole)
    assert reasons(pieces) == reasons(whole)
    assert sum(part.records.num_rows for part in whole) <= len(values)


ODD = [
    {"a.b": "whole"},
    {"a": {"b": "along"}},
    {"a": {"b": "along"}, "a.b": "whole"},
    {"a": {"b": "along"}, "a.b": None},
    {"a": {"b": {"z": 1.0, "y": None, "x": [2.0, 2**63, {"w": "é"}]}}},
    {"a": {"b": [1.0, None]}},
    {"a": [{"b": 1}]},
    {"a": {"b.c": 1}},
    {"a": None},
    {"b": 1},
]
"""Where a dotted path may lead, and what may be there."""


@pytest.mark.parametrize("decoder", ["json", "messagepack"])
@pytest.mark.parametrize("alone", [True, False])
def test_a_path_leads_to_one_place_whatever_is_written_and_whatever_is_beside_it(
    decoder: str, alone: bool
) -> None:
    pack = (lambda item: json.dumps(item).encode()) if decoder == "json" else msgpack.packb
    found: dict[bool, dict[str, list[int]]] = {}
    for typed in (False, True):
        parser = pipeline(typed=typed, decoder=decoder, layout="{a.b}")
        values = [pack(item) for item in ODD]
        chunks = [chunk_of([one], first=at) for at, one in enumerate(values)]
        parts = [
            part for one in (chunks if alone else [chunk_of(values)]) for part in parser.split(one)
        ]
        found[typed] = places(parts)
    assert found[False] == found[True]
    assert found[True] == {
        "whole": [0, 2],
        "along": [1, 3],
        "%7B%22x%22%3A%5B2,9223372036854775808,%7B%22w%22%3A%22é%22}%5D,%22z%22%3A1}": [4],
        "%5B1,null%5D": [5],
        "%5F_HIVE_DEFAULT_PARTITION__": [6, 7, 8, 9],
    }


@pytest.mark.parametrize("format", ["text", "parquet"])
def test_the_time_may_be_in_a_field_whose_name_has_a_dot(format: str) -> None:
    parser = pipeline(time_field="meta.at", typed=format == "parquet")
    items: list[dict[str, Any]] = [{"meta.at": AT}, {"meta": {"at": AT}}, {"meta": {"at.x": AT}}]
    assert places(parser.split(json_chunk(items))) == {"dt=2026-03-01": [0, 1], "quarantine:": [2]}


LOGICAL = [
    # An early one has as many digits as milliseconds of today, or as nothing that is a time.
    ("timestamp-millis", 946_684_800_000, "UTC", "2000-01-01 00"),
    ("timestamp-micros", 946_684_800_000_000, "UTC", "2000-01-01 00"),
    ("timestamp-micros", 31_536_000_000_000, "UTC", "1971-01-01 00"),
    ("timestamp-nanos", 946_684_800_000_000_000, "UTC", "2000-01-01 00"),
    ("timestamp-micros", 31_536_000_000_000, "Asia/Tokyo", "1971-01-01 09"),
    ("local-timestamp-micros", 31_536_000_000_000, "Asia/Tokyo", "1971-01-01 00"),
    ("local-timestamp-millis", 1_700_000_000_000, "Asia/Tokyo", "2023-11-14 22"),
]


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("format", ["auto", "ms", "iso8601"])
@pytest.mark.parametrize(("logical", "count", "zone", "expected"), LOGICAL)
def test_avros_times_are_what_their_schema_says_whatever_is_written(
    tmp_path: Path,
    typed: bool,
    format: str,
    logical: str,
    count: int,
    zone: str,
    expected: str,
) -> None:
    kind = {"type": "long", "logicalType": logical}
    schema = {"type": "record", "name": "E", "fields": [{"name": "at", "type": ["null", kind]}]}
    (tmp_path / "e.avsc").write_text(json.dumps(schema))
    packed = io.BytesIO()
    plain = {**schema, "fields": [{"name": "at", "type": ["null", "long"]}]}
    fastavro.schemaless_writer(packed, plain, {"at": count})
    parser = pipeline(
        typed=typed,
        decoder="avro",
        schema_file=str(tmp_path / "e.avsc"),
        time_field="at",
        time_format=format,
        time_zone=zone,
        layout="{time:%Y-%m-%d %H}",
    )
    assert places(parser.split(chunk_of([packed.getvalue()]))) == {expected: [0]}


def test_the_identity_has_every_setting_that_changes_the_result() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"decoder": "messagepack"},
        {"time_field": "at"},
        {"time_field": "at", "time_format": "ms"},
        {"time_field": "at", "time_zero": "accept"},
        {"time_zone": "Europe/Amsterdam"},
        {"layout": "{time:%Y}"},
        {"transforms": [{"kind": "filter", "field": "a", "exists": True}]},
    ]
    identities = [pipeline(**change).identity for change in changes]
    identities.append(pipeline(typed=True).identity)
    assert len(set(identities)) == len(identities)
    assert pipeline(max_bad_ratio=0.1).identity == pipeline().identity


def test_a_message_that_is_too_large_is_quarantined_undecoded() -> None:
    large = b'{"at":1772366706,"c":"' + b"x" * 100 + b'"}'
    for typed in (False, True):
        parser = pipeline(max_message_bytes=100, typed=typed, layout="{c}")
        chunk = chunk_of([b'{"c":"NL"}', large, None, b'{"c":"BE"}'])
        parts = parser.split(chunk)
        assert places(parts)["NL"] == [0]
        assert places(parts)["BE"] == [3]
        assert reasons(parts) == {
            1: f"decode: has {len(large)} bytes, more than 100 (parser.max_message_bytes)",
            2: "decode: null payload",
        }
        (bad,) = [part for part in parts if part.stream == QUARANTINE]
        assert bad.records.column("value").to_pylist() == [large, None]


def test_the_limits_on_messages_are_in_the_identity() -> None:
    assert pipeline(max_message_bytes=100).identity != pipeline().identity
    assert pipeline(max_elements=100).identity != pipeline().identity


def test_a_reason_that_quotes_half_a_surrogate_pair_is_kept_in_quarantine() -> None:
    """A plug-in's error may quote a message's text, which need not be UTF-8."""
    records = chunk_of([b'"\\ud800"']).records
    part = quarantine_part(records, {0: "plugin: no such city: \ud800"})
    assert release_part(part.records)[1] == ["plugin: no such city: \\ud800"]
