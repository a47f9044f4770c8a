"""Decoders that other packages offer: one message at a time, see ``secor.core.installing``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.core.installing import DECODERS, entry_point, identity_of
from secor.parsing.decoders.columns import (
    MAX_DEPTH,
    Undecodable,
    brief,
    build_apart,
    build_decoded,
    keep_nulls,
    rowwise,
)
from secor.parsing.plugins import FAULTS
from secor.parsing.rows import Decoded, Rows
from secor.parsing.user_classes import quiet, usable


class ValueDecoder(Protocol):
    """The interface of a package's decoder: pure, no clock, no randomness, nothing remembered."""

    def decode(self, value: bytes) -> Mapping[str, Any]:
        """Return the fields of a message's value, or raise ``ValueError`` for a bad one.

        Fields are None, bool, int, float, str, bytes, lists and dictionaries of these.
        """


def plugged_decoder(
    name: str, settings: Mapping[str, Any], keep_nulls_in: Collection[str] = ()
) -> PluginDecoder:
    """Make the decoder that a package offers.  Raises ``ConfigurationError``."""
    entry = entry_point(DECODERS, name)
    what = f"decoder {name!r} ({entry.value})"
    with usable(what, "install its package with all that it needs"):
        decoder = entry.load()(**settings)
    if not callable(getattr(decoder, "decode", None)):
        raise ConfigurationError(f"{what}: it has no method decode()")
    given = ",".join(f"{key}={settings[key]!r}" for key in sorted(settings))
    return PluginDecoder(decoder, f"plug-in:{identity_of(entry)}({given})", keep_nulls_in)


class PluginDecoder:
    """A package's decoder with the checks of our own; a message that it raises for is bad."""

    def __init__(
        self, decoder: ValueDecoder, identity: str, keep_nulls_in: Collection[str] = ()
    ) -> None:
        """``identity`` is all else that changes the result.

        Dictionaries in fields of the names ``keep_nulls_in`` keep their null members.
        """
        self._decode_value = decoder.decode
        self._keep_nulls_in = frozenset(name.lower() for name in keep_nulls_in)
        nulls = f":nulls in {sorted(self._keep_nulls_in)}" if self._keep_nulls_in else ""
        self.identity = identity + nulls

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        objects, bad = self._objects(messages)
        if paths is None:
            objects = keep_nulls(objects, self._keep_nulls_in)
        return build_decoded(objects, bad, paths)

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """See ``rows.DividingDecoder``."""
        objects, bad = self._objects(messages)
        if paths is None:
            return build_apart(keep_nulls(objects, self._keep_nulls_in), bad, messages)
        return [(np.arange(len(objects)), build_decoded(objects, bad, paths))]

    def _objects(self, messages: pa.RecordBatch) -> tuple[list[Any], dict[int, str]]:
        with quiet():
            return rowwise(messages, self._fields)

    def _fields(self, raw: bytes) -> dict[str, Any]:
        try:
            fields = self._decode_value(raw)
        except (*FAULTS, RecursionError) as error:
            raise Undecodable(f"{type(error).__name__}: {brief(error)}") from error
        if not isinstance(fields, Mapping):
            raise Undecodable(f"the plug-in gives {type(fields).__name__}, not a dictionary")
        plain = _plain(fields, MAX_DEPTH)
        assert isinstance(plain, dict)
        return plain


def _plain(value: Any, levels: int) -> Any:
    """Return a value in the kinds that columns are made of.  Raises ``Undecodable``."""
    if levels < 0:
        raise Undecodable(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise Undecodable("the plug-in gives a field with a name that is no text")
        return {str(name): _plain(child, levels - 1) for name, child in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, levels - 1) for item in value]
    for kind in (bool, int, float, str, bytes):
        if isinstance(value, kind):
            return _check(value, kind)
    if value is None:
        return None
    raise Undecodable(f"the plug-in gives a {type(value).__name__}, which no column holds")


def _check(value: Any, kind: Callable[[Any], Any]) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        raise Undecodable(f"the plug-in gives {value}, which no column holds")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Undecodable("a lone surrogate in a string") from error
    return kind(value)
