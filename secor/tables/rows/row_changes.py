"""Changes of rows by messages: a route's settings, and the changes read from messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.parsing.fields import Texts
from secor.tables.rows.unavailable_values import Placeholder

Mode = Literal["append", "insert", "upsert", "cdc"]
Truncate = Literal["quarantine", "ignore", "stop"]

UPSERT, DELETE = 0, 1
"""Values of the column ``operation`` of staged changes."""

DELETED = "__deleted"
"""The column that says whether a row is deleted; named as Debezium's flat messages name it."""

MOST_SHOWN = 40
"""Characters of a value in a message about it."""

Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Settings of how a route's messages change rows.

    ``key`` names the identifier columns; without it they are the table's own.  In mode
    ``insert`` each message is a row of its own, identified by its place in Kafka: for tables
    that only an engine can append to.  In mode ``upsert`` a message is the newest state of its
    key, unless ``operation_field`` has one of ``deletes``.  In mode ``cdc`` that field says what
    each message is; without a field the messages are Debezium's envelopes.  A column whose value
    is ``unavailable_value`` keeps the value that the row has; "" if no value says so.  ``truncate``
    says what becomes of a message by which the source empties its table.  With ``keep_deletes`` a
    deletion marks the row in the column ``DELETED``.
    """

    mode: Mode = "append"
    key: tuple[str, ...] = ()
    operation_field: str | None = None
    upserts: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    unavailable_value: str = ""
    truncate: Truncate = "quarantine"
    keep_deletes: bool = False

    @property
    def reads_envelopes(self) -> bool:
        """True if messages are Debezium's envelopes."""
        return self.mode == "cdc" and self.operation_field is None

    @property
    def placeholder(self) -> Placeholder | None:
        """The placeholder of a value that an update leaves out."""
        return Placeholder(self.unavailable_value) if self.unavailable_value else None

    @property
    def identity(self) -> str:
        """All that changes the staged rows; nothing for rows that are appended."""
        if self.mode == "append":
            return ""
        values = f"{self.operation_field}:{self.upserts}:{self.deletes}"
        # Only what is read in another way than before has other fingerprints than before.
        version = ":3" if self.mode in ("upsert", "cdc") else ""
        further = "" if self.truncate == "quarantine" else f":truncate {self.truncate}"
        further += ":keep deletes" if self.keep_deletes else ""
        unavailable = f":{self.unavailable_value}" if self.unavailable_value else ""
        return f" {self.mode}:{self.key}:{values}{version}{unavailable}{further}"


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of ``rows`` (numbers in the work): the decoded ``source`` has a row for each."""

    operation: int
    rows: npt.NDArray[np.int64]
    source: pa.StructArray
    by_key: bool = False
    """Whether the source is Kafka's key."""


@dataclass
class ReadChanges:
    """The changes that messages make, and why others make none.

    ``before`` has rows that are put as they were before that: if its key was another, the row
    under that key goes.
    """

    changes: list[Changes] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)
    before: list[Changes] = field(default_factory=list)

    def add(
        self,
        rows: npt.NDArray[np.int64],
        operations: npt.NDArray[np.int64],
        source: pa.StructArray,
        *,
        by_key: bool = False,
    ) -> None:
        """Add ``rows``, each with its operation; those of no operation are left out."""
        for operation in (UPSERT, DELETE):
            chosen = np.flatnonzero(operations == operation)
            if len(chosen):
                chosen_rows = source if len(chosen) == len(rows) else source.take(pa.array(chosen))
                self.changes.append(Changes(operation, rows[chosen], chosen_rows, by_key))

    def add_before(
        self, rows: npt.NDArray[np.int64], wanted: Truths, source: pa.StructArray
    ) -> None:
        """Add the ``wanted`` rows as they were before they are put."""
        chosen = np.flatnonzero(wanted)
        if len(chosen):
            self.before.append(Changes(DELETE, rows[chosen], source.take(pa.array(chosen))))


def among(values: Texts, wanted: Sequence[str], null: bool = False) -> Truths:
    """Return which rows have one of the ``wanted`` texts; ``null`` is for those without text."""
    return values.lookup(np.isin(np.array(values.distinct, dtype=object), list(wanted)), null)
