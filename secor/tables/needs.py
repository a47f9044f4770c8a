"""What messages need of tables and do not find: a table, or a wider schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from secor.tables.catalog import SchemaChange
from secor.tables.routing import Route


@dataclass(frozen=True, slots=True)
class NeedsTable:
    """Messages go to a table that is not open; ``seen`` is the type of the first of them.

    ``outvoted`` names the values that are of another kind than 99 of 100 of their field.
    """

    name: str
    route: Route
    seen: pa.DataType
    outvoted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NeedsSchema:
    """Rows of the table ``name`` need these changes of its schema ``schema_id``.

    ``outvoted`` names the values of new columns that will not fit them.
    """

    name: str
    uuid: str
    schema_id: int
    changes: tuple[SchemaChange, ...]
    outvoted: tuple[str, ...] = ()


Need = NeedsTable | NeedsSchema


class Needs(Protocol):
    """Remembers what is needed until a plan is asked for."""

    def __call__(self, need: Need) -> None:
        """Take a need, in any thread."""
