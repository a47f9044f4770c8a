"""Zigzag varints (Kafka's variable-length integers), many at once or one at a time.

Source: Kafka's ``ByteUtils.readVarint`` and ``readVarlong``, which are those of Protocol
Buffers: seven bits a byte, the lowest first, the high bit set on all but the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.signedinteger[Any]]

VARINT = 5
VARLONG = 10
"""The most bytes that a number of 32 and of 64 bits may take."""
PADDING = bytes(64)
"""What a buffer needs behind its last byte: fields are read before they are judged."""

_STOPS = np.uint32(0x80808080)


class Overlong(Exception):
    """A varint has more bytes than its type; ``place`` is the index among those read."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


def windows(data: Bytes) -> npt.NDArray[np.uint32]:
    """Return a view in which element i is the four bytes from i on, little-endian."""
    return np.ndarray((max(len(data) - 3, 0),), np.dtype("<u4"), data, strides=(1,))


def read_many(
    data: Bytes, fours: npt.NDArray[np.uint32], positions: Places, most: int
) -> tuple[Numbers, Places]:
    """Read one varint at each place; return the numbers and the places behind them.

    ``fours`` is ``windows(data)``; places are at least ``most`` bytes before the end of
    ``data``.  Raises ``Overlong``.
    """
    word = fours[positions]
    stops = ~word & _STOPS
    # All bits up to the end of the last byte: four bytes take no branch.
    mask = stops ^ (stops - np.uint32(1))
    word &= mask
    bits = word & np.uint32(0x7F)
    bits |= word >> np.uint32(1) & np.uint32(0x3F80)
    bits |= word >> np.uint32(2) & np.uint32(0x1FC000)
    bits |= word >> np.uint32(3) & np.uint32(0xFE00000)
    signed = bits.view(np.int32)
    # Zigzag: the last bit is the sign.
    numbers = signed >> 1 ^ -(signed & 1)
    after = positions + (np.bitwise_count(mask) >> 3)
    if stops.all():
        return numbers, after
    return _with_long_ones(data, positions, most, np.flatnonzero(stops == 0), numbers, after)


def _with_long_ones(
    data: Bytes, positions: Places, most: int, which: Places, numbers: Numbers, after: Places
) -> tuple[Numbers, Places]:
    places = positions[which]
    bits = np.zeros(len(which), np.uint64)
    lengths = np.zeros(len(which), np.int64)
    going = np.ones(len(which), np.bool_)
    for index in range(most):
        byte = data[places + index]
        seven = (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        bits |= np.where(going, seven, np.uint64(0))
        lengths += going
        going &= byte > 0x7F
    if going.any():
        raise Overlong(int(which[np.flatnonzero(going)[0]]))
    signed = bits.view(np.int64)
    numbers = numbers.astype(np.int64)
    numbers[which] = (bits >> np.uint64(1)).view(np.int64) ^ -(signed & 1)
    after[which] = places + lengths
    return numbers, after


def read_one(data: bytes, position: int, most: int = VARINT) -> tuple[int, int]:
    """Read a varint; return the number and the place behind it.

    Raises ``Overlong``, and ``IndexError`` at the end of ``data``.
    """
    bits = 0
    for index in range(most):
        byte = data[position + index]
        bits |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return bits >> 1 ^ -(bits & 1), position + index + 1
    raise Overlong(0)


def zigzag(numbers: Places) -> npt.NDArray[np.uint64]:
    """Return signed numbers as the unsigned ones that a varint stores: small ones stay small."""
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def varint_sizes(unsigned: npt.NDArray[np.uint64]) -> Places:
    """Return the bytes that each number takes as a varint, 1 to 10."""
    sizes = np.ones(len(unsigned), np.int64)
    greatest = int(unsigned.max(initial=0))
    limit = 1 << 7
    while limit <= greatest:
        sizes += unsigned >= np.uint64(limit)
        limit <<= 7
    return sizes


def write_many(
    data: Bytes, positions: Places, unsigned: npt.NDArray[np.uint64], sizes: Places
) -> Places:
    """Write each number at its place in ``data``; return the places behind them."""
    rest, places, left = unsigned, positions, sizes
    while True:
        last = left == 1
        data[places] = (rest & np.uint64(0x7F)).astype(np.uint8) | np.where(last, 0, 0x80).astype(
            np.uint8
        )
        if last.all():
            return positions + sizes
        going = ~last
        rest, places, left = rest[going] >> np.uint64(7), places[going] + 1, left[going] - 1
