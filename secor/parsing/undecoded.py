"""No decoder: for layouts by offset or Kafka's timestamp, and for plug-ins over messages."""

from __future__ import annotations

import pyarrow as pa

from secor.parsing.rows import Decoded


class Undecoded:
    """Every message is good and has no fields."""

    identity = "none"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        del paths
        kind = pa.struct([])
        return Decoded(pa.Array.from_buffers(kind, messages.num_rows, [None], children=[]))
