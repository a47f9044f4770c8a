"""What ``secor tables`` prints: times of messages may be any."""

from __future__ import annotations

import pytest

from secor.cli.tables_show import _through, _time


@pytest.mark.parametrize("milliseconds", [253_402_300_800_000, 1 << 62, -(1 << 62)])
def test_a_time_that_no_calendar_has_is_shown_as_it_is(milliseconds: int) -> None:
    assert _time(milliseconds) == f"{milliseconds} ms"
    assert str(milliseconds) in _through(milliseconds, 1_790_000_000.0)


def test_a_time_is_that_of_utc() -> None:
    assert _time(1_795_348_800_000) == "2026-11-22 12:00:00"
