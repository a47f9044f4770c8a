"""A cursor over all MessagePack keys of a batch at once, field by field, as vectors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from secor.formats.sequencefile.fields import Longs

Bools = npt.NDArray[np.bool_]

# Bytes that follow a MessagePack integer's, binary's or text's first byte; -1: it is none.
_INTEGER_BYTES = np.full(256, -1, np.int64)
_INTEGER_BYTES[:0x80] = _INTEGER_BYTES[0xE0:] = 0
_INTEGER_BYTES[[0xCC, 0xCD, 0xCE, 0xCF, 0xD0, 0xD1, 0xD2, 0xD3]] = [1, 2, 4, 8] * 2
_BINARY_BYTES = np.full(256, -1, np.int64)
_BINARY_BYTES[[0xC4, 0xC5, 0xC6]] = [1, 2, 4]
_TEXT_BYTES = np.full(256, -1, np.int64)
_TEXT_BYTES[0xA0:0xC0] = 0
_TEXT_BYTES[[0xD9, 0xDA, 0xDB]] = [1, 2, 4]
_PADDING = b"\0" * 16


def big_endian(data: bytes, width: int) -> npt.NDArray[np.integer]:
    """Return a view of the integers (4 bytes signed, 8 unsigned) that begin at each byte."""
    kind = {4: ">i4", 8: ">u8"}[width]
    count = max(0, len(data) - width + 1)
    return np.ndarray((count,), kind, data, 0, (1,))


class Cursor:
    """Walks all keys of a batch at once; a row that is not as expected is no longer ``good``."""

    def __init__(self, data: bytes, starts: Longs, ends: Longs) -> None:
        # Reading ahead of a short key stays inside; where values follow, it does anyway.
        padded = data if ends[-1] + len(_PADDING) <= len(data) else data + _PADDING
        self._bytes = np.frombuffer(padded, np.uint8)
        self._longs = big_endian(padded, 8)
        self._at = starts.copy()
        self._ends = ends
        self._good = np.ones(len(starts), np.bool_)

    def map_head(self) -> Longs:
        """Take the map's first byte; return its number of fields."""
        first = self._bytes[self._at].astype(np.int64)
        self._good &= (first & 0xF0) == 0x80
        self._at += 1
        return first & 0x0F

    def field(self, number: int) -> Bools:
        """Take a field's number where it is the next; return where."""
        here = self._good & (self._at < self._ends) & (self._bytes[self._at] == number)
        self._at += here
        return here

    def integer(self, present: Bools) -> Longs:
        """Take an integer where present, else 0."""
        first = self._bytes[self._at].astype(np.int64)
        width = np.where(present, _INTEGER_BYTES[first], 0)
        # Eight bytes are read whatever the size, and the shift drops those of others. A shift by 64
        # is undefined in C and so in NumPy; where there is nothing to read, the result of 63 is not
        # used.
        bits = np.minimum(64 - 8 * np.maximum(width, 0), 63).astype(np.uint64)
        payload = self._longs[self._at + 1].astype(np.uint64)
        unsigned = (payload >> bits).view(np.int64)
        signed = payload.view(np.int64) >> bits.view(np.int64)
        small = np.where(first < 0x80, first, first - 0x100)
        values = np.where(first >= 0xD0, signed, unsigned)
        values = np.where(present, np.where(width == 0, small, values), 0)
        # An unsigned integer of 64 bits that does not fit into a signed one looks negative here.
        self._good &= (width >= 0) & ~(present & (first == 0xCF) & (values < 0))
        self._advance(np.where(present, 1 + width, 0))
        return values

    def array_head(self, present: Bools) -> Longs:
        """Take the first byte of an array of up to 15 items where present; return their number."""
        first = self._bytes[self._at].astype(np.int64)
        self._good &= ~present | ((first & 0xF0) == 0x90)
        self._advance(present.astype(np.int64))
        return np.where(present & self._good, first & 0x0F, 0)

    def nil(self, present: Bools) -> Bools:
        """Take ``nil`` where it is the next; return where."""
        here = present & self._good & (self._bytes[self._at] == 0xC0)
        self._advance(here.astype(np.int64))
        return here

    def binary(self, present: Bools) -> tuple[Longs, Longs]:
        """Take a binary where present; return where each begins and ends."""
        return self._read_sizes(present, _BINARY_BYTES, 0)

    def text(self, present: Bools) -> tuple[Longs, Longs]:
        """Take a text where present; return where its UTF-8 begins and ends."""
        return self._read_sizes(present, _TEXT_BYTES, 0x1F)

    def _read_sizes(self, present: Bools, widths: Longs, small: int) -> tuple[Longs, Longs]:
        """Take a size, of its first byte's bits ``small`` or of bytes that follow, and so many."""
        first = self._bytes[self._at]
        width = np.where(present, widths[first], 0)
        bits = np.minimum(64 - 8 * np.maximum(width, 0), 63).astype(np.uint64)
        payload = self._longs[self._at + 1].astype(np.uint64)
        short = np.where(present, first & small, 0).astype(np.int64)
        size = np.where(width > 0, (payload >> bits).astype(np.int64), short)
        self._good &= width >= 0
        self._advance(np.where(present, 1 + width, 0))
        starts = self._at.copy()
        self._advance(size)
        return starts, self._at.copy()

    def true(self, present: Bools) -> Bools:
        """Take ``true`` where present."""
        self._good &= ~present | (self._bytes[self._at] == 0xC3)
        self._advance(present.astype(np.int64))
        return present & self._good

    def demand(self, true: Bools) -> None:
        """Give up the rows where this is not true."""
        self._good &= true

    def finished(self) -> Bools:
        """Return which keys were read to their ends as expected."""
        done: Bools = self._good & (self._at == self._ends)
        return done

    def _advance(self, by: Longs) -> None:
        after = self._at + by
        self._good &= after <= self._ends
        # A row that was given up stays where it is: all reads go on for it, and must not leave the
        # padding.
        self._at = np.where(self._good, after, np.minimum(self._at, self._ends))
