"""Time patterns (ISO-8601, strptime, Java's SimpleDateFormat) as regular expressions.

The groups of the expressions:  Y year, y year of the century, m month, b month's name,
d day, j day of the year, H hour, I hour of 12, p AM or PM, M minute, S second, f fraction,
z offset from UTC, u the word UTC or GMT.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from secor.core.errors import ConfigurationError

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    "sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_WEEKDAY = "(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
_OFFSET = r"Z|[+-]\d\d(?::?\d\d)?"
_UTC = "UTC|GMT|Z"

ISO_8601 = re.compile(
    r"(?P<Y>\d{4})-?(?P<m>\d\d)-?(?P<d>\d\d)"
    r"(?:[T ](?P<H>\d\d)(?::?(?P<M>\d\d)(?::?(?P<S>\d\d)(?:[.,](?P<f>\d{1,9})\d*)?)?)?"
    rf"(?: ?(?P<z>{_OFFSET}))?)?",
    re.IGNORECASE | re.ASCII,
)
"""Dates, and dates with times; more than nine digits of a fraction are cut off."""

_STRPTIME = {
    "Y": r"(?P<Y>\d{4})",
    "y": r"(?P<y>\d\d)",
    "m": r"(?P<m>\d\d?)",
    "b": f"(?P<b>{_MONTH})",
    "B": f"(?P<b>{_MONTH})",
    "d": r"(?P<d>\d\d?)",
    "j": r"(?P<j>\d{1,3})",
    "H": r"(?P<H>\d\d?)",
    "I": r"(?P<I>\d\d?)",
    "p": "(?P<p>[AP]M)",
    "M": r"(?P<M>\d\d?)",
    "S": r"(?P<S>\d\d?)",
    "f": r"(?P<f>\d{1,9})",
    "z": f"(?P<z>{_OFFSET})",
    "Z": f"(?P<u>{_UTC})",
    "a": _WEEKDAY,
    "A": _WEEKDAY,
    "%": "%",
}
_SHORT = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y"}

_JAVA = {"y": "Y", "u": "Y", "d": "d", "D": "j", "H": "H", "h": "I", "m": "M", "s": "S"}
_NUMBERS = frozenset([*_JAVA, "S"])
_JAVA_OFFSETS = "ZXx"
_JAVA_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>.)")


def expression_of(pattern: str) -> re.Pattern[str]:
    """Compile a pattern: strptime's where it has a ``%``, Java's otherwise.

    Raises ``ConfigurationError`` that names what is not supported or missing.
    """
    pieces = list(_strptime(pattern) if "%" in pattern else _java(pattern))
    names = [name for piece in pieces for name in re.findall(r"\?P<(\w)>", piece)]
    for name in names:
        if names.count(name) > 1:
            raise _fault(pattern, f"it names the same part of a time twice ({name})")
    if "Y" not in names and "y" not in names:
        raise _fault(pattern, "it has no year, and a year must not be guessed")
    if "d" in names and not {"m", "b"} & set(names):
        raise _fault(pattern, "it has a day without a month")
    if ("I" in names) != ("p" in names):
        raise _fault(pattern, "hours of 12 and AM or PM go together")
    return re.compile("".join(pieces), re.IGNORECASE | re.ASCII)


def _fault(pattern: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"time pattern {pattern!r}: {why}")


def _literal(text: str, pattern: str) -> str:
    if re.search(r"\d", text):
        raise _fault(pattern, f"digits of its own ({text!r}) are not supported")
    return re.escape(text)


def _strptime(pattern: str) -> Iterator[str]:
    for short, long in _SHORT.items():
        pattern = pattern.replace("%" + short, long)
    for token in re.findall(r"%.?|[^%]+", pattern, re.DOTALL):
        if not token.startswith("%"):
            yield _literal(token, pattern)
        elif token[1:] in _STRPTIME:
            yield _STRPTIME[token[1:]]
        else:
            known = ", ".join(f"%{letter}" for letter in _STRPTIME)
            raise _fault(pattern, f"{token!r} is not supported; these are: {known}")


def _java(pattern: str) -> Iterator[str]:
    tokens = list(_JAVA_TOKEN.finditer(pattern))
    if "".join(token[0] for token in tokens) != pattern:
        raise _fault(pattern, "it cannot be read; is a quote missing?")
    for index, token in enumerate(tokens):
        if token["quoted"] is not None:
            yield _literal(token["quoted"].replace("''", "'") or "'", pattern)
        elif token["other"] == "'":
            raise _fault(pattern, "a quote is not closed")
        elif token["other"] is not None:
            yield _literal(token["other"], pattern)
        else:
            neighbours = [
                neighbour["letters"]
                for neighbour in (
                    *tokens[max(index - 1, 0) : index],
                    *tokens[index + 1 : index + 2],
                )
            ]
            yield _java_letters(token["letters"], any(map(_is_number, neighbours)), pattern)


def _is_number(letters: str | None) -> bool:
    return letters is not None and (letters[0] in _NUMBERS or letters in ("M", "MM", "L", "LL"))


def _java_letters(letters: str, touches_number: bool, pattern: str) -> str:
    """Return the expression of a run of one letter, as SimpleDateFormat reads it.

    The number of letters is that of digits, but only where the run ``touches_number``.
    https://docs.oracle.com/javase/8/docs/api/java/text/SimpleDateFormat.html
    """
    letter, count = letters[0], len(letters)
    if letter in "yu" and count == 2:
        return _STRPTIME["y"]
    if letter in "yu":
        return _STRPTIME["Y"]
    if letter in "ML":
        name = "b" if count > 2 else "m"
        return _STRPTIME["b"] if name == "b" else _digits("m", count, touches_number)
    if letter in _JAVA:
        return _digits(_JAVA[letter], count, touches_number)
    if letter == "S":
        return r"(?P<f>\d{1,9})" if count == 1 else rf"(?P<f>\d{{{min(count, 9)}}})"
    if letter in _JAVA_OFFSETS:
        return _STRPTIME["z"]
    if letter in "aEz":
        return _STRPTIME[{"a": "p", "E": "a", "z": "Z"}[letter]]
    known = ", ".join([*"yuML", *"dDHhms", *"SaEz", *_JAVA_OFFSETS])
    raise _fault(
        pattern,
        f"the letter {letter!r} is not supported; these are: {known}; or write one of auto, s, ms, "
        "us, ns, iso8601, or a pattern with % as in %Y-%m-%d",
    )


def _digits(name: str, count: int, touches_number: bool) -> str:
    most = 3 if name == "j" else 2
    width = f"{{{count}}}" if count > most or (touches_number and count > 1) else f"{{1,{most}}}"
    return rf"(?P<{name}>\d{width})"
