"""The shared part of databases that tables are compared with: a table, its snapshots, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from secor.core.errors import AccessDenied, ConfigurationError, SecorError, Unavailable
from secor.core.text import MASK
from secor.verify.source.values import SourceColumn, SourceName

CONNECT_SECONDS = 10
LOCK_SECONDS = 30
KEYS_TOGETHER = 500
"""Keys whose rows one statement reads."""

Chunk = Sequence[Sequence[str | None]]
Fail = Callable[[Exception], Exception]
"""Makes an error of ours of the driver's."""


class SourceTable:
    """One table of a database; used by one thread."""

    def __init__(self, connection: Any, name: SourceName, fail: Fail) -> None:
        """``connection`` commits by itself."""
        self._connection = connection
        self.name = name
        self._fail = fail
        self._columns: Sequence[SourceColumn] = ()
        self._key: Sequence[SourceColumn] = ()
        self._chunk_rows = 1

    def choose(
        self, columns: Sequence[SourceColumn], key: Sequence[SourceColumn], chunk_rows: int
    ) -> None:
        """Choose what snapshots read."""
        self._columns, self._key, self._chunk_rows = columns, key, chunk_rows


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """One state of a table, within a transaction; ``select`` has the chosen columns."""

    connection: Any
    position: int
    select: str
    key: Sequence[SourceColumn]
    chunk_rows: int


def keys_together(keys: Sequence[Sequence[str]]) -> Iterator[Sequence[Sequence[str]]]:
    """Give the keys, as many at a time as one statement takes."""
    for begin in range(0, len(keys), KEYS_TOGETHER):
        yield keys[begin : begin + KEYS_TOGETHER]


@contextmanager
def driver_errors(kind: type[Exception], fail: Fail) -> Iterator[None]:
    """Raise errors of ours for the driver's, without these: they may show what was sent."""
    try:
        yield
    except kind as error:
        raise fail(error) from None


def no_url(what: str, form: str) -> ConfigurationError:
    """Return the error of a URL that is none; it does not repeat the URL."""
    return ConfigurationError(f"--source: this is no URL of a {what}: write {form}")


def refuse_password(password: object, variable: str) -> None:
    """Raise ``ConfigurationError`` if a URL has a password."""
    if password:
        raise ConfigurationError(
            "--source: the URL has a password, which every user of this machine can see: take it"
            f" away, and set {variable}, or name another variable by --source-password"
        )


class DatabaseFault(Enum):
    """Kinds of a database's errors, by what a person does about them."""

    NO_TABLE = auto()
    DENIED = auto()
    LOCKED = auto()
    SLOW = auto()
    OTHER = auto()


def database_error(
    fault: DatabaseFault, where: str, why: str, password: str | None, note: str = ""
) -> SecorError:
    """Return the error of ours.

    ``note`` says of ``DENIED`` what to do, and of ``SLOW`` what happened.
    """
    if password:
        # Some of the server's messages repeat what it was given.
        why = why.replace(password, MASK)
    match fault:
        case DatabaseFault.NO_TABLE:
            return ConfigurationError(f"{where}: {why}: name the table by --source-table")
        case DatabaseFault.DENIED:
            return AccessDenied(f"{where}: {why}: {note}")
        case DatabaseFault.LOCKED:
            return Unavailable(
                f"{where}: somebody has locked the table for {LOCK_SECONDS} s: try again ({why})"
            )
        case DatabaseFault.SLOW:
            return Unavailable(
                f"{where}: {note}: give --source-timeout more seconds, or take a smaller"
                f" --chunk-rows ({why})"
            )
        case DatabaseFault.OTHER:
            return Unavailable(f"{where}: {why}")
