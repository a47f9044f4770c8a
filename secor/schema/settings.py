"""Checks of settings that several typed formats share."""

from __future__ import annotations

from collections.abc import Iterable

from secor.core.errors import ConfigurationError


def check(what: str, codec: str, codecs: Iterable[str], rows: int, setting: str) -> None:
    """Raise ``ConfigurationError`` for a codec that is not offered and for groups of no rows."""
    offered = list(codecs)
    if codec not in offered:
        raise ConfigurationError(f"{what} has no codec {codec!r}: use one of {', '.join(offered)}")
    if rows < 1:
        raise ConfigurationError(f"{what}: {setting} must be at least 1")
