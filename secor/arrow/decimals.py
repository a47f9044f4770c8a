"""Numbers as decimals: the number that was written, or none."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.to_python import EXACT

MOST_DIGITS = 38
"""Of a decimal: Spark, Hive and Arrow's ``decimal128`` have no more."""

LONGEST_INTEGER = 20
"""Digits of any that 64 bits hold.  Spark reads int64 only as a decimal with as many in front."""

WRITTEN = 15
"""Decimal digits that every double keeps."""

CLOSE = 1e-9
"""What a decimal may differ from its number, both as doubles.  A wrong one differs by half."""


def as_decimal(array: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Return integers, floating-point numbers, decimals or texts of numbers as ``kind``.

    Raises ``ValueError`` or Arrow's if a number has more digits than ``kind``.  Arrow 26 looks
    for that, but not everywhere: 1e23 as ``decimal(38, 25)`` is 1896011491092.7 to it, and
    1e-60 is 0.  So each result is compared with its number.
    """
    source = array.type
    numbers = _as_doubles(array)
    if pa.types.is_floating(source):
        array = _as_written(array)
    elif pa.types.is_integer(source):  # Arrow wants room for the longest ones there are
        array = array.cast(pa.decimal128(LONGEST_INTEGER, 0))
    # First with all the room there is: so a number with too many digits fails in the second cast
    # instead of wrapping around.
    decimals = array.cast(pa.decimal128(MOST_DIGITS, kind.scale)).cast(kind)
    difference = pc.abs(pc.subtract(decimals.cast(pa.float64()), numbers))
    close = pc.less_equal(difference, pc.multiply(pc.abs(numbers), CLOSE))
    if not _all(pc.and_(close, pc.is_finite(numbers))):
        raise ValueError("more digits than the type has")
    return decimals


def _as_doubles(array: pa.Array) -> pa.Array:
    """Raise ``ValueError`` if a number is not 0, but too close to it for a double."""
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        return array.cast(pa.float64(), safe=False)
    if pa.types.is_decimal(array.type):
        return array.cast(pa.float64())
    numbers = pc.replace_substring_regex(array, r"\A\+", "").cast(pa.float64())
    vanished = pc.and_(
        pc.equal(numbers, 0.0), pc.match_substring_regex(array, r"\A[+-]?[0.]*[1-9]")
    )
    if pc.any(vanished).as_py():
        raise ValueError("more digits than the type has")
    return numbers


def _as_written(array: pa.Array) -> pa.Array:
    """Return floating-point numbers as the shortest texts that are read as the same numbers.

    The bits of 0.3 are a little less than 0.3: a message says what is written.  Beyond 2^53
    digits may have been lost when a number was read, so one with more than ``WRITTEN`` is
    refused there.
    """
    large = array.filter(pc.greater(pc.abs(array), float(EXACT))).to_pylist()
    if any(float(f"{number:.{WRITTEN - 1}e}") != number for number in large):
        raise ValueError("more digits than a double holds")
    return array.cast(pa.string())


def _all(truths: pa.Array) -> bool:
    return bool(pc.all(truths, min_count=0).as_py())
