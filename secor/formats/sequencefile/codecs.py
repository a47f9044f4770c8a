"""SequenceFile codecs: compression as Hadoop frames it.

Every ``expand`` is bounded: it never makes more than ``limit`` bytes (and one) of lying input.
Source: Hadoop's ``GzipCodec``, ``DefaultCodec``, ``BZip2Codec``, ``ZStandardCodec`` (plain
streams), ``SnappyCodec`` and ``Lz4Codec`` (raw blocks framed by ``BlockCompressorStream``).
"""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import cramjam
import lz4.block
import zstandard

try:
    from isal import isal_zlib
except ImportError:  # a platform without a wheel: slower, and other bytes (see ``identity``)
    ISAL = False
else:
    ISAL = True

_PACKAGE = "org.apache.hadoop.io.compress."
_UINT = struct.Struct(">I")

CHUNK = 200_000
"""Bytes compressed at once by snappy and lz4: Hadoop expands them into buffers of 256 KiB."""

_ZSTD_WINDOW = 1 << 27
_GZIP, _ZLIB = 31, 15


class Expander(Protocol):
    """A streaming decompressor with a limit, as ``zlib`` and ``bz2`` have it."""

    @property
    def eof(self) -> bool:
        """True if the stream has ended."""

    @property
    def unused_data(self) -> bytes:
        """The bytes after the end of the stream."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Return at most ``max_length`` bytes."""


Content = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Codec:
    """One compression.

    ``identity`` names it and the implementation that it writes like.  ``expand(data, limit)``
    raises ``ValueError`` for what is not of the codec, cut short, or more than ``limit`` bytes.
    """

    identity: str
    java_class: str
    compress_to_parts: Callable[[Content], Sequence[bytes]]
    """Returns what it compresses to in parts: a large buffer is not copied to join them."""
    expand: Callable[[bytes, int], bytes]

    def compress(self, data: Content) -> bytes:
        """Return what ``data`` is compressed to."""
        return b"".join(self.compress_to_parts(data))


def _deflate(data: Content, wbits: int) -> Sequence[bytes]:
    """Compress as a stream: of the same data ISA-L's call for whole buffers now and then makes
    other bytes.
    """
    stream = (isal_zlib if ISAL else zlib).compressobj(1, zlib.DEFLATED, wbits)
    return stream.compress(data), stream.flush()


def _gzip_compress(data: Content) -> Sequence[bytes]:
    return _deflate(data, _GZIP)


def _zlib_compress(data: Content) -> Sequence[bytes]:
    return _deflate(data, _ZLIB)


def _inflater(wbits: int) -> Expander:
    return isal_zlib.decompressobj(wbits) if ISAL else zlib.decompressobj(wbits)


def _expand_streams(start: Callable[[], Expander], data: bytes, limit: int) -> bytes:
    """Expand one stream or several in a row."""
    parts = []
    room = limit
    while True:
        stream = start()
        # One byte more than there is room for shows that there is more, without making all of it.
        part = stream.decompress(data, room + 1)
        room -= len(part)
        if room < 0:
            raise ValueError(f"it expands to more than {limit} bytes")
        if not stream.eof:
            raise ValueError("its compressed data is cut short")
        parts.append(part)
        # Hadoop's gzip may have several members in a row.
        data = stream.unused_data
        if not data:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _gzip_expand(data: bytes, limit: int) -> bytes:
    return _translate_errors(lambda: _expand_streams(lambda: _inflater(_GZIP), data, limit))


def _zlib_expand(data: bytes, limit: int) -> bytes:
    return _translate_errors(lambda: _expand_streams(lambda: _inflater(_ZLIB), data, limit))


def _bzip2_expand(data: bytes, limit: int) -> bytes:
    return _translate_errors(lambda: _expand_streams(bz2.BZ2Decompressor, data, limit))


def _zstd_compress(data: Content) -> Sequence[bytes]:
    return (zstandard.ZstdCompressor(level=3).compress(data),)


def _bzip2_compress(data: Content) -> Sequence[bytes]:
    return (bz2.compress(data),)


def _zstd_expand(data: bytes, limit: int) -> bytes:
    def read() -> bytes:
        expander = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        # By a stream: a frame need not say how large its content is, and may lie about it.
        with expander.stream_reader(data, read_across_frames=True) as stream:
            parts = []
            room = limit + 1
            while part := stream.read(min(room, 1 << 20)):
                parts.append(part)
                room -= len(part)
                if room <= 0:
                    raise ValueError(f"it expands to more than {limit} bytes")
        return b"".join(parts)

    return _translate_errors(read)


def _in_chunks(compress: Callable[[memoryview], bytes], data: Content) -> Sequence[bytes]:
    """Frame as ``BlockCompressorStream``: the size of all, then chunks with their sizes."""
    view = memoryview(data)
    parts = [_UINT.pack(len(view))]
    for start in range(0, len(view), CHUNK):
        chunk = compress(view[start : start + CHUNK])
        parts += [_UINT.pack(len(chunk)), chunk]
    return parts


def _out_of_chunks(expand: Callable[[bytes, int], bytes], data: bytes, limit: int) -> bytes:
    """Undo ``_in_chunks``; ``expand`` gets a chunk and the most bytes that it may give."""
    parts = []
    position = 0
    room = limit
    while position < len(data):
        size, position = _size_at(data, position)
        room -= size
        if room < 0:
            raise ValueError(f"it expands to more than {limit} bytes")
        while size > 0:
            length, position = _size_at(data, position)
            if length > len(data) - position:
                raise ValueError("its compressed data is cut short")
            part = expand(data[position : position + length], size)
            if len(part) > size:
                raise ValueError("a chunk is larger than its frame says")
            parts.append(part)
            size -= len(part)
            position += length
    return b"".join(parts)


def _size_at(data: bytes, position: int) -> tuple[int, int]:
    if position + 4 > len(data):
        raise ValueError("its compressed data is cut short")
    return _UINT.unpack_from(data, position)[0], position + 4


def _snappy_chunk(chunk: bytes, limit: int) -> bytes:
    # Asked first: the library takes as much memory as the chunk says.
    if cramjam.snappy.decompress_raw_len(chunk) > limit:
        raise ValueError("a chunk is larger than its frame says")
    return bytes(cramjam.snappy.decompress_raw(chunk))


def _snappy_compress(data: Content) -> Sequence[bytes]:
    return _in_chunks(lambda chunk: bytes(cramjam.snappy.compress_raw(chunk)), data)


def _snappy_expand(data: bytes, limit: int) -> bytes:
    return _translate_errors(lambda: _out_of_chunks(_snappy_chunk, data, limit))


def _lz4_compress(data: Content) -> Sequence[bytes]:
    return _in_chunks(lambda chunk: lz4.block.compress(chunk, store_size=False), data)


def _lz4_chunk(chunk: bytes, limit: int) -> bytes:
    most = min(limit, 255 * len(chunk) + 64)  # LZ4 cannot do better than 255 to 1
    return lz4.block.decompress(chunk, uncompressed_size=most)


def _lz4_expand(data: bytes, limit: int) -> bytes:
    return _translate_errors(lambda: _out_of_chunks(_lz4_chunk, data, limit))


def _translate_errors(expand: Callable[[], bytes]) -> bytes:
    """Turn each library's error about bad input into one of ours."""
    errors: tuple[type[Exception], ...] = (
        zlib.error,
        OSError,
        EOFError,
        cramjam.DecompressionError,
        lz4.block.LZ4BlockError,
        zstandard.ZstdError,
    )
    if ISAL:
        errors += (isal_zlib.error,)
    try:
        return expand()
    except errors as error:
        raise ValueError(f"it cannot be expanded ({error})") from error


# A part of the fingerprint: the two make other bytes of the same data, and a batch that is made
# again must be the same.
_ENGINE = "isal-1-stream" if ISAL else "zlib-1"

CODECS: dict[str, Codec] = {
    "gzip": Codec(f"gzip:{_ENGINE}", _PACKAGE + "GzipCodec", _gzip_compress, _gzip_expand),
    "default": Codec(f"default:{_ENGINE}", _PACKAGE + "DefaultCodec", _zlib_compress, _zlib_expand),
    "snappy": Codec("snappy", _PACKAGE + "SnappyCodec", _snappy_compress, _snappy_expand),
    "lz4": Codec("lz4", _PACKAGE + "Lz4Codec", _lz4_compress, _lz4_expand),
    "bzip2": Codec("bzip2:9", _PACKAGE + "BZip2Codec", _bzip2_compress, _bzip2_expand),
    "zstd": Codec("zstd:3", _PACKAGE + "ZStandardCodec", _zstd_compress, _zstd_expand),
}
"""By the name in the configuration."""

_BY_CLASS = {codec.java_class: codec for codec in CODECS.values()}
_BY_CLASS[_PACKAGE + "DeflateCodec"] = CODECS["default"]


def codec_of_class(java_class: str) -> Codec:
    """Return the codec of a Java class name.  Raises ``ValueError`` for an unknown one."""
    if java_class not in _BY_CLASS:
        raise ValueError(f"compressed by {java_class}, which is not supported")
    return _BY_CLASS[java_class]
