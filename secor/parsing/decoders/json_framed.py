"""The decoder of JSON behind a registry's frames, with the types of JSON Schemas."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from secor.parsing.decoders import MAX_ELEMENTS
from secor.parsing.decoders.by_registry import SchemaReaders, with_schema
from secor.parsing.decoders.frames import Frames, read_frames, with_payloads
from secor.parsing.decoders.framing import ConfluentFraming, MessageType, framing_of
from secor.parsing.decoders.json import JsonDecoder
from secor.parsing.decoders.json_schema import Shape, shape_of
from secor.parsing.decoders.json_typing import fit_rows
from secor.parsing.registry import RegisteredSchema, SchemaRegistry
from secor.parsing.rows import Decoded, Rows


class FramedJsonDecoder:
    """JSON objects behind frames that name their JSON Schema.

    With a ``registry``, all fields of a message have the types that its own schema says, where it
    says something; what the schema refuses is bad.  Without one, and for paths, the payload
    is read as the decoder ``json`` reads it, whatever its schema.
    """

    def __init__(
        self,
        registry: SchemaRegistry | None = None,
        max_elements: int = MAX_ELEMENTS,
        framing: str | None = None,
        use_id: str | None = None,
        keep_nulls_in: Collection[str] = (),
    ) -> None:
        self._framing = framing_of("json", registry, framing, use_id=use_id) or ConfluentFraming()
        self._json = JsonDecoder(max_elements, keep_nulls_in)
        self._shapes: SchemaReaders[_Shaped] | None = None
        if registry is not None:
            self._shapes = SchemaReaders(registry, "JSON", _Shaped)
        address = registry.url if registry is not None else "-"
        self.identity = f"json-framed-2:{self._framing.name}:{address}:{self._json.identity}"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``; the messages must go together."""
        [(_, decoded)] = self._decode(messages, read_frames(messages, self._framing), paths)
        return decoded

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """See ``rows.DividingDecoder``: by what the schemas say of the fields."""
        frames = read_frames(messages, self._framing)
        if self._shapes is not None and paths is None:
            self._shapes.prefetch(frames.names)
        return self._decode(messages, frames, paths)

    def _decode(
        self, messages: pa.RecordBatch, frames: Frames, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        bad = dict(frames.bad)
        shapes: list[_Shaped | None] = [None] * len(frames.names)
        if self._shapes is not None and paths is None:
            for code, shaped in enumerate(self._shapes.readers(frames.names)):
                if isinstance(shaped, str):
                    bad |= dict.fromkeys(np.flatnonzero(frames.codes == code).tolist(), shaped)
                else:
                    shapes[code] = shaped
        payloads = with_payloads(messages, frames.payloads, bad)
        groups = []
        for shape, rows in _groups(shapes, frames):
            every = len(rows) == messages.num_rows
            part = payloads if every else payloads.take(pa.array(rows))
            for inner, decoded in self._json.decode_objects_apart(part, paths):
                fitted = fit_rows(decoded, shape)
                own = rows[inner]
                groups.append((own, Decoded(fitted.rows, _reasons(fitted.bad, own, bad, frames))))
        return groups


class _Shaped:
    """The types that a JSON Schema gives to the fields of its messages."""

    def __init__(self, registered: RegisteredSchema, _message_type: MessageType) -> None:
        self.shape = shape_of(registered)


def _groups(shapes: Sequence[_Shaped | None], frames: Frames) -> Sequence[tuple[Shape, Rows]]:
    """Return the rows of each shape; a message without a schema is with the first of them."""
    distinct: dict[Shape, int] = {}
    groups = [
        0 if shaped is None else distinct.setdefault(shaped.shape, len(distinct))
        for shaped in shapes
    ]
    group_of_row = np.array([*groups, 0], np.int64)[frames.codes]
    known: list[Shape] = list(distinct) or [None]
    numbers = np.unique(group_of_row).tolist() or [0]
    return [(known[number], np.flatnonzero(group_of_row == number)) for number in numbers]


def _reasons(
    bad: Mapping[int, str], rows: Rows, known: Mapping[int, str], frames: Frames
) -> dict[int, str]:
    """Return why rows of a group are bad, with their schemas."""
    reasons = {}
    for place, reason in bad.items():
        row = int(rows[place])
        code = int(frames.codes[row])
        reason = known.get(row, reason)
        reasons[place] = reason if code < 0 else with_schema(frames.names[code], reason)
    return reasons
