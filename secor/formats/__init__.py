"""Formats of objects by name: messages or decoded rows as file bytes, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import BinaryIO

from secor.core.errors import ConfigurationError
from secor.core.installing import FORMATS as FORMATS_OFFERED
from secor.core.installing import offered
from secor.core.ports import LogFormat


def _sequencefile(**settings: object) -> LogFormat:
    from secor.formats.sequencefile import SequenceFileFormat

    build: Callable[..., LogFormat] = SequenceFileFormat
    return build(**settings)


def _text(**settings: object) -> LogFormat:
    from secor.formats.text import TextFormat

    delimiter = settings.get("delimiter")
    if isinstance(delimiter, str):
        settings["delimiter"] = delimiter.encode()
    build: Callable[..., LogFormat] = TextFormat
    return build(**settings)


def _parquet(**settings: object) -> LogFormat:
    from secor.formats.parquet import ParquetFormat

    build: Callable[..., LogFormat] = ParquetFormat
    return build(**settings)


def _reading_parquet(**settings: object) -> LogFormat:
    from secor.formats.typed.parquet import EitherParquet

    build: Callable[..., LogFormat] = EitherParquet
    return build(**settings)


def _typed_parquet(**settings: object) -> LogFormat:
    from secor.formats.typed.parquet import TypedParquetFormat

    build: Callable[..., LogFormat] = TypedParquetFormat
    return build(**settings)


def _orc(**settings: object) -> LogFormat:
    from secor.formats.typed.orc import OrcFormat

    build: Callable[..., LogFormat] = OrcFormat
    return build(**settings)


def _avro(**settings: object) -> LogFormat:
    from secor.formats.typed.avro import AvroFormat

    build: Callable[..., LogFormat] = AvroFormat
    return build(**settings)


def _json_lines(**settings: object) -> LogFormat:
    from secor.formats.typed.jsonlines import JsonLinesFormat

    build: Callable[..., LogFormat] = JsonLinesFormat
    return build(**settings)


FORMATS: Mapping[str, Callable[..., LogFormat]] = MappingProxyType(
    {
        "sequencefile": _sequencefile,
        "text": _text,
        "parquet": _parquet,
        "typed-parquet": _typed_parquet,
        "orc": _orc,
        "avro": _avro,
        "jsonlines": _json_lines,
    }
)

EXTENSIONS: Mapping[str, tuple[str, Mapping[str, object]]] = MappingProxyType(
    {
        ".seq": ("sequencefile", {}),
        ".txt": ("text", {"codec": "none"}),
        ".txt.gz": ("text", {"codec": "gzip"}),
        ".txt.zst": ("text", {"codec": "zstd"}),
        ".parquet": ("parquet", {}),
        ".orc": ("orc", {}),
        ".avro": ("avro", {}),
        ".json": ("jsonlines", {"codec": "none"}),
        ".json.gz": ("jsonlines", {"codec": "gzip"}),
        ".json.zst": ("jsonlines", {"codec": "zstd"}),
    }
)

MAGIC: tuple[tuple[bytes, str, Mapping[str, object]], ...] = (
    (b"SEQ", "sequencefile", {}),
    (b"PAR1", "parquet", {}),
    (b"ORC", "orc", {}),
    (b"Obj\x01", "avro", {}),
    (b"\x1f\x8b", "text", {"codec": "gzip"}),
    (b"\x28\xb5\x2f\xfd", "text", {"codec": "zstd"}),
)
"""First bytes of files without an extension in the name, as Java Secor's."""


def make_format(name: str, **settings: object) -> LogFormat:
    """Return the format ``name`` of ``FORMATS`` with its own settings.

    ``sequencefile``, ``text`` and ``parquet`` take whole messages, the others rows, see
    ``secor.formats.typed``.  Raises ``ConfigurationError`` for an unknown name or setting.
    """
    if name not in FORMATS:
        raise ConfigurationError(f"no format {name!r}: use one of {', '.join(FORMATS)}")
    try:
        return FORMATS[name](**settings)
    except TypeError as error:
        raise ConfigurationError(f"format {name}: {error}") from error


def format_of_key(key: str, file: BinaryIO | None = None, **text_settings: object) -> LogFormat:
    """Return the format that reads the object ``key``.

    The name's extension decides; without a known one the first bytes of ``file``, which
    stays where it was.  ``text_settings`` (such as ``delimiter``) apply to text only.
    """
    filename = key.rpartition("/")[2]
    for extension, (name, settings) in EXTENSIONS.items():
        if filename.endswith(extension):
            return _for_reading(name, settings, text_settings)
    _, dot, rest = filename.partition(".")
    plugged = _plugged_reader(f"{dot}{rest}") if dot else None
    if plugged is not None:
        return plugged
    if file is not None:
        position = file.tell()
        first = file.read(4)
        file.seek(position)
        for magic, name, settings in MAGIC:
            if first.startswith(magic):
                return _for_reading(name, settings, text_settings)
    elif filename.endswith(".gz"):
        return _for_reading("text", {"codec": "gzip"}, text_settings)
    return _for_reading("text", {"codec": "none"}, text_settings)


def _plugged_reader(extension: str) -> LogFormat | None:
    """Return what an installed package offers for an extension."""
    if not offered(FORMATS_OFFERED):
        return None
    from secor.formats.plugin import reader_of

    return reader_of(extension)


def _for_reading(
    name: str, settings: Mapping[str, object], text_settings: Mapping[str, object]
) -> LogFormat:
    if name == "parquet":
        return _reading_parquet(**settings)
    own = text_settings if name == "text" else {}
    return make_format(name, **settings, **own)
