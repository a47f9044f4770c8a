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

    kind: Literal["drop", "rename", "mask", "filter", "route", "plugin"] = Field(examples=["drop"])
    field: Maybe[str] = None
    to: Maybe[str] = None
    value: Maybe[str] = None
    salt: Maybe[Secret] = None
    equals: Scalar | None = None
    one_of: tuple[Scalar, ...] | None = None
    matches: Maybe[LinearExpression] = None
    exists: bool = False
    negated: bool = False
    topics: Names = ()
    plugin: Maybe[str] = None
    settings: dict[str, Any] = Field(default_factory=dict)

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
