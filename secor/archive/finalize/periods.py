"""From output partitions back to the time that they are about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from secor.core.errors import ConfigurationError
from secor.parsing.layout import Layout
from secor.parsing.layout_pieces import BucketPiece, TimePiece, directives
from secor.parsing.zones import EPOCH, GREATEST, HOUR, Micros, Zone

DIGITS = {"Y": 4, "y": 2, "m": 2, "d": 2, "j": 3, "H": 2, "M": 2, "S": 2}
CENTURY = 70
"""Two digits of a year below this are of the years from 2000 on."""
LONGEST_CHANGE = 3 * HOUR
"""Clocks go back by less."""


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """A directory that is about ``[start, end)``, in seconds since the epoch."""

    path: str
    start: float
    end: float


class Periods:
    """Reads the output partitions that a layout makes."""

    def __init__(self, layout: Layout) -> None:
        """Raises ``ConfigurationError`` unless the layout names whole days, hours, …."""
        self._zone = layout.zone
        pattern = ""
        written = ""
        self._depth = 0
        names: list[str] = []
        for part in layout.parts:
            if isinstance(part, TimePiece):
                for literal, directive in directives(part.format):
                    pattern += re.escape(literal) + _group(directive, names)
                    written += literal
                self._depth = written.count("/") + 1
            elif isinstance(part, str):
                pattern += re.escape(part)
                written += part
            else:
                pattern += r"\d+" if isinstance(part, BucketPiece) else "[^/]*"
        self._pattern = re.compile(pattern)
        self._unit = _unit({name[0] for name in names}, layout.template)

    def of(self, output_partition: str) -> Period | None:
        """Return what an output partition is about; None if another layout made it."""
        match = self._pattern.fullmatch(output_partition)
        if match is None:
            return None
        values = {name[0]: int(text) for name, text in match.groupdict().items()}
        try:
            start = _start(values)
        except (ValueError, OverflowError):
            return None
        try:
            end = _after(start, self._unit)
        except (ValueError, OverflowError):  # after the year 9999
            end = datetime.max  # noqa: DTZ901 - a local clock
        path = "/".join(output_partition.split("/")[: self._depth])
        return Period(path, _instant(start, self._zone), _over(end, self._zone))


def _group(directive: str, names: list[str]) -> str:
    if directive in ("", "%"):
        return directive
    names.append(f"{directive}{len(names)}")
    return rf"(?P<{names[-1]}>\d{{{DIGITS[directive]}}})"


def _unit(fields: set[str], template: str) -> str:
    """Return the finest part of the time, each greater one being there, too."""
    present = [bool(fields & names) for names in _parts()]
    whole = present.index(False) if False in present else len(present)
    if whole == 0 or any(present[whole:]):
        raise ConfigurationError(
            f"layout {template!r}: it names no whole years, months, days or hours, so it is"
            " unknown when one of its directories is complete"
        )
    return "YmdHMS"[whole - 1]


def _parts() -> Iterator[set[str]]:
    yield {"Y", "y"}
    yield {"m", "j"}
    yield {"d", "j"}
    yield from ({name} for name in "HMS")


def _start(values: dict[str, int]) -> datetime:
    short = values.get("y", 0)
    year = values.get("Y", short + (2000 if short < CENTURY else 1900))
    clock = values.get("H", 0), values.get("M", 0), values.get("S", 0)
    if "j" in values and "m" not in values:
        first = datetime(year, 1, 1, *clock)  # noqa: DTZ001 - a local clock
        return first + timedelta(days=values["j"] - 1)
    day = values.get("m", 1), values.get("d", 1)
    return datetime(year, *day, *clock)  # noqa: DTZ001 - a local clock


def _after(start: datetime, unit: str) -> datetime:
    if unit == "Y":
        return start.replace(year=start.year + 1)
    if unit == "m":
        # 32 days after the first are always in the next month.
        return (start.replace(day=1) + timedelta(days=32)).replace(day=1)
    lengths = {"d": 86_400, "H": 3_600, "M": 60, "S": 1}
    return start + timedelta(seconds=lengths[unit])


def _instant(local: datetime, zone: Zone) -> float:
    return float(zone.to_utc(_micros(local))[0]) / 1e6


def _over(end: datetime, zone: Zone) -> float:
    """Return when local clocks have read what is before ``end`` for the last time.

    Where they go back, times occur twice: half past two has passed when it has passed again.
    """
    last = _micros(end) - 1
    instant = zone.to_utc(last)
    later = np.minimum(instant + LONGEST_CHANGE, GREATEST)
    again = last - (zone.to_local(later) - later)
    if zone.to_local(again)[0] == last[0]:
        instant = np.maximum(instant, again)
    return float(instant[0] + 1) / 1e6


def _micros(local: datetime) -> Micros:
    return np.array([(local - EPOCH) // timedelta(microseconds=1)], dtype=np.int64)
