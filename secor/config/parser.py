"""``[parser]``: the settings of decoder, timestamp, layout, quarantine and plug-ins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from secor.config.decoders import (
    DecoderSettings,
    KeyDecoding,
    groups_of,
    try_to_make,
    with_registry_of_values,
)
from secor.config.transforms import EXAMPLES, Transform, check_path, check_place, check_topic
from secor.config.values import MIB, Maybe, Size, fault
from secor.parsing.layout import Layout
from secor.parsing.timestamps import TimeReader
from secor.parsing.undecoded import RAW
from secor.parsing.zones import Zone


class Parser(DecoderSettings):
    """``[parser]``: from messages to output partitions."""

    time_field: Maybe[str] = Field(
        default=None,
        description='The time field, as a dotted path. "none": Kafka\'s timestamp.',
        examples=["event.time"],
    )
    time_format: str = Field(
        default="auto",
        min_length=1,
        description='"auto": numbers by their digits (10: seconds, 13: milliseconds, 16:'
        ' microseconds, 19: nanoseconds), or ISO-8601; "s", "ms", "us", "ns", "iso8601"; or a'
        ' pattern of strptime ("%d/%b/%Y:%H:%M:%S %z") or Java ("yyyy-MM-dd HH:mm:ss").',
        examples=["ms"],
    )
    time_zone: str = Field(
        default="UTC",
        description="The zone of times without an offset, and of the layout.",
        examples=["Europe/Berlin"],
    )
    time_zero: Literal["bad", "accept"] = Field(
        default="bad",
        description='Times of 1970-01-01T00:00:00Z, as of unset fields: "bad" or "accept".',
    )
    layout: str = Field(
        default="dt={time:%Y-%m-%d}",
        description="Directories below the topic's: {field}, {time:%Y-%m-%d}, {offset:10000000},"
        " {topic}, {kafka_partition}. Empty: none.",
        examples=["{country}/dt={time:%Y-%m-%d}/hr={time:%H}"],
    )
    transforms: tuple[Transform, ...] = Field(
        default=(),
        description="Steps between the decoder and the layout or the tables, in order. Steps"
        " that change fields need a format with fields.",
        examples=EXAMPLES,
    )
    plugin: Maybe[str] = Field(
        default=None,
        description='A class, "package.module:Class", that gives the directory of each message'
        " instead of the layout. With text and sequencefile it may also give another value to"
        " store.",
        examples=["acme.secor:Place"],
    )
    plugin_settings: dict[str, Any] = Field(
        default_factory=dict, description="Settings of parser.plugin.", examples=[{"field": "host"}]
    )
    max_message_bytes: Size = Field(
        default=16 * MIB,
        description="A message with more bytes goes into quarantine undecoded. So a message"
        " takes at most some seconds of the process, and about 30 times its bytes of memory.",
    )
    max_bad_ratio: Maybe[float] = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Of parser.bad_window messages of a Kafka partition at most this share may"
        " go into quarantine; more stop the partition. Of messages that pass the parser and"
        " cannot be written, the share is that of 100 neighbours (docs/parsing.md).",
    )
    max_bad_messages: Maybe[int] = Field(
        default=None,
        ge=0,
        description="As parser.max_bad_ratio, but a number of messages.",
        examples=[1000],
    )
    bad_window: int = Field(
        default=10_000,
        ge=1,
        description="Messages of a Kafka partition among which parser.max_bad_ratio and"
        " parser.max_bad_messages count.",
    )
    dead_letter_topic: Maybe[str] = Field(
        default=None,
        description="A topic that gets a copy of each message in quarantine after the commit of"
        " its batch. After a crash copies may be missing or duplicated; the objects are exact.",
        examples=["clicks-dead-letters"],
    )

    key: KeyDecoding = Field(
        default_factory=KeyDecoding, description="From keys of messages to fields."
    )

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        if data.get("plugin") and "decoder" not in data:
            data = {**data, "decoder": "none"}
        return with_registry_of_values(data)

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_decoder()
        zone = try_to_make("time_zone", lambda: Zone(self.time_zone))
        try_to_make("time_format", lambda: TimeReader(self.time_format, zone))
        layout = try_to_make("layout", lambda: Layout(self.layout, zone))
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
        known = self.known_fields
        if known is None:
            return
        wanted = [("layout", path) for path in layout.paths if self.plugin is None]
        wanted += [("time_field", self.time_field)] if self.time_field is not None else []
        wanted += [
            (f"transforms.{index}.field", step.field)
            for index, step in enumerate(self.transforms)
            if step.field is not None
        ]
        for key, path in wanted:
            if path in known or self.key.has(path):
                continue
            if self.decoder == "none":
                raise fault(f"decoder none reads no fields such as {path}, only value", key)
            groups = ", ".join(known) or "(?P<name>...) makes one"
            raise fault(f"the pattern has no group {path}; its groups: {groups}", key)

    @property
    def known_fields(self) -> Collection[str] | None:
        """The fields of all messages, None where messages, or classes, make others."""
        if self.decoder not in ("none", "regex"):
            return None
        if any(step.kind in ("rename", "plugin") for step in self.transforms):
            return None
        return RAW if self.decoder == "none" else groups_of(self.pattern)

    @property
    def targets(self) -> tuple[str, ...]:
        """The topics that messages may be routed to."""
        return tuple(
            dict.fromkeys(name for transform in self.transforms for name in _targets(transform))
        )


def check_together(parsers: Mapping[str, Parser]) -> None:
    """Refuse what cannot be of the general parser, at "", and those of rules, by their keys.

    Where a message was brought by a route, and where one says that it comes from, must differ:
    names of objects have no topic.
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
