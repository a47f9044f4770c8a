"""The sections about parsing: what the partition group reads out of messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Self

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from secor.config.values import Expression, Maybe, Names, Secret, Section, fault
from secor.errors import ConfigurationError
from secor.parsing.decoders import make_decoder
from secor.parsing.decoders.regex import RegexDecoder
from secor.parsing.layout import Layout
from secor.parsing.timestamps import TimeReader
from secor.parsing.zones import Zone

OF_DECODERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "schema_file": ("avro",),
        "registry_url": ("avro",),
        "registry_username": ("avro",),
        "registry_password": ("avro",),
        "framing": ("avro",),
        "message": ("protobuf",),
        "descriptor_set": ("protobuf",),
        "message_class": ("protobuf", "thrift"),
        "encoding": ("protobuf",),
        "protocol": ("thrift",),
        "names": ("thrift",),
        "pattern": ("regex",),
    }
)
"""The settings that only some decoders have."""

Scalar = StrictBool | StrictInt | StrictFloat | StrictStr

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


class Transform(Section):
    """One of ``[[parser.transforms]]``."""

    kind: Literal["drop", "rename", "mask", "filter", "route", "plugin"]
    field: Maybe[str] = None
    to: Maybe[str] = None
    value: Maybe[str] = None
    salt: Maybe[Secret] = None
    equals: Scalar | None = None
    one_of: tuple[Scalar, ...] | None = None
    matches: Maybe[Expression] = None
    exists: bool = False
    negated: bool = False
    topics: Names = ()
    plugin: Maybe[str] = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for key in self.model_fields_set - {"kind", *OF_KINDS[self.kind]}:
            raise fault(f"{self.kind} has no such setting, only {_listed(self.kind)}", key)
        if self.kind not in ("route", "plugin") and not self.field:
            raise fault(f"{self.kind} needs the field that it is about", "field")
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

    def _check_route(self) -> None:
        if (self.to is None) == (self.field is None):
            raise fault("give either the topic that all go to, or a field that names it", "to")
        if (self.field is None) == bool(self.topics):
            raise fault("name the topics that the field may say, and only with a field", "topics")
        for topic in self.targets:
            if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
                raise fault(f"{topic!r} is no name of a topic", "topics" if self.topics else "to")

    def _check_plugin(self) -> None:
        if self.plugin is None:
            raise fault('name it: "package.module:Class"', "plugin")
        _check_place(self.plugin, "plugin")

    @property
    def targets(self) -> tuple[str, ...]:
        """The topics of a route."""
        return self.topics if self.to is None else (self.to,)


def _listed(kind: str) -> str:
    return ", ".join(OF_KINDS[kind])


class Parser(Section):
    """``[parser]``: from messages to output partitions."""

    decoder: Literal["json", "messagepack", "avro", "protobuf", "thrift", "regex", "none"] = "json"
    schema_file: Maybe[str] = None
    registry_url: Maybe[str] = None
    registry_username: Maybe[str] = None
    registry_password: Maybe[Secret] = None
    framing: Maybe[Literal["confluent", "none"]] = None
    message: Maybe[str] = None
    descriptor_set: Maybe[str] = None
    message_class: Maybe[str] = None
    encoding: Literal["binary", "json"] = "binary"
    protocol: Literal["binary", "compact"] = "binary"
    names: dict[str, str] = Field(default_factory=dict)
    pattern: Maybe[str] = None
    time_field: Maybe[str] = None
    time_format: str = Field(default="auto", min_length=1)
    time_zone: str = "UTC"
    time_zero: Literal["bad", "accept"] = "bad"
    layout: str = "dt={time:%Y-%m-%d}"
    transforms: tuple[Transform, ...] = ()
    plugin: Maybe[str] = None
    plugin_settings: dict[str, Any] = Field(default_factory=dict)
    max_bad_ratio: Maybe[float] = Field(default=0.5, ge=0, le=1)
    max_bad_messages: Maybe[int] = Field(default=None, ge=0)
    bad_window: int = Field(default=10_000, ge=1)
    dead_letter_topic: Maybe[str] = None

    @model_validator(mode="before")
    @classmethod
    def _plugins_take_bytes(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("plugin") and "decoder" not in data:
            return {**data, "decoder": "none"}
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_decoder()
        zone = _made("time_zone", lambda: Zone(self.time_zone))
        _made("time_format", lambda: TimeReader(self.time_format, zone))
        layout = _made("layout", lambda: Layout(self.layout, zone))
        self._check_plugin()
        if self.dead_letter_topic is not None and not _TOPIC.fullmatch(self.dead_letter_topic):
            raise fault(f"{self.dead_letter_topic!r} is no name of a topic", "dead_letter_topic")
        if self.plugin is None:
            self._check_layout(layout)
        if [step.kind for step in self.transforms].count("route") > 1:
            raise fault("one route at most", "transforms")
        return self

    def _check_decoder(self) -> None:
        for key, decoders in OF_DECODERS.items():
            default = type(self).model_fields[key].get_default(call_default_factory=True)
            if self.decoder not in decoders and getattr(self, key) != default:
                own = ", ".join(decoders)
                raise fault(f"decoder {self.decoder} has no such setting, only {own}", key)
        if self.decoder == "avro" and not self.schema_file and not self.registry_url:
            raise fault("avro needs this, or parser.schema_file", "registry_url")
        by_set = self.message is not None and self.descriptor_set is not None
        if self.decoder == "protobuf" and by_set == (self.message_class is not None):
            raise fault("give either message and descriptor_set, or message_class", "message")
        if self.decoder == "regex" and self.pattern is None:
            raise fault("regex needs an expression with groups such as (?P<time>...)", "pattern")
        if self.message_class is not None:
            _check_place(self.message_class, "message_class")
        if self.names and self.message_class:
            raise fault("the class has names, too; take one of them away", "names")
        if self.decoder == "regex" or self.names:
            key = "names" if self.names else "pattern"
            _made(key, lambda: make_decoder(self.decoder, **self.decoder_settings()))

    def _check_plugin(self) -> None:
        if self.plugin is None:
            if self.plugin_settings:
                raise fault("there is no parser.plugin that takes them", "plugin_settings")
            return
        _check_place(self.plugin, "plugin")
        for key in ("layout", "time_field", "time_format", "time_zone", "time_zero"):
            if getattr(self, key) != type(self).model_fields[key].default:
                raise fault("the plug-in decides where messages go; take this away", key)

    def _check_layout(self, layout: Layout) -> None:
        if not layout.needs_time and self.time_field is not None:
            raise fault("the layout has no {time:...}; take this away", "time_field")
        if self.decoder == "none" and layout.paths:
            raise fault(f"decoder none reads no fields such as {layout.paths[0]}", "layout")
        if self.decoder == "none" and self.time_field is not None:
            raise fault("decoder none reads no fields", "time_field")
        if self.decoder == "regex" and self.pattern is not None:
            self._check_groups(layout, RegexDecoder(self.pattern).names)

    def _check_groups(self, layout: Layout, groups: Sequence[str]) -> None:
        """Refuse fields that an expression never gives, unless a step may make them."""
        if any(step.kind in ("rename", "plugin") for step in self.transforms):
            return
        wanted = [("layout", path) for path in layout.paths]
        wanted += [("time_field", self.time_field)] if self.time_field is not None else []
        for key, path in wanted:
            if path not in groups:
                raise fault(f"the pattern has no group {path}, only {', '.join(groups)}", key)

    @property
    def targets(self) -> tuple[str, ...]:
        """The topics to whose directories messages may be routed."""
        return tuple(dict.fromkeys(name for it in self.transforms for name in _targets(it)))

    def decoder_settings(self) -> dict[str, Any]:
        """Return the settings of the decoder as ``make_decoder`` names them."""
        own = {key for key, decoders in OF_DECODERS.items() if self.decoder in decoders}
        given = {key: getattr(self, key) for key in own if getattr(self, key) is not None}
        if "registry_password" in given:
            given["registry_password"] = given["registry_password"].get_secret_value()
        names = {"registry_url": "registry"}
        return {names.get(key, key.removeprefix("registry_")): given[key] for key in sorted(given)}


def _check_place(place: str, key: str) -> None:
    if not _PLACE.fullmatch(place):
        raise fault('write "package.module:Class"', key)


def _targets(transform: Transform) -> tuple[str, ...]:
    return transform.targets if transform.kind == "route" else ()


def _made(key: str, make: Callable[[], Any]) -> Any:
    """Make what a setting describes, to see whether it can be made."""
    try:
        return make()
    except ConfigurationError as error:
        raise fault(str(error), key) from error
