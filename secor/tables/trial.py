"""A trial of messages: the rows that they would become, by the code of the daemon.

The parser, the growth of schemas and the files are those of a worker; the catalog's changes are
seen by nobody, and the files are deleted again.  Nothing is merged: of changes of one key each
is a row of its own here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import msgspec
import pyarrow as pa

from secor.arrow.nested_arrays import is_list
from secor.arrow.to_python import plain, write_out
from secor.batch.archived_batch import ArchivedBatchWriter
from secor.batch.batch import Batch
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.batch.unwritable import range_of
from secor.batch.workspace import Workspace
from secor.core.errors import ConfigurationError, SchemaGrew
from secor.core.model import QUARANTINE, Chunk, Part, TopicPartition
from secor.core.ports import Clock, MessageParser
from secor.parsing.parts import ROW, quarantine_part, release_part
from secor.tables.catalog import FIELD_ID, Catalog, Table
from secor.tables.commit.column_origins import described_type
from secor.tables.hudi import INSERT_KEY
from secor.tables.rows.column_names import is_uuid
from secor.tables.rows.row_changes import DELETE
from secor.tables.rows.staged_rows import KEPT, POSITION
from secor.tables.staging.distribution import partition_of, table_of_stream

MOST_PLANS = 1000
"""Plans for one message: one that still asks for another schema would ask a daemon for ever."""


@dataclass(frozen=True, slots=True)
class TriedRow:
    """A row of a table: its values by column, without those that are null.

    ``operation`` is ``append``, ``upsert`` or ``delete``; a deletion has the key alone.  ``keeps``
    are columns that the update leaves as they are.
    """

    table: str
    operation: str
    partition: str
    values: Mapping[str, Any]
    keeps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TriedMessage:
    """One message: its rows, or why it would be in quarantine, or neither if it is left out."""

    topic_partition: TopicPartition
    offset: int
    rows: tuple[TriedRow, ...] = ()
    quarantine: str | None = None


class Trial:
    """A trial of messages of some topics, in the order in which they come."""

    def __init__(
        self,
        plans: Callable[[str, str | None], TopicPlan],
        catalog: Catalog,
        workspace: Workspace,
        clock: Clock,
    ) -> None:
        """``catalog`` is the one that the plans change."""
        self._plans = plans
        self._catalog = catalog
        self._workspace = workspace
        self._clock = clock

    def take(self, chunk: Chunk) -> Iterator[TriedMessage]:
        """Give what becomes of the messages of a chunk; where schemas grow, as a worker does.

        Raises ``TableUnusable``, ``RecordRefused``, and what a catalog raises.
        """
        return self._taken(self._plans(chunk.topic_partition.topic, None), chunk)

    def _taken(self, plan: TopicPlan, chunk: Chunk) -> Iterator[TriedMessage]:
        plans = 0
        while chunk.records.num_rows:
            try:
                parts = self._parts(plan, chunk)
            except SchemaGrew as grew:
                # As a worker does: what came before is stored under the schema that it had, so a
                # trial must not show it under the later one.
                before = chunk.until(grew.offset)
                if before.records.num_rows:  # a worker stores them under the present schema
                    yield from self._taken(plan, before)
                    plans = 0
                elif plans >= MOST_PLANS:
                    raise ConfigurationError(
                        f"{chunk.topic_partition}: the schema grows for ever at {grew.offset}"
                    ) from grew
                plan, plans = self._plans(chunk.topic_partition.topic, None), plans + 1
                chunk = chunk.since(grew.offset)
                continue
            yield from self._messages(chunk, parts)
            return

    def _parts(self, plan: TopicPlan, chunk: Chunk) -> Sequence[Part]:
        """Return the parts of a chunk, written to files; what no file holds is in quarantine."""
        recording = _Recording(plan.parser)

        def begin(plan: TopicPlan) -> Batch:
            recording.parser, recording.parts = plan.parser, []
            return Batch(
                chunk.topic_partition,
                range_of(chunk).start,
                plan=replace(plan, parser=recording),
                workspace=self._workspace,
                clock=self._clock,
            )

        writing = ArchivedBatchWriter(
            *(plan, lambda: [chunk], begin, chunk.next_offset),
            *(quarantine_part, self._workspace, self._clock),
        )
        sealed, _ = writing.seal(Reason.RETIRED)
        # The files were written only to see whether a format takes the rows.
        sealed.delete()
        return recording.parts

    def _messages(self, chunk: Chunk, parts: Sequence[Part]) -> Iterator[TriedMessage]:
        rows: dict[int, list[TriedRow]] = {}
        reasons: dict[int, str] = {}
        for part in parts:
            offsets = part.records.column("offset").to_pylist()
            name = table_of_stream(part.stream)
            if part.stream == QUARANTINE:
                reasons |= zip(offsets, release_part(part.records)[1], strict=True)
            elif name is not None:
                table = self._catalog.load_table(name)
                for offset, row in zip(offsets, _rows(part, table), strict=True):
                    rows.setdefault(offset, []).append(row)
        for offset in chunk.records.column("offset").to_pylist():
            own = tuple(rows.get(offset, ()))
            yield TriedMessage(chunk.topic_partition, offset, own, reasons.get(offset))


class _Recording:
    """A parser that remembers the parts."""

    def __init__(self, parser: MessageParser) -> None:
        self.parser = parser
        self.parts: list[Part] = []

    @property
    def identity(self) -> str:
        """That of the parser."""
        return self.parser.identity

    def split(self, chunk: Chunk) -> Sequence[Part]:
        """Split a chunk; see ``MessageParser``."""
        parts = self.parser.split(chunk)
        self.parts += parts
        return parts


def _rows(part: Part, table: Table) -> Iterator[TriedRow]:
    """Give the rows of a part, which are appended or staged as changes."""
    column = part.records.column(ROW)
    if column.type.fields[: len(POSITION)] != list(POSITION):
        partition, _ = partition_of(part.output_partition)
        for appended in _values(column, table):
            yield TriedRow(table.identifier, "append", partition, appended)
        return
    children = dict(zip([child.name for child in column.type], column.flatten(), strict=True))
    values = _values(children[ROW], table)
    names = {int(field.metadata[FIELD_ID]): field.name for field in table.schema}
    # Under the key of a message's place nothing is ever updated.
    put = "append" if set(table.key) == set(INSERT_KEY) else "upsert"
    kept = children[KEPT.name].to_pylist() if KEPT.name in children else [()] * len(values)
    for operation, own, ids in zip(children["operation"].to_pylist(), values, kept, strict=True):
        keeps = tuple(names[number] for number in ids if number in names)
        label = "delete" if operation == DELETE else put
        yield TriedRow(table.identifier, label, "", own, keeps)


def _values(rows: pa.StructArray, table: Table) -> list[dict[str, Any]]:
    kinds = {field.name: field.type for field in table.schema}
    return [
        {name: _readable(value, kinds[name]) for name, value in (row or {}).items()}
        for row in plain(write_out(rows), nulls=True)
    ]


def _readable(value: Any, kind: pa.DataType) -> Any:
    """Return a value with UUIDs as their text."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {name: _readable(inner, kind.field(name).type) for name, inner in value.items()}
    if is_list(kind):
        return [_readable(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return {name: _readable(inner, kind.item_type) for name, inner in value.items()}
    return str(UUID(bytes=value)) if is_uuid(kind) else value


@dataclass(frozen=True, slots=True)
class TriedTable:
    """A table after a trial: ``before`` is None for one that does not exist.

    ``notes`` are what is to say of its new columns: values that will not fit them, and columns of
    text for fields of several kinds.  Fields that are ``undeclared`` have no column.
    """

    before: Table | None
    after: Table
    outvoted: tuple[str, ...] = ()
    mixed: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()

    def columns(self) -> Iterator[tuple[pa.Field, str | None]]:
        """Give each column after the trial, and its type before: None for a new column."""
        known = (
            {} if self.before is None else {column.name: column for column in self.before.schema}
        )
        for field in self.after.schema:
            earlier = known.get(field.name)
            yield field, None if earlier is None else described_type(earlier)


def partition_terms(table: Table) -> list[str]:
    """Return what a table is partitioned by, such as ``day(ts)``."""
    names = {int(column.metadata[FIELD_ID]): column.name for column in table.schema}
    return [
        name if field.transform == "identity" else _term(field.transform, name)
        for field in table.spec
        if (name := names.get(field.source_id, field.name))
    ]


def _term(transform: str, name: str) -> str:
    kind, bracket, number = transform.partition("[")
    return f"{kind}({number.rstrip(']')}, {name})" if bracket else f"{kind}({name})"


def dumped(fields: Mapping[str, Any]) -> str:
    """Return JSON of one line; bytes are in base64, decimals are strings."""
    return msgspec.json.encode(fields).decode()
