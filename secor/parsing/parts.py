"""Parts of a chunk: its rows divided by output stream and output partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.core.model import HEADERS_TYPE, QUARANTINE, SCHEMA, Part

REASON_HEADER = "secor-reason"
"""The last header of a message in quarantine: the stage, a colon, and why."""

ROW = "row"
"""The column of decoded fields that parts for typed formats have after ``SCHEMA``'s."""

NOWHERE = -1
"""The place of rows that go into no part."""

Codes = npt.NDArray[np.int64]


def parts_of(
    records: pa.RecordBatch, codes: Codes, places: Sequence[tuple[str, str]]
) -> Iterator[Part]:
    """Yield a part for each place (output stream, output partition) that a row names, by first row.

    Rows keep their order.  Nothing is copied where the rows of each part are contiguous.
    """
    used = _by_first_row(codes)
    if not len(used):
        return
    if len(used) == 1 and used[0] != NOWHERE:
        stream, path = places[used[0]]
        yield Part(path, records, stream)
        return
    table = np.empty(len(places) + 1, dtype=np.int64)
    table[used] = np.arange(len(used))
    ranks = table[codes]
    if len(ranks) > 1 and (ranks[1:] < ranks[:-1]).any():
        order = np.argsort(ranks.astype(np.uint16) if len(used) < 1 << 16 else ranks, kind="stable")
        records = records.take(pa.array(order))
    counts = np.bincount(ranks, minlength=len(used))
    start = 0
    for rank, place in enumerate(used.tolist()):
        count = int(counts[rank])
        if place != NOWHERE:
            stream, path = places[place]
            yield Part(path, records, stream, start, start + count)
        start += count


def _by_first_row(codes: Codes) -> Codes:
    """Return the codes that occur, in the order of their first rows."""
    if not len(codes):
        return codes
    least, greatest = int(codes.min()), int(codes.max())
    if least == greatest:
        return codes[:1]
    first = np.full(greatest - least + 1, len(codes), dtype=np.int64)
    first[codes[::-1] - least] = np.arange(len(codes) - 1, -1, -1)
    order = np.argsort(first, kind="stable")
    order = order[first[order] < len(codes)]
    return order + least


def together(pieces: Sequence[Sequence[Part]]) -> list[Part]:
    """Return the parts of rows that were parsed apart as one list, in the order of offsets.

    A place has one part again or, if the types of its rows go apart, one for each run of
    rows of one type.
    """
    if len(pieces) == 1:
        return list(pieces[0])
    batches_of: dict[tuple[str, str], list[pa.RecordBatch]] = {}
    for part in chain.from_iterable(pieces):
        batches_of.setdefault((part.output_partition, part.stream), []).append(part.records)
    parts = [
        Part(path, records, stream)
        for (path, stream), batches in batches_of.items()
        for records in _in_order(batches)
    ]
    return sorted(parts, key=lambda part: int(part.records.column("offset")[0].as_py()))


def _in_order(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    offsets = np.concatenate([batch.column("offset").to_numpy() for batch in batches])
    order = np.argsort(offsets, kind="stable")
    first = batches[0].schema
    if all(first.equals(batch.schema, check_metadata=True) for batch in batches[1:]):
        yield pa.concat_batches(batches).take(pa.array(order))
        return
    owners = np.repeat(np.arange(len(batches)), [batch.num_rows for batch in batches])[order]
    given = [0] * len(batches)
    for run in np.split(owners, np.flatnonzero(np.diff(owners)) + 1):
        owner = int(run[0])
        yield batches[owner].slice(given[owner], len(run))
        given[owner] += len(run)


def quarantine_part(records: pa.RecordBatch, bad: Mapping[int, str]) -> Part:
    """Return the bad rows as they came, each with its reason as a last header."""
    rows = sorted(bad)
    chosen = records.select(SCHEMA.names).take(pa.array(rows, pa.int64()))
    headers = [
        [
            *(before or ()),
            {"key": REASON_HEADER, "value": bad[row].encode(errors="backslashreplace")},
        ]
        for row, before in zip(rows, chosen.column("headers").to_pylist(), strict=True)
    ]
    index = SCHEMA.get_field_index("headers")
    columns = [
        *chosen.columns[:index],
        pa.array(headers, HEADERS_TYPE),
        *chosen.columns[index + 1 :],
    ]
    return Part("", pa.RecordBatch.from_arrays(columns, schema=SCHEMA), QUARANTINE)


def release_part(records: pa.RecordBatch) -> tuple[pa.RecordBatch, list[str]]:
    """Undo ``quarantine_part``: return rows as they came, and the reason of each."""
    reasons: list[str] = []
    before = []
    for headers in records.column("headers").to_pylist():
        given = list(headers or ())
        marked = bool(given) and given[-1]["key"] == REASON_HEADER
        reason = (given.pop()["value"] or b"") if marked else b""
        reasons.append(reason.decode("utf-8", "replace"))
        before.append(given)
    index = SCHEMA.get_field_index("headers")
    columns = records.select(SCHEMA.names).columns
    columns[index] = pa.array(before, HEADERS_TYPE)
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), reasons
