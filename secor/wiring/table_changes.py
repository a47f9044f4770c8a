"""The changes that a topic's messages make to a table, read out of the log for ``secor verify``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from secor.config.model import Config
from secor.core.model import OffsetRange, Offsets, TopicPartition
from secor.tables.catalog import Table
from secor.tables.rows.routing import Route
from secor.tables.rows.staged_rows import staged_schema
from secor.tables.staging.changes_of_table import (
    ChangeReader,
    ChangesOfTable,
    PositionedChanges,
    version_to_compare,
)
from secor.verify.source.values import SourceName
from secor.wiring.clients import open_reader
from secor.wiring.parsers import key_reader, pipeline_for
from secor.wiring.table_routes import routes_of, row_settings
from secor.wiring.tables import null_keeping_names

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader
    from secor.adapters.mariadb import MariaDbSource
    from secor.adapters.postgresql import PostgreSqlSource

MOST_OFFSETS = 500_000
"""Of one part: what one task reads."""

Part = tuple[TopicPartition, OffsetRange]
Vector = Mapping[TopicPartition, int]


def route_that_changes(config: Config, topic: str, table: str) -> Route | None:
    """Return the first route by which messages of a topic change rows of a table."""
    routes = [route for route in routes_of(config, topic) if route.may_name(topic, table)]
    return next((route for route in routes if route.changes_rows), None)


def key_of_changes(config: Config, topics: Iterable[str], table: Table) -> Sequence[str]:
    """Return the columns by which messages of topics change rows of a table.

    Empty where they append rows alone.
    """
    routes = [route_that_changes(config, topic, table.identifier) for topic in topics]
    changing = [route.settings.changes.key for route in routes if route is not None]
    return next(iter(changing), ()) or (table.key if changing else ())


def appends_to(config: Config, topics: Iterable[str], table: str) -> bool:
    """Return whether messages of these topics may be appended to a table as rows."""
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
                changes = self.reader_of(key)
                for chunk in reader.read(key, offsets.start, offsets.end):
                    yield from changes.read(chunk)

    def reader_of(
        self, key: TopicPartition, of_table: type[ChangesOfTable] = ChangesOfTable
    ) -> ChangeReader:
        """Return what reads the changes in messages of a topic partition."""
        config, table = self.config, self.table
        route = route_that_changes(config, key.topic, table.identifier)
        assert route is not None, "only topics that change the table are read"
        version = version_to_compare(table, route, row_settings(config))
        distribution = of_table(
            routes_of(config, key.topic),
            version,
            skip_unrouted=config.rows.unrouted == "skip",
            keys=key_reader(config.for_topic(key.topic).parser),
        )
        parser = pipeline_for(
            config.for_topic(key.topic).parser,
            typed=True,
            distribution=distribution,
            limited=False,
            keep_nulls_in=null_keeping_names([version]),
        )
        keeping = route.settings.changes.placeholder is not None
        schema = staged_schema(table.schema, keeping=keeping)
        none = np.array([], np.int64)
        return ChangeReader(parser, distribution, schema, self.quarantined.get(key, none))


class UncommittedMessages:
    """The messages that a table does not have yet, for a comparison with their source.

    ``position`` is the greatest position of the source's log that one of them names; None if no
    message names one.
    """

    def __init__(self, config: Config, reader: KafkaReader, table: Table, vector: Vector) -> None:
        self._changes = LogChanges(config, table, (), {})
        self._reader = reader
        # All ends before the first message: none of one log is newer than what another one shows.
        self._ranges = {
            key: OffsetRange(max(start, log.start), log.end)
            for key, start in vector.items()
            for log in [reader.log_range(key)]
            if max(start, log.start) < log.end
        }
        self.position: int | None = None

    def read(self) -> Iterator[pa.RecordBatch]:
        """Give the changes that the messages make, as ``ChangeReader`` does."""
        for key, offsets in self._ranges.items():
            changes = self._changes.reader_of(key, PositionedChanges)
            for chunk in self._reader.read(key, offsets.start, offsets.end):
                yield from changes.read(chunk)
            assert isinstance(changes.distribution, PositionedChanges)
            positions = [self.position, changes.distribution.position]
            self.position = max(
                (position for position in positions if position is not None), default=None
            )


DatabaseTable: TypeAlias = "PostgreSqlSource | MariaDbSource"


def is_mariadb(url: str) -> bool:
    """Tell whether a URL names a MariaDB server."""
    return url.startswith("mariadb:")


def open_source(
    url: str, password: str | None, statement_seconds: float
) -> AbstractContextManager[Callable[[SourceName], DatabaseTable]]:
    """Connect to the database that rows come from; see ``open_postgresql``, ``open_mariadb``."""
    if is_mariadb(url):
        from secor.adapters.mariadb import open_mariadb

        return open_mariadb(url, password, statement_seconds)
    from secor.adapters.postgresql import open_postgresql

    return open_postgresql(url, password, statement_seconds)


def sendable(table: Table) -> Table:
    """Return a table as another process needs it: its columns, and no open connection."""
    return replace(table, handle=None, snapshots={}, refs={}, properties=dict(table.properties))
