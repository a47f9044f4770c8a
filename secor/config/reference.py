"""Reference of all settings, read from their models: types, defaults, texts, examples, groups.

Commands and the maker of ``docs/configuration.md`` use this module; a daemon never imports it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from secor.config import schema
from secor.config.cluster import KeptCluster
from secor.config.environment import variable_name
from secor.config.load import validate_as
from secor.config.model import Config
from secor.config.output import OF_FIELDS
from secor.config.restore import RestoreConfig
from secor.config.show import toml_value
from secor.config.tables import OF_OUTPUT, OF_PLACES
from secor.config.values import (
    UNITS_OF_SIZE,
    UNITS_OF_TIME,
    BrokerServers,
    Expression,
    LinearExpression,
    Maybe,
    Section,
    Url,
    ZooKeeperServers,
    parse_duration,
    parse_size,
)
from secor.core.errors import ConfigurationError

KINDS = ("backup", "partition", "table", "restore")
"""Kinds of groups; a restore's configuration is a job file."""

_OF_BACKUPS = (("registry",), *(("kafka", key) for key in KeptCluster.model_fields))
_OF_TABLES = (("catalog",), ("rows",), ("commit",), ("spark",), ("hudi",), ("tables",))
LACKING: Mapping[str, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {
        "backup": (
            *(("parser",), ("finalize",), ("topics", "parser")),
            *(("output", key) for key in (*OF_FIELDS, "stripe_rows", "block_rows")),
            *(("output", key) for key in ("format_settings", "naming")),
            *_OF_TABLES,
        ),
        "partition": (("output", "offsets_per_partition"), *_OF_BACKUPS, *_OF_TABLES),
        "table": (
            ("finalize",),
            *_OF_BACKUPS,
            *(("output", key) for key in schema.keys_of("output") if key not in OF_OUTPUT),
            *(("parser", key) for key in (*OF_PLACES, "plugin_settings")),
        ),
        "restore": (),
    }
)
"""Sections and keys that a kind of group does not have."""

_KAFKA = {"bootstrap_servers": ["kafka-1:9092"]}
_STORE = {"s3": {"bucket": "b"}}
_MINIMAL: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {kind: {"kafka": {**_KAFKA, "topics": ["a"]}, "store": _STORE} for kind in KINDS[:2]}
    | {
        "table": {
            "kafka": {**_KAFKA, "topics": ["a"]},
            "store": _STORE,
            "tables": [{"table": "a.b"}],
        },
        "restore": {"kafka": _KAFKA, "store": _STORE, "source": {"topics": ["a"]}},
    }
)
"""Configurations of what is required, with defaults for the rest."""

_REQUIRED = frozenset(
    {("group", "kind"), ("kafka", "topics"), ("source", "topics"), ("store", "s3", "bucket")}
    | {("tables",)}
)
"""What these configurations set and has a default all the same."""

_WORDS = (
    (Url, "URL"),
    (BrokerServers, "array of `host:port`"),
    (ZooKeeperServers, "array of `host:port`"),
    (Expression, "regular expression"),
    (LinearExpression, "regular expression (RE2)"),
)
_PLAIN: Mapping[Any, str] = MappingProxyType(
    {
        bool: "true or false",
        int: "whole number",
        float: "number",
        str: "text",
        Path: "path",
        SecretStr: "text (never shown)",
        datetime: "time (with a zone)",
        Any: "text, number, true or false",
    }
)


@dataclass(frozen=True, slots=True)
class SettingDescription:
    """One setting; ``defaults`` are as ``config show --json`` has them, by kind of group.

    The key of a table in an array has no number: ``tables.mode``.
    """

    key: str
    type: str
    unit: Literal["bytes", "seconds", ""]
    required: bool
    defaults: Mapping[str, Any]
    description: str
    examples: Sequence[Any]
    variable: str | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of groups that have it."""
        return tuple(self.defaults)

    @property
    def section(self) -> str:
        """The table that it is in."""
        return self.key.rpartition(".")[0]

    @property
    def default(self) -> dict[str, str]:
        """The value where nothing is set, as TOML has it, by group; "" is every other group."""
        if self.required:
            return {}
        texts = {kind: self.toml(value) for kind, value in self.defaults.items()}
        usual, number = Counter(texts.values()).most_common(1)[0]
        if number == 1 < len(texts):
            return texts
        return {"": usual} | {kind: text for kind, text in texts.items() if text != usual}

    def toml(self, value: Any) -> str:
        """Return a value as a file of settings has it: sizes and durations with their unit."""
        if value is None:
            return '"none"' if '"none"' in self.type else "not set"
        if self.unit and isinstance(value, int | float) and value:
            return _with_unit(value, self.unit)
        return inline(value)


def inline(value: Any) -> str:
    """Return a value as a person writes it in TOML: names without quotes where they need none."""
    if isinstance(value, list):
        return f"[{', '.join(map(inline, value))}]"
    if not isinstance(value, dict):
        return toml_value(value)
    pairs = (
        f"{name if re.fullmatch('[A-Za-z0-9_-]+', name) else json.dumps(name)} = {inline(inner)}"
        for name, inner in value.items()
    )
    return f"{{{', '.join(pairs)}}}"


def _with_unit(value: float, unit: str) -> str:
    units: Mapping[str, float] = UNITS_OF_TIME
    if unit == "bytes":
        units = {f"{prefix}iB": UNITS_OF_SIZE[f"{prefix}ib".lower()] for prefix in "KMG"}
    for name, size in reversed(list(units.items())):
        if name != "d" and value >= size and (value / size).is_integer():
            return f'"{value / size:g}{name}"'
    return f"{value:g}" if value % 1 else str(int(value))


@cache
def settings() -> tuple[SettingDescription, ...]:
    """Return every setting; those of one section are neighbours."""
    sections: dict[str, list[SettingDescription]] = {}
    for described in (*_of_root(Config, KINDS[:3]), *_of_root(RestoreConfig, KINDS[3:])):
        neighbours = sections.setdefault(described.section, [])
        for index, other in enumerate(neighbours):
            if (other.key, other.description) == (described.key, described.description):
                defaults = {**other.defaults, **described.defaults}
                neighbours[index] = replace(other, defaults=defaults)
                break
        else:
            neighbours.append(described)
    return tuple(described for neighbours in sections.values() for described in neighbours)


@cache
def sections() -> Mapping[str, str]:
    """Return the description of each section, and of each array of tables."""
    texts: dict[str, str] = {}
    for root in (Config, RestoreConfig):
        for steps, field, _ in _fields(root):
            key, text = ".".join(steps), str(field.description)
            if _inner(field) is not None and text not in texts.setdefault(key, text):
                texts[key] += f" Restore: {text[0].lower()}{text[1:]}"
    return texts


def _of_root(root: type[Section], kinds: Sequence[str]) -> Iterator[SettingDescription]:
    configurations = {kind: _minimal(root, kind) for kind in kinds}
    for steps, field, in_array in _fields(root):
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section) and steps[0] != "topics":
            continue
        key = ".".join(steps)
        unit = _unit(field.annotation, field.metadata)
        defaults = {
            kind: _default(field)
            if in_array or steps in _REQUIRED
            else _value(configuration, steps)
            for kind, configuration in configurations.items()
            if not any(steps[: len(prefix)] == prefix for prefix in LACKING[kind])
        }
        variable = None if in_array else variable_name(steps)
        yield SettingDescription(
            key=key,
            type=_type(field.annotation, field.metadata),
            unit=unit,
            required=field.is_required(),
            defaults=defaults,
            description=str(field.description),
            examples=_examples(field),
            variable=variable,
        )


def _minimal(root: type[Section], kind: str) -> Section:
    tree = {"group": {"name": "g", "kind": kind}, **_MINIMAL[kind]}
    configuration, faults = validate_as(root, tree)
    assert configuration is not None, faults
    return configuration


def _fields(
    section: type[Section], before: tuple[str, ...] = (), *, in_array: bool = False
) -> Iterator[tuple[tuple[str, ...], FieldInfo, bool]]:
    """Yield every field with its key, also of tables in arrays, and whether it is in one."""
    for name, field in section.model_fields.items():
        steps = (*before, name)
        yield steps, field, in_array
        inner = _inner(field)
        # The tables of a topic's rule are described at the top.
        if inner is not None and before != ("topics",):
            is_array = schema.element_of(field.annotation) is not None
            yield from _fields(inner, steps, in_array=in_array or is_array)


def _inner(field: FieldInfo) -> type[Section] | None:
    """Return the model of a table, or of the tables of an array."""
    inner = field.annotation
    if isinstance(inner, type) and issubclass(inner, Section):
        return inner
    element = schema.element_of(inner)
    return element if isinstance(element, type) else None


def _value(configuration: Section, steps: Sequence[str]) -> Any:
    value: Any = configuration
    for step in steps:
        value = getattr(value, step)
    return plain(value)


def _default(field: FieldInfo) -> Any:
    return None if field.is_required() else plain(field.get_default(call_default_factory=True))


def plain(value: Any) -> Any:
    """Return a value without types of its own: arrays are lists, paths are texts."""
    if isinstance(value, Section):
        return {}
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _examples(field: FieldInfo) -> list[Any]:
    """Return the examples of a field, or another value than its default."""
    if field.examples:
        return list(field.examples)
    default = None if field.is_required() else field.default
    for part in schema.members(field.annotation):
        if get_origin(part) is Literal:
            others = [choice for choice in get_args(part) if choice != default]
            return [min(others or get_args(part), key=lambda choice: choice == "none")]
        if part is bool:
            return [not default]
    return []


def _parts(annotation: Any, metadata: Sequence[Any]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the types of a union, each with the validators around it."""
    if get_origin(annotation) is Annotated:
        inner, *own = get_args(annotation)
        yield from _parts(inner, (*metadata, *own))
    elif get_origin(annotation) is Union or type(None) in schema.members(annotation)[1:]:
        for part in get_args(annotation):
            yield from _parts(part, metadata)
    else:
        yield annotation, tuple(metadata)


def _unit(annotation: Any, metadata: Sequence[Any]) -> Literal["bytes", "seconds", ""]:
    for _, validators in _parts(annotation, metadata):
        functions = [
            validator.func for validator in validators if isinstance(validator, BeforeValidator)
        ]
        if parse_size in functions:
            return "bytes"
        if parse_duration in functions:
            return "seconds"
    return ""


def _type(annotation: Any, metadata: Sequence[Any]) -> str:
    unit = _unit(annotation, metadata)
    words = [{"bytes": "size", "seconds": "duration"}[unit]] if unit else []
    parts = [part for part in _parts(annotation, metadata) if part[0] is not type(None)]
    words += [_word(*part) for part in parts if not unit]
    text = " or ".join(words)
    can_be_none = all(validator in metadata for validator in get_args(Maybe)[1:])
    return f'{text} or `"none"`' if can_be_none and '"none"' not in text else text


def _word(annotation: Any, metadata: Sequence[Any]) -> str:
    for named, word in _WORDS:
        if all(validator in metadata for validator in get_args(named)[1:]):
            return word
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in arguments)
    if get_origin(annotation) is dict:
        return "table"
    if get_origin(annotation) is tuple:
        element = arguments[0]
        is_table = isinstance(element, type) and issubclass(element, Section)
        return f"array of {'tables' if is_table else _plural(element)}"
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return "table"
    return _PLAIN[annotation] + _bounds(metadata)


def _plural(element: Any) -> str:
    inner = schema.members(element)[0]
    return {str: "texts", int: "whole numbers"}.get(inner, "values")


def _bounds(metadata: Sequence[Any]) -> str:
    least = next((bound.ge for bound in metadata if hasattr(bound, "ge")), None)
    most = next((bound.le for bound in metadata if hasattr(bound, "le")), None)
    if least is not None and most is not None:
        return f" ({least} to {most})"
    return f" (at least {least})" if least is not None else ""


def explain(key: str) -> list[SettingDescription]:
    """Return the settings of this key, or of this section.

    ``tables.0.mode`` and ``SECOR_POLICY__MAX_AGE`` are keys, too.  A key may have two meanings:
    in groups, and in the job of a restore.  Raises ``ConfigurationError`` with the nearest key.
    """
    wanted = key.strip("[]")
    if wanted.startswith("SECOR_"):
        wanted = wanted.removeprefix("SECOR_").replace("__", ".").lower()
    wanted = ".".join(step for step in wanted.split(".") if not step.isdecimal())
    exact = [setting for setting in settings() if setting.key == wanted]
    inside = [setting for setting in settings() if setting.key.startswith(f"{wanted}.")]
    if exact or inside:
        return [*exact, *inside]
    raise ConfigurationError(f"there is no setting {key!r}: {_nearest(wanted)}")


def _nearest(wanted: str) -> str:
    keys = list(dict.fromkeys(setting.key for setting in settings()))
    last = wanted.rpartition(".")[2]
    names = list(dict.fromkeys(key.rpartition(".")[2] for key in keys))
    near = get_close_matches(wanted, keys, 1, 0.9)
    near = near or [key for key in keys if key.rpartition(".")[2] == last]
    near = near or get_close_matches(wanted, keys, 1, 0.8)
    if not near and (name := get_close_matches(last, names, 1)):
        near = [key for key in keys if key.rpartition(".")[2] == name[0]]
    if near:
        return f"did you mean {' or '.join(near)}?"
    tables = [name for name in sections() if "." not in name]
    return f"the sections are {', '.join(sorted(tables))}"
