"""The needs of messages that no table meets yet: a table, or a wider schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from secor.core.model import TopicPartition
from secor.tables.catalog import SchemaChange
from secor.tables.rows.routing import Route


@dataclass(frozen=True, slots=True)
class ColumnNotes:
    """Remarks about new columns: ``outvoted`` values that will not fit them, and those that are
    text because their fields hold ``mixed`` kinds.

    ``kinds`` has the kinds of values of each field in the messages that the columns were made
    from, by dotted path, and ``first`` the place of the first of them.
    """

    outvoted: tuple[str, ...] = ()
    mixed: tuple[str, ...] = ()
    kinds: tuple[tuple[str, str], ...] = ()
    first: tuple[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True)
class NeedsTable:
    """Messages go to a table that is not open; ``seen`` is the type of the first of them.

    ``shown``: by values, and not only by what their decoder gives to all messages.
    """

    name: str
    route: Route
    seen: pa.DataType
    notes: ColumnNotes = ColumnNotes()
    shown: bool = True


@dataclass(frozen=True, slots=True)
class NeedsSchema:
    """Rows of the table ``name`` need these changes of its schema ``schema_id``."""

    name: str
    uuid: str
    schema_id: int
    changes: tuple[SchemaChange, ...]
    notes: ColumnNotes = ColumnNotes()


Need = NeedsTable | NeedsSchema


class Needs(Protocol):
    """Remembers what is needed until a plan is asked for."""

    def __call__(self, need: Need) -> None:
        """Take a need, in any thread."""
