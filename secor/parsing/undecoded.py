"""The decoder ``none``: raw values, layouts by offset or Kafka's timestamp, and plug-ins."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from secor.core.model import SCHEMA
from secor.parsing.rows import Decoded

COLUMNS = ("offset", "timestamp", "key", "value", "headers")
"""The columns of messages that plug-ins make fields from: the timestamp is in milliseconds."""

RAW = ("value",)
"""The only field where nothing makes others of it: bytes, null where a message has none."""


class NoDecoder:
    """Every message is good; some of its own columns are its fields."""

    identity = "none"

    def __init__(self, columns: Sequence[str] = COLUMNS) -> None:
        """Take the columns that are fields."""
        self._columns = tuple(columns)

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        names = [name for name in self._columns if paths is None or name in paths]
        if not names:
            kind = pa.struct([])
            return Decoded(pa.Array.from_buffers(kind, messages.num_rows, [None], children=[]))
        columns = [messages.column(name) for name in names]
        fields = [SCHEMA.field(name) for name in names]
        return Decoded(pa.StructArray.from_arrays(columns, fields=fields))
