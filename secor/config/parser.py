"""``[parser]``: the settings of decoder, timestamp, layout, quarantine and plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from secor.config.transforms import Transform, check_path, check_place, check_topic
from secor.config.values import MIB, Maybe, Secret, Section, Size, fault, parse_duration
from secor.core import entry_points
from secor.core.entry_points import offered
from secor.core.errors import ConfigurationError
from secor.parsing.decoders import DECODERS, MAX_ELEMENTS, make_decoder, unknown
from secor.parsing.layout import Layout
from secor.parsing.timestamps import TimeReader
from secor.parsing.zones import Zone

FRAMED = ("avro", "json", "protobuf")
"""The decoders whose messages serialisers of a registry may have framed."""

OF_DECODERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "schema_file": ("avro",),
        "registry_url": FRAMED,
        "registry_username": FRAMED,
        "registry_password": FRAMED,
        "registry_token": FRAMED,
        "registry_cafile": FRAMED,
        "registry_certfile": FRAMED,
        "registry_keyfile": FRAMED,
        "registry_wait": FRAMED,
        "registry_use_id": FRAMED,
        "framing": FRAMED,
        "message": ("protobuf",),
        "descriptor_set": ("protobuf",),
        "message_class": ("protobuf", "thrift"),
        "encoding": ("protobuf",),
        "protocol": ("thrift",),
        "names": ("thrift",),
        "pattern": ("regex",),
        "max_elements": ("json",),
    }
)
"""The settings that only some decoders have."""

_TLS = ("registry_cafile", "registry_certfile", "registry_keyfile")
_ACCESS = ("registry_username", "registry_password", "registry_token", *_TLS)


class Parser(Section):
    """``[parser]``: from messages to output partitions."""

    decoder: str = "json"
    decoder_settings: dict[str, Any] = Field(default_factory=dict)
    schema_file: Maybe[str] = None
    registry_url: Maybe[str] = None
    registry_username: Maybe[str] = None
    registry_password: Maybe[Secret] = None
    registry_token: Maybe[Secret] = None
    registry_cafile: Maybe[str] = None
    registry_certfile: Maybe[str] = None
    registry_keyfile: Maybe[str] = None
    registry_wait: Annotated[float, Field(ge=0), BeforeValidator(parse_duration)] = 60.0
    registry_use_id: Maybe[Literal["globalId", "contentId"]] = None
    framing: Maybe[Literal["confluent", "apicurio", "glue", "none"]] = None
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
    max_message_bytes: Size = 16 * MIB
    max_elements: int = Field(default=MAX_ELEMENTS, ge=1)
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
        zone = _make("time_zone", lambda: Zone(self.time_zone))
        _make("time_format", lambda: TimeReader(self.time_format, zone))
        layout = _make("layout", lambda: Layout(self.layout, zone))
        self._check_plugin()
        if self.dead_letter_topic is not None:
            check_topic(self.dead_letter_topic, "dead_letter_topic")
        if self.time_field is not None:
            check_path(self.time_field, "time_field")
        if self.plugin is None:
            self._check_layout(layout)
        self._check_fields(layout)
        if [step.kind for step in self.transforms].count("route") > 1:
            raise fault("one route at most", "transforms")
        return self

    def _check_decoder(self) -> None:
        own = self.decoder in DECODERS or self.decoder == "none"
        if not own and self.decoder not in offered(entry_points.DECODERS):
            raise fault(unknown(self.decoder), "decoder")
        if own and self.decoder_settings:
            raise fault("is for decoders that packages offer", "decoder_settings")
        for key, decoders in OF_DECODERS.items():
            default = type(self).model_fields[key].get_default(call_default_factory=True)
            if self.decoder not in decoders and getattr(self, key) != default:
                others = ", ".join(decoders)
                raise fault(f"decoder {self.decoder} has no such setting, only {others}", key)
        if self.decoder == "avro" and not self.schema_file and not self.registry_url:
            raise fault("avro needs this, or parser.schema_file", "registry_url")
        self._check_registry()
        if self.decoder == "protobuf":
            self._check_protobuf()
        if self.decoder == "regex" and self.pattern is None:
            raise fault("regex needs an expression with groups such as (?P<time>...)", "pattern")
        if self.message_class is not None:
            check_place(self.message_class, "message_class")
        if self.names and self.message_class:
            raise fault("the class has names, too; take one of them away", "names")
        if self.decoder == "regex" or self.names:
            key = "names" if self.names else "pattern"
            _make(key, lambda: make_decoder(self.decoder, **self.settings_of_decoder()))

    def _check_protobuf(self) -> None:
        by_set = self.message is not None and self.descriptor_set is not None
        if self.registry_url:
            for key in ("message", "descriptor_set", "message_class"):
                if getattr(self, key) is not None:
                    raise fault("the registry has the types of messages: remove this", key)
            if self.encoding != "binary":
                raise fault("messages framed for a registry are binary: remove this", "encoding")
        elif by_set == (self.message_class is not None):
            ways = "message and descriptor_set, or message_class, or registry_url"
            raise fault(f"give either {ways}", "message")

    def _check_registry(self) -> None:
        from secor.parsing.registry_server import check_address

        given = [key for key in _ACCESS if getattr(self, key) is not None]
        if not self.registry_url:
            if given:
                raise fault("is for a registry: give registry_url, too", given[0])
            return
        address = self.registry_url
        _make("registry_url", lambda: check_address(address))
        self._check_framing(address)
        if self.registry_username is None and self.registry_password is not None:
            raise fault("is missing, and there is a password", "registry_username")
        if self.registry_username is not None and self.registry_token is not None:
            raise fault("there is registry_username, too: keep one of them", "registry_token")
        if self.registry_keyfile is not None and self.registry_certfile is None:
            raise fault("the key needs its certificate", "registry_certfile")
        if not address.startswith("https:"):
            for key in _TLS:
                if getattr(self, key) is not None:
                    raise fault("is for TLS: registry_url begins with http:", key)

    def _check_framing(self, address: str) -> None:
        if self.registry_use_id is not None and self.framing != "apicurio":
            raise fault('is for framing = "apicurio"', "registry_use_id")
        if self.framing == "apicurio" and "/apis/registry/" not in address:
            why = "is not Apicurio's own interface, such as http://registry:8080/apis/registry/v3"
            raise fault(f'{why}; with /apis/ccompat/v7, use framing = "confluent"', "registry_url")
        if self.framing == "glue":
            for key in ("registry_token", *_TLS):
                if getattr(self, key) is not None:
                    raise fault("is not for AWS Glue, which has its own credentials", key)

    def _check_plugin(self) -> None:
        if self.plugin is None:
            if self.plugin_settings:
                raise fault("there is no parser.plugin that takes them", "plugin_settings")
            return
        check_place(self.plugin, "plugin")
        for key in ("layout", "time_field", "time_format", "time_zone", "time_zero"):
            if getattr(self, key) != type(self).model_fields[key].default:
                raise fault("the plug-in decides where messages go; take this away", key)

    def _check_layout(self, layout: Layout) -> None:
        if not layout.needs_time and self.time_field is not None:
            raise fault("the layout has no {time:...}; take this away", "time_field")

    def _check_fields(self, layout: Layout) -> None:
        """Refuse fields that the decoder never gives: their messages would be lost to filters."""
        if self.decoder not in ("none", "regex"):
            return
        if any(step.kind in ("rename", "plugin") for step in self.transforms):
            return  # they may make fields
        groups = _groups_of(self.pattern)
        wanted = [("layout", path) for path in layout.paths if self.plugin is None]
        wanted += [("time_field", self.time_field)] if self.time_field is not None else []
        wanted += [
            (f"transforms.{at}.field", step.field)
            for at, step in enumerate(self.transforms)
            if step.field is not None
        ]
        for key, path in wanted:
            if self.decoder == "none":
                raise fault(f"decoder none reads no fields such as {path}", key)
            if path not in groups:
                known = ", ".join(groups) or "(?P<name>...) makes one"
                raise fault(f"the pattern has no group {path}; its groups: {known}", key)

    @property
    def targets(self) -> tuple[str, ...]:
        """The topics to whose directories messages may be routed."""
        return tuple(dict.fromkeys(name for it in self.transforms for name in _targets(it)))

    def settings_of_decoder(self) -> dict[str, Any]:
        """Return the settings of the decoder as ``make_decoder`` names them."""
        if self.decoder_settings:
            return dict(self.decoder_settings)
        own = {key for key, decoders in OF_DECODERS.items() if self.decoder in decoders}
        given = {key: getattr(self, key) for key in own if getattr(self, key) is not None}
        for key in ("registry_password", "registry_token"):
            if key in given:
                given[key] = given[key].get_secret_value()
        names = {"registry_url": "registry"}
        return {names.get(key, key.removeprefix("registry_")): given[key] for key in sorted(given)}


def check_together(parsers: Mapping[str, Parser]) -> None:
    """Refuse what cannot be of the general parser, at "", and those of rules, by their keys.

    Where a message was brought by a route, and where one says that it comes from, must differ:
    names of objects tell no topic.
    """
    # In rules a format may be a leftover of the general settings.
    if parsers[""].time_field is None and parsers[""].time_format != "auto":
        why = "without time_field the time is that of Kafka's record: name the field"
        raise fault(f"{why}, or take this away", "parser.time_format")
    if not any(parser.targets for parser in parsers.values()):
        return
    for before, parser in parsers.items():
        if Layout(parser.layout).is_routes:
            why = "there are routes, and directories that begin with from= are theirs"
            raise fault(f"{why}: call it otherwise", f"{before}parser.layout")


def _targets(transform: Transform) -> tuple[str, ...]:
    return transform.targets if transform.kind == "route" else ()


def _groups_of(pattern: str | None) -> Collection[str]:
    if pattern is None:
        return ()
    from secor.parsing.decoders.regex import RegexDecoder

    return RegexDecoder(pattern).names


def _make(key: str, make: Callable[[], Any]) -> Any:
    """Make what a setting describes, to see whether it can be made."""
    try:
        return make()
    except ConfigurationError as error:
        raise fault(str(error), key) from error
