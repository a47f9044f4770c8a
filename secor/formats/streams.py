"""Compressing output streams (gzip, zstd, ...), cut into pieces independently of the writes.

The bytes that a compressor gives depend on how its input was cut.  Here it is always fed
blocks of one fixed size, so the result is a function of the content alone.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Protocol, TypeAlias, cast

import pyarrow as pa
import zstandard

from secor.core.errors import CorruptFile, SecorError
from secor.core.ports import Sink

try:
    from isal import igzip, isal_zlib
except ImportError:  # no wheel for this machine: the standard library does the same, slower
    igzip = isal_zlib = None

BLOCK = 256 * 1024
"""Bytes that a file is read by."""

FED = 64 * 1024
"""Bytes that a compressor is given at a time; so many of each open file may wait in memory."""

_AT_ONCE = 16
"""Blocks in one write: about a megabyte before it is compressed."""

ISAL_MEMORY = 2
"""ISA-L's ``memLevel``: a third of its greatest memory, for 0.1 % more bytes at the same speed."""

WRITTEN = 32 * 1024
"""Compressed bytes that are written at once: one block of text makes a third of it."""

GZIP_STATE, ZSTD_STATE = 160 * 1024, 1330 * 1024
"""Bytes of memory that a compressor keeps once it was given some; measured."""

MOST_SPILLED = 8 * FED
"""Bytes that a file spills to disk, where many are open, before its compressor is given some."""

SPILLED = 8 * 1024
"""Bytes that are spilled at once; fewer wait for more."""

UNFED_STATE = 8 * 1024
"""Bytes of memory that it takes before, with the file that it is for; measured."""

GZIP_WINDOW = 31
"""zlib's ``wbits`` for a gzip container with the greatest window; its mtime is 0."""

Data: TypeAlias = bytes | bytearray | memoryview | pa.Buffer


class Stream(Protocol):
    """A sink that may hold bytes back until ``close``."""

    def write(self, data: Data, /) -> object:
        """Append ``data``."""

    def buffered(self) -> int:
        """Return the bytes not yet given on."""

    def close(self) -> None:
        """Write the rest; the sink below stays open."""


class PlainStream:
    """Gives everything on as it is."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, data: Data, /) -> object:
        """Append ``data``."""
        return self._sink.write(data)

    def buffered(self) -> int:
        """Nothing is held back."""
        return 0

    def close(self) -> None:
        """Nothing is held back."""


class SpillingSink(Sink, Protocol):
    """A sink that can keep bytes outside of memory until they are compressed."""

    @property
    def should_spill(self) -> bool:
        """True if so many files are open that their compressors would fill the memory."""

    def spill(self, data: Data, /) -> None:
        """Keep ``data`` behind what was spilled before; nothing may have been written yet."""

    def take_spilled(self) -> Iterator[bytes]:
        """Yield all that was spilled, piece by piece; at the end it is kept no longer."""


class _Blocks:
    """Cuts what is written into blocks and feeds a compressor with them.

    ``state`` is what the compressor keeps in memory, in bytes; it is made when it is needed.
    Where hundreds of files are open, the first blocks of each are spilled to disk, and
    compressed when there are more, or at the end.
    """

    def __init__(self, sink: Sink, make: Callable[[], Any], state: int) -> None:
        self._sink = sink
        self._spill_sink = cast("SpillingSink", sink) if hasattr(sink, "spill") else None
        self._spilled = 0
        self._make = make
        self._compressor: Any = None
        self._state = state
        self._held = UNFED_STATE
        self._rest = bytearray()
        self._compressed = bytearray()

    def write(self, data: Data, /) -> object:
        """Append ``data``; whole blocks are compressed without a copy."""
        view = memoryview(data).cast("B")
        if not self._spill(view):
            self._feed_spilled()
            self._append(view)
        return None

    def buffered(self) -> int:
        """Return the bytes that are not compressed or not written yet, and of the compressor."""
        return len(self._rest) + len(self._compressed) + self._held

    def close(self) -> None:
        """Compress the rest and end the container."""
        self._feed_spilled()
        if self._rest:
            self._feed([self._rest])
            self._rest = bytearray()
        if self._compressor is None:
            self._compressor = self._make()
        self._compressed += self._compressor.flush()
        self._sink.write(self._compressed)
        # Its memory is freed at once: thousands of files are closed in a row.
        self._compressor, self._compressed = None, bytearray()
        self._held = 0

    def _spill(self, view: memoryview) -> bool:
        """Keep bytes out of memory, unless they are too many or the compressor was started."""
        if self._spill_sink is None or self._compressor is not None:
            return False
        size = len(self._rest) + view.nbytes
        if self._spilled + size > MOST_SPILLED or not (
            self._spilled or self._spill_sink.should_spill
        ):
            return False
        if size < SPILLED:
            self._rest += view
            return True
        if self._rest:
            self._spill_sink.spill(self._rest)
            self._rest = bytearray()
        self._spill_sink.spill(view)
        self._spilled += size
        return True

    def _feed_spilled(self) -> None:
        """Compress what was spilled, and keep the rest for a whole block."""
        if self._spilled and self._spill_sink is not None:
            # What waits in memory came after what was spilled.
            rest, self._rest = self._rest, bytearray()
            self._spilled = 0
            for piece in self._spill_sink.take_spilled():
                self._append(memoryview(piece))
            self._append(memoryview(rest))

    def _append(self, view: memoryview) -> None:
        """Compress whole blocks, and keep the rest."""
        if len(self._rest) + view.nbytes < FED:
            self._rest += view
            return
        blocks: list[bytearray | memoryview] = []
        if self._rest:
            wanted = FED - len(self._rest)
            self._rest += view[:wanted]
            view = view[wanted:]
            blocks = [self._rest]
            self._rest = bytearray()
        whole = len(view) - len(view) % FED
        blocks += [view[start : start + FED] for start in range(0, whole, FED)]
        self._rest += view[whole:]
        self._feed(blocks)

    def _feed(self, blocks: Sequence[bytearray | memoryview]) -> None:
        """Compress block after block, and write what comes of several at once."""
        if self._compressor is None:
            self._compressor, self._held = self._make(), self._state
        for first in range(0, len(blocks), _AT_ONCE):
            several = blocks[first : first + _AT_ONCE]
            compressed = b"".join(map(self._compressor.compress, several))
            if len(self._compressed) + len(compressed) < WRITTEN:
                self._compressed += compressed
            else:
                waiting, self._compressed = self._compressed, bytearray()
                self._sink.write(waiting + compressed if waiting else compressed)


def _gzip_compressor() -> Any:
    if isal_zlib is not None:
        return isal_zlib.compressobj(1, isal_zlib.DEFLATED, GZIP_WINDOW, ISAL_MEMORY)
    return zlib.compressobj(1, zlib.DEFLATED, GZIP_WINDOW)


class GzipStream(_Blocks):
    """Gzip (RFC 1952), level 1, without time and name in the header."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink, _gzip_compressor, GZIP_STATE)


class ZstdStream(_Blocks):
    """Zstandard (RFC 8878), one frame with a checksum of the content."""

    def __init__(self, sink: Sink, level: int = 3) -> None:
        compressor = zstandard.ZstdCompressor(level=level, write_checksum=True)
        super().__init__(sink, compressor.compressobj, ZSTD_STATE)


def compressing(sink: Sink, codec: str) -> Stream:
    """Return the stream of ``codec``: ``none``, ``gzip`` or ``zstd``."""
    streams: Mapping[str, Callable[[Sink], Stream]] = {
        "none": PlainStream,
        "gzip": GzipStream,
        "zstd": ZstdStream,
    }
    return streams[codec](sink)


def codec_identity(codec: str) -> str:
    """Name the codec and whatever else changes its bytes, for fingerprints."""
    if codec == "gzip":
        # Part of the fingerprint: a process without the library makes other bytes, so its batches
        # are another configuration's.
        return f"gzip:isal1:{ISAL_MEMORY}:{FED}" if isal_zlib is not None else f"gzip:zlib1:{FED}"
    if codec == "zstd":
        return f"zstd:3:{'.'.join(map(str, zstandard.ZSTD_VERSION))}:{FED}"
    return codec


class DecompressingReader:
    """Reads what ``compressing`` wrote; also several members or frames one after another.

    ``read`` raises ``CorruptFile`` naming ``name`` for bytes that are not of the codec
    and for a file that was cut short.
    """

    def __init__(self, file: BinaryIO, codec: str, name: str) -> None:
        self._name = name
        self._codec = codec
        self._empty = codec != "none" and not _has_bytes(file)
        self._file: Any = self._open(file)

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes; fewer only at the end, none after it."""
        if self._empty:
            raise CorruptFile(f"{self._name}: is empty, not even a {self._codec} header is there")
        parts: list[bytes] = []
        wanted = size
        try:
            while wanted and (part := self._file.read(wanted)):
                parts.append(bytes(part))
                wanted -= len(part)
        except SecorError:
            raise
        except (OSError, EOFError, zlib.error, pa.ArrowException, *_isal_errors()) as error:
            raise CorruptFile(f"{self._name}: is no whole {self._codec} file: {error}") from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _open(self, file: BinaryIO) -> Any:
        if self._codec == "gzip":
            reader = igzip.IGzipFile if igzip is not None else gzip.GzipFile
            return io.BufferedReader(cast("Any", reader(fileobj=file, mode="rb")), BLOCK)
        if self._codec == "zstd":
            return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
        return file


def _has_bytes(file: BinaryIO) -> bool:
    position = file.tell()
    more = bool(file.read(1))
    file.seek(position)
    return more


def _isal_errors() -> tuple[type[BaseException], ...]:
    return () if isal_zlib is None else (isal_zlib.error,)
