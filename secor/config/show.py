"""``secor config show``: each setting with its value and source, secrets masked; TOML values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from secor.config.values import Section
from secor.core.text import MASK, is_secret_name, mask_command, mask_urls

if TYPE_CHECKING:
    from secor.config.model import Config

_OF_TABLES = ("catalog", "rows", "commit")
_ABSENT = {"backup": ("parser", *_OF_TABLES), "partition": _OF_TABLES, "table": ("finalize",)}
"""Sections that kinds of groups do nothing with."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One key, its value as JSON has it, and its source (``Config.source``)."""

    key: str
    value: object
    source: str

    def text(self) -> str:
        """Return the value as TOML writes it; ``none`` where there is none."""
        return toml_value(self.value)


def toml_value(value: object) -> str:
    """Return a value as TOML writes it; ``none`` where there is none."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {toml_value(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if value is None:
        return "none"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def settings(config: Config) -> list[Setting]:
    """Return every setting, and of each topic rule what it says itself."""
    rows = []
    for name in type(config).model_fields:
        section = getattr(config, name)
        if isinstance(section, Section) and name not in _ABSENT[config.group.kind]:
            rows += [Setting(key, value, config.source(key)) for key, value in _walk(section, name)]
    for array in ("tables", "topics"):
        for index, rule in enumerate(getattr(config, array)):
            keys = _walk(rule, f"{array}.{index}")
            own = [Setting(key, present_value, config.source(key)) for key, present_value in keys]
            rows += [setting for setting in own if setting.source != "default"]
    return rows


def _parses(config: Config) -> bool:
    return "parser" not in _ABSENT[config.group.kind]


def topic_settings(config: Config, topic: str) -> list[Setting]:
    """Return what holds for one topic; ``(topics.0)`` marks what its rule says."""
    index = config.rule_of(topic)
    chosen = config.for_topic(topic)
    return [
        *_of_topic(config, "output", chosen.output, index),
        *_of_topic(config, "policy", chosen.policy, index),
        *(_of_topic(config, "parser", chosen.parser, index) if _parses(config) else ()),
    ]


def _of_topic(config: Config, name: str, section: Section, index: int | None) -> Iterator[Setting]:
    for key, value in _walk(section, name):
        own = config.source(f"topics.{index}.{key}")
        general = config.source(key)
        if own != "default":
            yield Setting(key, value, f"{own} (topics.{index})")
        else:
            same = value == dict(_walk(getattr(config, name), name))[key]
            yield Setting(key, value, general if same else "default")


def _walk(section: Section, before: str) -> Iterator[tuple[str, object]]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from _walk(value, f"{before}.{name}")
        else:
            shown = _plain(value)
            if name == "command" and isinstance(shown, str):
                shown = mask_command(shown)
            yield f"{before}.{name}", shown


def _plain(value: object) -> object:
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, Section):
        given = value.model_fields_set
        return {
            name: _plain(getattr(value, name)) for name in type(value).model_fields if name in given
        }
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {
            name: MASK if is_secret_name(str(name)) else _plain(inner)
            for name, inner in value.items()
        }
    if isinstance(value, str):
        return mask_urls(value)
    return [_plain(inner) for inner in value] if isinstance(value, tuple | list) else value
