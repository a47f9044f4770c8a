"""The partition group's parser: decode, transform, find the time, lay out, split.

A message that a stage cannot take goes into quarantine as it came, with the stage and the
reason as a header; one that a filter leaves out is counted.  Nothing else is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.errors import SchemaGrew
from secor.model import DATA, SCHEMA, Chunk, Part, TopicPartition
from secor.parsing.determinism import DeterminismCheck
from secor.parsing.limits import BadLimits
from secor.parsing.parts import NOWHERE, ROW, parts_of, quarantined
from secor.parsing.placement import Placement, Work
from secor.parsing.rows import Decoder, Growth, Schema, Transform
from secor.parsing.transforms import Router, Selector

Step = Transform | Selector | Router
Codes = npt.NDArray[np.int64]
Count = Callable[[TopicPartition, str, int], None]

FILTERED = "filtered"
QUARANTINED = "quarantined_"
"""Names of counters; the stage follows: decode, transform, route, time, layout, plugin, schema."""

TOPIC, PARTITION = "topic", "partition"
"""Columns that parts for typed formats have when they are asked for."""


def lane_of(topic: str) -> str:
    """Return the lane of messages that a route sends to another topic's directory."""
    return f"topic={topic}"


class Pipeline:
    """Decoder, transforms and placement as one ``ports.Parser``."""

    def __init__(
        self,
        decoder: Decoder,
        steps: Sequence[Step],
        placement: Placement,
        *,
        typed: bool = False,
        schema: Schema | None = None,
        growth: Growth | None = None,
        origin: bool = False,
        limits: BadLimits | None = None,
        check: DeterminismCheck | None = None,
        count: Count | None = None,
    ) -> None:
        """With ``typed``, parts have the decoded fields in a further column ``row``, brought
        to ``schema`` if there is one; with ``origin``, the columns ``topic`` and ``partition``
        before it.  ``growth`` tells which messages need a wider schema: they are not parsed.

        ``check`` is for users' plug-ins.  ``count`` is told how many messages were filtered
        and quarantined, by counter.
        """
        self._decoder = decoder
        self._steps = tuple(steps)
        self._placement = placement
        self._typed = typed
        self._schema = schema
        self._growth = growth
        self._origin = origin
        self._limits = limits or BadLimits()
        self._check = check
        self._count = count
        wanted = [*placement.paths, *(path for step in steps for path in step.paths)]
        self._paths = None if typed else tuple(dict.fromkeys(wanted))

    @property
    def identity(self) -> str:
        """All settings that change the result."""
        steps = ";".join(step.identity for step in self._steps)
        kind = "typed" if self._typed else "raw"
        schema = f"|{self._schema.identity}" if self._schema is not None else ""
        growth = f"|{self._growth.identity}" if self._growth is not None else ""
        place = self._placement.identity
        return f"pipeline-4|{kind}|{self._decoder.identity}|{steps}|{place}{schema}{growth}"

    def split(self, chunk: Chunk) -> Sequence[Part]:
        """Split a chunk.  Raises ``SchemaGrew``, ``TooManyBad``, ``NotDeterministic``."""
        if not chunk.records.num_rows:
            return []
        work, parts = self._split(chunk)
        if self._check is not None:
            self._check.look(chunk, parts, lambda other: self._split(other)[1])
        self._limits.add(chunk, work.bad)
        self._report(work)
        return parts

    def _split(self, chunk: Chunk) -> tuple[Work, list[Part]]:
        work = self._decoded(chunk)
        for step in self._steps:
            _apply(step, work)
        codes, paths = self._placement.place(work)
        codes, places = _with_lanes(work, codes, paths)
        records = self._with_rows(work) if self._typed else chunk.records
        parts = list(parts_of(records, np.where(work.live, codes, NOWHERE), places))
        if work.bad:
            parts.append(quarantined(chunk.records, work.bad))
        return work, parts

    def _decoded(self, chunk: Chunk) -> Work:
        decoded = self._decoder.decode(chunk.records, self._paths)
        work = Work(chunk, decoded, np.ones(chunk.records.num_rows, dtype=bool))
        work.fail("decode", decoded.bad)
        return work

    def _with_rows(self, work: Work) -> pa.RecordBatch:
        """Return the messages with their fields; those that do not fit the schema are bad."""
        rows, records = work.decoded.rows, work.chunk.records
        if self._schema is not None:
            rows, bad = self._schema.fit(work.decoded.rows)
            work.fail("schema", self._stop_where_it_grows(work, rows, bad))
        columns = records.select(SCHEMA.names).columns
        fields = list(SCHEMA)
        if self._origin:
            origin = work.chunk.topic_partition
            columns += [pa.repeat(origin.topic, len(rows)), pa.repeat(origin.partition, len(rows))]
            fields += [pa.field(TOPIC, pa.string()), pa.field(PARTITION, pa.int64())]
        schema = pa.schema([*fields, pa.field(ROW, rows.type)])
        return pa.RecordBatch.from_arrays([*columns, rows], schema=schema)

    def _stop_where_it_grows(
        self, work: Work, fitted: pa.StructArray, bad: Mapping[int, str]
    ) -> Mapping[int, str]:
        """Return why rows do not fit.  Raises ``SchemaGrew``."""
        if self._growth is None:
            return bad
        row, reasons = self._growth.look(work.decoded.rows, fitted, bad, work.live)
        if row is not None:
            raise SchemaGrew(work.chunk.records.column("offset")[row].as_py())
        return reasons

    def _report(self, work: Work) -> None:
        if self._count is None:
            return
        if work.filtered:
            self._count(work.chunk.topic_partition, FILTERED, work.filtered)
        for stage, number in _by_stage(work.bad):
            self._count(work.chunk.topic_partition, QUARANTINED + stage, number)


def _apply(step: Step, work: Work) -> None:
    if hasattr(step, "apply"):
        work.decoded = step.apply(work.decoded)
        work.fail("transform", work.decoded.bad)
    elif hasattr(step, "keep"):
        keep = step.keep(work.decoded)
        work.filtered += int((work.live & ~keep).sum())
        work.live &= keep
    else:
        found, bad = step.route(work.decoded)
        work.fail("route", bad)
        work.topics = found


def _with_lanes(
    work: Work, codes: Codes, paths: Sequence[str]
) -> tuple[Codes, list[tuple[str, str]]]:
    """Return codes of pairs of lane and path."""
    own = work.chunk.topic_partition.topic
    if work.topics is None:
        return codes, [(DATA, path) for path in paths]
    names = [DATA if name == own else lane_of(name) for name in work.topics.distinct]
    lanes = [*names, DATA]
    lane = np.where(work.topics.codes < 0, len(names), work.topics.codes)
    places = [(name, path) for name in lanes for path in paths]
    return np.where(codes < 0, NOWHERE, lane * len(paths) + codes), places


def _by_stage(bad: Mapping[int, str]) -> Iterator[tuple[str, int]]:
    stages = [reason.partition(":")[0] for reason in bad.values()]
    for stage in dict.fromkeys(stages):
        yield stage, stages.count(stage)
