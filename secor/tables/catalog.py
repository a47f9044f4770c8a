"""The port to a table catalog: plain descriptions of tables, and changes by compare-and-set.

Adapters translate a library's tables into ``Table``; nothing here knows the library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from secor.core.errors import ConfigurationError, UnsupportedTable
from secor.tables.staging.manifest import TableFiles

MAIN = "main"

STAGED_WRITES = "write.wap.enabled"
"""Table property without which an engine cannot stage a snapshot that nobody sees."""

FIELD_ID = b"PARQUET:field_id"
"""Key of a column's id in the metadata of an Arrow field, at every level."""


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a partition spec: ``transform`` as Iceberg writes it, such as ``bucket[16]``."""

    source_id: int
    field_id: int
    transform: str
    name: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table; ``timestamp`` in milliseconds since the epoch."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int | None
    timestamp: int
    summary: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the catalog showed it once.

    ``schemas`` and ``specs`` are by id, with every version that the table still names; Arrow
    fields carry ``FIELD_ID``.  ``refs`` has the snapshot of each branch and tag: a table
    without a snapshot has no ``main``.  ``key`` names the identifier columns of the present
    schema.  ``handle`` belongs to the adapter that made it.
    """

    identifier: str
    uuid: str
    location: str
    format_version: int
    schema_id: int
    schemas: Mapping[int, pa.Schema]
    spec_id: int
    specs: Mapping[int, tuple[PartitionField, ...]]
    properties: Mapping[str, str]
    refs: Mapping[str, int]
    snapshots: Mapping[int, Snapshot]
    key: tuple[str, ...] = ()
    handle: object = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> pa.Schema:
        """The present schema."""
        return self.schemas[self.schema_id]

    @property
    def spec(self) -> tuple[PartitionField, ...]:
        """The present partition spec; empty for a table without partitions."""
        return self.specs[self.spec_id]

    def head(self, branch: str = MAIN) -> Snapshot | None:
        """Return the newest snapshot of a branch, None if it has none.

        Raises ``ConfigurationError`` where the metadata lack it.
        """
        snapshot_id = self.refs.get(branch)
        if snapshot_id is not None and snapshot_id not in self.snapshots:
            raise ConfigurationError(
                f"table {self.identifier}: its metadata lack the snapshot {snapshot_id}, which the"
                f" branch {branch} names: set the branch to another snapshot, or let the catalog"
                " go back to earlier metadata"
            )
        return None if snapshot_id is None else self.snapshots[snapshot_id]


NEWEST_FORMAT = 2
"""The newest version of the table format that the Iceberg library for Python can commit to."""

NEWEST_MERGED_FORMAT = 3
"""The newest format with rows that can be changed: there Java commits."""


def require_format(table: Table, newest: int) -> None:
    """Raise ``UnsupportedTable`` for a table of a newer format version."""
    if table.format_version > newest:
        raise UnsupportedTable(
            f"table {table.identifier} has format version {table.format_version}: here rows are"
            f" appended to version {NEWEST_FORMAT} at most, and changed by key up to version"
            f" {NEWEST_MERGED_FORMAT}. Give the messages another table, or make this one again"
            f" with 'format-version' = '{NEWEST_FORMAT}'"
        )


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to be made: ``partition_by`` holds terms such as ``day(ts)``, ``bucket(16, id)``.

    ``key`` names the identifier columns, which must be required.
    """

    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add an optional column; ``path`` names the structs around it, lists and maps by
    ``element`` and ``value``.
    """

    path: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """Give a column a wider type: int to long, float to double, decimal with more digits."""

    path: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class MakeOptional:
    """Let a column be null."""

    path: tuple[str, ...]


SchemaChange = AddColumn | WidenColumn | MakeOptional


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One atomic commit: it requires that ``branch`` is still at snapshot ``base`` (None: that
    it has none), appends ``files``, and sets ``properties`` and the new snapshot's ``summary``.

    Without files it makes a snapshot all the same: a committer that read the properties at
    ``base`` can commit no more.
    """

    base: int | None
    files: tuple[TableFiles, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)
    branch: str = MAIN


class Outcome(StrEnum):
    """The result of a commit; load the table again to settle ``UNKNOWN``."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CommitResult:
    """``table`` is the table after a commit that is done; ``why`` says what was answered.

    ``unordered`` keys were changed in several topic partitions, and ``unknown_values`` were left
    out by updates: see ``merging.Merged``.
    """

    outcome: Outcome
    table: Table | None = None
    why: str = ""
    unordered: int = 0
    unknown_values: int = 0


NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


class Catalog(Protocol):
    """Tables by identifier (``db.table``).

    All raise ``Unavailable`` (without effect: try again), ``AccessDenied`` and
    ``ConfigurationError`` (a person must act).
    """

    def load_table(self, identifier: str) -> Table:
        """Ask the catalog.  Raises ``NotFound`` where there is no such table."""

    def list_tables(self, namespace: str) -> Sequence[str]:
        """Return the identifiers in a namespace; none where there is no such namespace."""

    def create_table(self, identifier: str, new: NewTable) -> Table:
        """Make a table, and its namespace if that is missing.

        Raises ``AlreadyExists`` when somebody was faster, ``OutcomeUnknown``.
        """

    def update_schema(
        self,
        table: Table,
        changes: Sequence[SchemaChange],
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> Table:
        """Change the schema that ``table`` shows, and set ``properties``: a commit of its own.

        Raises ``Refused`` when the table is not as it was loaded, ``OutcomeUnknown``: load it
        again in both cases.  A change that Iceberg does not know is a ``ConfigurationError``.
        """

    def commit(self, table: Table, commit: TableCommit) -> CommitResult:
        """Try one commit, once; the library must not repeat it.

        Raises ``Unavailable`` only where nothing can have been done, and ``FilesRefused`` where
        files cannot be in a commit, before anything is done.
        """

    def refused_files(self, table: Table, files: Sequence[TableFiles]) -> Mapping[str, str]:
        """Return which of these no commit can append, each by itself, and why: by path.

        Changes nothing.  None of them where something else is wrong with the table.
        """

    def why_no_commit(self, table: Table, branch: str) -> str:
        """Return what is wrong with a table so that nothing can be appended, "" if all is right.

        Reads the manifests that a commit would read, and changes nothing.
        """
