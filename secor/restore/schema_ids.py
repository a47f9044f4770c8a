"""Ids of schemas at the beginning of keys and values, changed to those of another registry.

Confluent's framing is a zero byte, then the id in four bytes, then Avro, JSON or Protobuf:
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/.
A key or value that is only a number may look the same, so that topics are chosen by name.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from secor.core.model import SCHEMA

PREFIX = 5
"""Bytes of the framing."""
PARTS = ("key", "value")


@dataclass(slots=True)
class SchemaIds:
    """The changes of ids: ``new`` has those that change, ``known`` all that were kept.

    ``is_framed`` says of the name of a part, such as ``orders-value``, whether it begins with an
    id.  ``counts`` are messages by topic, part and outcome; threads may share them.
    """

    new: Mapping[int, int]
    known: Collection[int]
    is_framed: Callable[[str], bool]
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __call__(self, topic: str, records: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records of an archived topic with the other registry's ids."""
        for part in PARTS:
            if not self.is_framed(f"{topic}-{part}"):
                continue
            column, mapped, unknown = with_new_ids(records.column(part), self.new, self.known)
            if mapped:
                place = SCHEMA.get_field_index(part)
                records = records.set_column(place, SCHEMA.field(part), column)
            with self._lock:
                self.counts[topic, part, "mapped"] += mapped
                self.counts[topic, part, "unknown"] += unknown
        return records

    @property
    def mapped(self) -> int:
        """Return how many ids were changed."""
        return sum(count for (_, _, what), count in self.counts.items() if what == "mapped")

    @property
    def unknown(self) -> dict[str, int]:
        """Return how many ids were never kept, by part, such as ``orders-value``."""
        return {
            f"{topic}-{part}": count
            for (topic, part, what), count in sorted(self.counts.items())
            if what == "unknown" and count
        }


def with_new_ids(
    column: pa.Array, new: Mapping[int, int], known: Collection[int]
) -> tuple[pa.Array, int, int]:
    """Return a binary column with changed ids, how many were changed, and how many are not known.

    Whatever does not begin as the framing does stays as it is.
    """
    ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset :][: len(column) + 1]
    data = column.buffers()[2]
    if not len(column) or data is None:
        return column, 0, 0
    content = np.frombuffer(data, np.uint8)
    starts = ends[:-1].astype(np.int64)
    framed = (ends[1:] - ends[:-1] > PREFIX) & column.is_valid().to_numpy(zero_copy_only=False)
    places = starts[framed]
    places = places[content[places] == 0]
    bytes_of_ids = content[places[:, None] + np.arange(1, PREFIX)]
    ids = np.ascontiguousarray(bytes_of_ids).view(">u4").ravel().astype(np.int64)
    wanted = np.fromiter(sorted(new), np.int64, len(new))
    indices = np.searchsorted(wanted, ids).clip(max=max(len(wanted) - 1, 0))
    changes = wanted[indices] == ids if len(wanted) else np.zeros(len(ids), np.bool_)
    unknown = int(np.isin(ids, np.fromiter(known, np.int64), invert=True).sum())
    if not changes.any():
        return column, 0, unknown
    numbers = np.fromiter((new[old] for old in sorted(new)), np.int64, len(new))
    # A copy: the buffers are shared with other columns, and with readers of the archive.
    changed = content.copy()
    places = places[changes]
    encoded = numbers[indices[changes]].astype(">u4").view(np.uint8).reshape(-1, 4)
    changed[places[:, None] + np.arange(1, PREFIX)] = encoded
    validity, offsets, _ = column.buffers()
    buffers = [validity, offsets, pa.py_buffer(changed)]
    array = pa.Array.from_buffers(
        pa.binary(), len(column), buffers, column.null_count, column.offset
    )
    return array, len(places), unknown


def framed_by(subjects: Iterable[str], chosen: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return the test whether a part begins with ids: it is a subject, or it is ``chosen``."""
    own = frozenset(subjects)
    return lambda part: part in own or chosen(part)


def undecided(topics: Iterable[str], subjects: Collection[str]) -> list[str]:
    """Return the topics without a part that is a subject: nobody knows whether they have ids."""
    return [topic for topic in topics if not any(f"{topic}-{part}" in subjects for part in PARTS)]
