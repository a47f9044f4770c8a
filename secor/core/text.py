"""Text for people: numbers and times in sentences, and text without its secrets."""

from __future__ import annotations

import re
from datetime import UTC, datetime

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

    Whoever writes messages may give them any timestamp.
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
    """Tell whether a setting of this name holds a password or something like it."""
    return re.fullmatch(_SENSITIVE, name, re.I) is not None
