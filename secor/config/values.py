"""Types of settings that TOML lacks: sizes, durations, expressions, servers, secrets, none."""

from __future__ import annotations

import re
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    SecretStr,
)
from pydantic_core import PydanticCustomError

from secor.core.expressions import compile_expression

MIB = 1 << 20
"""Bytes."""

UNITS_OF_SIZE = {
    "": 1,
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "tib": 1024**4,
}
UNITS_OF_TIME = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-zA-Z]*)")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d)\s*)+")
_DURATION_PART = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h|d)")
_SERVER = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+(?:%\w+)?\])(?::(?P<port>\d{1,5}))?")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def fault(message: str, key: str = "") -> PydanticCustomError:
    """Return the error of a validator; ``key`` is the key at fault below the section."""
    return PydanticCustomError("secor", "{message}", {"message": message, "key": key})


def parse_size(value: object) -> object:
    """Turn ``"64MiB"`` into bytes; kB is 1,000 and KiB 1,024.  Numbers are bytes."""
    if isinstance(value, bool):
        raise fault('not a size: write bytes as a number, or text such as "64MiB"')
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value.strip())
    unit = UNITS_OF_SIZE.get(match["unit"].lower()) if match else None
    if match is None or unit is None:
        raise fault(f'{value!r} is no size: write bytes, or text such as "64MiB", "1.5GiB", "10MB"')
    return int(float(match["number"]) * unit) if "." in match[0] else int(match["number"]) * unit


def parse_duration(value: object) -> object:
    """Turn ``"1h30m"`` into seconds.  Numbers are seconds."""
    if isinstance(value, bool):
        raise fault('not a duration: write seconds as a number, or text such as "5m"')
    if not isinstance(value, str):
        return value
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    if _DURATION.fullmatch(text) is None:
        raise fault(f'{value!r} is no duration: write seconds, or text such as "500ms", "1h30m"')
    return sum(
        float(part["number"]) * UNITS_OF_TIME[part["unit"]]
        for part in _DURATION_PART.finditer(text)
    )


def _check_expression(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise fault(f"{value!r} is no regular expression: {error}") from error
    return value


def _check_linear_expression(value: str) -> str:
    try:
        compile_expression(value)
    except ValueError as error:
        raise fault(
            f"{value!r} is no regular expression of RE2 ({error}): look-around and"
            " back-references, which may take forever on a value, are not supported"
        ) from error
    return value


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _split_servers(value: object) -> object:
    """Split at commas also within an array: "a:9092,b:9092" is copied from other tools."""
    if isinstance(value, list | tuple) and all(isinstance(server, str) for server in value):
        return tuple(part for server in value for part in _split(server))  # type: ignore[attr-defined]
    return _split(value)


def _check_servers(servers: tuple[str, ...]) -> tuple[str, ...]:
    for server in servers:
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match["port"] or 1) < 65536:
            # Not shown where it may hold a password.
            shown = "" if "@" in server else f"{server!r} is no server: "
            raise fault(f'{shown}write "host:port", without a protocol, user or path')
    return servers


def _check_url(value: str) -> str:
    try:
        url = urlsplit(value)
        usable = url.scheme in ("http", "https") and bool(url.hostname)
        usable = usable and (url.port is None or url.port > 0)
    except ValueError:
        usable = False
    if "@" in value:
        # Not shown: there may be a password in it.
        raise fault("no user and password in the address: there are settings of their own for them")
    if not usable:
        raise fault(f'{value!r} is no address: write it as "http://host:port" or "https://host"')
    return value


def _none_word(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


def _positive(value: float) -> float:
    if not 0 < value < float("inf"):
        raise fault("must be more than 0")
    return value


def _positive_size(value: int) -> int:
    if value <= 0:
        raise fault("must be more than 0")
    return value


Size = Annotated[int, AfterValidator(_positive_size), BeforeValidator(parse_size)]
"""Bytes, more than 0."""

Duration = Annotated[float, AfterValidator(_positive), BeforeValidator(parse_duration)]
"""Seconds, more than 0."""

Expression = Annotated[str, AfterValidator(_check_expression)]
LinearExpression = Annotated[str, AfterValidator(_check_linear_expression)]
"""For values of messages, which anybody may have written: RE2 takes linear time."""
"""A regular expression that compiles; it is always matched against the whole name."""

Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""An array of strings; a string is split at its commas."""

Servers = Annotated[
    tuple[str, ...], AfterValidator(_check_servers), BeforeValidator(_split_servers)
]
"""Addresses ``host:port``; commas split them wherever they stand."""

Url = Annotated[str, AfterValidator(_check_url)]
"""An address that begins with http: or https:, and has no user or password in it."""

Secret = Annotated[
    SecretStr, PlainSerializer(lambda secret: "**********" if secret else "", when_used="always")
]
"""Text that is never shown."""

T = TypeVar("T")
Maybe = Annotated[T | None, BeforeValidator(_none_word)]
"""A value that may be absent; the text ``none`` says so, too."""


class Section(BaseModel):
    """A table of the configuration: unknown keys are faults, nothing changes later."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _text(value: object) -> object:
    """Libraries want text: 5 and true are written without quotes all the same."""
    if not isinstance(value, dict):
        return value
    shown = {True: "true", False: "false"}
    return {
        name: shown[it] if isinstance(it, bool) else str(it) if isinstance(it, int | float) else it
        for name, it in value.items()
    }


Properties = Annotated[dict[str, str], BeforeValidator(_text)]
"""Names and values, given to a library as they are."""
