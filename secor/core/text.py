"""Text for people: numbers and times in sentences, and text without its secrets."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any


def load_json(text: str | bytes) -> Any:
    """Return the value.  Raises ``ValueError``, also where it is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deep") from error


MASK = "**********"

_SENSITIVE = r"[\w.-]*(?:passw(?:or)?d|secret|token|credential|api[_-]?key|access[_-]?key)[\w.-]*"

_USER_OF_URL = re.compile(r"(?P<shown>\b\w[\w+.-]*://)[^\s\"']*(?=@)")
"""The password of a URL may hold "/" and "@", so all up to the last "@" is hidden."""

_SECRETS = (
    _USER_OF_URL,
    re.compile(rf"(?P<shown>\b{_SENSITIVE}\s*[=:]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s\"']+)", re.I),
    re.compile(rf"(?P<shown>(?<!\S)--?{_SENSITIVE}\s+)(?:\"[^\"]*\"|'[^']*'|\S+)", re.I),
    re.compile(r"(?P<shown>\bauthorization\s*:\s*)[^\"']+", re.I),
    re.compile(r"(?P<shown>(?<!\S)(?:-u|--user)(?:\s+|=)?[^\s:]*:)\S+"),
)


def how_many(number: int, singular: str, many: str | None = None) -> str:
    """Return ``1 message`` or ``2,000 messages``; ``many`` where no ``s`` at the end makes it."""
    return f"{number:,} {singular if number == 1 else many or f'{singular}s'}"


def iso_time(seconds: float) -> str:
    """Return seconds since the epoch in ISO 8601; plain text for what no calendar has.

    A producer may give a message any timestamp.
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} seconds since 1970"


def waiting_text(offsets: int) -> str:
    """Return how many offsets wait behind an open transaction."""
    waiting = how_many(offsets, "offset waits", "offsets wait")
    return f"{waiting} behind an open transaction: see secor progress"


def withheld_text(offsets: int) -> str:
    """Return the end of a sentence about committed messages: how many are not committed yet."""
    return f"; {waiting_text(offsets)}" if offsets else ""


def safe_name(text: str) -> str:
    """Return text as every catalog takes it in a name: letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9_]", "_", text)


ESCAPE = re.compile(r"[^A-Za-z0-9_]|_(?=x(?:[0-9A-F]{4}|[0-9A-F]{6})(?:[^A-Za-z0-9]|$))")
"""An underscore too, if what follows the digits is one, becomes one, or is left to a template."""


_NO_LETTER = re.compile(r"[^A-Za-z0-9]")
_REST_OF_ESCAPE = re.compile(r"x(?:[0-9A-F]{4}|[0-9A-F]{6})(?:_|$)")


def escaped_name(text: str) -> str:
    """Return text as ``safe_name`` does, but so that different texts have different names.

    Letters, digits and underscores stay.  Another character is ``_x`` and its code point in four
    or six hexadecimal digits and ``_``, as in SQL/XML (ISO 9075-14): ``a.b`` is ``a_x002E_b``.
    So is an underscore that would begin such a thing.
    """
    return ESCAPE.sub(_escape, text)


def joined_name(text: str, *, follows: bool, is_followed: bool) -> str:
    """Return text as ``escaped_name`` does, for a name of several texts with underscores between.

    The first underscore that is no escape is the one behind the first text: those of a text that
    ``is_followed`` by another are escaped, and so is an ``x`` that would make an escape of the
    underscore that it ``follows``.
    """
    name = _NO_LETTER.sub(_escape, text) if is_followed else escaped_name(text)
    rest = _REST_OF_ESCAPE.match(name)
    if follows and rest is not None and (is_followed or rest[0].endswith("_")):
        return f"_x{ord('x'):04X}_{name[1:]}"
    return name


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"_x{code:04X}_" if code < 0x10000 else f"_x{code:06X}_"


def unescaped_name(name: str) -> str:
    """Return the text that ``escaped_name`` made into a name."""
    return re.sub(r"_x([0-9A-F]{6}|[0-9A-F]{4})_", lambda match: chr(int(match[1], 16)), name)


def replaced_name(name: str) -> str:
    """Return the name that ``safe_name`` would have made where ``escaped_name`` made ``name``."""
    return re.sub(r"_x(?:[0-9A-F]{6}|[0-9A-F]{4})_", "_", name)


def mask_urls(text: str) -> str:
    """Return text with the user and password of its URLs masked."""
    return _USER_OF_URL.sub(rf"\g<shown>{MASK}", text)


def error_text(error: BaseException) -> str:
    """Return the class, the text and, where there is no text, the cause of a library's error.

    Some are raised without a text, or with ``None`` for one; kafka-python repeats the class in
    the text.  User and password of URLs are masked.
    """
    name = type(error).__name__
    text = str(error).strip()
    text = text.rpartition(f"{name}: ")[2] if f"{name}: " in text else text
    if text not in ("", "None", "()") and not text.endswith(name):
        return mask_urls(f"{name}: {text}")
    description = getattr(error, "description", None)
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if description:
        return f"{name}: {description}"
    return name if cause is None else f"{name}, because of {error_text(cause)}"


def mask_command(text: str) -> str:
    """Return a command line, or what it printed, with what looks like a password masked.

    Hidden are the user information of URLs, values after names such as ``password=`` and
    ``--api-token``, ``Authorization:`` headers, and the password of ``-u user:password``.
    """
    for pattern in _SECRETS:
        text = pattern.sub(rf"\g<shown>{MASK}", text)
    return text


def is_secret_name(name: str) -> bool:
    """Return whether a setting of this name holds a password or something like it."""
    return re.fullmatch(_SENSITIVE, name, re.I) is not None
