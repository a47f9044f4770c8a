"""The options of a read of the archive: Spark's option texts, checked and parsed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from secor.archive.erasures import Secret
from secor.core.errors import ConfigurationError
from secor.core.text import is_secret_name
from secor.spark.columns import COLUMNS, DEFAULT, check_columns

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers from ``start`` on and below ``end``; None is no bound."""

    start: int | None = None
    end: int | None = None

    @property
    def bounded(self) -> bool:
        """Return whether it leaves anything out."""
        return self.start is not None or self.end is not None

    def misses(self, least: int, greatest: int) -> bool:
        """Return whether nothing from ``least`` to ``greatest`` is in it."""
        below = self.start is not None and greatest < self.start
        return below or (self.end is not None and least >= self.end)

    def covers(self, least: int, greatest: int) -> bool:
        """Return whether all from ``least`` to ``greatest`` is in it."""
        reaches = self.start is None or self.start <= least
        return reaches and (self.end is None or greatest < self.end)


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of messages: names and globs (all when empty), offsets, milliseconds."""

    topics: tuple[str, ...] = ()
    partitions: frozenset[int] | None = None
    generations: frozenset[int] | None = None
    output_partitions: tuple[str, ...] = ()
    offsets: Span = Span()
    timestamps: Span = Span()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All options of a read; ``split_size`` in bytes, ``connection`` as its store takes it.

    ``secret`` is that of the lists of erased keys.
    """

    path: str
    prefix: str = ""
    hashed: bool = False
    selection: Selection = Selection()
    columns: tuple[str, ...] = DEFAULT
    skip_corrupt: bool = False
    split_size: int = 64 << 20
    min_partitions: int = 8
    delimiter: bytes = b"\n"
    new_objects_only: bool = False
    only_committed: bool = False
    secret: Secret | None = None
    connection: Mapping[str, Any] = field(default_factory=dict, repr=False)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return text.lower() == "true"


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None or not int(match[1]):
        raise ValueError('write bytes, or a size such as "64MiB"')
    return int(match[1]) * _UNITS[match[2].lower()]


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError("write a number of at least 1")
    return int(text)


def _offset(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("write an offset: a number of at least 0")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("write one name or glob, or several with commas between them")
    return names


def _numbers(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in _names(text):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError('write numbers and ranges, such as "0,2-5"')
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{part} ends before it begins")
        numbers |= set(range(first, last + 1))
    return frozenset(numbers)


def _instant(text: str) -> int:
    """Read milliseconds, or ISO 8601, which is UTC where it names no zone."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            'write milliseconds since 1970, or a time such as "2026-11-21T06:00:00Z"'
        ) from None
    # Not the machine's zone: driver and executors may be in different ones.
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    # In whole numbers: a float of microseconds since 1970 rounds, and a bound would be off by one.
    since = parsed - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def _choice(first: str, second: str) -> Callable[[str], bool]:
    def chosen(text: str) -> bool:
        if text.lower() not in (first, second):
            raise ValueError(f"write {first} or {second}")
        return text.lower() == second

    return chosen


def _columns(text: str) -> tuple[str, ...]:
    names = _names(text)
    return check_columns([(name, COLUMNS[name][0] if name in COLUMNS else "") for name in names])


def _secret(text: str) -> Secret:
    if not text:
        raise ValueError("write the group's erase.secret")
    return Secret(text.encode())


def _delimiter(text: str) -> bytes:
    if not text:
        raise ValueError("write at least one character")
    return text.encode()


_SELECTION: Mapping[str, Callable[[str], Any]] = {
    "topics": _names,
    "partitions": _numbers,
    "generations": _numbers,
    "outputPartitions": _names,
    "startingOffset": _offset,
    "endingOffset": _offset,
    "startingTimestamp": _instant,
    "endingTimestamp": _instant,
}
_READING: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "prefix": ("prefix", str),
    "hashPrefix": ("hashed", _flag),
    "columns": ("columns", _columns),
    "corruptObjects": ("skip_corrupt", _choice("fail", "skip")),
    "splitSize": ("split_size", _size),
    "minPartitions": ("min_partitions", _count),
    "textDelimiter": ("delimiter", _delimiter),
    "startingObjects": ("new_objects_only", _choice("all", "new")),
    "onlyCommitted": ("only_committed", _flag),
    "eraseSecret": ("secret", _secret),
}
_CONNECTION: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "endpoint": ("endpoint_url", str),
    "region": ("region", str),
    "accessKey": ("access_key", str),
    "secretKey": ("secret_key", str),
    "sessionToken": ("session_token", str),
    "profile": ("profile", str),
    "roleArn": ("role_arn", str),
    "externalId": ("external_id", str),
    "pathStyle": ("path_style", _flag),
    "verifyTls": ("verify_tls", _flag),
    "caBundle": ("ca_bundle", str),
    "serviceAccount": ("service_account", str),
    "accountKey": ("account_key", str),
    "sasToken": ("sas_token", str),
}
_OF_ALL_STORES = frozenset({"endpoint_url", "verify_tls", "ca_bundle"})
GCS_OPTIONS = _OF_ALL_STORES | {"service_account"}
AZURE_OPTIONS = _OF_ALL_STORES | {"account_key", "sas_token"}
S3_OPTIONS = frozenset(
    {name for name, _ in _CONNECTION.values()} - {"service_account", "account_key", "sas_token"}
)
"""Which of these each kind of store takes."""

NAMES = ("path", *_SELECTION, *_READING, *_CONNECTION)
"""Every option, as it is documented; Spark does not look at case."""


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """Check the options of a read.  Raises ``ConfigurationError`` naming the option."""
    texts = _canonical(given)
    if not texts.get("path"):
        raise ConfigurationError(
            'no path: .load("s3://bucket/prefix"), the directory that holds the topics'
        )
    asked = {name: _parse(name, texts, parse) for name, parse in _SELECTION.items()}
    chosen = {known: _parse(name, texts, parse) for name, (known, parse) in _READING.items()}
    server = {known: _parse(name, texts, parse) for name, (known, parse) in _CONNECTION.items()}
    selection = Selection(
        topics=asked["topics"] or (),
        partitions=asked["partitions"],
        generations=asked["generations"],
        output_partitions=asked["outputPartitions"] or (),
        offsets=_span(asked["startingOffset"], asked["endingOffset"], "Offset"),
        timestamps=_span(asked["startingTimestamp"], asked["endingTimestamp"], "Timestamp"),
    )
    return ReadOptions(
        path=texts["path"],
        selection=selection,
        connection={name: value for name, value in server.items() if value is not None},
        **{name: value for name, value in chosen.items() if value is not None},
    )


def with_columns(options: ReadOptions, columns: tuple[str, ...]) -> ReadOptions:
    """Return the options of a read of just these columns."""
    return replace(options, columns=columns)


def as_text(value: object) -> str:
    """Return an option's value as Spark would hold it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple | set | frozenset | range):
        return ",".join(str(item) for item in value)
    return str(value)


def _canonical(given: Mapping[str, str]) -> dict[str, str]:
    names = {name.lower(): name for name in NAMES}
    texts = {}
    for name, text in given.items():
        # Spark's name for what load() gets as a list.
        if name.lower() == "paths":
            raise ConfigurationError("one path at a time: union() the DataFrames of several")
        if name.lower() not in names:
            near = get_close_matches(name.lower(), names, 1)
            hint = f"did you mean {names[near[0]]}?" if near else f"known are {', '.join(NAMES)}"
            raise ConfigurationError(f"there is no option {name!r}: {hint}")
        texts[names[name.lower()]] = text
    return texts


def _parse(name: str, texts: Mapping[str, str], parse: Callable[[str], Any]) -> Any:
    if name not in texts:
        return None
    try:
        return parse(texts[name])
    except ValueError as error:
        # Errors of the driver are in logs and in notebooks: no secret belongs there.
        shown = "" if is_secret_name(name) or name == "accountKey" else f" {texts[name]!r}"
        raise ConfigurationError(f"option {name}{shown}: {error}") from error


def _span(start: int | None, end: int | None, what: str) -> Span:
    if start is not None and end is not None and end < start:
        raise ConfigurationError(f"ending{what} {end} is below starting{what} {start}")
    return Span(start, end)
