"""Files of keys, or of values of a field, that are to be erased: one a line."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from secor.archive.rewrite.field_search import FieldSearch
from secor.config.load import load
from secor.core.errors import ConfigurationError

Command = Callable[..., Any]


def lines_option(name: str, help: str) -> Callable[[Command], Command]:
    """Return the option of a file with one value a line, such as ``--values``."""
    return click.option(
        name,
        f"{name.removeprefix('--')}_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"{help}, one a line.  - is standard input.",
    )


def encoding_option(text: str) -> Callable[[Command], Command]:
    """Return the option of the lines' encoding; ``text`` says what a line is by default."""
    return click.option(
        "--format",
        "encoding",
        type=click.Choice(["text", "base64"]),
        default="text",
        show_default=True,
        help=f"What a line is: {text}, or its bytes in base64.",
    )


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys, each with what to call it: keys themselves are printed nowhere."""

    all: Mapping[bytes | None, str]

    @classmethod
    def read(cls, file: Path | None, encoding: str, *, null_key: bool, empty_key: bool) -> Keys:
        """Read the file.  Raises ``ConfigurationError`` with the line that is wrong."""
        keys: dict[bytes | None, str] = {}
        for number, line in enumerate(lines_of(file), 1):
            keys.setdefault(
                value_of(line, encoding, f"{file}, line {number}", EMPTY_KEYS), f"line {number}"
            )
        if null_key:
            keys[None] = "--null-key"
        if empty_key:
            keys[b""] = "--empty-key"
        if not keys:
            raise ConfigurationError("there are no keys: give --keys FILE with one key a line")
        return cls(keys)


def lines_of(file: Path | None) -> list[bytes]:
    """Return the lines of a file of values; none without a file.

    Raises ``ConfigurationError`` where it cannot be read.
    """
    if file is None:
        return []
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read ({error.strerror})") from error
    return data.removesuffix(b"\n").split(b"\n") if data else []


EMPTY_KEYS = "for messages with an empty key say --empty-key, for those without a key --null-key"


def value_of(line: bytes, encoding: str, where: str, empty: str) -> bytes:
    """Return the value of a line.

    Raises ``ConfigurationError`` for one that is wrong; ``empty`` says what to do about no value.
    """
    if not line:
        raise ConfigurationError(f"{where}: is empty; {empty}")
    if encoding == "base64":
        try:
            return base64.b64decode(line.removesuffix(b"\r"), validate=True)
        except binascii.Error as error:
            raise ConfigurationError(f"{where}: is no base64 ({error})") from error
    if line.endswith(b"\r"):
        raise ConfigurationError(
            f"{where}: ends with a carriage return: take it away, or, if it is of the key, give"
            " the keys with --format base64"
        )
    return line


def search_of(field: str, values_file: Path | None, parser: Path | None, topic: str) -> FieldSearch:
    """Return what finds messages by the values in a file, which are compared as text.

    ``parser`` is the configuration of a group whose parser reads the topic.  Raises
    ``ConfigurationError``.
    """
    from secor.wiring.parsers import decoder_of

    if parser is None:
        raise ConfigurationError(
            "--field needs --parser CONFIG: the configuration of a partition or table group, whose"
            " parser reads the messages"
        )
    values = {
        value_of(line, "text", f"{values_file}, line {number}", "give one value a line").decode(
            errors="backslashreplace"
        )
        for number, line in enumerate(lines_of(values_file), 1)
    }
    if not values:
        raise ConfigurationError("there are no values: give --values FILE with one a line")
    settings = load(parser, {}).for_topic(topic).parser
    if settings.decoder == "none":
        raise ConfigurationError(f"{parser}: has no parser.decoder for {topic}")
    return FieldSearch(decoder_of(settings), field, frozenset(values))
