"""Delimited text: writes and reads payloads with a delimiter after each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.errors import ConfigurationError, CorruptFile, RecordRefused
from secor.core.model import SCHEMA
from secor.core.ports import Sink
from secor.formats.streams import BLOCK, DecompressingReader, codec_identity, compressing

Codec = Literal["none", "gzip", "zstd"]
OnDelimiter = Literal["keep", "refuse"]
NullValues = Literal["skip", "empty"]

EXTENSIONS: dict[str, str] = {"none": ".txt", "gzip": ".txt.gz", "zstd": ".txt.zst"}

VERSION = 1
"""Of the writer: grows when it writes other bytes for the same settings."""

_NO_ROWS = np.zeros(0, np.int64)

LARGEST_JOIN = 1 << 30
"""Bytes of payloads joined at once; Arrow's binary columns end at twice as many."""


LARGEST_PAYLOAD = 1 << 30
"""Bytes of the largest payload that is read, as in a SequenceFile: packed it may be a megabyte."""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """Payload and delimiter, compressed or not.

    ``on_delimiter`` says what happens to a payload in which a reader would find the
    delimiter: it is kept and counted, or ``RecordRefused``.  ``null_values`` says whether
    a tombstone becomes an empty payload or nothing.
    """

    codec: Codec = "none"
    delimiter: bytes = b"\n"
    on_delimiter: OnDelimiter = "keep"
    null_values: NullValues = "skip"

    def __post_init__(self) -> None:
        if self.codec not in EXTENSIONS:
            raise ConfigurationError(
                f"text has no codec {self.codec!r}: use one of {', '.join(EXTENSIONS)}"
            )
        if not self.delimiter:
            raise ConfigurationError("text needs a delimiter of at least one byte")

    @property
    def extension(self) -> str:
        """``.txt``, ``.txt.gz`` or ``.txt.zst``."""
        return EXTENSIONS[self.codec]

    @property
    def identity(self) -> str:
        """Everything that changes the bytes; what is refused is never written."""
        codec = codec_identity(self.codec)
        return f"text:{VERSION}:{codec}:{self.delimiter.hex()}:{self.null_values}"

    def create(self, sink: Sink, seed: bytes) -> TextWriter:
        """Begin a file; text has no markers that a seed could decide."""
        del seed
        return TextWriter(sink, self)

    def open(self, file: BinaryIO, name: str) -> DecompressingReader:
        """Open the file's plain bytes."""
        return DecompressingReader(file, self.codec, name)

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the payloads; every other column is null.

        Raises ``CorruptFile`` after the last payload when no delimiter ends it.
        """
        plain = self.open(file, name)
        splitter = Splitter(self.delimiter, name)
        while data := plain.read(4 * BLOCK):
            if payloads := splitter.split(data):
                yield values_only(pa.array(payloads, pa.binary()))
        if rest := bytes(splitter.rest):
            yield values_only(pa.array([rest], pa.binary()))
            raise CorruptFile(f"{name}: {self._unended_message(len(rest), splitter.count > 0)}")

    def _unended_message(self, rest: int, delimited: bool) -> str:
        if delimited:
            return f"its last {rest} bytes have no delimiter after them: it was cut short"
        return (
            f"the delimiter {self.delimiter!r} is nowhere in its {rest} bytes: either"
            " output.delimiter is another one, or the file was cut short within its first message,"
            " or it is Java Secor's, written without secor.file.writer.Delimiter: where its"
            " messages end is unknown, so read them from the topic or as a whole"
        )

    def render_rows(self, records: pa.RecordBatch) -> RenderedText:
        """Render the payloads; each file then takes some of them."""
        return RenderedText(self, records)

    def render(self, values: pa.Array) -> pa.Buffer:
        """Return the plain bytes of payloads, each with its delimiter."""
        if values.null_count:
            values = values.drop_null() if self.null_values == "skip" else pc.fill_null(values, b"")
        rows = len(values)
        if not rows:
            return pa.py_buffer(b"")
        if rows > 1 and values.nbytes + rows * len(self.delimiter) > LARGEST_JOIN:
            halves = (values.slice(0, rows // 2), values.slice(rows // 2))
            return pa.py_buffer(b"".join(bytes(self.render(half)) for half in halves))
        # An empty list element at the end makes the join put a delimiter there as well.
        ended = pa.concat_arrays([values, pa.array([b""], pa.binary())])
        lists = pa.ListArray.from_arrays(pa.array([0, rows + 1], pa.int32()), ended)
        return pc.binary_join(lists, self.delimiter).buffers()[2]


class Splitter:
    """Payloads of delimited text that comes in pieces, in linear time.

    What has no delimiter yet is kept in ``rest`` and never looked at again, but for the few
    bytes where a delimiter may begin: a payload may come in thousands of pieces.
    """

    def __init__(self, delimiter: bytes, name: str) -> None:
        self.rest = bytearray()
        self.count = 0
        """Payloads that were given."""
        self._delimiter = delimiter
        self._name = name
        self._start = 0

    def split(self, data: bytes) -> list[bytes]:
        """Return the payloads that end in ``data``, which follows what came before.

        Raises ``CorruptFile`` for one above ``LARGEST_PAYLOAD``.
        """
        # Fewer bytes than the delimiter has: it may begin in them, and cannot be within.
        overlap = min(len(self._delimiter) - 1, len(self.rest))
        payloads = (bytes(self.rest[len(self.rest) - overlap :]) + data).split(self._delimiter)
        del self.rest[len(self.rest) - overlap :]
        if self.rest and len(payloads) > 1:
            payloads[0] = b"".join((self.rest, payloads[0]))
            self.rest = bytearray()
        self.rest += payloads.pop()
        for payload in payloads:
            self._check(len(payload))
            self.count += 1
            self._start += len(payload) + len(self._delimiter)
        self._check(len(self.rest))
        return payloads

    def _check(self, size: int) -> None:
        if size > LARGEST_PAYLOAD:
            raise CorruptFile(
                f"{self._name}: message {self.count + 1}, from byte {self._start:,} of its content"
                f" on: no delimiter {self._delimiter!r} within {LARGEST_PAYLOAD:,} bytes, which no"
                " message has: either it was written with another delimiter, or it is damaged"
            )


class RenderedText:
    """Rows as text: payloads with their delimiters, and which of them hold one themselves."""

    def __init__(self, log_format: TextFormat, records: pa.RecordBatch) -> None:
        """Render the payloads of ``records``."""
        self.values = records.column("value")
        self.rows = len(self.values)
        self._format = log_format
        self._offsets = records.column("offset")
        self._text = memoryview(log_format.render(self.values))
        self._holding = self._rows_with_delimiter()
        self._skips_null = bool(self.values.null_count) and log_format.null_values == "skip"
        self.has_losses = bool(self._holding.size) or self._skips_null

    @cached_property
    def _begins(self) -> npt.NDArray[np.int64]:
        """The beginnings of each row's text, and the end of the last one."""
        lengths = pc.fill_null(pc.binary_length(self.values), 0).to_numpy(zero_copy_only=False)
        lengths = lengths + len(self._format.delimiter)
        if self._skips_null:
            lengths[self.values.is_null().to_numpy(zero_copy_only=False)] = 0
        begins = np.zeros(self.rows + 1, dtype=np.int64)
        np.cumsum(lengths, out=begins[1:])
        return begins

    def text(self, first: int, end: int) -> memoryview:
        """Return the bytes of the rows ``[first, end)``."""
        if end - first == self.rows:
            return self._text
        return self._text[self._begins[first] : self._begins[end]]

    def left_out(self, first: int, end: int) -> int:
        """Return how many of these rows have no value and are therefore not written."""
        return int(self.values.slice(first, end - first).null_count) if self._skips_null else 0

    def with_delimiter(self, first: int, end: int) -> int:
        """Return how many of these payloads a reader would split at another place.

        Raises ``RecordRefused`` where the format does not take them.
        """
        least, beyond = np.searchsorted(self._holding, [first, end]).tolist()
        if beyond > least and self._format.on_delimiter == "refuse":
            offset = self._offsets[int(self._holding[least])].as_py()
            raise RecordRefused(
                f"offset {offset}: its payload contains the delimiter {self._format.delimiter!r};"
                ' choose another delimiter or format, or set on_delimiter = "keep"'
            )
        return int(beyond - least)

    def _rows_with_delimiter(self) -> np.ndarray:
        values, delimiter = self.values, self._format.delimiter
        if len(delimiter) == 1:
            # One pass over the joined bytes settles the usual case: only our own are there.
            delimiters = np.count_nonzero(np.frombuffer(self._text, np.uint8) == delimiter[0])
            written = self.rows
            if self._format.null_values == "skip":
                written -= values.null_count
            if delimiters == written:
                return _NO_ROWS
        return _holding(values, delimiter)


class TextWriter:
    """One text file in the making; ``losses`` counts what it left out."""

    def __init__(self, sink: Sink, log_format: TextFormat) -> None:
        self._format = log_format
        self._stream = compressing(sink, log_format.codec)
        self._with_delimiter = 0
        self._without_value = 0

    def append(self, records: pa.RecordBatch) -> None:
        """Add the payloads of ``records``; all of them or, when one is refused, none."""
        if records.num_rows:
            self.append_rendered(self._format.render_rows(records), 0, records.num_rows)

    def append_rendered(self, rows: RenderedText, first: int, end: int) -> None:
        """Add some rendered payloads; all of them or, when one is refused, none."""
        if rows.has_losses:
            self._with_delimiter += rows.with_delimiter(first, end)
            self._without_value += rows.left_out(first, end)
        self._stream.write(rows.text(first, end))

    def buffered(self) -> int:
        """Return the bytes of the block that is not yet compressed."""
        return self._stream.buffered()

    def close(self) -> None:
        """Write the rest."""
        self._stream.close()

    @property
    def losses(self) -> Mapping[str, int]:
        """Messages whose payload holds the delimiter; messages without a value, left out."""
        return {"delimiter_in_value": self._with_delimiter, "no_value": self._without_value}

    def discard(self) -> None:
        """Nothing to free but memory."""


def _holding(values: pa.Array, delimiter: bytes) -> np.ndarray:
    """Return the rows in which the delimiter is found before the payload's end.

    The one that follows is looked at, too: of ``xa`` and the delimiter ``aa`` a reader
    would make ``x`` and ``a``.
    """
    suffix = pa.scalar(delimiter, pa.binary())
    empty = pa.scalar(b"", pa.binary())
    with_delimiter = pc.binary_join_element_wise(values, suffix, empty)
    position = pc.find_substring(with_delimiter, delimiter)
    within = pc.less(position, pc.binary_length(values))
    return np.flatnonzero(pc.fill_null(within, False).to_numpy(zero_copy_only=False))


def values_only(values: pa.Array) -> pa.RecordBatch:
    """Return a batch of ``SCHEMA`` in which only the payloads are known."""
    rows = len(values)
    columns = [values if field.name == "value" else pa.nulls(rows, field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
