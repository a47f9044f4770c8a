"""Dates, times and decimals as the numbers that Kafka Connect's JSON converter writes.

Short, so that writers of JSON alone import it.
Source: ``JsonConverter`` of Apache Kafka 4.3, and the logical types in ``connect.data``.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import rebuild


def counted(array: pa.Array, *, decimals: bool, milliseconds: bool = False) -> pa.Array:
    """Return ``array`` with dates as days, times and timestamps as counts of their own unit.

    Connect has milliseconds, and takes other units of Avro for plain numbers.  With
    ``milliseconds`` timestamps of another unit are cut to these, as those of Protobuf.  With
    ``decimals`` these are the bytes of the number without its point, which JSON has in base64.
    """
    return rebuild(array, partial(_counted_leaf, decimals=decimals, milliseconds=milliseconds))


def _counted_leaf(array: pa.Array, *, decimals: bool, milliseconds: bool) -> pa.Array:
    kind = array.type
    if milliseconds and pa.types.is_timestamp(kind):
        unit = pa.timestamp("ms", kind.tz)
        return pc.floor_temporal(array, unit="millisecond").cast(unit).cast(pa.int64())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return array.cast(pa.int32())
    if pa.types.is_temporal(kind):
        return array.cast(pa.int64())
    if decimals and pa.types.is_decimal(kind):
        return pa.array([_bytes(value) for value in array.to_pylist()], pa.binary())
    return array


def _bytes(value: Decimal | None) -> bytes | None:
    """Return the unscaled number as Java's ``BigInteger`` has it, in as few bytes as it needs."""
    if value is None:
        return None
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    # One bit more for the sign is in the division: -128 takes one byte, 128 takes two.
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
