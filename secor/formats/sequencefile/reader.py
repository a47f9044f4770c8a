"""The SequenceFile reader: whole files and splits, as columns of messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from secor.core.model import rows_in_blocks
from secor.formats.sequencefile.blocks import read_blocks
from secor.formats.sequencefile.codecs import Codec, codec_of_class
from secor.formats.sequencefile.columns import KEY_READERS, KeyReader
from secor.formats.sequencefile.header import (
    BYTES_WRITABLE,
    ESCAPE,
    Header,
    NotEnough,
    decode_header,
)
from secor.formats.sequencefile.records import read_records
from secor.formats.sequencefile.window import Window

ROWS = 10_000
"""Rows of a batch, at most."""

_FIRST_READ = 64 * 1024
_MOST_HEADER = 1 << 20


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a file is to be read, by its header; ``block`` files have a codec."""

    keys: KeyReader
    codec: Codec | None
    block: bool
    marker: bytes


def read_file(file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
    """Yield all records of ``file``, which stands at its beginning."""
    window = Window(file, name)
    kind = _take_header(window)
    yield from _read(window, kind, None)


def read_split(file: BinaryIO, start: int, end: int, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the records after the sync markers that begin in ``[start, end)``."""
    file.seek(0)
    window = Window(file, name)
    kind = _take_header(window)
    if start > window.base:
        file.seek(start)
        window = Window(file, name, start)
        if not _find_marker(window, kind.marker):
            return
    if window.base < end:
        yield from _read(window, kind, end)


def _take_header(window: Window) -> _Kind:
    """Read the header and drop it.  Raises ``CorruptFile``."""
    try:
        header, size = _header(window)
        if header.value_class != BYTES_WRITABLE:
            raise ValueError(f"values are {header.value_class}, not {BYTES_WRITABLE}")
        if header.key_class not in KEY_READERS:
            raise ValueError(f"keys are {header.key_class}, not one of {', '.join(KEY_READERS)}")
        codec = codec_of_class(header.codec) if header.codec is not None else None
    except ValueError as error:
        raise window.corrupt(0, f"no SequenceFile of messages: {error}") from error
    window.drop(size)
    return _Kind(KEY_READERS[header.key_class], codec, header.block, ESCAPE + header.sync)


def _header(window: Window) -> tuple[Header, int]:
    while window.grow(_FIRST_READ):
        try:
            return decode_header(window.data)
        except NotEnough:
            if len(window.data) > _MOST_HEADER:
                raise ValueError(f"a header of more than {_MOST_HEADER} bytes") from None
    raise window.cut_short(0, "the header")


def _find_marker(window: Window, marker: bytes) -> bool:
    """Move to the first sync marker; False where there is none."""
    while window.grow():
        at = window.data.find(marker)
        if at >= 0:
            window.drop(at)
            return True
        window.drop(max(0, len(window.data) - len(marker) + 1))
    return False


def _read(window: Window, kind: _Kind, end: int | None) -> Iterator[pa.RecordBatch]:
    if kind.block and kind.codec is not None:
        batches = read_blocks(window, kind.keys, kind.codec, kind.marker, end)
    else:
        batches = read_records(window, kind.keys, kind.codec, kind.marker, end)
    for batch in batches:
        yield from rows_in_blocks(batch, ROWS)
