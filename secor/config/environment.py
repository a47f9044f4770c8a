"""Environment variables as settings: ``SECOR_STORE__S3__BUCKET`` is ``store.s3.bucket``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from secor.config import schema
from secor.config.values import Section

_REFERENCE = re.compile(
    r"(?P<escape>\$\$\{)|\$\{(?P<name>\w+)(?::-(?P<default>[^{}]*))?\}|(?P<broken>\$\{)"
)


def expand(
    value: Any, environment: Mapping[str, str], faults: dict[str, str], key: str = ""
) -> Any:
    """Return ``value`` with the references in its texts replaced, tables and arrays as well.

    ``${NAME:-text}`` is ``text`` where the variable is not set; ``$${NAME}`` stays ``${NAME}``.
    Puts into ``faults``, by dotted key, what is not set and has no default, and what begins as a
    reference and is none, such as one within another.
    """
    if isinstance(value, dict):
        return {
            name: expand(inner, environment, faults, f"{key}.{name}" if key else name)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [
            expand(inner, environment, faults, f"{key}.{index}")
            for index, inner in enumerate(value)
        ]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        if match["escape"]:
            return "${"
        if match["broken"]:
            faults[key] = (
                "${ begins a variable of the environment, and what follows is none: ${NAME} or"
                " ${NAME:-default} is one, without braces in the default; $${ is the text itself"
            )
            return match[0]
        default: str | None = match["default"]
        text = environment.get(match["name"], default)
        if text is None:
            name = match["name"]
            faults[key] = (
                f"the environment has no variable {name}; set it, write ${{{name}:-default}}, or"
                f" $${{{name}}} for the text itself"
            )
            return match[0]
        return text

    return _REFERENCE.sub(replacement, value)


PREFIX = "SECOR_"

JAVA_SECOR: Mapping[str, str] = MappingProxyType(
    {
        "SECOR_CONFIG": "",
        "SECOR_EXTRA_OPTS": "",
        "SECOR_GROUP": "SECOR_GROUP__NAME",
        "SECOR_GS_BUCKET": "SECOR_STORE__GCS__BUCKET",
        "SECOR_GS_PATH": "SECOR_OUTPUT__PREFIX",
        "SECOR_KAFKA_TOPIC_FILTER": "SECOR_KAFKA__TOPICS_PATTERN",
        "SECOR_MAIN_CLASS": "",
        "SECOR_MAX_FILE_BYTES": "SECOR_POLICY__MAX_BYTES",
        "SECOR_MAX_FILE_SECONDS": "SECOR_POLICY__MAX_AGE",
        "SECOR_MESSAGE_PARSER": "[parser], see docs/parsing.md",
        "SECOR_PARSER_TIMEZONE": "SECOR_PARSER__TIME_ZONE",
        "SECOR_S3_BUCKET": "SECOR_STORE__S3__BUCKET",
        "SECOR_SCHEMA_REGISTRY": "SECOR_PARSER__REGISTRY_URL",
        "SECOR_UPLOAD_MANAGER_CLASS": "SECOR_STORE__KIND",
        "SECOR_WRITER_FACTORY": "SECOR_OUTPUT__FORMAT",
    }
)
"""Variables of Java Secor's container image, and what they are here."""


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
    environment: Mapping[str, str], root: type[Section] | None = None
) -> tuple[list[Variable], dict[str, str]]:
    """Return the settings of ``root`` that the environment gives, and what is wrong by variable.

    A variable that begins with ``SECOR_`` and a section must name a setting; others are
    ``stray_variables``.
    """
    known = {variable_name(key): key for key in schema.every_key(root)}
    variables: list[Variable] = []
    faults: dict[str, str] = {}
    for name in sorted(environment):
        if not name.startswith(PREFIX):
            continue
        key = known.get(name)
        if key is None:
            if not _is_stray(name, known.values()):
                faults[name] = "unknown variable" + _nearest(name, known)
            continue
        annotation = schema.type_at(schema.section_at(key[:-1], root), key[-1])
        variables.append(Variable(name, key, value_of(environment[name], annotation)))
    return variables, faults


def stray_variables(environment: Mapping[str, str], root: type[Section] | None = None) -> list[str]:
    """Return a sentence for each variable that begins with ``SECOR_`` and names no section.

    Images, wrappers and Java Secor have some, so none is a reason not to start.
    """
    known = {variable_name(key): key for key in schema.every_key(root)}
    sentences = []
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in known or not _is_stray(name, known.values()):
            continue
        if name in JAVA_SECOR:
            setting = JAVA_SECOR[name]
            instead = f"; here it is {setting}" if setting else ""
            sentences.append(f"{name} is a variable of Java Secor and sets nothing{instead}")
        else:
            sentences.append(
                f"{name} sets nothing: no setting has this name{_nearest(name, known)}"
            )
    return sentences


def _is_stray(name: str, keys: Iterable[tuple[str, ...]]) -> bool:
    section, separator, _ = name.removeprefix(PREFIX).lower().partition("__")
    return not separator or section not in {key[0] for key in keys}


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


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
