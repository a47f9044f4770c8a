"""Messages of a source's connector that change no row: recognised by what they hold.

Source: Debezium's documentation of its connectors, signals and notifications.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.arrow.nested_arrays import children
from secor.parsing.fields import field_at, texts
from secor.tables.rows.debezium import Rows, envelopes_of, has_field, objects_of
from secor.tables.rows.row_changes import Truths, among

KINDS = (
    "truncate",
    "message",
    "heartbeat",
    "transaction",
    "schema_change",
    "signal",
    "notification",
)
TRUNCATE = KINDS.index("truncate")

SIGNALS = (
    "log",
    "execute-snapshot",
    "stop-snapshot",
    "pause-snapshot",
    "resume-snapshot",
    "schema-changes",
    "snapshot-window-open",
    "snapshot-window-close",
)
"""Values of the field ``type`` of signals, those included by which snapshots mark their reading."""

Codes = npt.NDArray[np.int64]
"""For each message an index into ``KINDS``, -1 for what may change a row."""


def find_events(fields: pa.StructArray) -> Codes:
    """Return what each of the decoded messages is."""
    codes = np.full(len(fields), -1, np.int64)
    for rows, envelopes in envelopes_of(fields):
        operations = texts(field_at(envelopes, "op"))
        codes[rows[among(operations, ("t",))]] = TRUNCATE
        codes[rows[among(operations, ("m",))]] = KINDS.index("message")
        for side in ("before", "after"):
            for places, objects in objects_of(envelopes, side):
                codes[rows[places[_are_signals(objects, ("id", "type", "data"))]]] = KINDS.index(
                    "signal"
                )
        places = np.flatnonzero(among(operations, (), null=True))
        if len(places):
            _find_without_operation(rows[places], envelopes.take(pa.array(places)), codes)
    return codes


def _find_without_operation(rows: Rows, fields: pa.StructArray, codes: Codes) -> None:
    for kind, mask in _masks(fields):
        codes[rows[mask]] = KINDS.index(kind)


def _masks(fields: pa.StructArray) -> Iterator[tuple[str, Truths]]:
    """Give the messages without an operation of each kind."""
    yield "heartbeat", _have_only(fields, ("ts_ms",)) & has_field(fields, "ts_ms")
    of_transaction = among(texts(field_at(fields, "status")), ("BEGIN", "END"))
    yield "transaction", of_transaction & has_field(fields, "id")
    changed = has_field(fields, "ddl") | has_field(fields, "tableChanges")
    yield "schema_change", changed & has_field(fields, "databaseName")
    yield "signal", _are_signals(fields, ("id", "type", "data"))
    yield "notification", has_field(fields, "aggregate_type") & has_field(fields, "type")


def _are_signals(objects: pa.StructArray, names: Sequence[str]) -> Truths:
    if objects.type.get_field_index("type") < 0:
        return np.zeros(len(objects), dtype=bool)
    named = among(texts(field_at(objects, "type")), SIGNALS)
    return named & _have_only(objects, names) if named.any() else named


def _have_only(objects: pa.StructArray, names: Sequence[str]) -> Truths:
    """Return which objects have no value under other names."""
    only = np.ones(len(objects), dtype=bool)
    for field, column in children(objects):
        if field.name not in names:
            only &= column.is_null().to_numpy(zero_copy_only=False)
    return only
