"""The decoder ``none``: layouts by offset or Kafka's timestamp, and plug-ins over bytes."""

from __future__ import annotations

import pyarrow as pa

from secor.core.model import SCHEMA
from secor.parsing.rows import Decoded

COLUMNS = ("offset", "timestamp", "key", "value", "headers")


class Undecoded:
    """Every message is good; its columns, where all fields are wanted, are its only fields.

    A plug-in makes others of them: offset, timestamp in milliseconds, key, value, headers.
    """

    identity = "none"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        if paths is None:
            columns = [messages.column(name) for name in COLUMNS]
            fields = [SCHEMA.field(name) for name in COLUMNS]
            return Decoded(pa.StructArray.from_arrays(columns, fields=fields))
        kind = pa.struct([])
        return Decoded(pa.Array.from_buffers(kind, messages.num_rows, [None], children=[]))
