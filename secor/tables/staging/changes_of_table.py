"""The changes that messages make to one table, for ``secor verify``, which writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from secor.core.model import QUARANTINE, Chunk, Offsets, Part
from secor.core.ports import MessageParser
from secor.parsing.decoders.keys import KeyReader
from secor.parsing.fields import field_at, texts
from secor.parsing.parts import ROW
from secor.parsing.placement import Work
from secor.tables.catalog import Table
from secor.tables.library import Codes, ParquetStatistics, PartitionValues
from secor.tables.rows.debezium import envelopes_of
from secor.tables.rows.routing import Route, route_rows
from secor.tables.rows.staged_rows import POSITION
from secor.tables.staging.distribution import finish
from secor.tables.staging.fitted_changes import TableWork, fit_changes
from secor.tables.staging.manifest import Statistics
from secor.tables.staging.table_version import RowSettings, TableVersion, open_version

UNFIT = 2
"""Beside ``UPSERT`` and ``DELETE``: a message whose change is unknown."""


class ChangesOfTable:
    """The last stage of a parser whose parts are the changes of one table, as they are staged.

    The table is taken as it is: nothing is made, and nothing grows.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        version: TableVersion,
        *,
        skip_unrouted: bool,
        keys: KeyReader | None = None,
    ) -> None:
        """``version`` has ``changes``; ``keys`` reads those of deletions."""
        self._keys = keys
        self._routes = tuple(routes)
        self._version = version
        self._skip_unrouted = skip_unrouted
        self._routed: list[Offsets] = []

    @property
    def identity(self) -> str:
        """Nothing that is stored depends on it."""
        return "changes-of-table"

    @property
    def takes_tombstones(self) -> bool:
        """They delete rows."""
        return True

    def parts(self, works: Sequence[Work]) -> list[Part]:
        """Return the changes of live rows that go to the table."""
        fitted: list[TableWork] = []
        changes = self._version.changes
        assert changes is not None
        for work in works:
            routed = route_rows(self._routes, work, skip_unrouted=self._skip_unrouted)
            if self._version.table.identifier in routed:
                _, rows = routed[self._version.table.identifier]
                live = rows[work.live[rows]]
                self._routed.append(work.chunk.records.column("offset").to_numpy()[live])
                fitted += fit_changes(work, self._version, changes, rows, self._keys)
        return finish(fitted)

    def take_routed(self) -> Offsets:
        """Return the offsets of messages for the table since the last call."""
        routed, self._routed = self._routed, []
        return np.concatenate([np.array([], np.int64), *routed])


POSITIONS = ("source.lsn", "__source_lsn", "__lsn")
"""Fields with the position in PostgreSQL's log: Debezium's envelopes, and its flat messages."""

GTIDS = ("source.gtid", "__source_gtid", "__gtid")
"""Fields with the position in MariaDB's log, such as ``0-1-345``: domain, server, sequence."""


class PositionedChanges(ChangesOfTable):
    """Changes of one table; ``position`` is the greatest one in the source's log that they name."""

    position: int | None = None

    def parts(self, works: Sequence[Work]) -> list[Part]:
        """Return the changes; see ``ChangesOfTable``."""
        for work in works:
            for _, fields in envelopes_of(work.decoded.rows):
                numbers = [
                    *(
                        text
                        for name in POSITIONS
                        for text in texts(field_at(fields, name)).distinct
                    ),
                    # A transaction has one GTID: its other changes may still be on their way.
                    *(
                        _before(text)
                        for name in GTIDS
                        for text in texts(field_at(fields, name)).distinct
                    ),
                ]
                positions = [int(number) for number in numbers if number.isdecimal()]
                self.position = max([*positions, self.position or 0]) or None
        return super().parts(works)


def _before(gtid: str) -> str:
    """Return the sequence before that of a GTID; "" for another text."""
    sequence = gtid.rpartition("-")[2]
    return str(int(sequence) - 1) if sequence.isdecimal() else ""


@dataclass
class ChangeReader:
    """Reads the changes of one table out of chunks; those in quarantine change nothing."""

    parser: MessageParser
    distribution: ChangesOfTable
    schema: pa.Schema
    quarantined: Offsets

    def read(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Give changes in the columns of ``schema``, see ``staged_rows.staged_schema``.

        ``UNFIT`` are messages that are for the table, do not fit it as it is now, and are not
        in quarantine.
        """
        bad: list[Offsets] = [np.array([], np.int64)]
        for part in self.parser.split(chunk):
            offsets = part.records.column("offset").to_numpy()
            if part.stream == QUARANTINE:
                bad.append(offsets)
                continue
            applied = pa.array(~np.isin(offsets, self.quarantined))
            rows = pa.RecordBatch.from_struct_array(part.records.column(ROW)).filter(applied)
            yield from pa.Table.from_batches([rows]).cast(self.schema).to_batches()
        # Other tables' bad messages are no change of this one.
        refused = np.intersect1d(np.concatenate(bad), self.distribution.take_routed())
        unfit = np.setdiff1d(refused, self.quarantined)
        if len(unfit):
            yield _unfit_changes(unfit, chunk, self.schema)


def _unfit_changes(offsets: Offsets, chunk: Chunk, schema: pa.Schema) -> pa.RecordBatch:
    """Return messages that make no row."""
    count = len(offsets)
    columns = [
        pa.repeat(pa.scalar(UNFIT, pa.int8()), count),
        pa.repeat(chunk.topic_partition.topic, count),
        pa.repeat(pa.scalar(chunk.topic_partition.partition, pa.int32()), count),
        pa.array(offsets),
        pa.nulls(count, pa.int64()),
        *(pa.nulls(count, field.type) for field in list(schema)[len(POSITION) :]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def version_to_compare(table: Table, route: Route, row_settings: RowSettings) -> TableVersion:
    """Return a version for comparing rows, not for writing.  Raises ``ConfigurationError``."""
    return open_version(table, route.settings, row_settings, _NothingIsWritten())


class _NothingIsWritten:
    """A ``TableLibrary`` for changes that are never written to files."""

    def partitioning(self, table: Table, schema_id: int, spec_id: int) -> _NothingIsWritten:
        return self

    def place(self, rows: pa.StructArray) -> tuple[Codes, Sequence[PartitionValues]]:
        return np.zeros(len(rows), np.int64), [PartitionValues((), "")]

    def refused(self, rows: pa.StructArray) -> Mapping[int, str]:
        return {}

    def parquet_statistics(self, table: Table, schema_id: int) -> ParquetStatistics:
        return lambda *_: Statistics()

    def parquet_options(self, properties: Mapping[str, str]) -> Mapping[str, Any]:
        return {}

    def data_location(self, table: Table) -> str:
        return ""
