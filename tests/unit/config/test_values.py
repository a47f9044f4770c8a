from __future__ import annotations

import pytest
from pydantic_core import PydanticCustomError

from secor.config.values import parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MiB", 64 * 1024 * 1024),
        ("1.5 GiB", 3 * 1024**3 // 2),
        ("10MB", 10_000_000),
        ("7", 7),
        ("3kb", 3000),
        (" 12 B ", 12),
        (5, 5),
    ],
)
def test_sizes_are_bytes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "5 apples", "-1", "1e3", "1_000", True])
def test_what_is_no_size_is_told_with_an_example(text: object) -> None:
    with pytest.raises(PydanticCustomError, match="MiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("500ms", 0.5),
        ("1d 2h", 93600.0),
        ("90", 90.0),
        ("0.5", 0.5),
        (7, 7),
    ],
)
def test_durations_are_seconds(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5 apples", "m", "-5m", "5m-", True])
def test_what_is_no_duration_is_told_with_an_example(text: object) -> None:
    with pytest.raises(PydanticCustomError, match=r"5m|30m"):
        parse_duration(text)
