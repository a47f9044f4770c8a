"""Decoders by name: message payloads to fields."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from secor.core import installing
from secor.core.errors import ConfigurationError
from secor.core.installing import offered

if TYPE_CHECKING:
    from secor.parsing.rows import Decoder

MAX_ELEMENTS = 1_000_000
"""Values in one JSON message: some seconds of work."""


def _json(**settings: Any) -> Decoder:
    """Make it from ``max_elements`` and, of framed messages, ``registry`` and ``framing``."""
    _registry(settings)
    if "registry" in settings or settings.get("framing", "none") != "none":
        from secor.parsing.decoders.json_framed import FramedJsonDecoder

        return FramedJsonDecoder(**settings)
    from secor.parsing.decoders.json import JsonDecoder

    settings.pop("framing", None)
    return JsonDecoder(**settings)


def _messagepack(**settings: Any) -> Decoder:
    from secor.parsing.decoders.messagepack import MessagePackDecoder

    return MessagePackDecoder(**settings)


def _registry(settings: dict[str, Any]) -> None:
    """Replace the address of a registry, and the access to it, by a client."""
    from secor.parsing.registry import SchemaRegistry
    from secor.parsing.registry_server import Credentials, source_of

    registry = settings.get("registry")
    wait = settings.pop("wait", 0.0)
    names = (field.name for field in fields(Credentials))
    access = {name: settings.pop(name) for name in names if name in settings}
    if isinstance(registry, str):
        source = source_of(settings.get("framing"), registry, Credentials(**access))
        settings["registry"] = SchemaRegistry(source, wait=wait)
    elif access:
        raise ConfigurationError(
            f"{' and '.join(access)}: for a registry, and its address is not given"
        )


def _avro(**settings: Any) -> Decoder:
    """Make it from ``registry`` (a client, or the address of one) and ``schema_file``."""
    from secor.parsing.decoders.avro import AvroDecoder

    _registry(settings)
    return AvroDecoder(**settings)


def _protobuf(**settings: Any) -> Decoder:
    """Make it from ``registry`` (a client, or the address of one), or from the other settings."""
    try:
        from secor.parsing.decoders.protobuf import ProtobufDecoder, RegistryProtobufDecoder
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "protobuf: its package is missing; install secor with the extra 'parsers'"
        ) from error
    _registry(settings)
    if "registry" in settings:
        if settings.pop("encoding", "binary") != "binary":
            raise ConfigurationError("protobuf: encoding 'json' has no frames of a registry")
        return RegistryProtobufDecoder(**settings)
    return ProtobufDecoder(**settings)


def _thrift(**settings: Any) -> Decoder:
    from secor.parsing.decoders.thrift import ThriftDecoder

    return ThriftDecoder(**settings)


def _regex(**settings: Any) -> Decoder:
    from secor.parsing.decoders.regex import RegexDecoder

    return RegexDecoder(**settings)


PLUGGED = f"entry points {installing.DECODERS}"

DECODERS: Mapping[str, Callable[..., Decoder]] = {
    "json": _json,
    "messagepack": _messagepack,
    "avro": _avro,
    "protobuf": _protobuf,
    "thrift": _thrift,
    "regex": _regex,
}

UNTYPED_DECODERS = frozenset({"json", "messagepack"})
"""Decoders of objects that may be structs or maps: only the column says which."""


def unknown(name: str, further: Collection[str] = ("none",)) -> str:
    """Return the text for an unknown decoder, with the names of the known ones."""
    known = [*DECODERS, *further, *offered(installing.DECODERS)]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; do you mean {near[0]!r}?" if near else f": one of {', '.join(known)}"
    return f"decoder {name!r} is not known{hint}; packages may offer others ({PLUGGED})"


def make_decoder(name: str, *, keep_nulls_in: Collection[str] = (), **settings: Any) -> Decoder:
    """Make the decoder of a name with its own settings.  Raises ``ConfigurationError``.

    ``keep_nulls_in`` names fields whose objects keep their null members.
    """
    make = DECODERS.get(name)
    if make is None and name in offered(installing.DECODERS):
        from secor.parsing.decoders.plugin import plugged_decoder

        return plugged_decoder(name, settings, keep_nulls_in)
    if make is None:
        raise ConfigurationError(unknown(name))
    if keep_nulls_in and name in UNTYPED_DECODERS:
        settings["keep_nulls_in"] = keep_nulls_in
    try:
        return make(**settings)
    except TypeError as error:
        raise ConfigurationError(f"decoder {name!r}: {error}") from error
