"""Finds the first message of several groups that needs a wider schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from secor.core.errors import SchemaGrew
from secor.parsing.placement import Work
from secor.parsing.rows import Growth

Fit = tuple[pa.StructArray, Mapping[int, str]]
"""Rows brought to a schema, and why some of them do not fit."""


def look_for_growth(
    growth: Growth, works: Sequence[Work], fits: Sequence[Fit]
) -> list[Mapping[int, str]]:
    """Return why rows of each work do not fit.  Raises ``SchemaGrew`` for the first that grows."""
    looks = [
        growth.look(work.decoded.rows, rows, bad, work.live)
        for work, (rows, bad) in zip(works, fits, strict=True)
    ]
    offsets = [work.chunk.records.column("offset").to_numpy() for work in works]
    firsts = [
        (int(offsets[at][row]), at, row) for at, (row, _) in enumerate(looks) if row is not None
    ]
    if not firsts:
        return [reasons for _, reasons in looks]
    offset, grows, row = min(firsts)
    following = []
    for at in sorted(range(len(works)), key=lambda at: at != grows):
        fitting = works[at].live & (offsets[at] >= offset)
        fitting[list(fits[at][1])] = False  # what is in conflict adds nothing, here as elsewhere
        if at == grows:
            fitting[row] = True
        following.append(works[at].decoded.rows.filter(pa.array(fitting)))
    growth.grow(works[grows].decoded.rows.slice(row, 1), following)
    raise SchemaGrew(offset)
