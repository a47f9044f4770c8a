"""Fields of declared schemas: names, defaults, and errors that name their place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from secor.schema.descriptions import DEFAULT


class FaultError(ValueError):
    """A fault in a declaration; ``path`` leads to the field."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f"{'.'.join(path)}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


@contextmanager
def inside(name: object) -> Iterator[None]:
    """Put the field's name in front of the path of faults.  Refuses what is no name."""
    if not isinstance(name, str):
        raise FaultError("a field has no name" if name is None else f"{name!r:.80} is no name")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise FaultError(f"{name!r} is no name: half a character is none") from error
    try:
        yield
    except FaultError as fault:
        raise FaultError(fault.reason, (name, *fault.path)) from fault


def field_of(name: str, kind: pa.DataType, nullable: bool, default: object = None) -> pa.Field:
    """Return a field; ``default``, if any, is the JSON value that replaces null."""
    metadata = None if default is None else {DEFAULT: json.dumps(default)}
    return pa.field(name, kind, nullable=nullable, metadata=metadata)


def row_of(fields: Sequence[pa.Field]) -> pa.StructType:
    """Return a struct.  Raises ``FaultError`` if it has no fields, or one of them twice."""
    names = [field.name for field in fields]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise FaultError(f"field {min(twice)!r} is there twice")
    if not names:
        raise FaultError("it has no fields")
    return pa.struct(fields)
