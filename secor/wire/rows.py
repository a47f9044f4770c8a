"""Single messages to a chunk, for old message formats and other rare paths.

Batches of the formats before v2 exist only on old topics; the client's own iterator reads
them, and its records come here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pyarrow as pa

from secor.core.model import SCHEMA, Chunk, TopicPartition

Header = tuple[str, bytes | None]
Row = tuple[int, int | None, int | None, bytes | None, bytes | None, Sequence[Header]]
"""Offset, timestamp (ms), timestamp type, key, value, headers."""


def records_to_chunk(
    topic_partition: TopicPartition, records: Iterable[Row], next_offset: int
) -> Chunk:
    """Return the records, which are in order of their offsets, as a chunk.

    A timestamp of -1 (the wire's word for none) becomes null, and so does its type when it
    is none of 0 and 1.  Raises ``ValueError`` when offsets do not rise or reach
    ``next_offset``.
    """
    rows = [
        {
            "offset": offset,
            "timestamp": None if timestamp == -1 else timestamp,
            "timestamp_type": timestamp_type if timestamp_type in (0, 1) else None,
            "key": key,
            "value": value,
            "headers": [{"key": name, "value": content} for name, content in headers],
        }
        for offset, timestamp, timestamp_type, key, value, headers in records
    ]
    columns = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    offsets = [*columns.column("offset").to_pylist(), next_offset]
    if any(after <= before for before, after in pairwise(offsets)):
        raise ValueError(f"{topic_partition}: offsets do not rise up to {next_offset}")
    return Chunk(topic_partition, columns, next_offset)
