"""Reading of Java Secor's ``.properties`` files, as commons-configuration 1.x reads them.

That is not quite ``java.util.Properties``.  Values are split at commas; ``include`` reads
another file in place; and a name that is given again *adds* to the first value instead of
replacing it, so of several the first counts.  Only ``-D`` replaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from secor.core.errors import ConfigurationError

_INCLUDE = "include"
LINE = re.compile(r"((?:[^\s\\=:]|\\.)*)(?:\s*(?:\s+|[=:])\s*)(.*)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "b": "\b"}
_VARIABLE = re.compile(r"(?P<escaped>\$)?\$\{(?P<name>[^${}]*)\}")
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|(?P<char>.))", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place that gives a property: ``file:line`` or ``-D``, and the values split there."""

    place: str
    values: tuple[str, ...]


@dataclass(slots=True)
class Properties:
    """Properties by name, in the order of their first occurrences."""

    environment: Mapping[str, str] = field(default_factory=dict)
    occurrences: dict[str, list[Occurrence]] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    """Lines that Java Secor passes over, with their places."""

    def __contains__(self, name: str) -> bool:
        return name in self.occurrences

    def __iter__(self) -> Iterator[str]:
        return iter(self.occurrences)

    def text(self, name: str) -> str:
        """Return the value that counts, variables filled in; empty where there is none."""
        raw = self._first(name)
        return "" if raw is None else self.expand(raw, (name,))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all values that are not empty, variables filled in."""
        raw = [
            value for occurrence in self.occurrences.get(name, ()) for value in occurrence.values
        ]
        filled = (self.expand(value, (name,)).strip() for value in raw)
        return tuple(value for value in filled if value)

    def place(self, name: str) -> str:
        """Return the place of the value that counts."""
        return self.occurrences[name][0].place

    def without_effect(self) -> Iterator[tuple[str, Occurrence]]:
        """Yield later occurrences with another value, which never counted."""
        for name, (first, *others) in self.occurrences.items():
            yield from ((name, other) for other in others if other.values != first.values)

    def add(self, name: str, place: str, value: str) -> None:
        """Add what one line gives."""
        self.occurrences.setdefault(name, []).append(Occurrence(place, split(value)))

    def replace(self, name: str, value: str) -> None:
        """Set what ``-D`` gives; there nothing is unescaped but commas."""
        self.occurrences[name] = [Occurrence("-D", split(value))]

    def _first(self, name: str) -> str | None:
        occurrences = self.occurrences.get(name)
        return occurrences[0].values[0] if occurrences else None

    def expand(self, text: str, through: tuple[str, ...]) -> str:
        """Fill variables in; ``through`` are the properties on the way here."""

        def value_of(match: re.Match[str]) -> str:
            if match["escaped"]:
                return match[0][1:]
            value = self._variable(match["name"], through)
            return match[0] if value is None else value

        return _VARIABLE.sub(value_of, text)

    def _variable(self, name: str, through: tuple[str, ...]) -> str | None:
        kind, colon, rest = name.partition(":")
        if colon and kind == "env":
            return self.environment.get(rest)
        own = rest if colon and kind == "sys" else name
        raw = self._first(own)
        if raw is None:
            return None
        if own in through:
            chain = " -> ".join((*through, own))
            raise ConfigurationError(f"{self.place(own)}: ${{...}} goes round in circles: {chain}")
        return self.expand(raw, (*through, own))


def read(
    path: Path, overrides: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> Properties:
    """Read a file with all that it includes, and ``overrides`` over them.

    ``environment`` is for ``${env:NAME}``.  Raises ``ConfigurationError``.
    """
    properties = Properties(environment or {})
    _load(path, properties, ())
    for name, value in overrides.items():
        properties.replace(name, value)
    return properties


def _load(path: Path, properties: Properties, within: tuple[Path, ...]) -> None:
    if path.resolve() in within:
        raise ConfigurationError(f"{path} includes itself, by way of {within[-1]}")
    for number, line in lines(path, _read(path, within)):
        place = f"{path.name}:{number}"
        match = LINE.fullmatch(line)
        name = unescape(match[1]) if match else ""
        if match is None or not name:
            properties.ignored.append(f"{place}: {line}")
        elif name.lower() == _INCLUDE:
            for included in unescape(match[2].strip()).split(","):
                target = properties.expand(included.strip(), (_INCLUDE,))
                if target:
                    _load(path.parent / target, properties, (*within, path.resolve()))
        else:
            properties.add(name, place, unescape(match[2].strip()))


def _read(path: Path, within: tuple[Path, ...]) -> str:
    try:
        # Java reads these files as Latin-1, whatever the machine's language.
        return path.read_text(encoding="latin-1")
    except OSError as error:
        if not within:
            raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from error
        raise ConfigurationError(
            f"{path}, which {within[-1].name} includes, cannot be read ({error.strerror}): copy it"
            f" there; Java Secor may have it in its jar (unzip -p secor-*.jar {path.name})"
        ) from error


def lines(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yield the logical lines with their numbers: without comments and empty ones, and with
    those that end with a backslash joined with the next one.
    """
    joined, first_number = "", 0
    physical_lines = re.split(r"\r\n|\r|\n", text)
    if not physical_lines[-1]:
        del physical_lines[-1]
    for number, physical in enumerate(physical_lines, start=1):
        line = physical.strip()
        if line[:1] in ("#", "!") or (not line and not joined):
            continue
        first_number = first_number or number
        # An odd number: an even one is backslashes that are escaped.
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined += line[:-1]
            continue
        yield first_number, joined + line
        joined, first_number = "", 0
    if joined:
        raise ConfigurationError(
            f"{path}:{first_number}: the file ends in the middle of this line, and Java Secor drops"
            " it: take the backslash at its end away"
        )


def unescape(text: str) -> str:
    """Return text without Java's escapes; that of a comma stays, ``split`` takes it."""

    def character(match: re.Match[str]) -> str:
        if match["code"]:
            return chr(int(match["code"], 16))
        char = match["char"]
        return "\\," if char == "," else _ESCAPES.get(char, char)

    return _ESCAPE.sub(character, text)


def split(text: str) -> tuple[str, ...]:
    """Split a value at its commas, except those with a backslash in front.

    A comma at the very beginning splits nothing, as in Java.
    """
    if text.find(",") <= 0:
        return (text,)
    parts = re.split(r"(?<!\\)((?:\\\\)*),", text)
    joined = [
        parts[index] + (parts[index + 1] if index + 1 < len(parts) else "")
        for index in range(0, len(parts), 2)
    ]
    return tuple(re.sub(r"\\([\\,])", r"\1", part).strip() for part in joined)
