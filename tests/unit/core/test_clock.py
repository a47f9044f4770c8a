from __future__ import annotations

from datetime import UTC, datetime

from secor.core.clock import SystemClock


def test_the_wall_clock_is_seconds_of_the_epoch() -> None:
    assert abs(SystemClock().now() - datetime.now(UTC).timestamp()) < 600


def test_the_monotonic_clock_does_not_go_back_while_it_sleeps() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    clock.sleep(0.0)
    assert clock.monotonic() >= before
