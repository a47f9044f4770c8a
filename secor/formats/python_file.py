"""A sink as a Python file object, for libraries that write whole files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from secor.core.errors import SecorError
from secor.core.ports import Sink

BUFFER_BYTES = 32 * 1024
"""Bytes that a buffer before it should have: Arrow writes a column in several small pieces."""


class SinkFile:
    """Writes to a sink until it is discarded; closing it closes nothing.

    Libraries write a footer when a file that was given up is collected: after ``discard``
    such bytes go nowhere, nor do they after the sink has failed once.  ORC's library would end
    the process where they are refused again.
    """

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink: Sink | None = sink
        self._failure: Exception | None = None
        self._written = 0

    def write(self, data: Any) -> int:
        """Write to the sink; return the bytes taken."""
        if self._sink is not None:
            try:
                self._sink.write(data)
            except (OSError, SecorError) as error:
                # The sink is dropped with its first error: what a library writes afterwards, when
                # it is collected, goes nowhere.
                self._sink, self._failure = None, error
                raise
        self._written += len(data)
        return len(data)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Raise what the sink raises meanwhile: some libraries make another error of it."""
        try:
            yield
        finally:
            if self._failure is not None:
                # In place of what the library has made of it: a full disk must be seen as such.
                raise self._failure

    def seekable(self) -> bool:
        """Bytes only follow one another."""
        return False

    def tell(self) -> int:
        """Return the bytes written."""
        return self._written

    def flush(self) -> None:
        """Nothing is held back here."""

    def close(self) -> None:
        """Take no more."""
        self.closed = True

    def discard(self) -> None:
        """Drop everything that is written from here on."""
        self._sink = None
