"""JSON text checked and read as whole columns by Arrow's reader.

Arrow's reader is fast and not careful: it overflows the C stack on deep nesting, takes two
objects in one message for two rows, integers beyond int64 for doubles, and text that looks
like a date for a timestamp.  The checks here are what makes it safe and exact.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from secor.core.variant_json import MANY_DIGITS, LongNumber, number
from secor.parsing.decoders.columns import EMPTY_PAYLOAD, EXACT, MAX_DEPTH, NULL_PAYLOAD
from secor.parsing.decoders.extent import LARGE, MAX_FIELDS, affordable, extent_of, oversized

NOT_AN_OBJECT = "not a JSON object"
CUT_SHORT = "not a whole JSON object: it begins with { and does not end with }"
SPACE = b" \t\r\n"
CASE, OPENING = 0xDF, 0x5B
"""Without the bit in which they differ, "[" and "{" are one byte."""
WINDOW, BLOCK = 1024, 128 * 1024
"""Bytes in which brackets are counted together, and that are looked at together."""
SAMPLE = 64
SAMPLE_BYTES = 1 << 15
"""What is read to see which fields there are: at most so many messages and bytes."""

MINUS_ZERO = r"-0\s*[,\]}]"
"""As an integer it is 0: among doubles Arrow's reader makes -0.0 of it."""

FRACTION = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|$)', re.DOTALL)


def check(values: pa.Array, max_elements: int) -> dict[int, str]:
    """Return the rows that are no object, not UTF-8, nested too deeply or of more values than
    ``max_elements``, with reasons.

    What remains begins with ``{`` and ends with ``}``, so that, joined by newlines, no
    message can complete another one: after ``}`` no well-formed text goes on with ``{``,
    and a string holds no newline.
    """
    bad: dict[int, str] = {}
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    if not len(lengths):
        return bad
    bytes_, starts = _content(values)
    ends = starts + lengths
    suspects = lengths < 2
    body = ~suspects
    suspects[body] = (bytes_[starts[body]] != 0x7B) | (bytes_[ends[body] - 1] != 0x7D)
    for row in np.flatnonzero(suspects).tolist():
        reason = _shape(values[row].as_py())
        if reason is not None:
            bad[row] = reason
    for row in find_crowded(bytes_, starts, ends).tolist():
        if depth(values[row].as_py()) > MAX_DEPTH:
            bad.setdefault(row, f"nested deeper than {MAX_DEPTH}")
    for row, place in _not_utf8(values):
        bad.setdefault(row, f"invalid UTF-8 at byte {place}")
    for row in np.flatnonzero(lengths > max_elements).tolist():  # a value takes a byte or more
        if _elements(values[row].as_buffer()) > max_elements:
            bad.setdefault(row, f"has more than {max_elements} values (parser.max_elements)")
    return bad


def _elements(raw: pa.Buffer) -> int:
    """Return how many commas and opening brackets there are outside strings."""
    bare = np.frombuffer(STRING.sub(b"", raw), dtype=np.uint8)
    return int(np.count_nonzero((bare == 0x2C) | ((bare & 0xDF) == 0x5B)))


def _content(values: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Bytes of the column and where in them each row starts."""
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[values.offset :][: len(values)]
    content = np.frombuffer(data, dtype=np.uint8) if data else np.zeros(0, dtype=np.uint8)
    return content, starts.astype(np.int64)


def _shape(raw: bytes | None) -> str | None:
    if not raw:
        return NULL_PAYLOAD if raw is None else EMPTY_PAYLOAD
    text = raw.strip(SPACE)
    if text[:1] != b"{":
        return NOT_AN_OBJECT
    return None if text[-1:] == b"}" else CUT_SHORT


def find_crowded(
    content: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Rows with so many opening brackets that they may be too deep."""
    first, last = int(starts[0]), int(ends.max())
    part = content[first:last]
    # The common case, quickly: no bytes as long as the longest row have so many brackets.
    counts = np.cumsum(opening_brackets(part))
    # Two more: a message may begin and end within a window.
    windows = int((ends - starts).max()) // WINDOW + 2
    most = counts[windows:] - counts[:-windows] if len(counts) > windows else counts[-1:]
    if max(int(counts[:windows][-1]), int(most.max())) <= MAX_DEPTH:
        return np.zeros(0, dtype=np.int64)
    opening = np.flatnonzero((part & CASE) == OPENING)
    counts = np.searchsorted(opening, ends - first) - np.searchsorted(opening, starts - first)
    return np.flatnonzero(counts > MAX_DEPTH)


def opening_brackets(content: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return how many opening brackets each ``WINDOW`` of bytes has.

    In blocks that stay in the core's cache, and bytes of eight windows' parts added at once:
    a tenth of the time of one pass over all of it for the place of each.
    """
    same_bits, brackets = np.empty(BLOCK, np.uint8), np.empty(BLOCK, np.bool_)
    windows = []
    for start in range(0, len(content), BLOCK):
        block = content[start : start + BLOCK]
        size = len(block)
        np.bitwise_and(block, CASE, out=same_bits[:size])
        np.equal(same_bits[:size], OPENING, out=brackets[:size])
        brackets[size:] = False
        # Each byte of a sum counts at most WINDOW / 8 brackets: it does not overflow.
        sums = brackets.view(np.uint64).reshape(-1, WINDOW // 8).sum(axis=1)
        windows.append(sums.view(np.uint8).reshape(-1, 8).sum(axis=1, dtype=np.int64))
    return np.concatenate(windows) if windows else np.zeros(1, dtype=np.int64)


def depth(raw: bytes) -> int:
    """Return how deep brackets nest, those in strings aside."""
    bare = np.frombuffer(STRING.sub(b"", raw), dtype=np.uint8) & 0xDF
    steps = (bare == 0x5B).astype(np.int64) - (bare == 0x5D)
    return int(np.cumsum(steps).max(initial=0))


def _not_utf8(values: pa.Array) -> list[tuple[int, int]]:
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return [place for row in range(len(values)) if (place := _broken(row, values[row].as_py()))]
    return []


def _broken(row: int, raw: bytes | None) -> tuple[int, int] | None:
    try:
        (raw or b"").decode()
    except UnicodeDecodeError as error:
        return row, error.start
    return None


def join_lines(values: pa.Array) -> pa.Buffer:
    """The messages with a newline after each, contiguous."""
    lines = pc.binary_join_element_wise(values, b"", b"\n")
    _, offsets, data = lines.buffers()
    if not len(lines):
        return pa.py_buffer(b"")
    places = np.frombuffer(offsets, dtype=np.int32)[lines.offset :][: len(lines) + 1]
    return data.slice(int(places[0]), int(places[-1] - places[0]))


def read(values: pa.Array) -> pa.StructArray | None:
    """Read checked messages as columns; None where each row has to be read alone."""
    if not len(values):
        return pa.array([], pa.struct([]))
    try:
        table = _table(values)
        if table is None:
            return None
        table.validate()  # of lists of nulls the reader makes arrays that are too short
    except (pa.ArrowInvalid, UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
        return None
    # Another number of rows: some message held two objects, or none, and every row behind it would
    # be another's.
    if table.num_rows != len(values) or not all(map(_exact, table.columns)):
        return None
    if any(map(_has_minus_zero, table.columns)) and _any(values, MINUS_ZERO):
        return None
    if _has(table.schema, pa.types.is_floating) and _has_long_numbers(values):
        return None
    if not table.num_columns:
        return pa.array([{}] * len(values), pa.struct([]))
    columns = [_whole(column) for column in table.columns]
    return pa.StructArray.from_arrays(columns, fields=list(table.schema))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return one array, without a copy where it is one already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _table(values: pa.Array) -> pa.Table | None:
    """Read with strings left alone; None where the columns would take too much memory.

    A sample shows which fields there are.  If it lacks some, the names are counted
    before a first reading of the whole: the reader's time grows with its cells.
    """
    text = join_lines(values)
    table = _read_as_sampled(values, text)
    if table is not None:
        return table
    if not _affordable(values, text):
        return None
    table = _parse(text, None)
    if not _has(table.schema, pa.types.is_timestamp):
        return table
    return _parse(text, _without_times(table.schema))


def _read_as_sampled(values: pa.Array, text: pa.Buffer) -> pa.Table | None:
    """Read by the fields of a sample; None if these are not all."""
    lengths = pc.binary_length(values.slice(0, SAMPLE)).to_numpy()
    few = int(np.searchsorted(np.cumsum(lengths), SAMPLE_BYTES, side="right"))
    if not few:
        return None
    sample = _parse(join_lines(values.slice(0, few)), None).schema
    braces = int(np.count_nonzero(np.frombuffer(text, dtype=np.uint8) == 0x7B))
    cells = sum(_cells(field.type, len(values), braces) for field in sample)
    if _has(sample, pa.types.is_null) or not affordable(cells, text.size):
        return None
    try:
        table = _parse(text, _without_times(sample), others="error")
    except pa.ArrowInvalid:
        return None
    # A list or an object that was empty in the sample got its type only now.
    return None if _has(table.schema, pa.types.is_timestamp) else table


def _cells(kind: pa.DataType, rows: int, braces: int) -> int:
    """Return the most cells of a column; no list has more objects than there are braces."""
    if pa.types.is_struct(kind):
        return rows + sum(_cells(field.type, rows, braces) for field in kind)
    if pa.types.is_list(kind):
        return rows + _cells(kind.value_type, braces, braces)
    return rows


def _affordable(values: pa.Array, text: pa.Buffer) -> bool:
    messages = [msgspec.json.decode(raw) for raw in values.to_pylist()]
    large = np.flatnonzero(pc.binary_length(values).to_numpy() >= LARGE).tolist()
    if any(oversized(messages[row], len(values[row].as_buffer())) for row in large):
        return False
    extent = extent_of(messages)
    return not extent.crowded and affordable(extent.cells, text.size)


def _parse(text: pa.Buffer, schema: pa.Schema | None, others: str = "infer") -> pa.Table:
    return pj.read_json(
        pa.BufferReader(text),
        # One block: in each block the reader infers the types anew, and refuses a message that is
        # larger than one. No threads: several chunks are parsed side by side already.
        read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior=others
        ),
    )


def _has(schema: pa.Schema, kind: Any) -> bool:
    return any(kind(leaf) for field in schema for leaf in _leaves(field.type))


def _leaves(kind: pa.DataType) -> list[pa.DataType]:
    if kind.num_fields:
        return [
            leaf for index in range(kind.num_fields) for leaf in _leaves(kind.field(index).type)
        ]
    return [kind]


def _without_times(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _as_text(field.type)) for field in schema])


def _as_text(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(pa.field("item", _as_text(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _as_text(field.type)) for field in kind])
    return kind


def _exact(column: pa.ChunkedArray) -> bool:
    """Return whether no double may be an integer that it cannot hold.

    And whether no object has so many names that it is to be text.
    """
    return all(map(_exact_array, column.chunks))


def _exact_array(array: pa.Array) -> bool:
    if pa.types.is_floating(array.type):
        return not pc.any(pc.invert(pc.less(pc.abs(array), float(EXACT)))).as_py()
    if pa.types.is_struct(array.type):
        return array.type.num_fields <= MAX_FIELDS and all(map(_exact_array, array.flatten()))
    if pa.types.is_list(array.type):
        return _exact_array(array.flatten())
    return True


def _has_minus_zero(column: pa.ChunkedArray) -> bool:
    return any(map(_minus_zero, column.chunks))


def _minus_zero(array: pa.Array) -> bool:
    if pa.types.is_floating(array.type):
        zeros = array.filter(pc.equal(array, 0.0))
        return len(zeros) > 0 and pc.min(pc.divide(1.0, zeros)).as_py() < 0
    if pa.types.is_struct(array.type) or pa.types.is_list(array.type):
        below = array.flatten()
        return any(map(_minus_zero, below)) if isinstance(below, list) else _minus_zero(below)
    return False


def _has_long_numbers(values: pa.Array) -> bool:
    """Return whether some number has digits that its double does not keep."""
    candidates = values.filter(pc.match_substring_regex(values, MANY_DIGITS))
    return any(
        isinstance(number(text.decode()), LongNumber)
        for raw in candidates.to_pylist()
        for text in FRACTION.findall(STRING.sub(b"", raw))
        if not text.lstrip(b"-").isdigit()
    )


def _any(values: pa.Array, expression: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(values, expression)).as_py())
