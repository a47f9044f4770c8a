"""The partition group's parser: decode, transform, read the time, lay out, split.

A message that a stage cannot take goes into quarantine as it came, with the stage and the
reason as a header; one that a filter leaves out is counted.  Nothing else is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.errors import PluginFailed, is_of_values
from secor.core.model import DATA, SCHEMA, Chunk, Part, TopicPartition
from secor.parsing.determinism import DeterminismCheck
from secor.parsing.parts import NOWHERE, ROW, parts_of, quarantine_part, together
from secor.parsing.placement import Lost, Placement, Work, rows_of
from secor.parsing.quarantine_limits import BadLimits
from secor.parsing.rows import (
    Decoded,
    Decoder,
    Dividing,
    DividingDecoder,
    Rows,
    Schema,
    SchemaGrowth,
    Transform,
    take_infinite,
)
from secor.parsing.schema_growth import look_at_first, look_for_growth
from secor.parsing.transforms import Router, Selector

Step = Transform | Selector | Router
Codes = npt.NDArray[np.int64]
Count = Callable[[TopicPartition, str, int], None]
TimestampFaults = Callable[[pa.Array], Mapping[int, str]]
RowFaults = Callable[[pa.StructArray], Mapping[int, str]]

FILTERED = "filtered"
ERASED = "erased"
EVENTS = "events_"
UNDECLARED = "undeclared_"
INFINITE = "infinite"
QUARANTINED = "quarantined_"
"""Names of counters.  Of events that change no row the kind follows; they are filtered, too.  Of
values without a column the field follows, of messages in quarantine the
stage: decode, transform, route, time, layout, plugin, schema.
"""

TOPIC, PARTITION = "topic", "partition"
"""Columns that parts for typed formats have when they are asked for."""


def stream_of(topic: str) -> str:
    """Return the output stream of messages that a route sends to another topic's directory."""
    return f"topic={topic}"


@runtime_checkable
class Distribution(Protocol):
    """The last step of decoded and transformed messages, where it is more than a place."""

    @property
    def identity(self) -> str:
        """All settings that change the result, for the fingerprint."""

    @property
    def takes_tombstones(self) -> bool:
        """True if messages without a value come to it; else they are bad."""

    def parts(self, works: Sequence[Work]) -> list[Part]:
        """Return the parts of live rows, in the order of offsets; others are taken out of their
        work.  Raises ``SchemaGrew`` before it has changed anything outside of ``works``.
        """


class Pipeline:
    """Decoder, transforms and placement as one ``ports.Parser``."""

    def __init__(
        self,
        decoder: Decoder,
        steps: Sequence[Step],
        placement: Placement | Distribution,
        *,
        typed: bool = False,
        schema: Schema | None = None,
        growth: SchemaGrowth | None = None,
        origin: bool = False,
        columns: Sequence[str] = SCHEMA.names,
        timestamp_faults: TimestampFaults | None = None,
        row_faults: RowFaults | None = None,
        max_message_bytes: int | None = None,
        limits: BadLimits | None = None,
        check: DeterminismCheck | None = None,
        count: Count | None = None,
    ) -> None:
        """With ``typed``, parts have the decoded fields in a further column ``row``, brought
        to ``schema`` if there is one; with ``origin``, the columns ``topic`` and ``partition``
        before it.  ``growth`` notes the messages that need a wider schema: they are not parsed.
        Of the messages' own ``columns`` parts have these, offset and timestamp at least: others
        would be copied for nothing.  ``timestamp_faults`` says which of Kafka's timestamps
        their column cannot hold, ``row_faults`` which rows of the schema a file cannot hold.

        Values of more than ``max_message_bytes`` are bad before they are decoded.
        ``check`` is for users' plug-ins.  ``count`` gets the number of messages that were filtered
        and quarantined, by counter.  A ``Distribution`` takes the place of placement and schema.
        """
        self._decoder = decoder
        self._steps = tuple(steps)
        self._placement = placement if isinstance(placement, Placement) else None
        self._distribution = placement if isinstance(placement, Distribution) else None
        self._typed = typed
        self._schema = schema
        self._growth = growth
        self._origin = origin
        self._columns = list(columns)
        self._timestamp_faults = timestamp_faults
        self._row_faults = row_faults
        self._max_message_bytes = max_message_bytes
        self._limits = limits or BadLimits()
        self._check = check
        self._count = count
        places = self._placement.paths if self._placement is not None else ()
        wanted = [*places, *(path for step in steps for path in step.paths)]
        self._paths = None if typed else tuple(dict.fromkeys(wanted))

    @property
    def gives_values(self) -> bool:
        """True if a plug-in gives the values to store."""
        return self._placement is not None and self._placement.gives_values

    @property
    def identity(self) -> str:
        """All settings that change the result."""
        steps = ";".join(step.identity for step in self._steps)
        if self._distribution is not None:
            return f"pipeline-4|{self._decoder.identity}|{steps}|{self._distribution.identity}"
        kind = "typed" if self._typed else "raw"
        schema = f"|{self._schema.identity}" if self._schema is not None else ""
        growth = f"|{self._growth.identity}" if self._growth is not None else ""
        assert self._placement is not None
        place = self._placement.identity
        size = f"|{self._max_message_bytes}"
        # Only what refuses timestamps has other fingerprints than before.
        times = "|timestamps-1" if self._timestamp_faults is not None else ""
        parts = f"{self._decoder.identity}|{steps}|{place}{schema}{growth}{size}{times}"
        return f"pipeline-5|{kind}|{parts}"

    def split(self, chunk: Chunk) -> Sequence[Part]:
        """Split a chunk.

        Raises ``SchemaGrew``, ``TooManyBad``, ``NotDeterministic``, ``PluginFailed``.
        """
        if not chunk.records.num_rows:
            return []
        try:
            lost, parts = self._split(chunk)
            if self._check is not None:
                self._check.look(chunk, parts, lambda other: self._split(other)[1])
        except OSError as error:  # only plug-ins ask for files or servers
            if is_of_values(error):
                raise
            raise PluginFailed(
                f"{chunk.topic_partition}: the parser failed: {type(error).__name__}: {error}; what"
                " a plug-in makes of a message must not depend on files or servers"
            ) from error
        # Only for a chunk that was parsed to its end: one that needs a wider schema comes again,
        # and its bad messages would count twice.
        self._limits.add(chunk, lost.bad)
        self._report(chunk.topic_partition, lost)
        return parts

    def count_bad(self, chunk: Chunk, bad: Mapping[int, str]) -> None:
        """Count messages that go into quarantine unparsed.  Raises ``TooManyBad``."""
        self._limits.add(chunk, bad)

    def refuse_share(
        self, topic_partition: TopicPartition, messages: int, bad: int, reason: str
    ) -> None:
        """Raise ``TooManyBad`` if so many of so many messages are more than is allowed."""
        self._limits.refuse_share(topic_partition, messages, bad, reason)

    def _split(self, chunk: Chunk) -> tuple[Lost, list[Part]]:
        take_infinite()  # of a chunk that was not parsed to its end
        lost = Lost()
        works = list(self._decode(chunk, lost))
        for step in self._steps:
            works = [part for work in works for part in _apply(step, work)]
        if self._distribution is not None:
            parts = self._distribution.parts(works)
        else:
            parts = self._place_parts(works)
        if lost.bad:
            # Of the messages as they came, not as transforms have left them: a replay parses them
            # again.
            parts.append(quarantine_part(chunk.records, lost.bad))
        lost.infinite = take_infinite()
        return lost, parts

    def _place_parts(self, works: Sequence[Work]) -> list[Part]:
        placed = [self._place(work) for work in works]
        if self._typed:
            records = self._with_rows(works)
        else:
            records = [self._stored(work.chunk.records) for work in works]
        return together(
            [
                list(parts_of(given, np.where(work.live, codes, NOWHERE), places))
                for work, given, (codes, places) in zip(works, records, placed, strict=True)
            ]
        )

    def _stored(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        every = self._columns == SCHEMA.names
        return messages if every else messages.select(self._columns)

    def _decode(self, chunk: Chunk, lost: Lost) -> Iterator[Work]:
        """Yield the rows of a chunk as one work or, where the decoder divides them, as several."""
        messages, large = self._without_large(chunk.records)
        for rows, decoded in self._groups(messages):
            undecided = chunk if len(rows) == chunk.records.num_rows else rows_of(chunk, rows)
            work = Work(undecided, decoded, np.ones(len(rows), dtype=bool), rows, lost)
            if large:
                places = enumerate(rows.tolist())
                work.fail("decode", {place: large[row] for place, row in places if row in large})
            if self._distribution is not None and self._distribution.takes_tombstones:
                work.tombstones = undecided.records.column("value").is_null().to_numpy(False)
            work.fail("decode", _without_tombstones(work, decoded.bad))
            if self._timestamp_faults is not None:
                work.fail("time", self._timestamp_faults(undecided.records.column("timestamp")))
            yield work

    def _without_large(self, messages: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, str]]:
        """Return the messages with null for values that are too large, and why they are bad."""
        most = self._max_message_bytes
        values = messages.column("value")
        if most is None or values.nbytes <= most:
            return messages, {}
        lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
        large = np.flatnonzero(lengths > most).tolist()
        if not large:
            return messages, {}
        rest = pc.if_else(pa.array(lengths > most), pa.scalar(None, values.type), values)
        index = messages.schema.get_field_index("value")
        limit = f"more than {most} (parser.max_message_bytes)"
        reasons = {row: f"has {lengths[row]} bytes, {limit}" for row in large}
        return messages.set_column(index, "value", rest), reasons

    def _groups(self, messages: pa.RecordBatch) -> Sequence[tuple[Rows, Decoded]]:
        if isinstance(self._decoder, DividingDecoder):
            return self._decoder.decode_apart(messages, self._paths)
        return [(np.arange(messages.num_rows), self._decoder.decode(messages, self._paths))]

    def _place(self, work: Work) -> tuple[Codes, list[tuple[str, str]]]:
        assert self._placement is not None
        codes, paths = self._placement.place(work)
        if self._typed and work.has_other_values:
            raise PluginFailed(
                "the plug-in gives other values of messages, and this format stores decoded fields:"
                " use text or sequencefile, or a plug-in over columns"
            )
        return _with_streams(work, codes, paths)

    def _with_rows(self, works: Sequence[Work]) -> list[pa.RecordBatch]:
        """Return the messages with their fields; those that do not fit the schema are bad."""
        if self._schema is None:
            return [self._with_messages(work, work.decoded.rows) for work in works]
        if self._growth is not None:
            look_at_first(self._growth, self._schema, works)
        fits = [self._schema.fit(work.decoded.rows) for work in works]
        reasons = [bad for _, bad in fits]
        if self._growth is not None:
            reasons = look_for_growth(self._growth, works, fits)
        for work, bad, (rows, _) in zip(works, reasons, fits, strict=True):
            faults = self._row_faults(rows) if self._row_faults is not None else {}
            work.fail("schema", {**faults, **bad})
        return [
            self._with_messages(work, rows) for work, (rows, _) in zip(works, fits, strict=True)
        ]

    def _with_messages(self, work: Work, rows: pa.StructArray) -> pa.RecordBatch:
        columns = work.chunk.records.select(self._columns).columns
        fields = [SCHEMA.field(name) for name in self._columns]
        if self._origin:
            origin = work.chunk.topic_partition
            columns += [pa.repeat(origin.topic, len(rows)), pa.repeat(origin.partition, len(rows))]
            fields += [pa.field(TOPIC, pa.string()), pa.field(PARTITION, pa.int64())]
        schema = pa.schema([*fields, pa.field(ROW, rows.type)])
        return pa.RecordBatch.from_arrays([*columns, rows], schema=schema)

    def _report(self, topic_partition: TopicPartition, lost: Lost) -> None:
        if self._count is None:
            return
        if lost.filtered:
            self._count(topic_partition, FILTERED, lost.filtered)
        for kind, number in lost.events.items():
            self._count(topic_partition, EVENTS + kind, number)
        if lost.infinite:
            self._count(topic_partition, INFINITE, lost.infinite)
        for field, number in lost.undeclared.items():
            self._count(topic_partition, UNDECLARED + field, number)
        for stage, number in _by_stage(lost.bad):
            self._count(topic_partition, QUARANTINED + stage, number)


def _apply(step: Step, work: Work) -> list[Work]:
    works = work.divided(step.apart(work.decoded)) if isinstance(step, Dividing) else [work]
    for group in works:
        _apply_to_group(step, group)
    return works


def _without_tombstones(work: Work, bad: Mapping[int, str]) -> Mapping[int, str]:
    """Return what is bad of messages that should have fields."""
    if work.tombstones is None or not work.tombstones.any():
        return bad
    return {row: why for row, why in bad.items() if not work.tombstones[row]}


def _apply_to_group(step: Step, work: Work) -> None:
    """Apply a step to rows that it can give one type."""
    if isinstance(step, Selector):
        work.leave_out(work.has_fields() & ~step.keep(work.decoded))
    elif isinstance(step, Router):
        topics, bad = step.route(work.decoded)
        work.fail("route", bad)
        work.topics = topics
    else:
        work.decoded = step.apply(work.decoded)
        work.fail("transform", _without_tombstones(work, work.decoded.bad))


def _with_streams(
    work: Work, codes: Codes, paths: Sequence[str]
) -> tuple[Codes, list[tuple[str, str]]]:
    """Return codes of pairs of output stream and path."""
    own = work.chunk.topic_partition.topic
    if work.topics is None:
        return codes, [(DATA, path) for path in paths]
    names = [DATA if name == own else stream_of(name) for name in work.topics.distinct]
    streams = [*names, DATA]
    stream = np.where(work.topics.codes < 0, len(names), work.topics.codes)
    places = [(name, path) for name in streams for path in paths]
    return np.where(codes < 0, NOWHERE, stream * len(paths) + codes), places


def _by_stage(bad: Mapping[int, str]) -> Iterator[tuple[str, int]]:
    stages = [reason.partition(":")[0] for reason in bad.values()]
    for stage in dict.fromkeys(stages):
        yield stage, stages.count(stage)
