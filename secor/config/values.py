"""Types of settings that TOML lacks: sizes, durations, expressions, servers, secrets, none."""

from __future__ import annotations

import json
import re
from math import isfinite
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
_NAME = re.compile("[A-Za-z0-9._-]*")
_A_SIZE = 'write bytes, or text such as "64MiB", "1.5GiB", "10MB"'
_A_DURATION = 'write seconds, or text such as "500ms", "1h30m"'


def fault(message: str, key: str = "") -> PydanticCustomError:
    """Return the error of a validator; ``key`` is the key at fault below the section."""
    return PydanticCustomError("secor", "{message}", {"message": message, "key": key})


def parse_size(value: object) -> object:
    """Turn ``"64MiB"`` into bytes; kB is 1,000 and KiB 1,024.  Numbers are bytes."""
    if isinstance(value, bool):
        raise fault('not a size: write bytes as a number, or text such as "64MiB"')
    if isinstance(value, float):
        raise fault(f"{value} is no size: {_A_SIZE}")
    if isinstance(value, int):
        return value
    if not isinstance(value, str):
        raise fault(f"not a size: {_A_SIZE}")
    match = _SIZE.fullmatch(value.strip())
    unit = UNITS_OF_SIZE.get(match["unit"].lower()) if match else None
    if match is None or unit is None:
        raise fault(f"{value!r} is no size: {_A_SIZE}")
    return int(float(match["number"]) * unit) if "." in match[0] else int(match["number"]) * unit


def parse_duration(value: object) -> object:
    """Turn ``"1h30m"`` into seconds.  Numbers are seconds."""
    if isinstance(value, bool):
        raise fault('not a duration: write seconds as a number, or text such as "5m"')
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str):
        raise fault(f"not a duration: {_A_DURATION}")
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    if _DURATION.fullmatch(text) is None:
        raise fault(f"{value!r} is no duration: {_A_DURATION}")
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
    if not isinstance(value, list | tuple):
        return _split(value)
    split: list[object] = []
    for server in value:
        parts = _split(server)
        split += parts if isinstance(parts, tuple) and parts else [server]
    return tuple(split)


def _check_server(server: object, port: int, *, needs_port: bool) -> None:
    match = _SERVER.fullmatch(server) if isinstance(server, str) else None
    if match is None or not 0 < int(match["port"] or 1) < 65536:
        # Not shown where it may hold a password.
        shown = "" if "@" in str(server) else f"{server!r} is no server: "
        raise fault(
            f'{shown}write "host:{port}", or "[::1]:{port}" for an IPv6 address, without a'
            " protocol, user or path"
        )
    if needs_port and match["port"] is None:
        raise fault(f'{server!r} has no port: write "{server}:{port}", if that is its port')


def _servers(port: int, *, needs_port: bool) -> BeforeValidator:
    def check(value: object) -> object:
        servers = _split_servers(value)
        for server in servers if isinstance(servers, tuple) else ():
            _check_server(server, port, needs_port=needs_port)
        return servers

    return BeforeValidator(check)


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
    if not isfinite(value):
        raise fault(f"must be finite; it is {value:g}")
    if value <= 0:
        raise fault(f"must be more than 0; it is {value:g}")
    return value


def _positive_size(value: int) -> int:
    if value <= 0:
        raise fault(f"must be more than 0; it is {value}")
    return value


def _check_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise fault(f'may have letters, digits, ".", "_" and "-" only; it is {json.dumps(value)}')
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

BrokerServers = Annotated[tuple[str, ...], _servers(9092, needs_port=True)]
"""Addresses ``host:port``; commas split them everywhere."""

ZooKeeperServers = Annotated[tuple[str, ...], _servers(2181, needs_port=False)]
"""Addresses ``host:port``, or ``host`` where the port is ZooKeeper's usual one, 2181."""

Name = Annotated[str, AfterValidator(_check_name)]
"""A name as Kafka takes it for topics and groups."""

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
        name: shown[item]
        if isinstance(item, bool)
        else str(item)
        if isinstance(item, int | float)
        else item
        for name, item in value.items()
    }


Properties = Annotated[dict[str, str], BeforeValidator(_text)]
"""Names and values, given to a library as they are."""
