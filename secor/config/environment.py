"""Environment variables as settings: ``SECOR_STORE__S3__BUCKET`` is ``store.s3.bucket``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from secor.config import schema
from secor.config.model import Config
from secor.config.values import Section

PREFIX = "SECOR_"


@dataclass(frozen=True, slots=True)
class Variable:
    """One setting that the environment gives."""

    name: str
    key: tuple[str, ...]
    value: object


def variable_name(key: tuple[str, ...]) -> str:
    """Return the variable that sets ``key``."""
    return PREFIX + "__".join(key).upper()


def read(
    environment: Mapping[str, str], root: type[Section] = Config
) -> tuple[list[Variable], dict[str, str]]:
    """Return the settings of ``root`` that the environment gives, and what is wrong by variable.

    Every variable that begins with ``SECOR_`` must name a setting.
    """
    known = {variable_name(key): key for key in schema.every_key(root)}
    variables: list[Variable] = []
    faults: dict[str, str] = {}
    for name in sorted(environment):
        if not name.startswith(PREFIX):
            continue
        key = known.get(name)
        if key is None:
            near = get_close_matches(name, known, n=1, cutoff=0.6)
            faults[name] = "unknown variable" + (f"; did you mean {near[0]}?" if near else "")
            continue
        annotation = schema.type_at(schema.section_at(key[:-1], root), key[-1])
        variables.append(Variable(name, key, value_of(environment[name], annotation)))
    return variables, faults


def value_of(text: str, annotation: Any) -> object:
    """Read a variable as TOML where it is a value of TOML, else as plain text.

    Where the setting holds text, only text in quotes is read as TOML: a password ``0123``
    or ``true`` stays as it is.
    """
    value = _toml(text)
    if schema.is_text(annotation):
        return value if isinstance(value, str) else text
    return text if value is None else value


def _toml(text: str) -> object:
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return None
    # A line break in the variable could hold more keys, or a table: then it is plain text.
    return table["value"] if set(table) == {"value"} else None
