"""Formats of decoded fields that other packages offer, see ``secor.core.installing``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import BinaryIO, Protocol

import pyarrow as pa

from secor.arrow.nested_arrays import text_of
from secor.core.errors import ConfigurationError, CorruptFile, FormatFailed
from secor.core.installing import FORMATS, entry_point, identity_of, offered
from secor.core.ports import Sink
from secor.formats.typed import metadata
from secor.formats.typed.writer import Shape, TypedWriter
from secor.schema.schema import RowSchema

FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What is a plug-in's own fault; Arrow's errors are among them."""

GROUP_ROWS = 10_000
"""Rows that a file is given at a time, where its class does not say ``rows``."""


class PlugInFile(Protocol):
    """One file in the making."""

    def write(self, group: pa.RecordBatch) -> None:
        """Take a group of rows: as many as the class says, fewer only at the end."""

    def close(self) -> None:
        """Write the rest; the sink stays open."""


class PlugIn(Protocol):
    """A package's format.  The bytes of a file are a function of its rows alone."""

    extension: str
    identity: str

    def create(self, sink: Sink, schema: pa.Schema) -> PlugInFile:
        """Begin a file of these columns; it writes to ``sink.write(bytes)``."""

    def read(self, file: BinaryIO) -> Iterable[pa.RecordBatch]:
        """Return the rows of a file, its columns by their names."""


def plugged_format(name: str, settings: Mapping[str, object]) -> PlugIn:
    """Import and make what a package offers.  Raises ``ConfigurationError``."""
    entry = entry_point(FORMATS, name)
    what = f"format {name!r} ({entry.value})"
    try:
        made: PlugIn = entry.load()(**settings)
    except (ImportError, OSError, *FAULTS) as error:
        raise ConfigurationError(f"{what}: {type(error).__name__}: {error}") from error
    for method in ("create", "read"):
        if not callable(getattr(made, method, None)):
            raise ConfigurationError(f"{what}: it has no method {method}()")
    extension = getattr(made, "extension", None)
    if not isinstance(extension, str) or not extension.startswith(".") or "/" in extension:
        raise ConfigurationError(f'{what}: its extension is {extension!r}, not a text as ".csv"')
    if not isinstance(getattr(made, "identity", None), str):
        raise ConfigurationError(f"{what}: its identity is no text that changes with its bytes")
    return made


class PluginFormat:
    """A package's format: rows are brought to the schema, and cut into groups, before it."""

    def __init__(
        self,
        name: str,
        settings: Mapping[str, object],
        *,
        schema: RowSchema,
        metadata_columns: Iterable[str] = (),
    ) -> None:
        """Raises ``ConfigurationError``."""
        self._name = name
        self._plug_in = plugged_format(name, settings)
        self._shape = Shape(
            schema,
            metadata.check_columns(metadata_columns),
            getattr(self._plug_in, "rows", GROUP_ROWS),
            text_of,
        )
        given = ",".join(f"{key}={settings[key]!r}" for key in sorted(settings))
        # The code is a part of it: a new version of the package may give other bytes for the same
        # rows.
        code = identity_of(entry_point(FORMATS, name))
        self._identity = f"plug-in:{code}({given}):{self._plug_in.identity}"

    @property
    def extension(self) -> str:
        """As the class says."""
        return self._plug_in.extension

    @property
    def identity(self) -> str:
        """Everything that changes the bytes: the package's code and version, too."""
        return f"{self._identity}:{self._shape.identity}:arrow{pa.__version__}"

    def create(self, sink: Sink, seed: bytes) -> TypedWriter:
        """Begin a file."""
        del seed
        return TypedWriter(
            self._shape, lambda schema: _File(self._name, self._plug_in, sink, schema)
        )

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Yield rows as JSON messages, with their metadata columns.  Raises ``CorruptFile``."""
        return read(self._plug_in, file, name)


def read(plug_in: PlugIn, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file as JSON messages.  Raises ``CorruptFile``."""
    try:
        for rows in plug_in.read(file):
            yield metadata.as_messages(rows, metadata.metadata_columns_of(rows.schema))
    except FAULTS as error:
        raise CorruptFile(f"{name}: {type(error).__name__}: {error}") from error


class PluginReader:
    """Reads files of a package's format, whatever settings they were written with."""

    def __init__(self, plug_in: PlugIn) -> None:
        self.extension = plug_in.extension
        self.identity = plug_in.identity
        self._plug_in = plug_in

    def create(self, sink: Sink, seed: bytes) -> TypedWriter:
        """Not for that: the configuration's format writes."""
        raise NotImplementedError

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """See ``ports.LogFormat``."""
        return read(self._plug_in, file, name)


@cache
def reader_of(filename_extension: str) -> PluginReader | None:
    """Return what reads files of an extension that Secor itself does not know.

    A class that cannot be made without settings reads nothing.
    """
    for name in offered(FORMATS):
        # One package that cannot be made must not keep the others from reading.
        with suppress(ConfigurationError):
            plug_in = plugged_format(name, {})
            if plug_in.extension == filename_extension:
                return PluginReader(plug_in)
    return None


class _GuardedSink:
    """A plug-in's sink; after ``discard`` nothing more reaches the file."""

    def __init__(self, sink: Sink) -> None:
        self._sink: Sink | None = sink

    def write(self, data: bytes | bytearray | memoryview | pa.Buffer, /) -> object:
        if self._sink is not None:
            self._sink.write(data)
        return len(data)

    def discard(self) -> None:
        self._sink = None


class _File:
    """A plug-in's file.  Raises ``FormatFailed``."""

    def __init__(self, name: str, plug_in: PlugIn, sink: Sink, schema: pa.Schema) -> None:
        self._name = name
        self._sink = _GuardedSink(sink)
        with self._faults():
            self._file = plug_in.create(self._sink, schema)

    def write(self, group: pa.RecordBatch) -> None:
        """Hand a group of rows on."""
        with self._faults():
            self._file.write(group)

    def close(self) -> None:
        """Let the plug-in write the rest."""
        with self._faults():
            self._file.close()

    def discard(self) -> None:
        """Let nothing more reach the sink."""
        self._sink.discard()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except FAULTS as error:
            why = f"{type(error).__name__}: {error}"
            raise FormatFailed(f"format {self._name}: {why}") from error
