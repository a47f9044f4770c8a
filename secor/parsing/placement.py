"""Placement: an output partition or a quarantine reason for each decoded message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.core.model import Chunk
from secor.parsing.fields import Texts, field_at
from secor.parsing.layout import Layout
from secor.parsing.layout_pieces import LayoutColumns
from secor.parsing.parts import NOWHERE
from secor.parsing.plugins import Message, MessagePlaces, Placed, messages_of
from secor.parsing.rows import Decoded, Rows
from secor.parsing.timestamps import TimeReader
from secor.parsing.user_classes import quiet

Codes = npt.NDArray[np.int64]


@dataclass
class Lost:
    """The messages of a chunk that do not go on: the reason by row, and how many on purpose.

    ``undeclared`` counts, by field, the values without a column in rows that go on.  ``events``
    are those of ``filtered`` that change no row, by kind.  ``infinite`` counts the times and
    decimals in messages that no column holds.
    """

    bad: dict[int, str] = field(default_factory=dict)
    filtered: int = 0
    undeclared: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    infinite: int = 0


@dataclass
class Work:
    """Messages on their way: their decoded rows, and which of them still go on.

    They are a chunk or, where the types of its rows go apart, the ``rows`` of one.
    """

    chunk: Chunk
    decoded: Decoded
    live: npt.NDArray[np.bool_]
    rows: Rows
    lost: Lost
    topics: Texts | None = None
    has_other_values: bool = False
    tombstones: npt.NDArray[np.bool_] | None = None
    """Messages without a value that are live all the same, where they mean something."""

    def fail(self, stage: str, bad: Mapping[int, str]) -> None:
        """Take bad rows out; those that are out already stay where they are."""
        for row, reason in bad.items():
            if self.live[row]:
                self.live[row] = False
                # By the row of the whole chunk: a part of it has numbers of its own.
                self.lost.bad[int(self.rows[row])] = f"{stage}: {reason}"

    def leave_out(self, rows: npt.NDArray[np.bool_]) -> None:
        """Take rows out on purpose."""
        self.lost.filtered += int((self.live & rows).sum())
        self.live &= ~rows

    def leave_out_events(self, kind: str, rows: npt.NDArray[np.bool_]) -> None:
        """Take rows out that mean no change of a row."""
        messages = int((self.live & rows).sum())
        if messages:
            self.lost.events[kind] += messages
            self.leave_out(rows)

    def has_fields(self) -> npt.NDArray[np.bool_]:
        """Return which live rows have fields that can be looked at."""
        return self.live if self.tombstones is None else self.live & ~self.tombstones

    def replace_values(self, values: Mapping[int, bytes | None]) -> None:
        """Store other values, by row, than those that came."""
        if not values:
            return
        records = self.chunk.records
        index = records.schema.get_field_index("value")
        stored = records.column(index).to_pylist()
        for row, value in values.items():
            stored[row] = value
        changed = records.set_column(
            index, records.schema.field(index), pa.array(stored, pa.binary())
        )
        # A new one: other parts, and quarantine, still have the messages as they came.
        self.chunk = Chunk(self.chunk.topic_partition, changed, self.chunk.next_offset)
        self.has_other_values = True

    def divided(self, groups: Sequence[Rows]) -> list[Work]:
        """Return the work on some rows each."""
        if len(groups) == 1:
            return [self]
        return [self._of(group) for group in groups]

    def _of(self, group: Rows) -> Work:
        places = {int(row): place for place, row in enumerate(group)}
        bad = {places[row]: why for row, why in self.decoded.bad.items() if row in places}
        topics = self.topics
        return Work(
            rows_of(self.chunk, group),
            Decoded(self.decoded.rows.take(pa.array(group)), bad),
            self.live[group],
            self.rows[group],
            self.lost,
            None if topics is None else Texts(topics.codes[group], topics.distinct),
            tombstones=None if self.tombstones is None else self.tombstones[group],
        )


def rows_of(chunk: Chunk, rows: Rows) -> Chunk:
    """Return some messages of a chunk."""
    return Chunk(chunk.topic_partition, chunk.records.take(pa.array(rows)), chunk.next_offset)


@runtime_checkable
class Placement(Protocol):
    """The last stage: an output partition for each row."""

    @property
    def identity(self) -> str:
        """All settings that change the result, for the fingerprint."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The fields that it must see."""

    @property
    def gives_values(self) -> bool:
        """True if it gives the values to store, too."""

    def place(self, work: Work) -> tuple[Codes, list[str]]:
        """Return for the live rows an index into the paths; others have ``NOWHERE``."""


class ByLayout:
    """Places by a template; times from a field, or Kafka's where none is named."""

    gives_values = False

    def __init__(self, layout: Layout, time: TimeReader, time_field: str | None = None) -> None:
        """``time`` reads ``time_field``; without one, Kafka's milliseconds (format ``ms``)."""
        self._layout = layout
        self._time = time
        self._time_field = time_field

    @property
    def identity(self) -> str:
        """The layout, and the time if it matters."""
        if not self._layout.needs_time:
            return self._layout.identity
        return f"{self._layout.identity}|{self._time_field}|{self._time.identity}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The layout's fields and that of the time."""
        if not self._layout.needs_time or self._time_field is None:
            return self._layout.paths
        return (*self._layout.paths, self._time_field)

    def place(self, work: Work) -> tuple[Codes, list[str]]:
        """See ``Placement``."""
        micros = None
        if self._layout.needs_time:
            times = self._time.read(*self._times(work))
            work.fail("time", times.bad)
            micros = times.micros
        rows = None if work.live.all() else np.flatnonzero(work.live)
        columns = self._columns(work, rows, micros)
        places = self._layout.place(columns)
        codes = places.codes
        if rows is not None:
            codes = np.full(len(work.live), NOWHERE, dtype=np.int64)
            codes[rows] = places.codes
        numbers = range(len(work.live)) if rows is None else rows.tolist()
        work.fail("layout", {numbers[row]: reason for row, reason in places.bad.items()})
        return codes, places.paths

    def _times(self, work: Work) -> tuple[pa.Array, str]:
        if self._time_field is None:
            return work.chunk.records.column("timestamp"), "Kafka's timestamp"
        return field_at(work.decoded.rows, self._time_field), self._time_field

    def _columns(self, work: Work, rows: Codes | None, micros: Codes | None) -> LayoutColumns:
        offsets = work.chunk.records.column("offset").to_numpy()
        topic = work.chunk.topic_partition.topic
        topics = Texts(np.zeros(len(offsets), np.int64), [topic])
        if self._layout.needs_topic and work.topics is not None:
            routed = work.topics
            # Messages that no route takes keep their own topic, which comes last.
            codes = np.where(routed.codes < 0, len(routed.distinct), routed.codes)
            topics = Texts(codes, [*routed.distinct, topic])
        fields, partition = work.decoded.rows, work.chunk.topic_partition.partition
        if rows is None:
            return LayoutColumns(fields, offsets, micros, topics, partition)
        return LayoutColumns(
            fields.take(pa.array(rows)),
            offsets[rows],
            None if micros is None else micros[rows],
            Texts(topics.codes[rows], topics.distinct),
            partition,
        )


class ByMessage:
    """Places by a plug-in over single messages."""

    paths: tuple[str, ...] = ()

    def __init__(self, plugin: MessagePlaces) -> None:
        """Ask ``plugin`` for each live row."""
        self._plugin = plugin
        self.identity = plugin.identity
        self.gives_values = plugin.gives_values

    def place(self, work: Work) -> tuple[Codes, list[str]]:
        """See ``Placement``."""
        codes = np.full(len(work.live), NOWHERE, dtype=np.int64)
        paths: dict[str, int] = {}
        left_out = np.zeros(len(work.live), dtype=bool)
        values: dict[int, bytes | None] = {}
        rows = np.flatnonzero(work.live).tolist()
        messages = messages_of(work.chunk, rows)
        for row, message, (placed, fault) in zip(rows, messages, self._ask(messages), strict=True):
            if placed is not None:
                codes[row] = paths.setdefault(placed.output_partition, len(paths))
                # Values that stay as they are need no new column.
                if placed.value != message.value:
                    values[row] = placed.value
            elif fault is not None:
                work.fail("plugin", {row: fault})
            else:
                left_out[row] = True
        work.leave_out(left_out)
        work.replace_values(values)
        return codes, list(paths)

    def _ask(self, messages: Sequence[Message]) -> list[tuple[Placed | None, str | None]]:
        with quiet():
            return [self._plugin.place(message) for message in messages]
