"""Output partitions by template, whatever the values are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.core.errors import ConfigurationError
from secor.core.naming import HIVE_NULL, ObjectName, parse_key
from secor.parsing.fields import Texts
from secor.parsing.layout import LONGEST_PATH, Layout, RowPaths
from secor.parsing.layout_pieces import LayoutColumns
from secor.parsing.parts import NOWHERE, parts_of
from secor.parsing.zones import Zone
from tests.unit.parsing.parsing_cases import chunk_of

NOON = 1_772_366_706_000_000
"""2026-03-01T12:05:06Z."""


def place(
    template: str, rows: list[Any] | pa.Array, *, micros: list[int] | None = None, zone: str = "UTC"
) -> RowPaths:
    column = rows if isinstance(rows, pa.Array) else pa.array(rows)
    times = np.array([NOON] * len(column) if micros is None else micros, dtype=np.int64)
    topics = Texts(np.zeros(len(column), np.int64), ["clicks"])
    columns = LayoutColumns(column, np.arange(len(column), dtype=np.int64), times, topics, 7)
    return Layout(template, Zone(zone)).place(columns)


def paths(template: str, rows: list[Any] | pa.Array, **more: Any) -> list[str]:
    places = place(template, rows, **more)
    return [places.bad.get(row) or places.paths[code] for row, code in enumerate(places.codes)]


def test_fields_times_offsets_and_topics_make_paths() -> None:
    template = "{topic}/{user.country}/dt={time:%Y-%m-%d}/hr={time:%H}/o={offset:2}"
    rows = [{"user": {"country": "NL"}}, {"user": {"country": "DE"}}, {"user": {"country": "NL"}}]
    assert paths(template, rows) == [
        "clicks/NL/dt=2026-03-01/hr=12/o=0",
        "clicks/DE/dt=2026-03-01/hr=12/o=0",
        "clicks/NL/dt=2026-03-01/hr=12/o=2",
    ]


def test_the_kafka_partition_makes_a_path_of_all_rows() -> None:
    rows = [{"kafka_partition": 1}, {"kafka_partition": 2}]
    assert paths("partition={kafka_partition}", rows) == ["partition=7"] * 2
    assert paths("{.kafka_partition}", rows) == ["1", "2"]


def test_a_field_may_be_called_like_a_placeholder_and_have_dots_in_its_name() -> None:
    assert paths("{.time}/{a.b}", [{"time": "x", "a.b": 1, "a": {"b": 2}}]) == ["x/1"]


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("dt={time:%Y-%m-%d}", "dt=2026-03-01"),
        ("dt={time:%Y-%m-%d}/hr={time:%H}/min={time:%M}", "dt=2026-03-01/hr=12/min=05"),
        ("{time:%Y/%m/%d}/{time:%y%j}", "2026/03/01/26060"),
        ("t={time:%H%M%S}", "t=120506"),
        ("day={time:%d}.x", "day=01.x"),
        ("fixed", "fixed"),
    ],
)
def test_java_secors_granularities_and_others(template: str, path: str) -> None:
    assert paths(template, [{"a": 1}] * 3) == [path] * 3


def test_line_19_days_are_those_of_the_zone_on_both_days_when_clocks_change() -> None:
    def at(*parts: int) -> int:
        year, month, day, hour = parts
        return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * 1_000_000

    micros = [at(2026, 3, 28, 23), at(2026, 3, 29, 1), at(2026, 10, 25, 0), at(2026, 10, 25, 1)]
    found = paths("{time:%m-%d}/{time:%H}", [{}] * 4, micros=micros, zone="Europe/Amsterdam")
    assert found == ["03-29/00", "03-29/03", "10-25/02", "10-25/02"]
    assert paths("{time:%Y}", [{}], micros=[-1]) == ["1969"]
    ends = [-62_135_596_800_000_000, 253_402_300_799_999_999]
    assert paths("{time:%Y-%m-%d}", [{}] * 2, micros=ends) == ["0001-01-01", "9999-12-31"]
    assert paths("{time:%Y}", [{}] * 2, micros=ends, zone="Asia/Tokyo") == ["0001", "9999"]
    assert paths("{time:%Y}", [{}] * 2, micros=ends, zone="America/Lima") == ["0001", "9999"]


@pytest.mark.parametrize(
    ("value", "piece"),
    [
        (None, HIVE_NULL),
        ("", HIVE_NULL),
        ("../../etc", "..%2F..%2Fetc"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("a/b=c", "a%2Fb%3Dc"),
        ("tab\tnul\0", "tab%09nul%00"),
        ("100%", "100%25"),
        ("naïve – 日本", "naïve – 日本"),
        (5, "5"),
        (5.0, "5"),
        (5.5, "5.5"),
        (True, "true"),
        (b"\xff\x00", "%5Cxff%00"),
        ([{"b": None, "a": "x"}, None], "%5B%7B%22a%22%3A%22x%22},null%5D"),
    ],
)
def test_line_21_hostile_values_stay_one_directory(value: object, piece: str) -> None:
    assert paths("f={f}", [{"f": value}]) == [f"f={piece}"]


@pytest.mark.parametrize(
    ("value", "piece"),
    [
        ("_SUCCESS", "%5FSUCCESS"),
        (".hidden", "%2Ehidden"),
        ("__HIVE_DEFAULT_PARTITION__", "%5F_HIVE_DEFAULT_PARTITION__"),
        ("a", "a"),
    ],
)
def test_line_21_a_directory_without_a_name_is_never_hidden_from_readers(
    value: str, piece: str
) -> None:
    assert paths("{f}", [{"f": value}]) == [piece]
    assert paths("f={f}", [{"f": value}]) == [f"f={value}"]


@pytest.mark.parametrize("value", [None, ""])
def test_line_21_what_has_no_value_is_not_hidden_from_readers(value: str | None) -> None:
    assert paths("{f}/b", [{"f": value}, {"f": "a"}]) == ["%5F_HIVE_DEFAULT_PARTITION__/b", "a/b"]
    assert paths("f={f}", [{"f": value}, {"f": "a"}]) == ["f=__HIVE_DEFAULT_PARTITION__", "f=a"]


def test_line_21_long_values_are_cut_apart_and_long_paths_are_bad() -> None:
    first, second = "x" * 3000 + "1", "x" * 3000 + "2"
    one, two = paths("{f}", [{"f": first}, {"f": second}])
    assert one != two
    assert len(one) <= 200
    template = "/".join(f"{name}={{{name}}}" for name in "abcd")
    [reason] = paths(template, [dict.fromkeys("abcd", first)])
    assert reason.endswith(f"is longer than {LONGEST_PATH} bytes")
    places = place(template, [dict.fromkeys("abcd", it) for it in ("1", first, "1")])
    assert places.codes.tolist() == [0, -1, 0]


def test_line_21_thousands_of_distinct_values_and_fields() -> None:
    rows = [{"a": row, "b": str(row % 7)} for row in range(5000)]
    assert paths("a={a}/b={b}", rows) == [f"a={row}/b={row % 7}" for row in range(5000)]


def test_one_path_for_values_that_only_look_different() -> None:
    assert len(set(paths("{f}", [{"f": None}, {"f": ""}, {}]))) == 1
    places = place("{f}", [{"f": None}, {"f": ""}])
    assert places.paths == [f"%5F{HIVE_NULL[1:]}"]


@settings(deadline=None, max_examples=80, derandomize=True)
@given(st.lists(st.one_of(st.none(), st.text(max_size=300)), min_size=1))
def test_line_21_any_text_gives_a_key_that_reads_back(values: list[str | None]) -> None:
    rows = [{"f": value, "g": value} for value in values]
    for path in paths("{f}/g={g}", pa.array(rows, pa.struct([("f", "string"), ("g", "string")]))):
        directories = path.split("/")
        assert len(directories) == 2
        assert all(it not in ("", ".", "..") and len(it.encode()) <= 255 for it in directories)
        assert path.isprintable() or all(
            ord(letter) > 0x7F for letter in path if not letter.isprintable()
        )
        name = ObjectName("p/t", path, 1, 2, 3, ".txt")
        assert parse_key("p/t", name.key) == name


@pytest.mark.parametrize(
    ("template", "word"),
    [
        ("/a", "empty pieces"),
        ("a//b", "empty pieces"),
        ("a/../b", "no directories"),
        ("a/", "empty pieces"),
        ("{a}{b}", "one field a directory"),
        ("{a", "no partner"),
        ("a}", "no partner"),
        ("{}", "names no field"),
        ("{a..b}", "names no field"),
        ("{time}", "needs its parts"),
        ("{time:abc}", "needs its parts"),
        ("{time:%Q}", "'%Q'"),
        ("{time:%}", "'%'"),
        ("{time:%Y:%m}", "do not belong"),
        ("{offset}", "size of a bucket"),
        ("{offset:0}", "size of a bucket"),
        ("{offset:-5}", "size of a bucket"),
        ("{country:x}", "after a colon"),
        ("a*b", "do not belong"),
        ("_x", "hidden"),
        (".x/{a}", "hidden"),
        ("x" * 60, "more than 50"),
    ],
)
def test_templates_that_cannot_be_are_refused_with_the_reason(template: str, word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        Layout(template)


def test_the_identity_has_the_zone_only_where_it_matters() -> None:
    assert Layout("{a}", Zone("Asia/Tokyo")).identity == Layout("{a}").identity
    template = "{time:%H}"
    assert Layout(template, Zone("Asia/Tokyo")).identity != Layout(template).identity


# ----------------------------------------------------------------------- parts


def test_one_part_is_not_copied_and_rows_that_stand_together_are_not_either() -> None:
    records = chunk_of([b"a", b"b", b"c"]).records
    [only] = parts_of(records, np.zeros(3, np.int64), [("data", "x")])
    assert only.records is records
    address = records.column("value").buffers()[2].address
    both = list(parts_of(records, np.array([1, 1, 0]), [("data", "x"), ("data", "y")]))
    assert [part.output_partition for part in both] == ["y", "x"]
    assert {part.records.column("value").buffers()[2].address for part in both} == {address}


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.lists(st.integers(-1, 4), max_size=40))
def test_every_row_is_in_its_part_in_order(codes: list[int]) -> None:
    records = chunk_of([b""] * len(codes)).records
    names = [("data", f"p{number}") for number in range(5)]
    parts = list(parts_of(records, np.array(codes, dtype=np.int64), names))
    found = {part.output_partition: part.records.column("offset").to_pylist() for part in parts}
    wanted: dict[str, list[int]] = {}
    for row, code in enumerate(codes):
        if code != NOWHERE:
            wanted.setdefault(f"p{code}", []).append(row)
    assert found == wanted
    assert list(found) == list(wanted)
