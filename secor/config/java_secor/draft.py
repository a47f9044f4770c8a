"""What becomes of Java Secor's properties: settings of ours, and what is told of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from secor.config.environment import variable_name
from secor.config.java_secor.properties import Properties
from secor.config.show import toml_value

_TRUE = frozenset({"true", "on", "yes", "t", "y"})
_FALSE = frozenset({"false", "off", "no", "f", "n"})


class Fate(StrEnum):
    """What became of a property."""

    MAPPED = "mapped"
    UNNEEDED = "not needed"
    UNSUPPORTED = "not supported"
    UNKNOWN = "unknown"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Line:
    """A setting: its dotted key, its value, the properties it came from, a remark."""

    key: str
    value: object
    names: tuple[str, ...]
    note: str = ""


@dataclass(slots=True)
class Draft:
    """The configuration in the making; converters read ``given`` and tell what they did."""

    given: Properties
    lines: list[Line] = field(default_factory=list)
    rules: dict[str, list[Line]] = field(default_factory=dict)
    """Of ``[[topics]]``, by expression."""
    fates: dict[str, tuple[Fate, str]] = field(default_factory=dict)
    todos: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def value(self, name: str) -> str:
        """Return the value that counts, without blanks around; empty where there is none."""
        return self.given.text(name).strip()

    def number(self, name: str) -> int | None:
        """Return a whole number; a fault is noted where it is none."""
        text = self.value(name)
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            self.fault(name, f"{text!r} is no whole number")
            return None

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a truth, as commons-configuration reads it; a fault is noted otherwise."""
        text = self.value(name).lower()
        if text and text not in _TRUE | _FALSE:
            self.fault(name, f"{text!r} is neither true nor false")
        return text in _TRUE if text else default

    def family(self, prefix: str) -> Iterator[tuple[str, str, str]]:
        """Give the properties ``<prefix>.<topic>`` that have a value: name, topic, value."""
        for name in self.given:
            if name.startswith(f"{prefix}.") and self.value(name):
                yield name, name.removeprefix(f"{prefix}."), self.value(name)

    def set(self, key: str, value: object, *names: str, note: str = "") -> None:
        """Set ``key``; ``names`` are the properties that say so, those not given left out."""
        self.lines.append(Line(key, value, self._said(names, key, value), note))

    def rule(self, match: str, key: str, value: object, *names: str, note: str = "") -> None:
        """Set ``key`` for the topics whose names ``match``."""
        said = self._said(names, f"{key} for topics {match}", value)
        self.rules.setdefault(match, []).append(Line(key, value, said, note))

    def secret(self, key: str, name: str, what: str = "the value of") -> None:
        """Have the environment give ``key``: secrets are not copied into the file."""
        variable = variable_name(tuple(key.split(".")))
        self.fates[name] = (Fate.MAPPED, f"{variable}, in the environment")
        self.todos.append(f"put {what} {name} into the environment as {variable}")

    def unsupported(self, name: str, why: str) -> None:
        """Tell that a property has no counterpart, and what to do instead."""
        if name in self.given and self.value(name):
            self.fates[name] = (Fate.UNSUPPORTED, why)

    def unneeded(self, why: str, *names: str) -> None:
        """Tell that properties need no counterpart; what was told before stays."""
        for name in names:
            if name in self.given and self.value(name):
                self.fates.setdefault(name, (Fate.UNNEEDED, why))

    def todo(self, sentence: str) -> None:
        """Tell what a person still has to do."""
        self.todos.append(sentence)

    def fault(self, name: str, why: str) -> None:
        """Tell what makes a configuration impossible."""
        where = f" ({self.given.place(name)})" if name in self.given else ""
        self.faults.append(f"{name}{where}: {why}")

    def has(self, key: str) -> bool:
        """Tell whether ``key`` is set already."""
        return any(line.key == key for line in self.lines)

    def _said(self, names: tuple[str, ...], key: str, value: object) -> tuple[str, ...]:
        given = tuple(name for name in names if name in self.given)
        for name in given:
            before = self.fates.get(name)
            also = f"{before[1]}; " if before and before[0] is Fate.MAPPED else ""
            self.fates[name] = (Fate.MAPPED, f"{also}{key} = {toml_value(value)}")
        return given
