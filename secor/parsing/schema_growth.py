"""Finds the first message of several groups that needs a wider schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from secor.core.errors import SchemaGrew
from secor.parsing.placement import Work
from secor.parsing.rows import Schema, SchemaGrowth

Fit = tuple[pa.StructArray, Mapping[int, str]]
"""Rows brought to a schema, and why some of them do not fit."""


def look_at_first(growth: SchemaGrowth, schema: Schema, works: Sequence[Work]) -> None:
    """Raise ``SchemaGrew`` where the first of all live messages needs a wider schema.

    Then nothing else of the chunk counts, and what has no column need not be written as JSON
    for all of its messages: so it is where a topic has no schema yet, and after each step.
    """
    offsets = _offsets(works)
    firsts = [
        (int(offsets[index][row]), index, row)
        for index, work in enumerate(works)
        for row in np.flatnonzero(work.live)[:1].tolist()
    ]
    if not firsts:
        return
    # The least offset over all groups: what other types a chunk has must not decide which message
    # grows the schema.
    offset, index, row = min(firsts)
    first = works[index].decoded.rows.slice(row, 1)
    if not growth.has_new_fields(first):
        return
    grows, _ = growth.look(first, *schema.fit(first), np.ones(1, dtype=bool))
    if grows is not None:
        misfits = [growth.misfits(work.decoded.rows) for work in works]
        _grow(growth, works, misfits, (offset, index, row))


def look_for_growth(
    growth: SchemaGrowth, works: Sequence[Work], fits: Sequence[Fit]
) -> list[Mapping[int, str]]:
    """Return why rows of each work do not fit.  Raises ``SchemaGrew`` for the first that grows."""
    looks = [
        growth.look(work.decoded.rows, rows, bad, work.live)
        for work, (rows, bad) in zip(works, fits, strict=True)
    ]
    offsets = _offsets(works)
    firsts = [
        (int(offsets[index][row]), index, row)
        for index, (row, _) in enumerate(looks)
        if row is not None
    ]
    if firsts:
        _grow(growth, works, [bad for _, bad in fits], min(firsts))
    return [reasons for _, reasons in looks]


def _grow(
    growth: SchemaGrowth,
    works: Sequence[Work],
    misfits: Sequence[Collection[int]],
    first: tuple[int, int, int],
) -> None:
    """Ask for the schema that the message at an offset, work and row needs, and raise."""
    offset, grows, row = first
    offsets = _offsets(works)
    following = []
    for index in sorted(range(len(works)), key=lambda index: index != grows):
        fitting = works[index].live & (offsets[index] >= offset)
        fitting[list(misfits[index])] = False  # what is in conflict adds nothing, here as elsewhere
        if index == grows:
            # The one that asked for it counts, whatever it is in conflict with elsewhere: else the
            # schema would not grow, and the same message would ask again for ever.
            fitting[row] = True
        following.append(works[index].decoded.rows.filter(pa.array(fitting)))
    growth.grow(works[grows].decoded.rows.slice(row, 1), following)
    raise SchemaGrew(offset)


def _offsets(works: Sequence[Work]) -> list[np.ndarray]:
    return [work.chunk.records.column("offset").to_numpy() for work in works]
