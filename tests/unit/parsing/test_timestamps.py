"""Instants out of everything that people write for a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.core.errors import ConfigurationError
from secor.parsing.timestamps import TimeReader
from secor.parsing.zones import GREATEST, LEAST, Zone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIXED = settings(deadline=None, max_examples=60, derandomize=True)


def micros(year: int, month: int, day: int, *clock: int) -> int:
    hour, minute, second, micro = (*clock, 0, 0, 0, 0)[:4]
    time = datetime(year, month, day, hour, minute, second, micro, UTC)
    return (time - EPOCH) // timedelta(microseconds=1)


def read(
    values: Any, format: str = "auto", zone: str = "UTC", *, accept_zero: bool = False
) -> list[int | str]:
    column = values if isinstance(values, pa.Array) else pa.array(values)
    times = TimeReader(format, Zone(zone), accept_zero=accept_zero).read(column, "at")
    return [times.bad.get(row, int(it)) for row, it in enumerate(times.micros.tolist())]


def good(*values: Any, format: str = "auto", zone: str = "UTC") -> list[int]:
    found = read(list(values), format, zone)
    assert not any(isinstance(it, str) for it in found), found
    return [it for it in found if isinstance(it, int)]


# --------------------------------------------------------------------- numbers


def test_line_19_seconds_milliseconds_microseconds_and_nanoseconds_are_told_by_their_digits() -> (
    None
):
    expected = micros(2023, 11, 14, 22, 13, 20)
    numbers = [1_700_000_000 * 1000**power for power in range(4)]
    assert read(numbers) == [expected] * 4
    assert read([str(number) for number in numbers]) == [expected] * 4


def test_line_18_numbers_that_may_be_two_units_or_a_date_are_bad_unless_the_unit_is_said() -> None:
    for number in (20_231_114, 99_999_999_999, 170_000_000_000, 5, -5):
        [reason] = read([number])
        assert reason == f"at '{number}' is no time of format auto"
        assert read([str(number)]) == [reason]
    assert good(20_231_114, format="s") == [20_231_114_000_000]
    assert good(99_999_999_999, format="ms") == [99_999_999_999_000]


def test_texts_of_other_lengths_are_read_apart() -> None:
    assert good("12", "345", "6", format="s") == [12_000_000, 345_000_000, 6_000_000]
    assert good("12", "34", "56", format="s") == [12_000_000, 34_000_000, 56_000_000]
    assert isinstance(read(["", ""])[1], str)


@pytest.mark.parametrize(
    ("format", "number", "expected"),
    [
        ("s", -1, -1_000_000),
        ("ms", 1_700_000_000_123, 1_700_000_000_123_000),
        ("us", 1_700_000_000_123_456, 1_700_000_000_123_456),
        ("ns", 1_700_000_000_123_456_789, 1_700_000_000_123_456),
        ("ns", -1, -1),
        ("auto", -1_700_000_000, -1_700_000_000_000_000),
    ],
)
def test_units_said_are_kept_and_text_reads_like_numbers(
    format: str, number: int, expected: int
) -> None:
    assert read([number], format) == read([str(number)], format) == [expected]


def test_line_19_nanoseconds_never_reach_the_next_hour_whatever_their_column() -> None:
    last = 1_699_999_199_999_999_999
    assert read([last]) == read([str(last)]) == [1_699_999_199_999_999]


@pytest.mark.parametrize("format", ["auto", "s"])
def test_fractions_are_rounded_to_microseconds_in_numbers_and_in_text(format: str) -> None:
    expected = 1_700_000_000_123_457
    assert read([1_700_000_000.1234567], format) == [expected]
    assert read(["1700000000.1234567", "1.7e9"], format) == [expected, 1_700_000_000_000_000]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e300, 2**62])
def test_numbers_beyond_the_year_9999_and_no_numbers_are_bad(value: float) -> None:
    [found] = read([value], "s")
    assert isinstance(found, str)


@pytest.mark.parametrize("unit", ["auto", "s", "ms", "us", "ns"])
def test_hostile_numbers_are_bad_without_a_warning(unit: str) -> None:
    numbers = [1.7e308, -1.7e308, 1e305, float("nan"), float("inf"), 5e-324]
    times = TimeReader(unit).read(pa.array([*numbers, *numbers]), "t")
    assert len(times.bad) == 12
    texts = ["1e305", "-1e300", "1" + "0" * 40, "1e999", "." + "0" * 40 + "1"]
    assert len(TimeReader(unit).read(pa.array(texts), "t").bad) == 5


@pytest.mark.parametrize(
    "other", ["9223372036854775808", "9999999999999999999", "170000000000000000.5"]
)
@pytest.mark.parametrize("unit", ["auto", "ns"])
def test_the_digits_of_a_number_count_whatever_number_is_beside_it(unit: str, other: str) -> None:
    whole = ["1699999199999999999", "9223372036854775807", "-9223372036854775807"]
    reader = TimeReader(unit)
    together = reader.read(pa.array([*whole, other, None]), "t")
    for row, text in enumerate(whole):
        alone = reader.read(pa.array([text]), "t")
        assert not alone.bad
        assert row not in together.bad
        assert together.micros[row] == alone.micros[0] == int(text) // 1000


def test_the_year_bounds_hold_in_every_unit() -> None:
    assert good(LEAST, GREATEST, format="us") == [LEAST, GREATEST]
    assert all(isinstance(it, str) for it in read([LEAST - 1, GREATEST + 1], "us"))
    assert all(isinstance(it, str) for it in read([2**63 - 1, -(2**63)], "s"))


def test_line_18_missing_and_zero_are_bad_and_zero_may_be_accepted() -> None:
    unset = "at is 1970-01-01T00:00:00Z: no time was set"
    assert read(pa.array([None, 0, 1], pa.int64()), "s") == ["at is missing", unset, 1_000_000]
    assert read(["0", "1970-01-01", "1970-01-01T01:00:00+01:00"], "iso8601")[1:] == [unset, unset]
    assert read(["0"], "ms") == [unset]
    assert read([0, 10**9], accept_zero=True) == [0, 10**15]
    assert read(pa.nulls(2)) == ["at is missing"] * 2


def test_truths_and_structures_are_no_times() -> None:
    assert read([True]) == ["at 'true' is no time of format auto"]
    expected = "at '{\"a\":1}' is a structure: the time is to be one of its fields"
    assert read([{"a": 1}]) == [expected]
    assert read(['{"a":1}']) == [expected]


# ------------------------------------------------------------------------ text


@pytest.mark.parametrize(
    "text",
    [
        "2024-02-29T04:05:06Z",
        "2024-02-29t04:05:06z",
        "2024-02-29 04:05:06",
        "2024-02-29T04:05:06.000000000",
        "2024-02-29T04:05:06,0+00:00",
        "2024-02-29T05:35:06+01:30",
        "2024-02-28T23:05:06-0500",
        "2024-02-29T06:05:06+02",
        "20240229T040506Z",
        "2024-02-29T04:05:06.00000000099999Z",
    ],
)
def test_iso_8601_in_its_usual_forms(text: str) -> None:
    assert good(text) == good(text, format="iso8601") == [micros(2024, 2, 29, 4, 5, 6)]


def test_line_19_fractions_of_iso_times_are_cut_to_microseconds() -> None:
    assert good("2024-01-01T00:00:00.123456789Z", "2024-01-01T00:00:00.5Z") == [
        micros(2024, 1, 1, 0, 0, 0, 123456),
        micros(2024, 1, 1, 0, 0, 0, 500000),
    ]
    assert good("2024-01-01", "0001-01-01", "9999-12-31") == [
        micros(2024, 1, 1),
        LEAST,
        micros(9999, 12, 31),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "now",
        "2023-02-29",
        "1900-02-29",
        "2024-13-01",
        "2024-00-10",
        "2024-01-00",
        "0000-01-01",
        "2024-01-01T24:00:00Z",
        "2024-01-01T23:59:60Z",
        "2024-01-01T00:00:00+24:00",
        "2024-01-01T00:00:00Zx",
        "٢٠٢٤-01-01",
        "2024-01-01T00:00:00Z" + "0" * 100,
        "x" * 10_000,
        "2024-01-01\n",
    ],
)
def test_what_is_no_time_is_bad_and_the_reason_is_short(text: str) -> None:
    [reason] = read([text])
    assert isinstance(reason, str)
    assert len(reason) < 160
    assert reason.isprintable()


def test_bytes_are_read_as_text_even_if_they_are_none() -> None:
    assert read(pa.array([b"2024-01-01", b"\xff\xfe"], pa.binary())) == [
        micros(2024, 1, 1),
        "at '\\xff\\xfe' is no time of format auto",
    ]


def test_slices_and_nulls_and_many_shapes_in_one_column_keep_their_rows() -> None:
    values = [None, "2024-01-01", "x", "2024-01-01T01", "2024-01-01T01:02", "2024-01-01T01:02:03"]
    values += [f"2024-01-01T01:02:03.{'5' * digits}" for digits in range(1, 10)]
    values *= 3
    column = pa.array(["skipped", *values]).slice(1)
    assert read(column) == [read(pa.array([value], pa.string()))[0] for value in values]


@FIXED
@given(
    st.lists(st.datetimes(timezones=st.sampled_from([UTC, ZoneInfo("Asia/Kolkata")])), min_size=1)
)
def test_iso_text_of_python_reads_as_python_has_it(times: list[datetime]) -> None:
    whole = [time for time in times if time.utcoffset() and time.utcoffset().seconds % 60 == 0]  # type: ignore[union-attr]
    whole = [time for time in whole if time.year > 1900] or [datetime(2024, 1, 1, tzinfo=UTC)]
    expected = [(time - EPOCH) // timedelta(microseconds=1) for time in whole]
    assert read([time.isoformat() for time in whole]) == expected


@FIXED
@given(
    st.lists(st.one_of(st.none(), st.text(max_size=30), st.text("0123456789T:Z.+- ", max_size=25)))
)
def test_any_text_is_a_time_or_bad_alike_alone_and_among_others(values: list[str | None]) -> None:
    alone = [read(pa.array([value], pa.string()))[0] for value in values]
    assert read(pa.array(values, pa.string())) == alone


# -------------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("%d/%b/%Y:%H:%M:%S %z", "21/Nov/2026:04:05:06 +0100", (2026, 11, 21, 3, 5, 6)),
        ("dd/MMM/yyyy:HH:mm:ss Z", "21/nov/2026:04:05:06 +0100", (2026, 11, 21, 3, 5, 6)),
        (
            "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
            "2026-11-21T04:05:06.250Z",
            (2026, 11, 21, 4, 5, 6, 250000),
        ),
        ("yyyyMMddHHmm", "202611210405", (2026, 11, 21, 4, 5)),
        ("yy/M/d", "26/1/9", (2026, 1, 9)),
        ("%y%m%d", "700109", (1970, 1, 9)),
        ("%Y-%j", "2024-366", (2024, 12, 31)),
        ("EEE, d MMM yyyy h:mm a z", "Sat, 21 Nov 2026 12:05 AM GMT", (2026, 11, 21, 0, 5)),
        ("%A %d %B %Y %I:%M %p", "Saturday 21 November 2026 12:05 pm", (2026, 11, 21, 12, 5)),
        ("%F %T.%f", "2026-11-21 04:05:06.123456789", (2026, 11, 21, 4, 5, 6, 123456)),
        ("yyyy 'o''clock' HH", "2026 o'clock 04", (2026, 1, 1, 4)),
        ("%Y%%%m", "2026%11", (2026, 11, 1)),
        # So many letters, so many digits: in Java only where numbers touch.
        ("yyyy-MM-dd HH:mm:ss", "2026-1-5 4:05:6", (2026, 1, 5, 4, 5, 6)),
        ("yyyyMMddHHmmssSSS", "20260105040506250", (2026, 1, 5, 4, 5, 6, 250000)),
        ("yyyyMMdd'T'HH", "20260105T4", (2026, 1, 5, 4)),
        ("ddMMMyyyy", "5Jan2026", (2026, 1, 5)),
    ],
)
def test_patterns_of_strptime_and_java(pattern: str, text: str, expected: tuple[int, ...]) -> None:
    year, month, day, *clock = expected
    assert good(text, format=pattern) == [micros(year, month, day, *clock)]


def test_numbers_are_read_by_patterns_as_their_digits() -> None:
    assert good(20_240_229, format="yyyyMMdd") == [micros(2024, 2, 29)]


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ("yyyy-ww", "'w'"),
        ("GGyyyy", "'G'"),
        ("%Y-%q", "'%q'"),
        ("%H:%M", "no year"),
        ("HH:mm", "no year"),
        ("%Y %d", "without a month"),
        ("%Y %I", "AM or PM"),
        ("%Y %Y", "twice"),
        ("yyyy'T", "quote"),
        ("yyyy '7' MM", "digits of its own"),
        ("millis", "'i'.*one of auto, s, ms, us, ns, iso8601"),
        ("%", "'%'"),
    ],
)
def test_patterns_that_cannot_be_read_are_refused_by_name(pattern: str, word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        TimeReader(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyyMMdd", "2026105"),
        ("yyyy-MM-dd", "2026-011-05"),
        ("yyyy-MM-dd", "2026-01-05T04:05:06"),
        ("yyyy-MM-dd", "26-01-05"),
        ("yyyy-MM-dd z", "2026-01-05 PST"),
    ],
)
def test_text_that_does_not_fit_a_pattern_of_java_whole_is_bad(pattern: str, text: str) -> None:
    assert read([text], pattern) == [f"at '{text}' is no time of format {pattern}"]


@pytest.mark.parametrize("text", ["Feb 30 2024", "Foo 01 2024", "Feb 1 2024 x"])
def test_text_that_does_not_fit_a_pattern_is_bad(text: str) -> None:
    assert read([text], "%b %d %Y") == [f"at '{text}' is no time of format %b %d %Y"]


# ----------------------------------------------------------------------- zones


def test_line_19_times_that_occur_twice_are_the_earlier_and_those_that_do_not_move_on() -> None:
    zone = "Europe/Amsterdam"
    assert good("2026-10-25T02:30:00", zone=zone) == [micros(2026, 10, 25, 0, 30)]
    assert good("2026-03-29T02:30:00", zone=zone) == [micros(2026, 3, 29, 1, 30)]
    assert good("2026-03-29T02:30:00Z", zone=zone) == [micros(2026, 3, 29, 2, 30)]


@pytest.mark.parametrize("name", ["America/Sao_Paulo", "Australia/Lord_Howe"])
def test_line_19_every_half_hour_of_a_year_agrees_with_zoneinfo(name: str) -> None:
    zone, info = Zone(name), ZoneInfo(name)
    start = datetime(2018, 1, 1)  # noqa: DTZ001 - local
    clocks = [start + timedelta(minutes=30 * step) for step in range(365 * 48)]
    local = np.array([(it - datetime(1970, 1, 1)) // timedelta(microseconds=1) for it in clocks])  # noqa: DTZ001
    expected = [(it.replace(tzinfo=info) - EPOCH) // timedelta(microseconds=1) for it in clocks]
    instants = zone.to_utc(local)
    assert instants.tolist() == expected
    there = [(EPOCH + timedelta(microseconds=it)).astimezone(info) for it in instants.tolist()]
    back = [
        (it.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # noqa: DTZ001
        for it in there
    ]
    assert zone.to_local(instants).tolist() == back


def test_zones_hold_at_the_ends_of_the_years_and_in_the_fingerprint() -> None:
    amsterdam = Zone("Europe/Amsterdam")
    assert len(read(["0001-01-01", "9999-12-31T23:59:59"], zone="Europe/Amsterdam")) == 2
    assert amsterdam.identity.startswith("Europe/Amsterdam:")
    assert amsterdam.identity != Zone("Europe/London").identity
    assert TimeReader("s").identity != TimeReader("ms").identity
    with pytest.raises(ConfigurationError, match="did you mean Europe/Amsterdam"):
        Zone("Europe/Amsterdm")


def test_nanoseconds_in_doubles_are_cut_as_in_integers_and_in_text() -> None:
    at = 8_399_589_116_837_456_896  # its quotient by 1000 is rounded up in doubles
    assert float(at) == at
    for format in ("ns", "auto"):
        assert good(float(at), format=format) == [at // 1000] == good(at, format=format)
        assert good(str(at), format=format) == [at // 1000]
    assert good(-float(at), format="ns") == [-at // 1000]


# ------------------------------------------------------------------ typed times


def test_times_and_dates_of_typed_columns_need_no_format() -> None:
    aware = pa.array([datetime(2024, 2, 29, 4, tzinfo=UTC)], pa.timestamp("ns", "UTC"))
    naive = pa.array([datetime(2024, 2, 29, 4)], pa.timestamp("ms"))  # noqa: DTZ001
    date = pa.array([datetime(2024, 2, 29, tzinfo=UTC).date(), None])
    assert read(aware, "s") == [micros(2024, 2, 29, 4)]
    assert read(naive, zone="Europe/Amsterdam") == [micros(2024, 2, 29, 3)]
    assert read(date) == [micros(2024, 2, 29), "at is missing"]
    assert read(pa.array([2**62], pa.timestamp("s"))) != [2**62]
    assert read(pa.array([Decimal("1700000000.5")])) == [1_700_000_000_500_000]
    assert read(pa.array(["2024-02-29"]).dictionary_encode()) == [micros(2024, 2, 29)]


@pytest.mark.parametrize(
    "format", ["auto", "iso8601", "%Y-%m-%dT%H:%M:%S", "yyyy-MM-dd'T'HH:mm:ss"]
)
def test_line_19_a_leap_second_is_bad_alone_and_among_others(format: str) -> None:
    leap, before = "2016-12-31T23:59:60", "2016-12-31T23:59:59"
    (alone,) = read([leap], format)
    assert read([leap, before], format) == [alone, micros(2016, 12, 31, 23, 59, 59)]
    assert isinstance(alone, str)
