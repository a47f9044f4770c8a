"""The Thrift decoder: structs by field ids or a generated class, one a message."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.parsing.decoders.columns import (
    MAX_DEPTH,
    Undecodable,
    build_apart,
    build_declared,
    build_decoded,
    rowwise,
)
from secor.parsing.decoders.thrift_class import GeneratedStruct
from secor.parsing.decoders.thrift_wire import BinaryReader, CompactReader, Reader
from secor.parsing.rows import Decoded, Rows

READERS: Mapping[str, type[Reader]] = {"binary": BinaryReader, "compact": CompactReader}


class ThriftDecoder:
    """Structs; without a definition their fields are named by id, such as ``1.3``.

    ``message_class`` is a class of the Thrift compiler, which names and types them instead
    (``thrift_class.GeneratedStruct``); a value of another type is bad then.  ``names`` gives
    names to id paths (``{"1": "user", "1.3": "country"}``: the path is then ``user.country``);
    elements of lists and values of maps continue the path of their field.
    Maps are lists of ``key`` and ``value``.  A string field is text where it is UTF-8, else
    binary.  Bad: truncated, bytes after the stop, unknown types, a field twice.
    """

    def __init__(
        self,
        protocol: str = "binary",
        names: Mapping[str, str] | None = None,
        message_class: str | None = None,
    ) -> None:
        if protocol not in READERS:
            raise ConfigurationError(
                f"thrift protocol {protocol!r}: must be one of {', '.join(READERS)}"
            )
        self._reader = READERS[protocol]
        if names and message_class is not None:
            raise ConfigurationError("thrift: names are those of message_class, give only one")
        self._class = None if message_class is None else GeneratedStruct(message_class)
        self._names = dict(names or {})
        _check_names(self._names)
        stated = self._class.identity if self._class else json.dumps(self._names, sort_keys=True)
        self.identity = f"thrift-3:{protocol}:{stated}"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        objects, bad = rowwise(messages, self._decode)
        if self._class is not None:
            return build_declared(objects, self._class.type, bad, paths)
        return build_decoded(objects, bad, paths)

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """See ``rows.DividingDecoder``."""
        if paths is None and self._class is None:
            objects, bad = rowwise(messages, self._decode)
            return build_apart(objects, bad, messages)
        return [(np.arange(messages.num_rows), self.decode(messages, paths))]

    def _decode(self, raw: bytes) -> dict[str, Any]:
        reader = self._reader(raw)
        fields = reader.struct(MAX_DEPTH)
        if reader.position != len(raw):
            raise Undecodable(f"bytes after the struct's end, at byte {reader.position}")
        if self._class is not None:
            return self._class.named(fields)
        return self._name_fields(fields, "") if self._names else fields

    def _name_fields(self, value: Any, above: str) -> Any:
        if type(value) is list:
            return [self._name_fields(item, above) for item in value]
        if type(value) is not dict:
            return value
        if "key" in value:  # a pair of a map
            return {part: self._name_fields(item, above) for part, item in value.items()}
        fields_by_name = {}
        for number, item in value.items():
            path = f"{above}.{number}" if above else number
            fields_by_name[self._names.get(path, number)] = self._name_fields(item, path)
        return fields_by_name


def _check_names(names: Mapping[str, str]) -> None:
    taken: dict[tuple[str, str], str] = {}
    for path, name in names.items():
        if not all(part.isdigit() for part in path.split(".")):
            raise ConfigurationError(f"thrift names: {path!r} is no path of field ids such as 1.3")
        if not name or name.isdigit() or "." in name:
            raise ConfigurationError(f"thrift names: {name!r} for {path} is no name")
        place = (path.rpartition(".")[0], name)
        if place in taken:
            raise ConfigurationError(f"thrift names: {name!r} for both {taken[place]} and {path}")
        taken[place] = path
