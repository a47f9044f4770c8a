"""The changes that a topic's messages make to a table, read out of the log for ``secor verify``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from secor.config.model import Config
from secor.core.model import OffsetRange, TopicPartition
from secor.tables.catalog import Table
from secor.tables.changes_of_table import ChangeReader, ChangesOfTable, version_to_compare
from secor.tables.routing import Route
from secor.tables.verification import Offsets
from secor.wiring.clients import open_reader
from secor.wiring.parsers import pipeline_for
from secor.wiring.tables import null_keeping_names, routes_of, row_settings

MOST_OFFSETS = 500_000
"""Of one part: what one task reads."""

Part = tuple[TopicPartition, OffsetRange]


def route_that_changes(config: Config, topic: str, table: str) -> Route | None:
    """Return the first route by which messages of a topic change rows of a table."""
    routes = [it for it in routes_of(config, topic) if it.may_name(topic, table)]
    return next((it for it in routes if it.changes_rows), None)


def appends_to(config: Config, topics: Iterable[str], table: str) -> bool:
    """Tell whether messages of these topics may be appended to a table as rows."""
    return any(
        route.may_name(topic, table) and not route.changes_rows
        for topic in topics
        for route in routes_of(config, topic)
    )


def parts_of_log(ranges: Mapping[TopicPartition, OffsetRange]) -> list[Part]:
    """Divide ranges of logs into parts that tasks read side by side."""
    return [
        (key, OffsetRange(start, min(start + MOST_OFFSETS, offsets.end)))
        for key, offsets in sorted(ranges.items())
        for start in range(offsets.start, offsets.end, MOST_OFFSETS)
    ]


@dataclass(frozen=True, slots=True)
class LogChanges:
    """Reads parts of the log, in whatever process; ``quarantined`` offsets change nothing."""

    config: Config
    table: Table
    parts: Sequence[Part]
    quarantined: Mapping[TopicPartition, Offsets]

    def __call__(self, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Give the changes of some parts, as they would be staged."""
        with open_reader(self.config) as reader:
            for key, offsets in (self.parts[number] for number in numbers):
                changes = self._reader_of(key)
                for chunk in reader.read(key, offsets.start, offsets.end):
                    yield from changes.read(chunk)

    def _reader_of(self, key: TopicPartition) -> ChangeReader:
        config, table = self.config, self.table
        route = route_that_changes(config, key.topic, table.identifier)
        assert route is not None, "only topics that change the table are read"
        version = version_to_compare(table, route, row_settings(config))
        distribution = ChangesOfTable(
            routes_of(config, key.topic),
            version,
            skip_unrouted=config.rows.unrouted == "skip",
        )
        parser = pipeline_for(
            config.for_topic(key.topic).parser,
            typed=True,
            distribution=distribution,
            limited=False,
            keep_nulls_in=null_keeping_names([version]),
        )
        columns = table.schema
        none = np.array([], np.int64)
        return ChangeReader(parser, distribution, columns, self.quarantined.get(key, none))


def sendable(table: Table) -> Table:
    """Return a table as another process needs it: its columns, and no open connection."""
    return replace(table, handle=None, snapshots={}, refs={}, properties=dict(table.properties))
