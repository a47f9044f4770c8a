"""Parsing plug-ins of users: classes over messages, or over columns.

Two levels, both named by ``package.module:Class`` and made with the keyword arguments of
their settings, once for each topic:

- over columns: a ``rows.Transform`` among the transforms, or a ``rows.Decoder``;
- over single messages: ``place(message) -> str | None`` returns the output partition, None
  to leave the message out on purpose, and raises for one that belongs into quarantine.

The same message must always have the same result, whatever was parsed before and with
it: after a crash another process parses again, and the objects must come out the same.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from secor.core.errors import ConfigurationError, PluginFailed
from secor.core.model import Chunk
from secor.parsing.fields import show_value
from secor.parsing.rows import Decoded, Transform
from secor.parsing.user_classes import import_class, quiet, usable

LONGEST_PIECE = 255
LONGEST_PATH = 600
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")

FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a plug-in raises over a message.  Others, such as of memory, files or servers, are
no message's fault and end the process rather than fill the quarantine."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message as a plug-in sees it; ``timestamp`` in milliseconds, None where absent."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """An output partition, and the value to store instead of the message's own.

    Formats of messages as they came store it; the quarantine keeps what Kafka has.
    """

    output_partition: str
    value: bytes | None


class MessagePlugin(Protocol):
    """A class over single messages."""

    def place(self, message: Message) -> str | Placed | None:
        """Return the output partition (pieces escaped by ``naming.escape_value``), or None."""


def load_plugin(path: str, method: str, settings: Mapping[str, object]) -> Any:
    """Import ``package.module:Class`` and make one.  Raises ``ConfigurationError``."""
    module_name, colon, class_name = path.partition(":")
    if not colon or not module_name or not class_name:
        raise ConfigurationError(f'plug-in {path!r}: write "package.module:Class"')
    kind = import_class("plug-in", path)
    with usable(f"plug-in {path}"):
        plugin = kind(**settings)
    if not callable(getattr(plugin, method, None)):
        raise ConfigurationError(f"plug-in {path}: it has no method {method}()")
    return plugin


def identity_of(path: str, settings: Mapping[str, object]) -> str:
    """Return a plug-in's part of the fingerprint: its module's bytes, too."""
    module = importlib.import_module(path.partition(":")[0])
    file: str | None = getattr(module, "__file__", None)
    # By its loader: the module may be in an archive, as Spark hands them on.
    loader: Any = module.__loader__
    source = loader.get_data(file) if file and hasattr(loader, "get_data") else b""
    given = ",".join(f"{name}={settings[name]!r}" for name in sorted(settings))
    return f"{path}({given})@{hashlib.sha256(source).hexdigest()[:16]}"


def messages_of(chunk: Chunk, rows: Sequence[int]) -> list[Message]:
    """Return rows of a chunk as messages."""
    records = chunk.records.take(pa.array(rows, pa.int64()))
    partition = chunk.topic_partition
    return [
        Message(
            topic=partition.topic,
            partition=partition.partition,
            offset=row["offset"],
            timestamp=row["timestamp"],
            timestamp_type=row["timestamp_type"],
            key=row["key"],
            value=row["value"],
            headers=tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row in records.to_pylist()
    ]


class ColumnPlugin:
    """A plug-in over columns, as a step."""

    def __init__(self, plugin: Transform, path: str, identity: str) -> None:
        """``identity`` as ``identity_of`` gives it; the plug-in's own is added.

        Raises ``ConfigurationError`` where it does not say what it must.
        """
        _check_names(plugin, path)
        self._plugin = plugin
        self._path = path
        self.identity = f"{identity} {plugin.identity}"
        self.paths = tuple(plugin.paths)
        self.for_layout_only = getattr(plugin, "for_layout_only", False) is True

    def apply(self, decoded: Decoded) -> Decoded:
        """Return what the plug-in makes of the rows.  Raises ``PluginFailed``."""
        try:
            with quiet():
                result = self._plugin.apply(decoded)
        except FAULTS as error:
            raise PluginFailed(
                f"plug-in {self._path}: {type(error).__name__}: {error}; what it cannot take it "
                "must name in Decoded.bad"
            ) from error
        fault = _fault_of(result, len(decoded.rows))
        if fault is not None:
            raise PluginFailed(f"plug-in {self._path}: {fault}")
        return result


def _check_names(plugin: Any, path: str) -> None:
    paths = getattr(plugin, "paths", None)
    if not isinstance(paths, tuple | list) or not all(isinstance(name, str) for name in paths):
        raise ConfigurationError(
            f"plug-in {path}: its paths are {paths!r}, not a tuple of the names of the fields that "
            'it must see, such as ("country",)'
        )
    identity = getattr(plugin, "identity", None)
    if not isinstance(identity, str):
        raise ConfigurationError(
            f"plug-in {path}: its identity is {identity!r}, not a text that changes with what it "
            "does"
        )


def _fault_of(result: object, count: int) -> str | None:
    """Return what is wrong with a plug-in's result for ``count`` rows, or None."""
    if not isinstance(result, Decoded) or not isinstance(result.rows, pa.StructArray):
        returned = type(result.rows if isinstance(result, Decoded) else result).__name__
        return f"it must return Decoded, with its rows as a StructArray, not {returned}"
    if len(result.rows) != count:
        return f"{len(result.rows)} rows for {count}; it must return as many as it gets"
    # Python takes -1 for the last row: another message would go into quarantine.
    strange = [row for row in result.bad if not 0 <= row < count]
    if strange:
        return f"Decoded.bad names row {strange[0]}, and there are {count}, from 0"
    for field in result.rows.type.fields:
        if _has_interval(field.type):
            return f"its field {field.name} is {field.type}, and no format stores intervals"
    return None


def _has_interval(kind: pa.DataType) -> bool:
    inner = (kind.field(index).type for index in range(kind.num_fields))
    return pa.types.is_interval(kind) or any(map(_has_interval, inner))


class MessagePlaces:
    """A message plug-in as the last stage of parsing."""

    def __init__(self, plugin: MessagePlugin, identity: str) -> None:
        """``identity`` as ``identity_of`` gives it."""
        self._plugin = plugin
        self.identity = identity
        self.gives_values = getattr(plugin, "gives_values", False) is True

    def place(self, message: Message) -> tuple[Placed | None, str | None]:
        """Return where it goes, or None and why; None and None to leave it out."""
        try:
            placed = self._plugin.place(message)
        except FAULTS as error:
            return None, f"{type(error).__name__}: {error}"
        if placed is None:
            return None, None
        if not isinstance(placed, Placed):
            placed = Placed(placed, message.value)
        elif not self.gives_values:
            raise PluginFailed(
                f"plug-in {type(self._plugin).__name__}: it gives the value to store, and its class"
                " does not say so: write gives_values = True, which secor verify needs"
            )
        fault = _path_fault(placed.output_partition) or _value_fault(placed.value)
        return (None, fault) if fault else (placed, None)


def _value_fault(value: object) -> str | None:
    if value is None or isinstance(value, bytes):
        return None
    return f"the plug-in gives {type(value).__name__} as the value, not bytes or None"


def _path_fault(path: object) -> str | None:
    """Return what is wrong with a plug-in's output partition; none is corrected in silence."""
    if not isinstance(path, str):
        return f"the plug-in returned {type(path).__name__} {show_value(path)}, not text or None"
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return f"the plug-in's path {show_value(path)} is not Unicode; use escape_value"
    pieces = path.split("/") if path else []
    unsafe = (
        size > LONGEST_PATH
        or _UNSAFE.search(path)
        or any(piece in ("", ".", "..") or len(piece.encode()) > LONGEST_PIECE for piece in pieces)
    )
    return (
        f"the plug-in's path {show_value(path)} is not safe; use escape_value" if unsafe else None
    )
