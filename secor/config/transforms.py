"""``[[parser.transforms]]``: the settings of drop, rename, mask, filter, route and plug-ins."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from secor.config.values import LinearExpression, Maybe, Names, Secret, Section, fault


def _scalar(value: object) -> object:
    if not isinstance(value, bool | int | float | str):
        raise fault("must be text, a number, true or false: values are compared as text")
    return value


Scalar = Annotated[Any, BeforeValidator(_scalar)]

OF_KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "drop": ("field",),
        "rename": ("field", "to"),
        "mask": ("field", "value", "salt"),
        "filter": ("field", "equals", "one_of", "matches", "exists", "negated"),
        "route": ("field", "to", "topics"),
        "plugin": ("plugin", "settings"),
    }
)
"""The settings of each kind of transform."""

CHANGES_FIELDS = frozenset({"drop", "rename", "mask"})
"""Kinds that only formats of decoded fields show."""

EXAMPLES: list[Any] = [
    [{"kind": "drop", "field": "a.b"}],
    [{"kind": "rename", "field": "a.b", "to": "c"}],
    [{"kind": "mask", "field": "email", "salt": "${SALT}"}],
    [{"kind": "mask", "field": "email", "value": "***"}],
    [{"kind": "filter", "field": "country", "one_of": ["NL"]}],
    [{"kind": "filter", "field": "country", "matches": "N.", "negated": True}],
    [{"kind": "route", "field": "type", "topics": ["clicks", "views"]}],
    [{"kind": "plugin", "plugin": "package.module:Class", "settings": {}}],
]
"""One for each kind; of ``parser.transforms``."""

_PLACE = re.compile(r"\w+(\.\w+)*:\w+(\.\w+)*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def check_place(place: str, key: str) -> None:
    """Refuse what is not written as the import path of a class."""
    if not _PLACE.fullmatch(place):
        raise fault('write "package.module:Class"', key)


def check_topic(name: str, key: str) -> None:
    """Refuse what no topic can be called."""
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise fault(f"{name!r} is no name of a topic", key)


def check_path(path: str, key: str) -> None:
    """Refuse what leads to no field."""
    if not all(path.split(".")):
        raise fault(f"{path!r} names no field: write names with dots between them", key)


class Transform(Section):
    """One of ``[[parser.transforms]]``."""

    kind: Literal["drop", "rename", "mask", "filter", "route", "plugin"] = Field(
        description='What the step does. "drop" takes a field away; "rename" gives it another'
        ' name; "mask" replaces its value; "filter" keeps the messages that meet a condition;'
        ' "route" stores messages under another topic (partition groups only); "plugin" is a'
        " class of yours.",
        examples=["drop"],
    )
    field: Maybe[str] = Field(
        default=None,
        description="The field that the step is about, as a dotted path. route: the field that"
        " names the topic.",
        examples=["user.email"],
    )
    to: Maybe[str] = Field(
        default=None,
        description="rename: the new name, without dots. route: the topic that all messages go to.",
        examples=["address"],
    )
    value: Maybe[str] = Field(
        default=None, description="mask: the text to write instead of the value.", examples=["***"]
    )
    salt: Maybe[Secret] = Field(
        default=None,
        description="mask: write a hash of the value with this salt instead.",
        examples=["${SALT}"],
    )
    equals: Scalar | None = Field(
        default=None,
        description="filter: the field has this value, compared as text.",
        examples=[5],
    )
    one_of: tuple[Scalar, ...] | None = Field(
        default=None,
        description="filter: the field has one of these values, compared as text.",
        examples=[["NL", "BE"]],
    )
    matches: Maybe[LinearExpression] = Field(
        default=None,
        description="filter: the whole value matches this expression.",
        examples=["N."],
    )
    exists: bool = Field(
        default=False, description="filter: true keeps messages in which the field has a value."
    )
    negated: bool = Field(
        default=False, description="filter: keep the messages that do not meet the condition."
    )
    topics: Names = Field(
        default=(),
        description="route: the topics that the field may name.",
        examples=[["clicks", "views"]],
    )
    plugin: Maybe[str] = Field(
        default=None,
        description='plugin: the class, "package.module:Class" (docs/parsing.md). With text and'
        " sequencefile only if its fields are for the layout alone.",
        examples=["acme.secor:Enrich"],
    )
    settings: dict[str, Any] = Field(
        default_factory=dict,
        description="plugin: settings of the class.",
        examples=[{"table": "/etc/secor/hosts.csv"}],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for key in self.model_fields_set - {"kind", *OF_KINDS[self.kind]}:
            raise fault(f"{self.kind} has no such setting, only {_list_keys(self.kind)}", key)
        if self.kind not in ("route", "plugin") and not self.field:
            raise fault(f"{self.kind} needs the field that it is about", "field")
        if self.field is not None:
            check_path(self.field, "field")
        checks: Mapping[str, Callable[[], None]] = {
            "rename": self._check_rename,
            "mask": self._check_mask,
            "filter": self._check_filter,
            "route": self._check_route,
            "plugin": self._check_plugin,
        }
        if self.kind in checks:
            checks[self.kind]()
        return self

    def _check_rename(self) -> None:
        if not self.to or "." in self.to:
            raise fault("give the new name, without dots: the structure stays", "to")

    def _check_mask(self) -> None:
        if (self.value is None) == (self.salt is None):
            raise fault("give either a constant value, or the salt of a hash", "salt")

    def _check_filter(self) -> None:
        given = [self.equals is not None, self.one_of is not None, self.matches is not None]
        if sum([*given, self.exists]) != 1:
            raise fault("give one of equals, one_of, matches, exists = true", "exists")
        if self.one_of == ():
            raise fault("name the values", "one_of")

    def _check_route(self) -> None:
        if (self.to is None) == (self.field is None):
            raise fault("give either the topic that all go to, or a field that names it", "to")
        if (self.field is None) == bool(self.topics):
            raise fault("name the topics that the field may say, and only with a field", "topics")
        for topic in self.targets:
            check_topic(topic, "topics" if self.topics else "to")

    def _check_plugin(self) -> None:
        if self.plugin is None:
            raise fault('name it: "package.module:Class"', "plugin")
        check_place(self.plugin, "plugin")

    @property
    def targets(self) -> tuple[str, ...]:
        """The topics of a route."""
        return self.topics if self.to is None else (self.to,)


def _list_keys(kind: str) -> str:
    return ", ".join(OF_KINDS[kind])
