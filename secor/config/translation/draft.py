"""The configuration that an import makes of another program's settings, and what became of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from secor.config.environment import variable_name
from secor.config.show import toml_value
from secor.config.translation.properties import Properties

_TRUE = frozenset({"true", "on", "yes", "t", "y"})
_FALSE = frozenset({"false", "off", "no", "f", "n"})


class PropertyOutcome(StrEnum):
    """Outcomes of translating a property."""

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
    """The configuration in the making: converters read properties and record what they did."""

    properties: Properties
    lines: list[Line] = field(default_factory=list)
    rules: dict[str, list[Line]] = field(default_factory=dict)
    """Lines of ``[[topics]]``, by expression."""
    tables: list[list[Line]] = field(default_factory=list)
    """Lines of each ``[[tables]]``."""
    outcomes: dict[str, tuple[PropertyOutcome, str]] = field(default_factory=dict)
    todos: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def value(self, name: str) -> str:
        """Return the effective value without surrounding blanks; empty where there is none."""
        return self.properties.text(name).strip()

    def number(self, name: str) -> int | None:
        """Return a whole number, or None.  A value that is no number is a fault."""
        text = self.value(name)
        try:
            return int(text) if text else None
        except ValueError:
            self.fault(name, f"{text!r} is no whole number")
            return None

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a truth as commons-configuration reads it.  Other values are faults."""
        text = self.value(name).lower()
        if text and text not in _TRUE | _FALSE:
            self.fault(name, f"{text!r} is neither true nor false")
        return text in _TRUE if text else default

    def of_topics(self, prefix: str) -> Iterator[tuple[str, str, str]]:
        """Yield the properties ``<prefix>.<topic>`` that have a value: name, topic, value."""
        for name in self.properties:
            if name.startswith(f"{prefix}.") and self.value(name):
                yield name, name.removeprefix(f"{prefix}."), self.value(name)

    def set(self, key: str, value: object, *names: str, note: str = "") -> None:
        """Set ``key``; ``names`` are the properties that say so, those not given left out."""
        self.lines.append(Line(key, value, self.mark_mapped(names, key, value), note))

    def copy(self, key: str, name: str, value: str | None = None) -> None:
        """Set ``key`` to ``value``, else the property's own, if the property has one."""
        if text := self.value(name):
            self.set(key, text if value is None else value, name)

    def copy_number(
        self, key: str, name: str, unit: str = "", *, note: str = "", zero: bool = True
    ) -> None:
        """Set ``key`` to a whole number, a duration with a ``unit``; without ``zero`` not to 0."""
        number = self.number(name)
        if number or (zero and number is not None):
            self.set(key, f"{number}{unit}" if unit else number, name, note=note)

    def set_for(self, topic: str, key: str, value: object, name: str) -> None:
        """Set ``key`` for a topic, or for all of them: ``*``."""
        if topic == "*":
            self.set(key, value, name)
        else:
            self.rule(re.escape(topic), key, value, name)

    def rule(self, match: str, key: str, value: object, *names: str) -> None:
        """Set ``key`` for the topics with names that ``match``."""
        used = self.mark_mapped(names, f"{key} for topics {match}", value)
        self.rules.setdefault(match, []).append(Line(key, value, used))

    def secret(self, key: str, name: str, what: str = "the value of") -> None:
        """Leave ``key``, if the property has a value, to the environment: it is a secret."""
        if self.value(name):
            variable = variable_name(tuple(key.split(".")))
            self.outcomes[name] = (PropertyOutcome.MAPPED, f"{variable}, in the environment")
            self.todos.append(f"put {what} {name} into the environment as {variable}")

    def unsupported(self, why: str, *names: str) -> None:
        """Record that properties have no counterpart; ``why`` also says what to do instead."""
        for name in names:
            if self.value(name):
                self.outcomes[name] = (PropertyOutcome.UNSUPPORTED, why)

    def unneeded(self, why: str, *names: str) -> None:
        """Record that properties need no counterpart; an earlier outcome stays."""
        for name in names:
            if self.value(name):
                self.outcomes.setdefault(name, (PropertyOutcome.UNNEEDED, why))

    def todo(self, sentence: str) -> None:
        """Record what a person still has to do."""
        self.todos.append(sentence)

    def fault(self, name: str, why: str) -> None:
        """Record what makes a configuration impossible."""
        where = f" ({self.properties.place(name)})" if name in self.properties else ""
        self.faults.append(f"{name}{where}: {why}")

    def mark_mapped(self, names: tuple[str, ...], key: str, value: object) -> tuple[str, ...]:
        """Record that ``key`` has ``value`` because of ``names``; return those that are given."""
        given = tuple(name for name in names if name in self.properties)
        text = f"{key} = {toml_value(value)}"
        for name in given:
            outcome, before = self.outcomes.get(name, (None, ""))
            texts = before.split("; ") if outcome is PropertyOutcome.MAPPED else []
            self.outcomes[name] = (PropertyOutcome.MAPPED, "; ".join(dict.fromkeys([*texts, text])))
        return given


_JAAS = re.compile(r"""(?P<key>\w+)\s*=\s*(?:"(?P<quoted>[^"]*)"|(?P<plain>[^\s;"]+))""")


def copy_jaas(draft: Draft, name: str) -> None:
    """Set our identity from Java's ``sasl.jaas.config``; the password is the environment's."""
    text = draft.value(name)
    if not text:
        return
    options = {
        match["key"]: match["quoted"] or match["plain"] or "" for match in _JAAS.finditer(text)
    }
    if "username" in options:
        draft.set("kafka.sasl_plain_username", options["username"], name)
        draft.secret("kafka.sasl_plain_password", name, "the password in")
    elif "Krb5LoginModule" in text:
        draft.unsupported("the ticket comes from the machine: KRB5_CLIENT_KTNAME, or kinit", name)
        draft.todo("give the daemon a Kerberos ticket (KRB5_CLIENT_KTNAME names its keytab)")
    else:
        why = "it names no username: set kafka.sasl_plain_username and its password"
        draft.unsupported(why, name)
