"""A format whose library fails for some messages, at whatever stage: around any other format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

import pyarrow as pa

from secor.core.ports import FileWriter, LogFormat, Sink

Refuse = Callable[[str, set[int]], None]
"""Raises at a stage, append or close, for the offsets that a file has."""


def refuse(at: str, *offsets: int) -> Refuse:
    """Return what refuses files with any of these offsets."""

    def look(stage: str, written: set[int]) -> None:
        if stage == at and written & set(offsets):
            raise pa.ArrowInvalid("value  out\nof range")

    return look


class FailingFormat:
    """Its files cannot hold everything.  What it writes is what the other format writes."""

    def __init__(self, log_format: LogFormat, refuse: Refuse) -> None:
        self.format = log_format
        self.refuse = refuse

    @property
    def extension(self) -> str:
        return self.format.extension

    @property
    def identity(self) -> str:
        return self.format.identity

    def create(self, sink: Sink, seed: bytes) -> FileWriter:
        """Begin a file of the other format; it is asked before rows are appended or it is closed.

        It stays of its class, which those who describe data files look for.
        """
        writer = self.format.create(sink, seed)
        append, close = writer.append, writer.close
        offsets: set[int] = set()

        def refuse_or_append(records: pa.RecordBatch) -> None:
            offsets.update(records.column("offset").to_pylist())
            self.refuse("append", offsets)
            append(records)

        def refuse_or_close() -> None:
            self.refuse("close", offsets)
            close()

        vars(writer).update(append=refuse_or_append, close=refuse_or_close)
        return writer

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        return self.format.read(file, name)
