"""Decompression of record batches (gzip, snappy, lz4, zstd), bounded in size.

Codec numbers and framings are those of Kafka's ``CompressionType``: gzip members, snappy in
xerial's framing (or raw, from other producers), LZ4 frames, Zstandard frames.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping

import cramjam
import lz4.frame
import zstandard
from isal import igzip, isal_zlib

Decompress = Callable[[memoryview, int], bytes | memoryview]

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
"""Numbers of the codecs on the wire."""
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BEST_RATIO = 255
_LZ4_CONTENT_SIZE = 0x08
_GZIP_WINDOW = 31
_SMALLEST_READ = 1 << 16


class InvalidPayload(Exception):
    """The payload is not of its codec, or larger than allowed; says which."""


def decompress(codec: int, data: memoryview, most: int) -> bytes | memoryview:
    """Return the records of a batch; uncompressed ones are ``data`` itself, not a copy.

    Raises ``InvalidPayload``, also when there are more than ``most`` bytes.
    """
    implementation = _CODECS.get(codec)
    if implementation is None:
        raise InvalidPayload(f"compression codec {codec} is not known")
    records = implementation(data, most)
    if len(records) > most:
        raise _too_large(most)
    return records


def _too_large(most: int) -> InvalidPayload:
    return InvalidPayload(
        f"the batch has more than the {most} bytes that are allowed uncompressed"
        " (limits.record_batch)"
    )


def _plain(data: memoryview, most: int) -> memoryview:
    return data


def _lz4(data: memoryview, most: int) -> bytes:
    claimed = 0
    if len(data) >= 14 and data[4] & _LZ4_CONTENT_SIZE and data[:4] == _LZ4_MAGIC:
        # The library allocates what the frame claims before it has seen a byte of it.
        (claimed,) = struct.unpack_from("<Q", data, 6)
    try:
        if claimed > most:
            raise _too_large(most)
        # It cannot be too large whatever is in it, so the quick function without a limit will do.
        if len(data) * _LZ4_BEST_RATIO <= most:
            return bytes(lz4.frame.decompress(data))
        decompressor = lz4.frame.LZ4FrameDecompressor()
        records = bytes(decompressor.decompress(data, max_length=most + 1))
    except RuntimeError as error:
        raise InvalidPayload(f"not an LZ4 frame: {error}") from error
    if not decompressor.eof and len(records) <= most:
        raise InvalidPayload("the LZ4 frame is cut off")
    return records


def _gzip(data: memoryview, most: int) -> bytes:
    pieces = []
    room = most + 1
    rest: memoryview | bytes = data
    while rest and room > 0:
        member = isal_zlib.decompressobj(wbits=_GZIP_WINDOW)
        try:
            piece = member.decompress(rest, room)
        except isal_zlib.error as error:
            raise InvalidPayload(f"not gzip: {error}") from error
        pieces.append(piece)
        room -= len(piece)
        if not member.eof and room > 0:
            raise InvalidPayload("the gzip stream is cut off")
        # gzip streams may be several members, one behind the other, and the library stops after the
        # first.
        rest = member.unused_data
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _snappy(data: memoryview, most: int) -> bytes:
    if bytes(data[: len(_XERIAL)]) != _XERIAL:
        return _snappy_block(data, most, most)
    pieces = []
    position, room = _XERIAL_HEADER, most
    while position < len(data):
        if len(data) - position < 4:
            raise InvalidPayload("the snappy stream is cut off")
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 <= size <= len(data) - position:
            raise InvalidPayload(
                f"a snappy block of {size} bytes where {len(data) - position} are left"
            )
        pieces.append(_snappy_block(data[position : position + size], room, most))
        room -= len(pieces[-1])
        position += size
    return b"".join(pieces)


def _snappy_block(block: memoryview, room: int, most: int) -> bytes:
    try:
        # The length that the block claims, before memory is taken for it.
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise _too_large(most)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise InvalidPayload(f"not snappy: {error}") from error


class _OfThread(threading.local):
    """Decompressors that are used again: a new one costs as much as 100 small messages."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor()


_OF_THREAD = _OfThread()


def _zstd(data: memoryview, most: int) -> bytes:
    pieces = []
    room = most + 1
    # Frames of streaming producers do not have their size, so reads are of a likely one.
    step = max(_SMALLEST_READ, 8 * len(data))
    try:
        reader = _OF_THREAD.zstd.stream_reader(data, read_across_frames=True)
        while room > 0 and (piece := reader.read(min(step, room))):
            pieces.append(piece)
            room -= len(piece)
    except zstandard.ZstdError as error:
        raise InvalidPayload(f"not Zstandard: {error}") from error
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


_CODECS: Mapping[int, Decompress] = {
    0: _plain,
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of the codecs; the place of a name is its number on the wire."""

_XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_GZIP_LEVEL = 1


def compress(codec: int, data: bytes | memoryview) -> bytes:
    """Return the records of a batch compressed; for a codec but 0.

    The bytes are a function of ``data``: gzip's header has no time.
    """
    return _COMPRESSORS[codec](data)


def _to_gzip(data: bytes | memoryview) -> bytes:
    return bytes(igzip.compress(data, _GZIP_LEVEL, mtime=0))


def _to_snappy(data: bytes | memoryview) -> bytes:
    pieces = [_XERIAL, _XERIAL_VERSIONS]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        pieces += [struct.pack(">i", len(block)), block]
    return b"".join(pieces)


def _to_lz4(data: bytes | memoryview) -> bytes:
    # Brokers refuse blocks that depend on the one before.
    return bytes(lz4.frame.compress(data, block_linked=False))


def _to_zstd(data: bytes | memoryview) -> bytes:
    return bytes(zstandard.ZstdCompressor().compress(data))


_COMPRESSORS: Mapping[int, Callable[[bytes | memoryview], bytes]] = {
    GZIP: _to_gzip,
    SNAPPY: _to_snappy,
    LZ4: _to_lz4,
    ZSTD: _to_zstd,
}
