"""The determinism check of plug-ins: some messages are parsed again, and the results compared."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from secor.core.errors import NotDeterministic
from secor.core.model import QUARANTINE, Chunk, Part
from secor.parsing.fields import Texts, field_at, show_value, texts
from secor.parsing.parts import REASON_HEADER, ROW

Outcome = tuple[object, ...]
Split = Callable[[Chunk], Sequence[Part]]


class DeterminismCheck:
    """Parses some messages twice and compares.

    Of the first chunks, and of every 64th by its first offset, some rows are parsed again
    in two halves, the second half first, which shows randomness, counters, and results that
    depend on neighbours.  A sample of the first chunk is kept and parsed again with each
    look, which shows clocks.
    """

    ROWS = 100
    FIRST_CHUNKS = 3
    EVERY = 64

    def __init__(self, name: str) -> None:
        """``name`` is that of the plug-ins, for the error."""
        self._name = name
        self._looked = 0
        self._kept: tuple[Chunk, dict[int, Outcome]] | None = None

    def look(self, chunk: Chunk, parts: Sequence[Part], split: Split) -> None:
        """Check a chunk if it is time.  Raises ``NotDeterministic``."""
        if not self._due(chunk):
            return
        sample = Chunk(chunk.topic_partition, chunk.records.slice(0, self.ROWS), chunk.next_offset)
        offsets = set(sample.records.column("offset").to_pylist())
        before = outcomes(parts, offsets)
        self._compare(sample, before, split)
        if self._kept is None:
            self._kept = sample, before
        else:
            self._compare(*self._kept, split)

    def _due(self, chunk: Chunk) -> bool:
        if not chunk.records.num_rows:
            return False
        if self._looked < self.FIRST_CHUNKS:
            self._looked += 1
            return True
        first = int(chunk.records.column("offset")[0].as_py())
        # By the offset, not by a counter: each process looks at the same chunks.
        return zlib.crc32(first.to_bytes(8, "big")) % self.EVERY == 0

    def _compare(self, sample: Chunk, before: Mapping[int, Outcome], split: Split) -> None:
        middle = int(sample.records.num_rows + 1) // 2
        halves = (sample.records.slice(middle), sample.records.slice(0, middle))
        again: dict[int, Outcome] = {}
        for half in halves:
            if half.num_rows:
                again |= outcomes(split(Chunk(sample.topic_partition, half, sample.next_offset)))
        for offset in sorted({*before, *again}):
            first, second = before.get(offset), again.get(offset)
            if first != second:
                raise NotDeterministic(
                    f"{self._name} is not deterministic: the message at offset {offset} of "
                    f"{sample.topic_partition} was {_describe(first)}, then {_describe(second)}; "
                    "it must use neither clock, chance, memory nor other messages"
                )


def outcomes(parts: Sequence[Part], offsets: set[int] | None = None) -> dict[int, Outcome]:
    """Return where each message went, with its decoded fields or its reason."""
    outcomes: dict[int, Outcome] = {}
    for part in parts:
        records = part.records
        numbers = records.column("offset").to_pylist()
        rows = [
            place for place, offset in enumerate(numbers) if offsets is None or offset in offsets
        ]
        extra = _extra(part, rows)
        for place, row in enumerate(rows):
            outcomes[numbers[row]] = (part.stream, part.output_partition, extra[place])
    return outcomes


def _extra(part: Part, rows: list[int]) -> list[object]:
    chosen = part.records.take(pa.array(rows, pa.int64()))
    if part.stream == QUARANTINE:
        headers = chosen.column("headers").to_pylist()
        return [
            header[-1]["value"] if header[-1]["key"] == REASON_HEADER else None
            for header in headers
        ]
    if ROW in chosen.schema.names:
        decoded = chosen.column(ROW)
        columns = [(child.name, texts(field_at(decoded, child.name))) for child in decoded.type]
        return [_row(columns, row) for row in range(len(rows))]
    values = chosen.column("value").to_pylist()
    return [None if value is None else hashlib.sha256(value).hexdigest()[:16] for value in values]


def _row(columns: Sequence[tuple[str, Texts]], row: int) -> dict[str, str]:
    """Return a row's values as text.  Structures only as such: their types vary by chunk."""
    values = {name: text for name, column in columns if (text := column.at(row)) is not None}
    return {name: "{…}" if text[:1] in ("{", "[") else text for name, text in values.items()}


def _describe(outcome: Outcome | None) -> str:
    if outcome is None:
        return "left out"
    stream, path, extra = outcome
    where = f"put into {stream} {path!r}" if path else f"put into {stream}"
    return where if extra is None else f"{where} with {show_value(extra)}"
