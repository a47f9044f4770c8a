"""What a SequenceFile's writers write through: pieces that are worth a call of the sink."""

from __future__ import annotations

from secor.core.ports import Sink

LEAST_WRITE = 256 * 1024
MOST_WRITE = 1 << 20
"""Bytes of a call of the sink, but for the last one of a file."""


class Output:
    """Gives the sink pieces of about 256 KiB to 1 MiB."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._parts: list[bytes | memoryview] = []
        self._size = 0

    def add(self, data: bytes | memoryview) -> None:
        """Take ``data``, which does not change any more."""
        if len(data) >= LEAST_WRITE:
            self.flush()
            self._write(memoryview(data))
            return
        # A view of a larger buffer would hold all of that.
        self._parts.append(bytes(data))
        self._size += len(data)
        if self._size >= LEAST_WRITE:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        if self._parts:
            self._write(memoryview(b"".join(self._parts)))
            self._parts.clear()
            self._size = 0

    def buffered(self) -> int:
        """Return the bytes held here."""
        return self._size

    def _write(self, view: memoryview) -> None:
        for at in range(0, len(view), MOST_WRITE):
            self._sink.write(view[at : at + MOST_WRITE])
