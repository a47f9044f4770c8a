"""The cut of a chunk, so that a batch has no more files than it may have."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from secor.core.model import Chunk, Part

PART = 2048
"""Bytes of memory that a part costs without its rows; measured."""


@dataclass(frozen=True, slots=True)
class ParsedChunk(Chunk):
    """The rest of a chunk that was parsed already: its messages are not parsed or counted again."""

    parts: tuple[Part, ...]
    columns_size: int
    """Bytes of the columns that the messages and their parts are cut from."""


def held_bytes(chunk: Chunk) -> int:
    """Return the bytes in memory that a chunk keeps there."""
    if isinstance(chunk, ParsedChunk):
        return chunk.columns_size + PART * len(chunk.parts)
    return int(chunk.records.get_total_buffer_size())


def cut_of(
    parts: Sequence[Part], files: Collection[tuple[str, str]], max_files: int | None
) -> int | None:
    """Return the offset of the first message that needs a file too many, None if none does.

    ``files`` are the output streams and output partitions that have a file.  Without any,
    one message is taken at least, whatever it needs.
    """
    if max_files is None or len(files) + len(parts) <= max_files:
        return None
    firsts: dict[tuple[str, str], int] = {}
    for part in parts:
        place = (part.stream, part.output_partition)
        if place not in files:
            first = int(part.ordered.column("offset")[part.first].as_py())
            firsts[place] = min(first, firsts.get(place, first))
    begins = sorted(firsts.values())
    room = max(max_files - len(files), 0)
    if len(begins) <= room:
        return None
    # An empty batch takes at least one message, even if that one alone needs more files than there
    # may be: else the same message would be cut off for ever.
    if files or begins[room] > begins[0]:
        return begins[room]
    return next((begin for begin in begins if begin > begins[0]), None)


def divide(
    chunk: Chunk, parts: Sequence[Part], cut: int
) -> tuple[tuple[Chunk, Sequence[Part]], ParsedChunk]:
    """Return the messages below offset ``cut``, with their parts, and those from there on."""
    counts = [int(part.records.column("offset").to_numpy().searchsorted(cut)) for part in parts]
    below = [part.between(0, rows) for part, rows in zip(parts, counts, strict=True) if rows]
    beyond = tuple(
        part.between(rows, part.rows)
        for part, rows in zip(parts, counts, strict=True)
        if rows < part.rows
    )
    rest = chunk.since(cut)
    # Slices keep whole columns, so the rest of a rest holds what the first one held.
    size = chunk.columns_size if isinstance(chunk, ParsedChunk) else _columns_size(chunk, parts)
    parsed = ParsedChunk(
        rest.topic_partition,
        rest.records,
        rest.next_offset,
        beyond,
        size,
        leader_epoch=rest.leader_epoch,
    )
    return (chunk.until(cut), below), parsed


def _columns_size(chunk: Chunk, parts: Sequence[Part]) -> int:
    """Return the bytes of all columns; parts that are cut from the same ones count once."""
    sizes = {part.ordered.column("offset").buffers()[1].address: part.ordered for part in parts}
    sizes[chunk.records.column("offset").buffers()[1].address] = chunk.records
    return sum(int(records.get_total_buffer_size()) for records in sizes.values())
