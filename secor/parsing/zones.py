"""Time zones: local clocks to UTC and back, for whole columns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np
import numpy.typing as npt

from secor.core.errors import ConfigurationError

Micros = npt.NDArray[np.int64]
"""Microseconds since 1970-01-01T00:00:00, of UTC or of local clocks."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - clocks of any zone are counted from here
LEAST = -719_162 * DAY
GREATEST = 2_932_897 * DAY - 1
"""The years 1 to 9999."""

SECONDS_A_DAY = 86_400
MOST_DAYS = 4096
"""Days with a remembered offset."""


class Zone:
    """A zone of the tz database, by name.

    Local times that occur twice, when clocks go back, are the earlier instant; local times
    that do not occur, when clocks go forward, count by the offset before the change and so
    come out as much later as the clocks were moved.
    """

    def __init__(self, name: str = "UTC") -> None:
        """Raises ``ConfigurationError`` for an unknown name."""
        self.name = name
        self._info = None if name in ("UTC", "Etc/UTC") else _zone(name)
        self._local_days: dict[int, int | None] = {}
        self._utc_days: dict[int, int | None] = {}
        self.identity = name if self._info is None else f"{name}:{_digest(self._info)}"

    def to_utc(self, local: Micros) -> Micros:
        """Turn readings of local clocks into instants."""
        if self._info is None or not len(local):
            return local
        return local - _offsets(local, self._offset_of_local, self._local_days)

    def to_local(self, instants: Micros) -> Micros:
        """Turn instants into readings of local clocks."""
        if self._info is None or not len(instants):
            return instants
        return instants + _offsets(instants, self._offset_of_instant, self._utc_days)

    def _offset_of_local(self, second: int) -> int:
        assert self._info is not None
        offset = self._info.utcoffset(_clock(second).replace(tzinfo=self._info))
        assert offset is not None
        return offset // timedelta(microseconds=1)

    def _offset_of_instant(self, second: int) -> int:
        assert self._info is not None
        return _offset_at(self._info, second)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        # Suggest only a slip of the pen: neither GMT+0 for GMT+2 nor MST for PST.
        near = get_close_matches(name, available_timezones(), n=1, cutoff=0.85)
        named = ', such as "Europe/Amsterdam"; "Etc/GMT-2" is always two hours ahead of UTC'
        hint = f"; did you mean {near[0]}?" if near else named
        raise ConfigurationError(f"{name!r} is no time zone of the tz database{hint}") from error


def _offset_at(zone: ZoneInfo, second: int) -> int:
    offset = zone.fromutc(_clock(second).replace(tzinfo=zone)).utcoffset()
    assert offset is not None
    return offset // timedelta(microseconds=1)


@cache
def _digest(zone: ZoneInfo) -> str:
    """Hash the offsets of all days of 1970 to 2050.

    Rules change by laws and reach machines by updates: then parsing is another one.  It takes
    a while, and every topic has a zone.
    """
    days = range(0, 80 * 365 * SECONDS_A_DAY, SECONDS_A_DAY)
    offsets = ",".join(str(_offset_at(zone, second) // SECOND) for second in days)
    return hashlib.sha256(offsets.encode()).hexdigest()[:8]


def _clock(second: int) -> datetime:
    """Return a reading in seconds as a datetime, kept two days from the ends of the years."""
    # Python's datetime raises where a zone's offset leads out of the years 1 to 9999.
    least, greatest = LEAST // SECOND + 2 * SECONDS_A_DAY, GREATEST // SECOND - 2 * SECONDS_A_DAY
    return EPOCH + timedelta(seconds=min(max(second, least), greatest))


def _offsets(
    readings: Micros, offset_of: Callable[[int], int], days: dict[int, int | None]
) -> Micros:
    """Return the offset of each reading, looked up by day.

    A day with one offset at both ends has it throughout; on the others, those of the
    change, each distinct second is looked up.
    """
    day_of = readings // DAY
    distinct, codes = few_distinct(day_of)
    # All at once: days of a topic lie close together, so this hardly ever happens.
    if len(days) > MOST_DAYS:
        days.clear()
    offsets = np.empty(len(distinct), dtype=np.int64)
    changing = []
    for index, day in enumerate(distinct.tolist()):
        offset = days[day] if day in days else days.setdefault(day, _of_day(day, offset_of))
        offsets[index] = 0 if offset is None else offset
        if offset is None:
            changing.append(index)
    result: Micros = offsets[codes]
    for index in changing:
        rows = np.flatnonzero(codes == index)
        seconds, places = np.unique(readings[rows] // SECOND, return_inverse=True)
        table = np.array([offset_of(second) for second in seconds.tolist()], dtype=np.int64)
        result[rows] = table[places]
    return result


def _of_day(day: int, offset_of: Callable[[int], int]) -> int | None:
    first = offset_of(day * SECONDS_A_DAY)
    return first if first == offset_of((day + 1) * SECONDS_A_DAY - 1) else None


def few_distinct(values: Micros) -> tuple[Micros, npt.NDArray[np.int64]]:
    """Return the distinct values in order, and each row's place among them.

    Without sorting where the values lie close together, as units of time in a chunk do.
    """
    if not len(values):
        return values, values
    least, greatest = int(values.min()), int(values.max())
    if least == greatest:
        return values[:1], np.zeros(len(values), dtype=np.int64)
    if greatest - least < 1 << 16:
        steps = values - least
        present = np.bincount(steps) > 0
        places = np.cumsum(present) - 1
        return np.flatnonzero(present) + least, places[steps]
    distinct, codes = np.unique(values, return_inverse=True)
    return distinct, codes
