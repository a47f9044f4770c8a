"""Messages of the world in several encodings, by the plainest library of each."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import fastavro
import msgpack

Encoding = Literal["json", "messagepack", "avro"]
ENCODINGS: tuple[Encoding, ...] = ("json", "messagepack", "avro")

_AVRO_FILE = Path(__file__).with_name("message.avsc")
_AVRO = fastavro.schema.load_schema(str(_AVRO_FILE))


def encoded(encoding: Encoding, fields: Mapping[str, object]) -> bytes:
    """Return a message's bytes."""
    match encoding:
        case "json":
            return json.dumps(fields).encode()
        case "messagepack":
            return bytes(msgpack.packb(fields))
        case "avro":
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, _AVRO, dict(fields))
            return stream.getvalue()


def fields_of(encoding: Encoding, value: bytes) -> Any:
    """Return a message's fields but those that are null; None where it is broken."""
    try:
        match encoding:
            case "json":
                return json.loads(value)
            case "messagepack":
                return msgpack.unpackb(value)
            case "avro":
                record: Any = fastavro.schemaless_reader(io.BytesIO(value), _AVRO, None)
                return {name: it for name, it in record.items() if it is not None}
    except (ValueError, EOFError, IndexError):
        return None


def settings_of(encoding: Encoding) -> Mapping[str, Any]:
    """Return what the real decoder is made with."""
    return {"schema_file": _AVRO_FILE, "framing": "none"} if encoding == "avro" else {}
